"""Changes of a case's other metrics: energy, memory, quality and prediction error, before and after. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

from results.cases.case_result import CaseResult
from results.records.model_figures import Interval, ModelFigures, model_figures

MetricVerdict = Literal["WORSE", "BETTER", "SAME", "AMBIGUOUS"]
Group = Literal["energy", "memory", "quality", "error"]
GROUPS: tuple[Group, ...] = ("energy", "memory", "quality", "error")
"""What `--fail-on` can name beside the time."""

LEAST_MEMORY_RATIO = 0.01
LEAST_QUALITY_RATIO = 0.05
LEAST_ERROR_RATIO = 0.05
"""Changes that count, of the value; of the prediction's error five percentage points."""
TIME_MOVED = "time-moved"
"""The code of an error that changed although the prediction did not."""


@dataclass(frozen=True, slots=True)
class MetricChange:
    """One figure of a case on both sides. `change_ratio` is (after − before) / before; of the error, after − before."""

    group: Group
    """What `--fail-on` calls it."""
    name: str
    """Name of the figure."""
    unit: str
    """Unit of its values; empty for a ratio."""
    is_higher_better: bool
    """Whether more of it is better."""
    before_value: float
    """On the earlier side, in its unit."""
    after_value: float
    """On the later side, in its unit."""
    change_ratio: float
    """(after − before) / before; of the error, after − before."""
    low_ratio: float | None
    """Lower end of the 95 % interval of the change; counts of bytes have none and need none."""
    high_ratio: float | None
    """Upper end of that interval."""
    verdict: MetricVerdict
    """AMBIGUOUS: it may be either."""
    reason: str = ""
    """A code: `noise-unknown`, `time-moved`, `prediction-moved`, …"""
    detail: str = ""
    """The model before and after where the prediction moved with it."""


def other_changes(before: CaseResult, after: CaseResult) -> list[MetricChange]:
    """Return the changes of memory, quality and prediction error that both sides know."""
    return [*_model_changes(before, after), *_error_changes(before, after)]


def directed(change_ratio: float, is_higher_better: bool) -> float:
    """Return the change as a loss: positive is worse."""
    return -change_ratio if is_higher_better else change_ratio


def _model_changes(before: CaseResult, after: CaseResult) -> list[MetricChange]:
    old, new = _figures(before), _figures(after)
    if old is None or new is None:
        return []
    changes = []
    for name in ("held_bytes", "cache_bytes", "peak_bytes"):
        first, second = getattr(old, name), getattr(new, name)
        if first and second is not None:
            ratio = second / first - 1
            changes.append(
                MetricChange(
                    "memory", name, "B", False, first, second, ratio, None, None, _called(ratio, LEAST_MEMORY_RATIO)
                )
            )
    for name, unit, is_higher_better in (
        ("kl_nats_per_token", "nats/token", False),
        ("perplexity_ratio", "ratio", False),
        ("top1_agreement_ratio", "ratio", True),
    ):
        change = _quality_change(name, unit, is_higher_better, getattr(old, name), getattr(new, name))
        changes += [change] if change is not None else []
    return changes


def _quality_change(
    name: str, unit: str, is_higher_better: bool, first: Interval | None, second: Interval | None
) -> MetricChange | None:
    """Compare figures of the same tokens: their intervals are over tokens, so that overlapping ones decide nothing."""
    if first is None or second is None or first.value <= 0:
        return None
    ratio = second.value / first.value - 1
    called = _called(directed(ratio, is_higher_better), LEAST_QUALITY_RATIO)
    if called == "SAME" or first.value == second.value:
        return MetricChange(
            "quality", name, unit, is_higher_better, first.value, second.value, ratio, None, None, "SAME"
        )
    ends = (first.low_value, first.high_value, second.low_value, second.high_value)
    verdict: MetricVerdict
    if None in ends:
        verdict, reason = "AMBIGUOUS", "noise-unknown"
    else:
        overlap = first.low_value <= second.high_value and second.low_value <= first.high_value  # type: ignore[operator]
        verdict, reason = ("AMBIGUOUS", "intervals-overlap") if overlap else (called, "intervals-apart")
    return MetricChange(
        "quality",
        name,
        unit,
        is_higher_better,
        first.value,
        second.value,
        ratio,
        None,
        None,
        verdict,
        reason,
    )


def _error_changes(before: CaseResult, after: CaseResult) -> list[MetricChange]:
    """Compare |error| of the ideal and the expected prediction against the measured time, and say which of both
    moved.
    """
    changes = []
    for kind in ("expected", "ideal"):
        sides = [_prediction(side, kind) for side in (before, after)]
        old, new = sides
        if old is None or new is None or before.measured_s is None or after.measured_s is None:
            continue
        first, second = old[0] / before.measured_s - 1, new[0] / after.measured_s - 1
        growth = abs(second) - abs(first)
        has_moved = abs(new[0] / old[0] - 1) > 1e-6
        reason = "prediction-moved" if has_moved else TIME_MOVED
        verdict = _called(growth, LEAST_ERROR_RATIO)
        changes.append(
            MetricChange(
                "error",
                f"error_{kind}",
                "ratio",
                False,
                first,
                second,
                second - first,
                None,
                None,
                verdict,
                reason if verdict != "SAME" or has_moved else "",
                f"{old[1]} → {new[1]}" if has_moved and old[1] != new[1] else "",
            )
        )
    return changes


def _called(loss_ratio: float, least_ratio: float) -> MetricVerdict:
    return "WORSE" if loss_ratio >= least_ratio else "BETTER" if loss_ratio <= -least_ratio else "SAME"


def _prediction(side: CaseResult, kind: str) -> tuple[float, str] | None:
    """Return the predicted time of a side (the median over its records) and the model's version."""
    predictions = [
        prediction
        for record in side.records
        for prediction in record.predictions
        if prediction.kind == kind and prediction.time_s > 0
    ]
    if not predictions:
        return None
    return median(prediction.time_s for prediction in predictions), predictions[-1].model_version


def _figures(side: CaseResult) -> ModelFigures | None:
    figures: Sequence[ModelFigures] = [
        case_figures for case_figures in map(model_figures, side.records) if case_figures is not None
    ]
    measured = [case_figures for case_figures in figures if case_figures.quality_source == "measured"]
    return (measured or figures or [None])[0]  # type: ignore[list-item]
