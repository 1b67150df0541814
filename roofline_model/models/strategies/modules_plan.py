"""The format plan of a model whose modules have formats already: what a library really made of each Linear."""

from __future__ import annotations

from collections.abc import Mapping

from roofline_model.core.errors import InvalidValueError, UnsupportedError
from roofline_model.models.format_plan import FormatException, FormatPlan, PartFormats, checked_plan, joined_layers
from roofline_model.models.model_shapes import ModelShape
from roofline_model.models.strategies.model_plan import PART_OF
from roofline_model.models.strategies.module_names import operators_of_module
from roofline_model.models.strategies.operator_type import FFN_PROJECTIONS, OperatorType

_HEAD = "lm_head"


def modules_plan(
    formats: Mapping[str, PartFormats], shape: ModelShape, *, wide: str, kv: str | None = None, label: str = ""
) -> FormatPlan:
    """Return the plan of a model by the full names of its Linears; what is not named stays in `wide`.

    Raises `UnsupportedError` for a narrow module that is not a part of the decoder model (an adapter, a vision tower),
    and for two modules of one part and layer with different formats; `InvalidValueError` for layers the model does not
    have.
    """
    formats_by_part: dict[tuple[str, int | None], PartFormats] = {}
    for name, pair in formats.items():
        for key in _parts_of(name, shape, is_narrow=pair.weights != wide):
            if formats_by_part.setdefault(key, pair) != pair:
                raise UnsupportedError(
                    f"{name}: {key[0]} of layer {key[1]} has {formats_by_part[key].label} and {pair.label}; no product "
                    "has two"
                )
    base = PartFormats(wide, wide)
    exceptions = [
        FormatException(part, pair, layer, layer)
        for (part, layer), pair in formats_by_part.items()
        if pair != base and part != _HEAD
    ]
    head = formats_by_part.get((_HEAD, None), base)
    outside = [FormatException(_HEAD, head)] if head != base else []
    if outside and shape.has_tied_embedding:
        outside.append(FormatException("embedding", base))
    plan = FormatPlan(base, kv or wide, wide, (*outside, *joined_layers(exceptions)), label=label)
    return checked_plan(plan, shape)


def _parts_of(name: str, shape: ModelShape, *, is_narrow: bool) -> list[tuple[str, int | None]]:
    """Return the parts of the decoder model that a module computes; none for a wide module that is not a part of it."""
    operators, layer = operators_of_module(name)
    if operators == (OperatorType.EMBEDDINGS,):
        return [(_HEAD, None)]
    if layer is not None and layer >= shape.layer_count:
        raise InvalidValueError(f"{name} is of layer {layer}, {shape.name} has {shape.layer_count}")
    prefix = "" if layer is None or not shape.has_experts(layer) else "shared_" if "shared" in name else "experts_"
    parts = [
        (f"{prefix if operator in FFN_PROJECTIONS else ''}{PART_OF[operator]}", layer)
        for operator in operators
        if operator in PART_OF
    ]
    if not parts and is_narrow:
        raise UnsupportedError(f"{name} is quantised, and no part of {shape.name} as it is predicted")
    return parts
