"""Which configuration wins a shape, and was the prediction of its speed-up right? Pure arithmetic over records.

Read by the terminal summary and by the reports, so that both say the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from results.records import Record

BASELINE_FORMATS = ("BF16", "FP16", "FP32")
"""Formats a speed-up is counted from, first choice first: unquantised operands of the same format on both sides."""

DOUBTFUL_FLAGS = frozenset({"noisy", "drift", "contended", "stolen", "cold-unproven"})
"""Flags of a measurement that put its time in doubt."""

GroupKey = tuple[str, tuple[tuple[str, int], ...], str, str]


@dataclass(frozen=True, slots=True)
class ShapeVerdict:
    """The winner of one shape and cache state against the best unquantised kernel."""

    op: str
    shape_label: str
    cache: str
    baseline: Record
    best: Record
    predicted_speedup: float | None
    """Ideal time of the baseline over ideal time of the winner."""
    measured_speedup: float | None
    """None when the winner was chosen by prediction."""

    @property
    def is_measured(self) -> bool:
        """Whether the winner was chosen by measured times."""
        return self.measured_speedup is not None

    @property
    def sentence(self) -> str:
        """One plain line, e.g. `INT4 (tinygemm) predicted 4.0× BF16, measured 2.3×`."""
        base = format_name(self.baseline)
        if self.best.record_id == self.baseline.record_id:
            rest = "nothing measured is faster" if self.is_measured else "nothing is predicted to be faster"
            return f"{base} ({self.best.case.kernel}) stays: {rest}"
        parts = [f"{format_name(self.best)} ({self.best.case.kernel})"]
        if self.predicted_speedup is not None:
            parts.append(f"predicted {self.predicted_speedup:.1f}× {base}")
        if self.measured_speedup is not None:
            parts.append(
                f"measured {self.measured_speedup:.1f}×" + ("" if self.predicted_speedup is not None else f" {base}")
            )
        doubts = f" (doubtful: {', '.join(self.doubts)})" if self.doubts else ""
        return parts[0] + " " + ", ".join(parts[1:]) + doubts

    @property
    def doubts(self) -> tuple[str, ...]:
        """Flags that put the measured comparison in doubt, on either side."""
        found = [record.measurement.flags for record in (self.baseline, self.best) if record.measurement is not None]
        return tuple(sorted(DOUBTFUL_FLAGS.intersection(flag for flags in found for flag in flags)))


def group_key(record: Record) -> GroupKey:
    """Return what records must share to be compared: operator, shape, cache state and mode."""
    return (record.case.op, record.case.shape, record.case.cache, record.case.mode)


def groups(records: Iterable[Record]) -> dict[GroupKey, list[Record]]:
    """Return the records by operator, shape, cache and mode, in order of first appearance."""
    found: dict[GroupKey, list[Record]] = {}
    for record in records:
        found.setdefault(group_key(record), []).append(record)
    return found


def shape_verdicts(records: Iterable[Record]) -> list[ShapeVerdict]:
    """Return a verdict for every group that has a baseline and something to compare it with."""
    verdicts = []
    for members in groups(records).values():
        verdict = _verdict(members)
        if verdict is not None:
            verdicts.append(verdict)
    return verdicts


def format_name(record: Record) -> str:
    """Return the precision a reader calls the case by, else its kernel."""
    return record.case.precision_label or record.case.kernel


def is_baseline(record: Record) -> bool:
    """Return whether the case computes with unquantised operands of one format."""
    formats = dict(record.case.formats)
    return formats.get("a") in BASELINE_FORMATS and formats.get("a") == formats.get("b")


def _verdict(members: list[Record]) -> ShapeVerdict | None:
    measured = [record for record in members if record.status == "measured" and record.measurement is not None]
    pool = measured or [record for record in members if record.ideal is not None and record.status == "predicted"]
    bases = [record for record in pool if is_baseline(record)]
    if not bases or len(pool) < 2:
        return None
    # The honest baseline is the best 16-bit kernel there is; FP32 only where no 16-bit one ran.
    sixteen = [record for record in bases if dict(record.case.formats)["a"] != "FP32"]
    baseline = min(sixteen or bases, key=_time)
    best = min(pool, key=_time)
    predicted = None
    if baseline.ideal is not None and best.ideal is not None:
        predicted = baseline.ideal.time_s / best.ideal.time_s
    speedup = _time(baseline) / _time(best) if measured else None
    return ShapeVerdict(best.case.op, best.case.shape_label, best.case.cache, baseline, best, predicted, speedup)


def _time(record: Record) -> float:
    if record.measurement is not None:
        return record.measurement.median_s
    return record.ideal.time_s if record.ideal is not None else float("inf")
