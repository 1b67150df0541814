"""One comparable stretch of a case's nights: its levels, its steps, its drift, and why it is a stretch of its own.
Pure.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from results.diff.environments import differences
from results.history.change_points import LEAST_NIGHTS, Step, find_pending, find_steps
from results.history.drift import find_trend
from results.history.fences import clip_to_fences
from results.history.points import HistoryPoint, Observation, points_of
from results.records.metrics import Metric
from results.records.records import RunInfo
from roofline_model.core.finding import Finding
from roofline_model.core.grouping import grouped

LEAST_CLOCK_RATIO = 0.02
"""Clocks that differ by more than this share are told beside a change."""


@dataclass(frozen=True, slots=True)
class Level:
    """Nights of one segment between two steps. Indices count the segment's used nights."""

    first_index: int
    night_count: int
    """Nights, count."""
    value: float
    """In the metric's unit."""
    scaled_value: float
    """On the scale on which steps are looked for."""
    sm_clock_hz: float | None
    """Median clock of the SMs, Hz."""
    drift_value: float | None
    """Total of the slow movement over the level, on the same scale as `scaled_value`; None where there is none."""


@dataclass(frozen=True, slots=True)
class Segment:
    """Nights of one chip, one environment class and one method: only these are compared over time."""

    history_key: str
    """What the nights have in common, as a key."""
    hardware_key: str
    """Key of the chip."""
    method_version: str
    """Version of the measuring method."""
    nights: tuple[HistoryPoint, ...]
    """All of them, doubtful ones too, oldest first."""
    levels: tuple[Level, ...]
    steps: tuple[Step, ...]
    """Between the levels, and withdrawn ones. Indices count `used`."""
    pending: Finding | None = None
    """That the newest nights differ and are too few to be a step (`step-pending`); None where they do not."""
    split: tuple[str, ...] = ()
    """What differs from the segment before it, in words; empty for the first one of a machine."""
    split_change_value: float | None = None
    """Change from the last level of the segment before to the first one here, by `Metric.change`: relative or in the
    metric's unit. Told, never judged.
    """

    @property
    def used(self) -> tuple[HistoryPoint, ...]:
        """The nights that are searched for steps."""
        return tuple(point for point in self.nights if point.is_used)

    @property
    def is_too_short(self) -> bool:
        """Whether there are too few nights to say anything of steps."""
        return len(self.used) < LEAST_NIGHTS


def segments_of(
    observations: Sequence[Observation], runs: Mapping[str, RunInfo], metric: Metric, branch: str | None
) -> tuple[Segment, ...]:
    """Return the segments of one case in the order of their first nights."""
    by_key = grouped(observations, lambda observation: observation.segment_key)
    segments: list[tuple[Segment, Observation]] = []
    nights_by_key = [(points_of(members, runs, metric, branch), members[0]) for members in by_key.values()]
    stretches = [(nights, first) for nights, first in nights_by_key if nights]
    for nights, first in sorted(stretches, key=lambda stretch: (stretch[0][0].started_at, stretch[1].segment_key)):
        levels, steps, pending = _levels([point for point in nights if point.is_used], metric)
        split, change = _split(nights[0], first, levels, segments, runs, metric)
        segment = Segment(
            first.history_key,
            first.hardware_key,
            first.method_version,
            tuple(nights),
            levels,
            steps,
            pending,
            split,
            change,
        )
        segments.append((segment, first))
    return tuple(segment for segment, _ in segments)


def _levels(used: Sequence[HistoryPoint], metric: Metric) -> tuple[tuple[Level, ...], tuple[Step, ...], Finding | None]:
    values = [scaled for point in used if (scaled := metric.scaled(point.value)) is not None]
    if not values:
        return (), (), None
    steps = find_steps(values, least=metric.least)
    starts = [0, *(step.start_index for step in steps if not step.is_withdrawn)]
    ends = [*starts[1:], len(values)]
    levels = tuple(_level(used, values, start, end, metric) for start, end in zip(starts, ends, strict=True))
    return levels, steps, find_pending(values, steps, least=metric.least)


def _level(used: Sequence[HistoryPoint], values: Sequence[float], start: int, end: int, metric: Metric) -> Level:
    clipped = clip_to_fences(values[start:end], metric.least)
    middle = float(clipped.mean())
    clocks = [point.sm_clock_hz for point in used[start:end] if point.sm_clock_hz is not None]
    return Level(
        first_index=start,
        night_count=end - start,
        value=metric.unscaled(middle),
        scaled_value=middle,
        sm_clock_hz=median(clocks) if clocks else None,
        drift_value=find_trend(clipped.tolist(), least=metric.least),
    )


def _split(
    first_point: HistoryPoint,
    first: Observation,
    levels: Sequence[Level],
    earlier: Sequence[tuple[Segment, Observation]],
    runs: Mapping[str, RunInfo],
    metric: Metric,
) -> tuple[tuple[str, ...], float | None]:
    """Return the differences from the most similar earlier segment, and the change of level across the split.

    Most alike, because a database may hold several machines: a new driver on one of them is compared with the same
    machine.
    """
    best: tuple[tuple[str, ...], Segment] | None = None
    for segment, its_first in earlier:
        reasons = split_reasons(segment, its_first, first_point, first, runs)
        if best is None or len(reasons) <= len(best[0]):
            best = (reasons, segment)
    if best is None:
        return (), None
    before = best[1].levels[-1].value if best[1].levels else None
    change = metric.change(before, levels[0].value) if before is not None and levels else None
    return best[0], change


def split_reasons(
    segment: Segment, its_first: Observation, first_point: HistoryPoint, first: Observation, runs: Mapping[str, RunInfo]
) -> tuple[str, ...]:
    """Return the reasons why a night starts a new segment: chip, method, model, facts of the environment class."""
    reasons = []
    if its_first.hardware_key != first.hardware_key:
        reasons.append(f"chip {its_first.hardware_key or 'unknown'} → {first.hardware_key or 'unknown'}")
    if its_first.method_version != first.method_version:
        reasons.append(f"method {its_first.method_version or 'unknown'} → {first.method_version or 'unknown'}")
    elif its_first.method_hash != first.method_hash:
        reasons.append(f"method settings {its_first.method_hash[:8]} → {first.method_hash[:8]}")
    if its_first.prediction_version != first.prediction_version:
        reasons.append(f"prediction by {its_first.prediction_version} → {first.prediction_version}")
    # The nights next to each other in time: facts may come and go inside a segment that went on meanwhile.
    before = next(
        (earlier for earlier in reversed(segment.nights) if earlier.started_at < first_point.started_at),
        segment.nights[0],
    )
    between = differences([runs[before.run_id]], [runs[first_point.run_id]])
    reasons += [difference.text for difference in between if difference.is_blocking and difference.name != "chip"]
    return tuple(reasons) or ("environment class",)


def changes_at(segment: Segment, step: Step, runs: Mapping[str, RunInfo]) -> tuple[str, ...]:
    """Return the environment differences between the last night before a step and the first of the new level."""
    used = segment.used
    before, after = used[step.start_index - 1], used[step.start_index]
    return tuple(difference.text for difference in differences([runs[before.run_id]], [runs[after.run_id]]))


def clock_ratio(before: Level, after: Level) -> float | None:
    """Return the SM clock of a level over that of the one before; None where either is unknown or they are alike."""
    if before.sm_clock_hz is None or after.sm_clock_hz is None or before.sm_clock_hz <= 0:
        return None
    ratio = after.sm_clock_hz / before.sm_clock_hz
    return ratio if math.isfinite(ratio) and abs(ratio - 1) > LEAST_CLOCK_RATIO else None
