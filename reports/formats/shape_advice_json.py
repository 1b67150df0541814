"""The ranking of formats for a product as JSON: the terminal's `--json` and the API give the same."""

from __future__ import annotations

from typing import Any

from roofline_model.core.answer import Option, Ranking
from roofline_model.core.finding import findings_json, findings_text, first_with, optional_json
from roofline_model.formats.catalog import operands_label
from roofline_model.recommend.loss import loss_text


def shape_advice_json(ranking: Ranking) -> dict[str, Any]:
    """Return the ranking of a product's formats as plain values, in the order of the API's `Recommendation`.

    Where nothing fits the memory limit the best one is the one that misses it least, and alone among the candidates.
    """
    best, baseline = ranking.nearest, ranking.baseline
    assert best is not None  # the 16-bit baseline is always predicted
    assert baseline is not None
    ranked = ranking.options or (best,)
    options = {option.key: option_json(option) for option in (baseline, *ranked)}
    is_limited = "memory_bytes" in dict(ranking.question.limits)
    is_ideal = all(option.estimate.source == "ideal" for option in ranked)
    return {
        "hardware": ranking.question.hardware,
        "phase": ranking.question.phase,
        **dict(ranking.question.sizes),
        "precision": best.key,
        "method": best.method,
        "summary": str(ranking),
        "reason": ranking.reason,
        "fits_memory_limit": ranking.choice is not None if is_limited else None,
        "ranked_by": "ideal" if is_ideal else "expected",
        "best": options[best.key],
        "baseline": options[baseline.key],
        "candidates": [options[option.key] for option in ranked],
        "excluded": [
            {"format": exclusion.key, "reason": findings_text(exclusion.findings)}
            for exclusion in ranking.excluded
            if exclusion.option is not best
        ],
        "findings": findings_json(ranking.findings),
    }


def option_json(option: Option) -> dict[str, Any]:
    """Return one format of a product as plain values."""
    operands, estimate, ideal, memory = dict(option.formats), option.estimate, option.times.ideal, option.memory
    assert ideal is not None  # of a product both are known
    assert memory is not None
    return {
        "format": option.key,
        "name": option_name(option),
        "weight_format": operands["b"],
        "activation_format": operands["a"],
        "operands": operands_label(operands["b"], operands["a"]),
        "method": option.method,
        "path": option.path,
        "time_s": estimate.time_s,
        "time_source": estimate.source,
        "low_s": estimate.low_s,
        "high_s": estimate.high_s,
        "time_provenance": estimate.provenance or None,
        "ideal_s": ideal.time_s,
        "speedup_ratio": option.speedup_ratio,
        "ideal_speedup_ratio": option.ideal_speedup_ratio,
        "memory_bytes": memory.total_bytes,
        "memory_saved_ratio": memory.saved_ratio,
        "bound": option.bound,
        "quality": loss_text(option.loss),
        "reason": findings_text(option.findings),
        "kernel_gap": optional_json(first_with(option.findings, "kernel-gap")),
        "engine_gap": optional_json(first_with(option.findings, "engine-gap")),
    }


def option_name(option: Option) -> str:
    """Return a format with the widths of its operands, `INT8 W8A8`; 16 bit needs none.

    `INT8` alone is weight-only to torchao and both operands to the original documents.
    """
    operands = dict(option.formats)
    label = operands_label(operands["b"], operands["a"])
    return option.key if option.method == "none" or label == "–" else f"{option.key} {label}"
