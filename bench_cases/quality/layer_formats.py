"""Formats of a simulated layer: that of its weight, and that of its input.

Written as `apply_plan` takes it: `INT4.FP8_E4M3` names both. Alone, an integer or a code table is the weight's
(activations stay as they are), a float below 16 bits is both operands'; short forms such as W8A8 are known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from bench_cases.dtypes import DTYPES
from bench_cases.quantization.plans.precisions import parse_precision
from roofline_model.core.errors import InvalidValueError, UnknownNameError
from roofline_model.formats.catalog import get_format, split_precision
from roofline_model.models.format_plan import check_pair
from roofline_model.operators.operand_formats import is_wide_float


@dataclass(frozen=True, slots=True)
class LayerFormats:
    """Formats of one layer's operands, by key."""

    weights: str
    activations: str = ""
    """Empty: the layer reads its input as the model hands it on."""

    @property
    def name(self) -> str:
        """`INT4`, `INT8.INT8`, `FP8_E4M3.BF16`; one name for a float that both operands have."""
        is_float = get_format(self.weights).kind == "float"
        is_alone = self.activations in ("", self.weights) if is_float else self.narrow_activations is None
        return self.weights if is_alone else f"{self.weights}.{self.activations}"

    @property
    def is_narrow(self) -> bool:
        """Whether the weight has fewer than 16 bits; all other layers stay as they are."""
        return get_format(self.weights).element_bits < 16

    @property
    def narrow_activations(self) -> str | None:
        """Format that the input is quantised to; None where it stays wide."""
        if not self.activations or is_wide_float(get_format(self.activations)):
            return None
        return self.activations

    def part_label(self, wide: str) -> str:
        """Return `WEIGHT.ACTIVATION` as format plans and losses have it, the wide format where activations stay."""
        activations = self.narrow_activations or get_format(wide).key
        return self.weights if self.weights == activations else f"{self.weights}.{activations}"


def layer_formats(text: str) -> LayerFormats:
    """Return the formats that `text` names.

    Raises `UnknownNameError` for a format nobody knows, `InvalidValueError` for a pair that nothing multiplies.
    """
    try:
        weight, activation = split_precision(text)
    except UnknownNameError:
        weight, activation = split_precision(parse_precision(text).name)
    if activation is None:
        is_both = weight.kind == "float" and weight.element_bits < 16
        return LayerFormats(weight.key, weight.key if is_both else "")
    check_pair("formats", weight, activation)
    return LayerFormats(weight.key, activation.key)


def narrow_layer_formats(formats: Sequence[str]) -> tuple[LayerFormats, ...]:
    """Return formats to try, each once. Raises `InvalidValueError` for none, and for one of 16 bits or more."""
    by_name = {pair.name: pair for pair in map(layer_formats, formats)}
    wide = [layer_format.name for layer_format in by_name.values() if not layer_format.is_narrow]
    if wide or not by_name:
        raise InvalidValueError(
            f"a sensitivity needs formats below 16 bit, got {', '.join(wide) or 'none'}: 16 bit is what is compared "
            "with"
        )
    return tuple(by_name.values())


def wide_key(dtype: torch.dtype) -> str:
    """Return the format of a model's dtype: BF16, FP16, FP32 or FP64."""
    return next(key for key, own in DTYPES.items() if own == dtype)
