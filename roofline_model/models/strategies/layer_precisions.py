"""Precisions that hold in some layers only: what makes a strategy vary with depth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from roofline_model.core.errors import InvalidValueError
from roofline_model.models.strategies.operator_type import LAYERED, OperatorType, parse_operator
from roofline_model.models.strategies.precision_text import canonical_precision


@dataclass(frozen=True, slots=True)
class LayerPrecisions:
    """Formats of some operators in the layers `first_layer_index` to `last_layer_index`, both included, from 0."""

    first_layer_index: int
    last_layer_index: int
    operator_precisions: Mapping[str, str]
    """Operator → WEIGHT or WEIGHT.ACTIVATION, as in `MixedPrecisionConfig`."""

    def __post_init__(self) -> None:
        ends = (self.first_layer_index, self.last_layer_index)
        if any(isinstance(end, bool) or not isinstance(end, int) or not 0 <= end < 10_000 for end in ends):
            raise InvalidValueError(f"layers must be two whole numbers from 0, got {ends[0]!r} to {ends[1]!r}")
        if ends[0] > ends[1]:
            raise InvalidValueError(f"layers {ends[0]} to {ends[1]}: the first must not be behind the last")
        object.__setattr__(self, "operator_precisions", canonical_precisions(self.operator_precisions))
        if not self.operator_precisions:
            raise InvalidValueError(f"layers {self.label}: no operator is named; leave the range out")
        for name in self.operator_precisions:
            if OperatorType(name) not in LAYERED:
                raise InvalidValueError(
                    f"layers {self.label}: {name} has one format in the whole model; give it outside the ranges. "
                    f"What may vary with depth: {', '.join(LAYERED)}"
                )

    @property
    def label(self) -> str:
        """`0-10`, or `3` for one layer."""
        return layers_label(self.first_layer_index, self.last_layer_index)

    def covers(self, layer: int | None) -> bool:
        """Return whether a layer is in the range; None, a question about no layer, is not."""
        return layer is not None and self.first_layer_index <= layer <= self.last_layer_index


def layers_label(first: int | None, last: int | None) -> str:
    """Return `0-10`, `3` for one layer, `all` for None."""
    if first is None:
        return "all"
    return str(first) if first == last else f"{first}-{last}"


def canonical_precisions(given: Mapping[str, str]) -> dict[str, str]:
    """Return operator names and formats in canonical spelling; raises for unknown ones and for one named twice."""
    if not isinstance(given, Mapping):
        raise InvalidValueError(
            f"operator_precisions must be a table of operator = format, got a {type(given).__name__}"
        )
    precisions: dict[str, str] = {}
    for name, text in given.items():
        operator = parse_operator(name)
        if operator.value in precisions:
            raise InvalidValueError(f"{operator.value} is given twice; keep one format")
        precisions[operator.value] = canonical_precision(operator, text)
    return precisions
