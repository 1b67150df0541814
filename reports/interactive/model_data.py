"""Whole models for the page: speed, loss of quality, memory and energy of every precision, and which of them nothing beats."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from reports.display_text import shown
from reports.model_results import model_title
from reports.views import ChipView
from results.model_results import PassResult


def model_data(chip: ChipView) -> list[dict[str, Any]]:
    """Return one entry per model and phase that has a time; quality and memory are None where they were not measured.

    A pass is on the front when no other pass of its phase, on equal evidence, is at least as good in speed, quality and memory
    and better in one; only passes with a measured quality (or the 16-bit reference itself) can be.
    """
    found = []
    for model in chip.models:
        for phase in model.phases:
            points = [point for one in phase.passes if (point := _point(one)) is not None]
            if not points:
                continue
            best = phase.of(phase.judged.best) if phase.judged.is_win else None
            for point, is_front in zip(points, front(points), strict=True):
                point["is_front"] = is_front
                point["is_best"] = best is not None and point["label"] == shown(best.label, 80)
            found.append({"title": f"{model_title(model)}: {phase.phase}", "phase": phase.phase, "points": points})
    return found


def front(points: Sequence[dict[str, Any]]) -> list[bool]:
    """Return for each point whether none of the others dominates it (speed up, KL down, memory down)."""
    return [
        point["kl_nats_per_token"] is not None and not any(_beats(other, point) for other in points if other is not point)
        for point in points
    ]  # fmt: skip


def _beats(one: dict[str, Any], other: dict[str, Any]) -> bool:
    if one["kl_nats_per_token"] is None or one["is_measured"] != other["is_measured"]:
        return False
    pairs = [(-one["tokens_per_s"], -other["tokens_per_s"]), (one["kl_nats_per_token"], other["kl_nats_per_token"])]
    if one["held_bytes"] is not None and other["held_bytes"] is not None:
        pairs.append((one["held_bytes"], other["held_bytes"]))
    return all(a <= b for a, b in pairs) and any(a < b for a, b in pairs)


def _point(one: PassResult) -> dict[str, Any] | None:
    figures = one.figures
    speed = one.tokens_per_s if one.tokens_per_s is not None else one.expected_tokens_per_s
    if speed is None:
        return None
    kl = figures.kl_nats_per_token
    is_reference = figures.quality_source == "reference"
    return {
        "label": shown(one.label, 80),
        "tokens_per_s": speed,
        "is_measured": one.tokens_per_s is not None,
        "kl_nats_per_token": 0.0 if is_reference else None if kl is None else kl.value,
        "kl_low_nats_per_token": None if kl is None else kl.low_value,
        "kl_high_nats_per_token": None if kl is None else kl.high_value,
        "is_reference": is_reference,
        "held_bytes": figures.held_bytes,
        "energy_j_per_token": figures.energy_j_per_token,
        "quality_source": shown(figures.quality_source, 40),
        "quality_reason": shown(figures.quality_reason, 160),
    }
