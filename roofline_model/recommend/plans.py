"""The plans worth weighing for a model on a chip: 16 bit, uniform formats, named strategies, some with an FP8 cache.

A uniform plan has one format in every matrix of the layers. Embedding, output head, router and cache stay in 16 bit, as
in published checkpoints and in the strategies of document 004, so that all plans are compared like with like.

Engines take the format of the cache apart from that of the weights (vLLM: `--kv-cache-dtype fp8` beside AWQ, GPTQ or
NVFP4 weights; TensorRT-LLM exports NVFP4 weights with an FP8 cache), so a usual plan has a second form where its cache
is large.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from roofline_model.chips.hardware import Device
from roofline_model.core.answer import Exclusion, Memory
from roofline_model.core.errors import InvalidValueError, RooflineError, UnsupportedError
from roofline_model.core.finding import Finding, finding
from roofline_model.formats.catalog import FORMATS, get_format
from roofline_model.formats.usual import PLAN_PAIRS, PLAN_WEIGHTS
from roofline_model.kernels.known_kernels import cache_kernel, missing_unit, product_gap
from roofline_model.models.format_plan import (
    AS_PUBLISHED,
    FormatPlan,
    PartFormats,
    plan_from_text,
    published_plan,
)
from roofline_model.models.model_shapes import ModelShape
from roofline_model.models.strategies.chip_check import validate_strategy
from roofline_model.models.strategies.config import MixedPrecisionConfig, StrategyClaims
from roofline_model.models.strategies.model_plan import strategy_plan
from roofline_model.recommend.options import named_formats
from roofline_model.recommend.plan_formats import (
    PlanFormats,
    plan_formats,
    rewidened,
)
from roofline_model.recommend.ranking import LEVEL_RATIO
from roofline_model.recommend.search.losses import parse_formats

CACHE_FORMAT = "FP8_E4M3"
PAIRED_PLANS = (("INT4", 16), ("NVFP4", 4))
"""(weights, bits of the activations) of the usual plans that get an FP8 cache. With 8-bit weights the strategy
`fp8_balanced` is that plan, NVFP4 under 16-bit activations is as INT4 is, and MXFP4 loses more than NVFP4 of the same
bits.
"""
LEAST_CACHE_RATIO = 2 * LEVEL_RATIO
"""Share of a plan's memory that its 16-bit cache has to take: halving less saves less than can be told apart."""


@dataclass(frozen=True, slots=True)
class CandidatePlan:
    """One plan to weigh."""

    label: str
    """`INT4.BF16`, the name of a strategy, or of a search."""
    kind: str
    """baseline, published, uniform, strategy or search."""
    plan: FormatPlan
    formats: PlanFormats
    claims: StrategyClaims | None = None
    """What the strategy of this name, or one that is the same plan, claims of itself."""
    is_asked_for: bool = False
    """Whether the caller named it: then it is weighed even where no kernel is known."""
    aliases: tuple[str, ...] = ()
    """Other names of the same plan."""


def candidate_plans(
    shape: ModelShape,
    device: Device,
    wide: str,
    *,
    formats: Iterable[str] | None = None,
    extra_formats: Iterable[str] = (),
    strategies: Sequence[MixedPrecisionConfig] = (),
    are_strategies_asked_for: bool = False,
) -> tuple[list[CandidatePlan], list[Exclusion]]:
    """Return the plans to weigh, the 16-bit baseline first, and what takes no part.

    `formats`: uniform plans instead of the usual ones, `WEIGHT[.ACTIVATION[.KV]]` each, and `extra_formats` beside
    them. `are_strategies_asked_for`: whether the caller named the strategies. Plans that come out equal are one
    candidate with several names. Raises a `RooflineError` for a format that the caller names and nobody knows, and for
    an empty list.
    """
    base = FormatPlan(PartFormats(wide, wide), wide, wide, label=wide)
    plans = [CandidatePlan(wide, "baseline", base, plan_formats(base, shape))]
    excluded: list[Exclusion] = []
    published = published_candidate(shape, wide)
    if published is not None:
        _add(plans, published)
    usual, extra = _usual_formats(wide) if formats is None else (), list(extra_formats)
    for text in dict.fromkeys([*usual, *_named(formats), *extra]):
        plan = uniform_plan(text, shape, wide)
        formats_of = plan_formats(plan, shape)
        missing = _missing_unit(formats_of, device) if text in usual and text not in extra else None
        if missing is not None:
            excluded.append(Exclusion(plan.label, (missing,)))
        else:
            is_asked_for = text not in usual or text in extra
            _add(plans, CandidatePlan(plan.label, "uniform", plan, formats_of, is_asked_for=is_asked_for))
    for config in strategies:
        try:
            candidate = _strategy_candidate(config, shape, device, wide)
        except RooflineError as error:
            excluded.append(Exclusion(config.name, (finding("cannot-run", config.name, error=str(error)),)))
            continue
        missing = None if are_strategies_asked_for else _missing_unit(candidate.formats, device)
        if missing is not None:
            excluded.append(Exclusion(config.name, (missing,)))
        else:
            _add(plans, replace(candidate, is_asked_for=are_strategies_asked_for))
    return plans, excluded


