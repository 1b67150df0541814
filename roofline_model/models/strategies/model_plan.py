"""A strategy as the format plan of a decoder model, from which time and memory of a whole pass follow.

Every projection is a part of its own in the decoder model; those whose formats agree stay one product. Attention
multiplies in the format of the strategy's two products. What no kernel combines is refused by name, never rounded to
something near.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from roofline_model.core.errors import InvalidValueError
from roofline_model.models.format_plan import (
    CACHE,
    PRODUCTS,
    FormatException,
    FormatPlan,
    PartFormats,
    checked_plan,
    joined_layers,
    parts_of,
)
from roofline_model.models.model_shapes import ModelShape
from roofline_model.models.strategies.config import MixedPrecisionConfig
from roofline_model.models.strategies.operator_type import ATTENTION_PRODUCTS, FFN_PROJECTIONS, OperatorType

PART_OF = {
    OperatorType.Q_PROJ: "q_proj",
    OperatorType.K_PROJ: "k_proj",
    OperatorType.V_PROJ: "v_proj",
    OperatorType.O_PROJ: "o_proj",
    OperatorType.FFN_GATE: "gate_proj",
    OperatorType.FFN_UP: "up_proj",
    OperatorType.FFN_DOWN: "down_proj",
}
"""Projection → the part of the decoder model that it is; of experts with `experts_` or `shared_` before it."""
_OPERATORS = {
    **{part: operator for operator, part in PART_OF.items()},
    **{f"{prefix}_{PART_OF[each]}": each for prefix in ("experts", "shared") for each in FFN_PROJECTIONS},
    CACHE: OperatorType.KV_CACHE,
    **{operator.value: operator for operator in ATTENTION_PRODUCTS},
}
"""Part of the decoder model → the operator whose formats it has."""


def strategy_plan(config: MixedPrecisionConfig, shape: ModelShape) -> FormatPlan:
    """Return the format plan of a strategy for a model.

    The output head has the format of the embeddings; of a mixture of experts, routed and shared experts have the FFN's
    and the router stays wide. Raises `InvalidValueError` for a strategy made for another depth, and for what no kernel
    of the model can do: a latent cache with keys and values of different formats, products wider than the residual
    stream.
    """
    if config.layer_count not in (None, shape.layer_count):
        raise InvalidValueError(
            f"{config.name} is made for {config.layer_count} layers, {shape.name} has {shape.layer_count}; "
            f"make it for this depth, e.g. create_layerwise_gradient({shape.layer_count})"
        )
    wide = config.wide_precision
    head = config.get_precision(OperatorType.EMBEDDINGS)
    base = config.formats(OperatorType.FFN_UP)
    exceptions = [
        FormatException("embedding", PartFormats(head, wide)),
        FormatException("lm_head", PartFormats(head, wide)),
        *(
            FormatException(name, _formats(config, name, None))
            for name in _names(config, shape, ("qkv_proj", "o_proj", *_ffn_groups(shape)))
        ),
    ]
    if shape.experts is not None:
        exceptions.append(FormatException("router", PartFormats(wide, wide)))
    exceptions = [exception for exception in exceptions if exception.formats != base]
    products = {part: config.get_precision(_OPERATORS[part]) for part in PRODUCTS}
    exceptions += [FormatException(part, PartFormats(key, key)) for part, key in products.items() if key != wide]
    kv = config.get_precision(OperatorType.KV_CACHE)
    plan = FormatPlan(base, kv, wide, (*exceptions, *_by_depth(config, shape)), label=config.name)
    return checked_plan(plan, shape)


def _by_depth(config: MixedPrecisionConfig, shape: ModelShape) -> Iterator[FormatException]:
    """Yield the exceptions of single layers, joined where neighbours agree."""
    if not config.layers:
        return
    for name in (*_names(config, shape, ("qkv_proj", "o_proj", *_ffn_groups(shape))), CACHE):
        outside = _formats(config, name, None)
        by_layer = ((layer, _formats(config, name, layer)) for layer in range(shape.layer_count))
        yield from joined_layers(FormatException(name, own, layer, layer) for layer, own in by_layer if own != outside)


def _ffn_groups(shape: ModelShape) -> tuple[str, ...]:
    """Return the feed-forward groups that some layer of a model has."""
    dense = ("ffn",) if shape.ffn_size else ()
    if shape.experts is None:
        return dense
    return (*dense, "experts", *(("shared_experts",) if shape.experts.shared_ffn_size else ()))


def _names(config: MixedPrecisionConfig, shape: ModelShape, groups: Sequence[str]) -> Iterator[str]:
    """Yield each group where its parts agree in every layer, else its parts: a part's exception beats any of its
    group.
    """
    for group in groups:
        parts = _parts(shape, group)
        layers = (None, *(range(shape.layer_count) if config.layers else ()))
        if all(len({config.formats(_OPERATORS[part], layer) for part in parts}) == 1 for layer in layers):
            yield group
        else:
            yield from parts


def _parts(shape: ModelShape, group: str) -> tuple[str, ...]:
    """Return the parts of a group that a model has: a plain FFN has no gate."""
    parts = parts_of(group)
    return parts[1:] if group == "ffn" and shape.ffn == "plain" else parts


def _formats(config: MixedPrecisionConfig, name: str, layer: int | None) -> PartFormats:
    """Return the formats of a part, or of a group whose parts agree: its last part is in every model."""
    return config.formats(_OPERATORS[parts_of(name)[-1]], layer)
