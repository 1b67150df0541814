"""Decides, before anything is touched, what every Linear will become: recipe, group size, reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from bench_cases.quantization.plans.precisions import Precision
from bench_cases.quantization.plans.recipes import Recipe
from bench_cases.quantization.survey import LinearSite
from bench_cases.quantization.target import Target
from bench_cases.quantization.torchao_configs import candidates
from roofline_model.core.errors import InvalidValueError, UnsupportedError
from roofline_model.core.finding import Finding, finding, findings_text


@dataclass(frozen=True, slots=True)
class LayerDecision:
    """Decision for one weight: its recipe, or the reason to leave it."""

    site: LinearSite
    requested: Precision
    target: Target
    recipe: Recipe | None
    """None: the layer keeps its dtype."""
    group_size: int | None
    findings: tuple[Finding, ...] = ()
    """Why it is not what was asked; empty where it is."""
    notes: tuple[Finding, ...] = ()
    """Why a better recipe of the same precision could not be used."""


@dataclass(frozen=True, slots=True)
class PlanRules:
    """Rules of a plan: strictness and group size."""

    group_size: int
    is_strict: bool
    is_untied: bool
    """Quantise a copy of a weight that an embedding shares; else such a layer is kept."""

    def __post_init__(self) -> None:
        if isinstance(self.group_size, bool) or not isinstance(self.group_size, int) or self.group_size < 1:
            raise InvalidValueError(f"group_size must be a whole number of at least 1, got {self.group_size!r}")


def decide_layers(
    sites: Sequence[LinearSite],
    wanted: Mapping[str, Precision],
    targets: Mapping[str, Target],
    rules: PlanRules,
) -> tuple[LayerDecision, ...]:
    """Return the decision for every site that `wanted` names (by the site's name).

    targets: device type of a weight → its description. Strict rules raise `UnsupportedError` listing every layer that
    would not become what was asked.
    """
    decisions = tuple(
        _decide(site, wanted[site.name], targets[site.weight.device.type], rules)
        for site in sites
        if site.name in wanted
    )
    if rules.is_strict:
        refuse_fallbacks(decisions)
    return decisions


def refuse_fallbacks(decisions: Sequence[LayerDecision]) -> None:
    """Raise `UnsupportedError` if any layer would not become what was asked: the strict mode."""
    missed = [decision for decision in decisions if decision.findings]
    if not missed:
        return
    shown = "; ".join(
        f"{decision.site.name or 'the layer'}: {findings_text(decision.findings)}" for decision in missed[:3]
    )
    more = f"; and {len(missed) - 3} more layers" if len(missed) > 3 else ""
    raise UnsupportedError(
        f"{len(missed)} of {len(decisions)} layers cannot become what was asked, and strict=True allows no fallback; "
        f"the model is unchanged. {shown}{more}"
    )


def with_finding(decision: LayerDecision, reason: Finding | None) -> LayerDecision:
    """Return the decision with one more reason why it is not what was asked; None: as it is."""
    return decision if reason is None else replace(decision, findings=(*decision.findings, reason))


def _decide(site: LinearSite, requested: Precision, target: Target, rules: PlanRules) -> LayerDecision:
    decision = LayerDecision(site, requested, target, None, None)
    if requested.is_plain:
        return decision
    if site.obstacle is not None:
        return with_finding(decision, site.obstacle)
    if site.tied_to and not rules.is_untied:
        return with_finding(decision, finding("layer-stays-wide", kind="shared", parameter=site.tied_to))
    N, K = site.shape
    dtype = str(site.weight.dtype).removeprefix("torch.")
    reasons = () if requested.substitution is None else (requested.substitution,)
    notes: list[Finding] = []  # about recipes of the precision itself: whether they count depends on what is found
    for recipe, against_target in candidates(requested, target):
        against = against_target or (None if recipe is None else recipe.against_layer(N, K, dtype))
        if recipe is not None and against is None:
            group_size, against = choose_group(recipe, rules.group_size, K)
            if group_size is not None or not recipe.group_sizes:
                is_exact = recipe.precision == requested.name
                findings = (*reasons, *(() if is_exact else notes), *(() if against is None else (against,)))
                return LayerDecision(
                    site, requested, target, recipe, group_size, findings, tuple(notes) if is_exact else ()
                )
        notes += [] if against is None else [against]
    return replace(decision, findings=(*reasons, *notes))


def choose_group(recipe: Recipe, wanted: int, K: int) -> tuple[int | None, Finding | None]:
    """Return the group size for a layer of K inputs and why it is not the wanted one.

    The largest size of the kernel that divides K and is not above the wanted one; None when there is none.
    """
    if not recipe.group_sizes or (wanted in recipe.group_sizes and K % wanted == 0):
        return (wanted if recipe.group_sizes else None), None
    size = max((size for size in recipe.group_sizes if size <= wanted and K % size == 0), default=None)
    return size, finding(
        "group-unfit",
        kind="inputs" if K % wanted else "kernel",
        config=recipe.config_name,
        wanted_count=wanted,
        input_count=K,
        group_sizes=tuple(map(str, recipe.group_sizes)),
        used_count=size,
    )