def _strategy_candidate(config: MixedPrecisionConfig, shape: ModelShape, device: Device, wide: str) -> CandidatePlan:
    validate_strategy(config, device)
    plan = rewidened(strategy_plan(config, shape), wide)
    return CandidatePlan(config.name, "strategy", plan, plan_formats(plan, shape), config.claims)


def uniform_plan(text: str, shape: ModelShape, wide: str) -> FormatPlan:
    """Return the plan with one format in every matrix of the layers; raises as `plan_from_text` does.

    Activations of 16 bit are those of `wide`."""
    plan = rewidened(plan_from_text(text, shape), wide)
    if text.strip().lower() == AS_PUBLISHED:
        return plan
    with_cache = f"{plan.base.weights}.{plan.base.activations}.{plan.kv}"
    return replace(plan, label=plan.base.label if plan.kv == plan.wide else with_cache)


@lru_cache(64)  # every plan of a ranking is held against it
def published_candidate(shape: ModelShape, wide: str) -> CandidatePlan | None:
    """Return the checkpoint as it was published where that is not 16 bit and is known: it loses nothing against
    itself.
    """
    if shape.weight_format in (None, shape.wide_format) and shape.expert_format is None:
        return None
    try:
        plan = rewidened(published_plan(shape), wide)
    except InvalidValueError:
        return None
    return CandidatePlan(AS_PUBLISHED, "published", plan, plan_formats(plan, shape))


def add_candidate(plans: Sequence[CandidatePlan], candidate: CandidatePlan) -> list[CandidatePlan]:
    """Return the candidates with one more, or with one more name where its plan is known."""
    joined = list(plans)
    _add(joined, candidate)
    return joined


def _usual_formats(wide: str) -> tuple[str, ...]:
    return (*(f"{key}.{wide}" for key in PLAN_WEIGHTS), *PLAN_PAIRS)


def _named(formats: Iterable[str] | None) -> list[str]:
    return [] if formats is None else named_formats(formats)


def _missing_unit(formats: PlanFormats, device: Device) -> Finding | None:
    """Return the unit that a chip lacks for activations which a plan would quantise for it; None where it has it.

    How fast a unit is refuses nothing: a pass that waits for memory gains by its bytes all the same, and its time says
    so.
    """
    for label in formats.product_labels:
        pair = parse_formats(label)
        key = pair.activations
        missing = missing_unit(device, key) if pair.weights == key and key in FORMATS else None
        if missing is None:
            continue
        if missing.code == "cannot-run" or product_gap(device, key, formats.wide):
            return missing
        weight_only = f"{key}.{formats.wide}"
        return finding("no-unit", key, unit=key, reason=missing.value("reason"), instead=weight_only)
    return None


def _add(plans: list[CandidatePlan], candidate: CandidatePlan) -> None:
    """Add a candidate, or its name and claims to the one with the same formats."""
    for at, listed in enumerate(plans):
        if listed.formats != candidate.formats:
            continue
        names = dict.fromkeys([*listed.aliases, candidate.label, *candidate.aliases])
        plans[at] = replace(
            listed,
            aliases=tuple(name for name in names if name != listed.label),
            claims=listed.claims or candidate.claims,
            is_asked_for=listed.is_asked_for or candidate.is_asked_for,
        )
        return
    plans.append(candidate)


def cached_pairs(
    weighed: Iterable[tuple[CandidatePlan, Memory]], device: Device, shape: ModelShape, wide: str
) -> list[CandidatePlan]:
    """Return the usual uniform plans among those weighed once more with an FP8 cache, where it is large and engines
    serve it.

    Served: a released attention kernel reads such a cache on the chip, and the chip converts FP8 itself. Before compute
    capability 8.9 it is decoded in software, and was slower on A100 than a 16-bit cache (vllm-project/vllm 49077,
    open).
    """
    if cache_kernel(device, CACHE_FORMAT) is None or not _converts_natively(device):
        return []
    pairs = []
    for candidate, memory in weighed:
        base = candidate.plan.base
        is_paired = (base.weights, int(get_format(base.activations).element_bits)) in PAIRED_PLANS
        is_large = (memory.cache_bytes or 0.0) >= LEAST_CACHE_RATIO * memory.total_bytes
        if candidate.kind != "uniform" or candidate.plan.kv != wide or not is_paired or not is_large:
            continue
        plan = uniform_plan(f"{base.weights}.{base.activations}.{CACHE_FORMAT}", shape, wide)
        pairs.append(CandidatePlan(plan.label, "uniform", plan, plan_formats(plan, shape)))
    return pairs


def _converts_natively(device: Device) -> bool:
    try:
        return device.path(CACHE_FORMAT).kind == "native"
    except UnsupportedError:
        return False
