"""Everything that can be narrow in a model at once: its Linears, the embedding's table, the cache, and attention's
products.

A plan comes from a strategy (`plan_of_strategy`) or from a format plan of the decoder model (`plan_of_formats`, what a
search chooses). 16-bit formats stay what the model has: FP16 and BF16 are not told apart here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import nn

from bench_cases.quality.attention_products import attending
from bench_cases.quality.layer_formats import layer_formats
from bench_cases.quality.mixed_cache import make_mixed_cache
from bench_cases.quality.model_outputs import CacheMaker
from bench_cases.quality.substitution import narrowed, quantizable_sites
from bench_cases.quantization.survey import survey_linears
from roofline_model.core.errors import InvalidValueError, UnsupportedError
from roofline_model.core.finding import reason_text
from roofline_model.formats.catalog import get_format
from roofline_model.formats.codecs import round_trip
from roofline_model.models.format_plan import FormatPlan
from roofline_model.models.strategies.config import MixedPrecisionConfig
from roofline_model.models.strategies.module_names import operators_of_module, strategy_layer_plan
from roofline_model.models.strategies.operator_type import OperatorType

_PARTS = {
    OperatorType.FFN_GATE: "gate_proj",
    OperatorType.FFN_UP: "up_proj",
    OperatorType.FFN_DOWN: "down_proj",
    OperatorType.EMBEDDINGS: "lm_head",
}
"""Operator → its part in a format plan, where the names differ."""


@dataclass(frozen=True, slots=True)
class WholePlan:
    """Narrow formats of a model by layer; wide formats are omitted."""

    name: str
    linears: Mapping[str, str]
    """Full name of a Linear → `WEIGHT.ACTIVATION`."""
    embedding: str = ""
    """Format of the embedding's table; empty: as it is."""
    caches: tuple[str, ...] = ()
    """Format of every layer's cache; empty: all as they are."""
    products: tuple[tuple[str, str], ...] = ()
    """Formats of every layer's query · key and scores · value; empty: all as they are."""


def plan_of_strategy(config: MixedPrecisionConfig, model: nn.Module) -> WholePlan:
    """Return the whole plan of a strategy for a model.

    Raises `InvalidValueError` for a strategy of another depth, `UnsupportedError` for one that gives one matrix two
    formats and for a model without a decoder's config.
    """
    layer_count = layers_of(model)
    if config.layer_count not in (None, layer_count):
        raise InvalidValueError(
            f"{config.name} is made for {config.layer_count} layers, the model has {layer_count}; make it for this "
            "depth, "
            f"e.g. create_layerwise_gradient({layer_count})"
        )
    linears = strategy_layer_plan(config, _linear_names(model, layer_count))
    head = config.get_precision(OperatorType.EMBEDDINGS)
    for name in linears:
        if operators_of_module(name)[0] == (OperatorType.EMBEDDINGS,):
            linears[name] = _label(head, config.wide_precision)  # the table's format: a head reads wide activations
    layers = range(layer_count)
    return _plan(
        config.name,
        linears,
        head,
        [config.get_precision(OperatorType.KV_CACHE, layer) for layer in layers],
        [(config.get_precision(OperatorType.QK_MATMUL), config.get_precision(OperatorType.SV_MATMUL))] * layer_count,
    )


def plan_of_formats(plan: FormatPlan, model: nn.Module) -> WholePlan:
    """Return the whole plan of a format plan for a model; raises as `plan_of_strategy`. Unnamed Linears stay wide."""
    layers = range(layers_of(model))
    linears: dict[str, str] = {}
    for name in _linear_names(model, len(layers)):
        operators, layer = operators_of_module(name)
        pairs = {plan.of(_PARTS.get(operator, operator.value), layer) for operator in operators}
        if len(pairs) > 1:
            pairs_text = ", ".join(sorted(formats.label for formats in pairs))
            raise UnsupportedError(
                f"{name} is one matrix, and the plan gives its parts {pairs_text}; give them one format"
            )
        for formats in pairs:
            linears[name] = _label(formats.weights, formats.activations)
    return _plan(
        plan.label,
        linears,
        plan.of("embedding").weights,
        [plan.kv_of(layer) for layer in layers],
        [plan.products_of(layer) for layer in layers],
    )


