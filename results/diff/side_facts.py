"""Facts of a case on one side of a diff, beside its pooled time: clock, load, threshold, values of its processes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, median
from typing import Any

from results.cases import pooling
from results.cases.case_result import CaseResult, MethodHashes, pooled_case
from results.cases.pooling import Pooled, ProcessKey
from results.records.records import Measurement, Record
from roofline_model.core.grouping import grouped
from roofline_model.operators.case import Case

CPU_TIMER = "monotonic"
"""The timer of kernels on the CPU, which other processes slow down."""


def side_cases(*sides: Iterable[Record]) -> tuple[dict[str, CaseResult], ...]:
    """Return the cases of each of the given sides by case key, in order of first appearance; of all runs and chip
    profiles of a side, and without their intervals, which a diff does not read.
    """
    keys: dict[Case, str] = {}  # hashing a case's canonical JSON is most of the work of a long run
    hashes: MethodHashes = {}
    cases = []
    for records in sides:
        members = grouped(
            records, lambda record: keys.get(record.case) or keys.setdefault(record.case, record.case.case_key)
        )
        cases.append({key: pooled_case(key, each, hashes) for key, each in members.items()})
    return tuple(cases)


def joined(cases: Sequence[CaseResult]) -> CaseResult:
    """Return one case over several runs that are each judgeable."""
    records = tuple(record for case in cases for record in case.records)
    methods = frozenset(each for case in cases for each in case.method_hashes)
    return CaseResult(cases[0].case_key, records, pooling.joined([judged(case) for case in cases]), None, methods)


def judged(case: CaseResult) -> Pooled:
    """Return the pooled time of a case that is judgeable."""
    assert case.pooled is not None
    return case.pooled


def is_judgeable(case: CaseResult) -> bool:
    """Return whether enough processes are clean to judge the case by."""
    return case.pooled is not None and case.pooled.is_judgeable


def judged_logs(case: CaseResult) -> Mapping[ProcessKey, float]:
    """Return the logarithm of the median of every process that is used; empty where the case cannot be judged."""
    return judged(case).logs if is_judgeable(case) else {}


def clock_hz(case: CaseResult) -> float | None:
    """Return the median SM clock over the processes used, else of the CPUs; None unless all of them know it."""
    for name in ("sm_clock_hz", "cpu_clock_hz"):
        clocks_hz = [_clock(measurement, name) for measurement in _measurements(case)]
        known_hz = [value_hz for value_hz in clocks_hz if value_hz is not None and value_hz > 0]
        if known_hz and len(known_hz) == len(clocks_hz):
            return median(known_hz)
    return None


def others_ratio(case: CaseResult) -> float | None:
    """Return the share of the CPUs that other processes used beside a kernel on the CPU, mean over the processes used;
    None unless all of them know it.
    """
    states = [measured.state for measured in _measurements(case, timer=CPU_TIMER)]
    shares = [state.others_ratio for state in states if state is not None and state.others_ratio is not None]
    return fmean(shares) if shares and len(shares) == len(_measurements(case)) else None


def wall_s(case: CaseResult) -> float | None:
    """Return the seconds that the processes used took to measure it, together; None where one does not say."""
    walls_s = [measured.wall_s for measured in _measurements(case)]
    known_s = [each_s for each_s in walls_s if each_s]
    return math.fsum(known_s) if known_s and len(known_s) == len(walls_s) else None


def has_sampled_clock(case: CaseResult) -> bool:
    """Return whether the clock of every process used was read while it measured, and not once afterwards."""
    clocks_hz = [_clock(measurement, "sm_clock_hz") for measurement in _measurements(case)]
    return bool(clocks_hz) and all(clocks_hz)


def threshold_ratio(case: CaseResult) -> float | None:
    """Return the case's own smallest change that counts, from its `roofline` marker; the newest record's. None: it has
    none.
    """
    ratios = [ratio for record in case.records if (ratio := _ratio(record.extra.get("threshold_ratio"))) is not None]
    return ratios[-1] if ratios else None


def status_text(case: CaseResult) -> tuple[str, str]:
    """Return status and reason of the first record that was not measured."""
    unmeasured = next((record for record in case.records if record.status != "measured"), None)
    return ("absent", "") if unmeasured is None else (unmeasured.status, unmeasured.reason)


def process_values(case: CaseResult, name: str) -> dict[ProcessKey, float]:
    """Return a number of the measurement per process used, the median where it has several; positive ones only."""
    values_by_process: dict[ProcessKey, list[float]] = {}
    for record in case.used:
        value = getattr(record.measurement, name)
        if value is not None and 0 < value < math.inf:
            values_by_process.setdefault((record.run_id, record.process.ordinal), []).append(value)
    return {key: median(values) for key, values in values_by_process.items()}


def _measurements(case: CaseResult, *, timer: str | None = None) -> list[Measurement]:
    return [
        record.measurement
        for record in case.used
        if record.measurement is not None
        and (timer is None or (record.method is not None and record.method.timer == timer))
    ]


def _clock(measured: Measurement, name: str) -> float | None:
    if name == "sm_clock_hz":
        return measured.sm_clock_hz
    return None if measured.state is None else measured.state.cpu_clock_hz


def _ratio(value: Any) -> float | None:
    """Return a stored threshold, or None for what is none: `extra` may hold anything."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 < value < 1 else None
