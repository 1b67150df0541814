"""A recommendation for a whole model as JSON: the terminal's `--json` and the API give the same; every figure has its unit in its name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roofline_model.core.answer import Alternative, Exclusion, is_comparable
from roofline_model.core.finding import findings_json, findings_text, first_with, optional_json, short_text
from roofline_model.recommend.loss import loss_text
from roofline_model.recommend.plan_formats import formats_text
from roofline_model.recommend.ranking import alternative_finding, excess_ratio

if TYPE_CHECKING:
    from roofline_model.chips.hardware import Device
    from roofline_model.recommend.model import ModelRanking
    from roofline_model.recommend.plan_options import PlanOption
    from roofline_model.recommend.search.plan_search import FormatSearch

LIMITS = {"misses-memory-limit": "memory", "misses-time-limit": "latency", "misses-loss-limit": "quality"}
"""Code of a missed limit → its name in JSON."""


def model_recommendation_json(ranking: ModelRanking, chip: Device) -> dict[str, Any]:
    """Return a recommendation for a whole model as one JSON document."""
    limits, baseline = ranking.limits, ranking.baseline
    assert baseline is not None  # 16 bit is always predicted
    unit = next((option.loss.unit for option in ranking.options if option.loss.unit), None)
    return {
        "hardware": chip.key,
        "hardware_name": chip.name,
        "is_placeholder": chip.is_placeholder,
        "model": ranking.question.name,
        "wide_format": ranking.wide,
        "traffic": [
            {
                "phase": one.workload.phase,
                "batch_count": one.workload.batch_count,
                "context_count": one.workload.context_count,
                "new_count": one.workload.new_count,
                "share_ratio": one.share_ratio,
            }
            for one in ranking.traffic
        ],
        "limits": {
            "memory_limit_bytes": limits.memory_limit_bytes,
            "memory_headroom_ratio": limits.headroom_ratio,
            "max_latency_s": limits.time_s,
            "max_loss_pct": limits.loss_pct,
            "max_claimed_loss_pct": limits.claimed_loss_pct,
            "is_loss_given": limits.is_loss_given,
        },
        "time_source": baseline.estimate.source,
        "summary": str(ranking),
        "chosen": None if ranking.choice is None else ranking.choice.key,
        "lower_loss_alternative": next((_alternative_json(each, ranking) for each in ranking.alternatives), None),
        "findings": findings_json(ranking.findings),
        "baseline": plan_json(baseline, ranking),
        "candidates": [plan_json(option, ranking) for option in ranking.options],
        "excluded": [_exclusion_json(exclusion, ranking) for exclusion in ranking.excluded],
        "searches": [_search_json(search, unit) for search in ranking.searches],
        "front": [
            {
                "loss_value": one.loss_value,
                "loss_unit": unit,
                "time_s": one.time_s,
                "memory_bytes": one.memory_bytes,
                "formats": list(one.labels),
            }
            for one in ranking.front
        ],
    }


def plan_json(option: PlanOption, ranking: ModelRanking) -> dict[str, Any]:
    """Return one plan as JSON."""
    estimate, ideal, memory, loss = option.estimate, option.times.ideal, option.memory, option.loss
    assert ideal is not None  # of a plan both are known
    assert memory is not None
    gap = first_with(option.findings, "kernel-gap")
    return {
        "plan": option.key,
        "kind": option.kind,
        "aliases": list(option.aliases),
        "formats": formats_text(option.formats),
        "method": option.method,
        "path": option.path,
        "kernels": option.kernel,
        "kernel_gap": optional_json(gap),
        "ideal_s": ideal.time_s,
        "time_s": estimate.time_s,
        "time_source": estimate.source,
        "prudent_s": estimate.prudent_s,
        "low_s": estimate.low_s,
        "high_s": estimate.high_s,
        "time_provenance": estimate.provenance or None,
        "tokens_per_s": option.tokens_per_s,
        "speedup_ratio": option.speedup_ratio,
        "is_speedup_ideal": is_speedup_ideal(option, ranking),
        "ideal_speedup_ratio": option.ideal_speedup_ratio,
        "bound": option.bound,
        "memory": {
            "weights_bytes": memory.weight_bytes,
            "kv_bytes": memory.cache_bytes,
            "activation_bytes": memory.activation_bytes,
            "total_bytes": memory.total_bytes,
        },
        "quality": {
            "source": loss.source,
            "text": loss_text(loss),
            "loss_pct": loss.pct,
            "loss_value": loss.value,
            "loss_unit": loss.unit or None,
            "at_least_pct": loss.at_least_pct,
            "note": quality_note(option) or None,
        },
        "reason": findings_text(item for item in option.findings if item.code not in LOSS_CODES),
    }


LOSS_CODES = frozenset(
    {"loss-unpublished", "loss-in-other-metric", "loss-score", "losses-incomplete", "claim-without-source"}
)
"""Findings of an option that are about its loss."""


def quality_note(option: PlanOption) -> str:
    """Return where a claim is from, and what is known beside it; empty where there is nothing."""
    notes = findings_text(item for item in option.findings if item.code in LOSS_CODES)
    return "; ".join(filter(None, (option.loss.citation, notes)))


def is_speedup_ideal(option: PlanOption, ranking: ModelRanking) -> bool:
    """Return whether a speed-up is that of the ideals, because the times cannot be held against each other."""
    baseline = ranking.baseline
    return baseline is not None and not is_comparable(option.estimate.source, baseline.estimate.source)


def _alternative_json(alternative: Alternative, ranking: ModelRanking) -> dict[str, Any]:
    option = alternative.option
    return {
        "plan": option.key,
        "max_loss_pct": alternative.max_loss_pct,
        "slowdown_ratio": alternative.slowdown_ratio,
        "text": short_text(alternative_finding(alternative, ranking)),
    }


def _exclusion_json(exclusion: Exclusion, ranking: ModelRanking) -> dict[str, Any]:
    misses = [item for item in exclusion.findings if item.code in LIMITS]
    return {
        "plan": exclusion.key,
        "reason": findings_text(exclusion.findings),
        "misses": [
            {
                "limit": LIMITS[item.code],
                "value": item.values[0][1],
                "limit_value": item.values[1][1],
                "excess_ratio": excess_ratio(item),
            }
            for item in misses
        ],
        "candidate": None if exclusion.option is None else plan_json(exclusion.option, ranking),  # type: ignore[arg-type]
    }


def _search_json(one: FormatSearch, loss_unit: str | None) -> dict[str, Any]:
    choice = one.choice
    return {
        "plan": one.label,
        "goal": short_text(one.goal),
        "loss_source": choice.problem.loss_source,
        "loss_unit": loss_unit,
        "confidence": choice.problem.confidence,
        "gap_value": choice.gap_value,
        "passes_count": one.passes_count,
        "groups": [
            {
                "group": reason.group,
                "format": reason.chosen.label,
                "loss_value": reason.chosen.loss_value,
                "time_s": reason.chosen.time_s,
                "memory_bytes": reason.chosen.memory_bytes,
                "time_source": reason.chosen.time_source,
                "constraint": reason.constraint,
                "better_format": None if reason.better is None else reason.better.label,
                "better_extra_s": reason.better_time_s,
                "better_extra_bytes": reason.better_bytes,
                "better_saved_loss_value": None
                if reason.better is None
                else reason.chosen.loss_value - reason.better.loss_value,
            }
            for reason in choice.reasons
        ],
    }