@contextmanager
def simulating(model: nn.Module, plan: WholePlan) -> Iterator[CacheMaker | None]:
    """Let the model compute as a plan says, inside the block; the block's value makes the cache to run it with.

    Raises `InvalidValueError` for a Linear the model does not have, `UnsupportedError` for a cache or a product that
    cannot be simulated in this model. The model is as it was afterwards, whatever happens inside.
    """
    sites = {site.name: site for site in quantizable_sites(model, tuple(plan.linears))} if plan.linears else {}
    with ExitStack() as stack:
        stack.enter_context(narrowed({sites[name]: layer_formats(text) for name, text in plan.linears.items()}))
        if plan.embedding:
            stack.enter_context(_narrow_table(model, plan.embedding))
        if plan.products:
            stack.enter_context(attending(model, plan.products))
        yield partial(make_mixed_cache, model, plan.caches) if plan.caches else None


def whole_variant(model: nn.Module, plan: WholePlan) -> Callable[[], Any]:
    """Return the plan as a `Variant` of the model."""
    return partial(simulating, model, plan)


def layers_of(model: nn.Module) -> int:
    """Return the decoder layers of a model. Raises `UnsupportedError` where its config names none."""
    config: Any = getattr(model, "config", None)
    decoder = config.get_text_config(decoder=True) if hasattr(config, "get_text_config") else config
    count = getattr(decoder, "num_hidden_layers", None)
    if not isinstance(count, int):
        raise UnsupportedError(
            f"{type(model).__name__} has no config with num_hidden_layers: a strategy needs a decoder model"
        )
    return count


def _linear_names(model: nn.Module, layer_count: int) -> list[str]:
    """Return the names of the model's Linears.

    Raises `UnsupportedError` where one cannot be read, or a layer has none for its keys or its way out of the
    feed-forward block (experts kept as one tensor): a plan would leave them wide in silence.
    """
    seen: set[tuple[OperatorType, int | None]] = set()
    names = []
    for site in survey_linears(model):
        if site.obstacle:
            raise UnsupportedError(
                f"{site.name}: {reason_text(site.obstacle)}; a strategy is measured on the 16-bit model"
            )
        operators, layer = operators_of_module(site.name)
        seen.update((operator, layer) for operator in operators)
        names.append(site.name)
    for layer in range(layer_count):
        for operator in (OperatorType.K_PROJ, OperatorType.FFN_DOWN):
            if (operator, layer) not in seen:
                raise UnsupportedError(
                    f"layer {layer} of {type(model).__name__} has no nn.Linear for {operator.value}: it cannot be "
                    "simulated, and a "
                    "strategy is not measured in part"
                )
    return names


def _plan(
    name: str, linears: Mapping[str, str], embedding: str, caches: list[str], products: list[tuple[str, str]]
) -> WholePlan:
    """Return the plan without what stays wide."""
    return WholePlan(
        name,
        {name: text for name, text in linears.items() if layer_formats(text).is_narrow},
        embedding if _is_narrow(embedding) else "",
        tuple(caches) if any(map(_is_narrow, caches)) else (),
        tuple(products) if any(_is_narrow(key) for pair in products for key in pair) else (),
    )


def _label(weights: str, activations: str) -> str:
    return f"{weights}.{activations}" if _is_narrow(weights) else weights


def _is_narrow(key: str) -> bool:
    return get_format(key).element_bits < 16


@contextmanager
def _narrow_table(model: nn.Module, format_key: str) -> Iterator[None]:
    """Let the embedding look up rows as a format stores them; a head that shares its weight keeps its own formats."""
    table: Any = model.get_input_embeddings()  # type: ignore[operator]  # a transformers model: it has a config
    original = table.weight
    rounded = torch.from_numpy(round_trip(original.detach().cpu(), format_key)).to(original.device, original.dtype)
    try:
        table.weight = nn.Parameter(rounded, requires_grad=False)
        yield
    finally:
        table.weight = original
