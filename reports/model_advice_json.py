"""A recommendation for a whole model as JSON: the terminal's `--json` and the API give the same; every figure has its unit in its name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from roofline_model.hardware import Device
    from roofline_model.model_choice.answer import (
        FormatSearch,
        GentlerPlan,
        ModelCandidate,
        ModelRecommendation,
        RefusedPlan,
    )


def model_recommendation_json(found: ModelRecommendation, chip: Device) -> dict[str, Any]:
    """Return a recommendation for a whole model as one JSON document."""
    limits = found.limits
    unit = next((one.quality.loss_unit for one in found.candidates if one.quality.loss_unit), None)
    return {
        "hardware": chip.key,
        "hardware_name": chip.name,
        "is_placeholder": chip.is_placeholder,
        "model": found.model,
        "wide_format": found.wide,
        "traffic": [
            {
                "phase": one.workload.phase,
                "batch_count": one.workload.batch_count,
                "context_count": one.workload.context_count,
                "new_count": one.workload.new_count,
                "share_ratio": one.share_ratio,
            }
            for one in found.traffic
        ],
        "limits": {
            "memory_limit_bytes": limits.memory_limit_bytes,
            "memory_headroom_ratio": limits.headroom_ratio,
            "max_latency_s": limits.max_latency_s,
            "max_loss_pct": limits.max_loss_pct,
            "max_claimed_loss_pct": limits.max_claimed_pct,
            "is_loss_given": limits.is_loss_given,
        },
        "time_source": found.time_source,
        "summary": str(found),
        "chosen": None if found.chosen is None else found.chosen.label,
        "gentler": None if found.gentler is None else _gentler_json(found.gentler),
        "misfit": found.misfit or None,
        "notes": list(found.notes),
        "baseline": candidate_json(found.baseline),
        "candidates": [candidate_json(one) for one in found.candidates],
        "excluded": [_refused_json(one) for one in found.excluded],
        "searches": [_search_json(one, unit) for one in found.searches],
        "front": [
            {
                "loss_value": one.loss_value,
                "loss_unit": unit,
                "time_s": one.time_s,
                "memory_bytes": one.memory_bytes,
                "formats": list(one.labels),
            }
            for one in found.front
        ],
    }


def candidate_json(one: ModelCandidate) -> dict[str, Any]:
    """Return one plan as JSON."""
    memory, quality = one.memory, one.quality
    return {
        "plan": one.label,
        "kind": one.kind,
        "aliases": list(one.aliases),
        "formats": one.formats,
        "method": one.method,
        "path": one.path,
        "kernels": one.kernels or None,
        "kernel_gap": one.kernel_gap or None,
        "ideal_s": one.ideal_s,
        "time_s": one.time_s,
        "time_source": one.time_source,
        "prudent_s": one.prudent_s,
        "low_s": one.low_s,
        "high_s": one.high_s,
        "time_provenance": one.provenance or None,
        "tokens_per_s": one.tokens_per_s,
        "speedup_ratio": one.speedup,
        "is_speedup_ideal": one.is_speedup_ideal,
        "ideal_speedup_ratio": one.ideal_speedup,
        "bound": one.bound,
        "memory": {
            "weights_bytes": memory.weights_bytes,
            "kv_bytes": memory.kv_bytes,
            "activation_bytes": memory.activation_bytes,
            "total_bytes": memory.total_bytes,
        },
        "quality": {
            "source": quality.source,
            "text": quality.text,
            "loss_pct": quality.loss_pct,
            "loss_value": quality.loss_value,
            "loss_unit": quality.loss_unit or None,
            "at_least_pct": quality.at_least_pct,
            "note": quality.note or None,
        },
        "reason": one.reason,
    }


def _gentler_json(one: GentlerPlan) -> dict[str, Any]:
    return {
        "plan": one.candidate.label,
        "max_loss_pct": one.max_loss_pct,
        "slowdown_ratio": one.slowdown_ratio,
        "text": one.text,
        "option": one.option,
    }


def _refused_json(one: RefusedPlan) -> dict[str, Any]:
    return {
        "plan": one.label,
        "reason": one.reason,
        "misses": [
            {
                "limit": miss.limit,
                "value": miss.value,
                "limit_value": miss.limit_value,
                "excess_ratio": miss.excess_ratio,
            }
            for miss in one.misses
        ],
        "candidate": None if one.candidate is None else candidate_json(one.candidate),
    }


def _search_json(one: FormatSearch, loss_unit: str | None) -> dict[str, Any]:
    choice = one.choice
    return {
        "plan": one.label,
        "goal": one.goal,
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
                "reason": reason.text,
            }
            for reason in choice.reasons
        ],
    }
