"""A strategy as the format plan of a decoder model, from which time and memory of a whole pass follow.

The decoder model runs query, key and value as one product and gate and up projection as another, and its parts are coarser
than the thirteen operators: what a strategy cannot express there is refused by name, never rounded to something near.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from roofline_model.decoder.format_plan import FormatException, FormatPlan, PartFormats, checked_plan
from roofline_model.decoder.model_shapes import ModelShape
from roofline_model.errors import InvalidValueError, UnsupportedError
from roofline_model.mixed_precision.config import MixedPrecisionConfig
from roofline_model.mixed_precision.operator_type import ATTENTION_PRODUCTS, FFN_PROJECTIONS, OperatorType

_PARTS = {
    "qkv_proj": (OperatorType.Q_PROJ, OperatorType.K_PROJ, OperatorType.V_PROJ),
    "o_proj": (OperatorType.O_PROJ,),
    "ffn": FFN_PROJECTIONS,
}
"""Part of the decoder model → operators that share its format."""


def strategy_plan(config: MixedPrecisionConfig, shape: ModelShape) -> FormatPlan:
    """Return the format plan of a strategy for a model.

    The output head has the format of the embeddings; of a mixture of experts, routed and shared experts have the FFN's and
    the router stays wide. Raises `InvalidValueError` for a strategy made for another depth, `UnsupportedError` for formats
    that differ inside one product of the decoder model.
    """
    if config.layer_count not in (None, shape.layer_count):
        raise InvalidValueError(
            f"{config.name} is made for {config.layer_count} layers, {shape.name} has {shape.layer_count}; "
            f"make it for this depth, e.g. create_layerwise_gradient({shape.layer_count})"
        )
    _check_attention(config)
    wide = config.wide_precision
    head = config.get_precision(OperatorType.EMBEDDINGS)
    base = _shared_formats(config, shape, "ffn", None)
    exceptions = [
        FormatException("embedding", PartFormats(head, wide)),
        FormatException("lm_head", PartFormats(head, wide)),
        *(FormatException(part, _shared_formats(config, shape, part, None)) for part in ("qkv_proj", "o_proj")),
    ]
    if shape.experts is not None:
        exceptions.append(FormatException("router", PartFormats(wide, wide)))
    exceptions = [one for one in exceptions if one.formats != base]
    kv = config.get_precision(OperatorType.KV_CACHE)
    plan = FormatPlan(base, kv, wide, (*exceptions, *_by_depth(config, shape)), label=config.name)
    return checked_plan(plan, shape)


def _by_depth(config: MixedPrecisionConfig, shape: ModelShape) -> Iterator[FormatException]:
    """Yield the exceptions of single layers, joined where neighbours agree."""
    parts = ("qkv_proj", "o_proj", *(("ffn",) if shape.ffn_size else ()), *_expert_parts(shape))
    for part in (*parts, "kv") if config.layers else ():
        outside = _formats_of(config, shape, part, None)
        last: FormatException | None = None
        for layer in range(shape.layer_count):
            formats = _formats_of(config, shape, part, layer)
            if last is not None and formats == last.formats:
                last = replace(last, last_layer_index=layer)
                continue
            if last is not None and last.formats != outside:
                yield last
            last = FormatException(part, formats, layer, layer)
        if last is not None and last.formats != outside:
            yield last


def _expert_parts(shape: ModelShape) -> tuple[str, ...]:
    if shape.experts is None:
        return ()
    return ("experts", "shared_experts") if shape.experts.shared_ffn_size else ("experts",)


def _formats_of(config: MixedPrecisionConfig, shape: ModelShape, part: str, layer: int | None) -> PartFormats:
    if part == "kv":
        return config.formats(OperatorType.KV_CACHE, layer)
    return _shared_formats(config, shape, part if part in _PARTS else "ffn", layer)


def _shared_formats(config: MixedPrecisionConfig, shape: ModelShape, part: str, layer: int | None) -> PartFormats:
    operators = _PARTS[part]
    if part == "ffn" and shape.ffn == "plain":
        operators = (OperatorType.FFN_UP, OperatorType.FFN_DOWN)  # a plain FFN has no gate
    found = {operator: config.formats(operator, layer) for operator in operators}
    if len(set(found.values())) > 1:
        listed = ", ".join(f"{operator.value}={formats.label}" for operator, formats in found.items())
        where = "" if layer is None else f" in layer {layer}"
        raise UnsupportedError(
            f"{config.name}: {listed}{where}: the decoder model gives the matrices of {part} one format; make them agree to "
            "predict a whole model"
        )
    return found[operators[0]]


def _check_attention(config: MixedPrecisionConfig) -> None:
    for operator in ATTENTION_PRODUCTS:
        product = config.get_precision(operator)
        if product != config.wide_precision:
            raise UnsupportedError(
                f"{config.name}: {operator.value}={product}: the decoder model's attention multiplies in the residual stream's "
                f"{config.wide_precision}; ask `roofline predict attention` for attention in {product}"
            )
