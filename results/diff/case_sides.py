"""Case on one side of a diff: its processes, their measurements, and the unused ones."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any

from results.diff.rules import INVALIDATING_FLAGS
from results.records.records import Measurement, Record
from roofline_model.operators.case import Case

ProcessKey = tuple[str, int]
"""(run_id, ordinal)"""

WILD = "wild"
"""Set aside as: a process whose median is more than twice or less than half the others'."""
WILD_RATIO = 2.0
LEAST_FOR_WILD = 5
"""Processes from which one may be called wild; one in five at most, so that two states are never cut down to one."""
CPU_TIMER = "monotonic"
"""The timer of kernels on the CPU, which other processes slow down."""
_NORMAL_QUANTILE = 1.959964
_ORDER = {flag: number for number, flag in enumerate((*INVALIDATING_FLAGS, WILD))}
_INVALIDATING = frozenset(INVALIDATING_FLAGS)


@dataclass(frozen=True, slots=True)
class CaseSide:
    """One case on one side, over all its runs. Only processes without an invalidating flag are used, as long as half
    are.
    """

    case: Case
    records: tuple[Record, ...]
    """All of the case, used or not."""
    logs: Mapping[ProcessKey, float]
    """Natural logarithm of the median of every process that is used; empty where the case cannot be judged."""
    process_count: int
    """Processes that measured it, used or not."""
    set_aside: tuple[tuple[str, int], ...]
    """Flag → processes that are not used for it, the gravest first."""
    method_hashes: frozenset[str]

    @property
    def was_measured(self) -> bool:
        """Whether any process measured it."""
        return self.process_count > 0

    @property
    def is_judgeable(self) -> bool:
        """Whether enough processes are left to be judged by."""
        return bool(self.logs)

    @property
    def mean_log(self) -> float:
        """Mean of the logarithms over the processes used."""
        return fmean(self.logs.values())

    @property
    def estimate_s(self) -> float | None:
        """Geometric mean of the process medians used; of all where none is; None where it was not measured."""
        if self.logs:
            return math.exp(self.mean_log)
        medians = [measurement.median_s for measurement in self._measurements(used=False) if measurement.median_s > 0]
        return math.exp(fmean(map(math.log, medians))) if medians else None

    @property
    def squares(self) -> float:
        """Sum of the squared deviations of the logarithms from their mean."""
        middle = self.mean_log
        return math.fsum((log - middle) ** 2 for log in self.logs.values())

    @property
    def run_count(self) -> int:
        """Runs that the processes used belong to."""
        return len({run_id for run_id, _ in self.logs})

    @property
    def sampling_variance(self) -> float:
        """Variance of a process median's logarithm that its own samples explain; 0 where no interval is known."""
        variances = []
        for measurement in self._measurements():
            low_s, high_s = measurement.ci_low_s, measurement.ci_high_s
            if low_s is not None and high_s is not None and 0 < low_s <= high_s:
                variances.append((math.log(high_s / low_s) / 2 / _NORMAL_QUANTILE) ** 2)
        return fmean(variances) if variances else 0.0

    @property
    def clock_hz(self) -> float | None:
        """Median SM clock over the processes used, else of the CPUs; None unless all of them know it."""
        for name in ("sm_clock_hz", "cpu_clock_hz"):
            clocks_hz = [_clock(measurement, name) for measurement in self._measurements()]
            known_hz = [value_hz for value_hz in clocks_hz if value_hz is not None and value_hz > 0]
            if known_hz and len(known_hz) == len(clocks_hz):
                return median(known_hz)
        return None

    @property
    def others_ratio(self) -> float | None:
        """Share of the CPUs that other processes used beside a kernel on the CPU, mean over the processes used; None
        unless all of them know it.
        """
        states = [measured.state for measured in self._measurements(timer=CPU_TIMER)]
        shares = [state.others_ratio for state in states if state is not None and state.others_ratio is not None]
        return fmean(shares) if shares and len(shares) == len(self._measurements()) else None

    @property
    def wall_s(self) -> float | None:
        """Seconds that the processes used took to measure it, together; None where one does not say."""
        walls_s = [measured.wall_s for measured in self._measurements()]
        known_s = [wall_s for wall_s in walls_s if wall_s]
        return math.fsum(known_s) if known_s and len(known_s) == len(walls_s) else None

    @property
    def has_sampled_clock(self) -> bool:
        """Whether the clock of every process used was read while it measured, and not once afterwards."""
        clocks_hz = [_clock(measurement, "sm_clock_hz") for measurement in self._measurements()]
        return bool(clocks_hz) and all(clocks_hz)

    @property
    def flags(self) -> tuple[str, ...]:
        """Every flag a measurement of the case carries, sorted."""
        return tuple(sorted({flag for measurement in self._measurements(used=False) for flag in measurement.flags}))

    @property
    def threshold_ratio(self) -> float | None:
        """The case's own smallest change that counts, from its `roofline` marker; the newest record's. None: it has
        none.
        """
        ratios = [
            ratio for record in self.records if (ratio := _ratio(record.extra.get("threshold_ratio"))) is not None
        ]
        return ratios[-1] if ratios else None

    @property
    def status_text(self) -> tuple[str, str]:
        """Return status and reason of the first record that was not measured."""
        unmeasured = next((record for record in self.records if record.status != "measured"), None)
        return ("absent", "") if unmeasured is None else (unmeasured.status, unmeasured.reason)

    def process_values(self, name: str) -> dict[ProcessKey, float]:
        """Return a number of the measurement per process used, the median where it has several; positive ones only."""
        values_by_process: dict[ProcessKey, list[float]] = {}
        for record in self.records:
            value = getattr(record.measurement, name) if record.measurement is not None else None
            key = (record.run_id, record.process.ordinal)
            if key in self.logs and value is not None and 0 < value < math.inf:
                values_by_process.setdefault(key, []).append(value)
        return {key: median(values) for key, values in values_by_process.items()}

    def _measurements(self, *, used: bool = True, timer: str | None = None) -> list[Measurement]:
        return [
            record.measurement
            for record in self.records
            if record.measurement is not None
            and record.status == "measured"
            and (not used or (record.run_id, record.process.ordinal) in self.logs)
            and (timer is None or (record.method is not None and record.method.timer == timer))
        ]


def case_sides(*sides: Iterable[Record]) -> tuple[dict[str, CaseSide], ...]:
    """Return, for each of the given sides, what is known of every case by case key, in order of first appearance."""
    keys: dict[Case, str] = {}  # hashing a case's or a method's canonical JSON is most of the work of a long run
    methods: dict[int, str] = {}
    return tuple(
        {key: _side(members, methods) for key, members in _by_case(records, keys).items()} for records in sides
    )


def joined(sides: Sequence[CaseSide]) -> CaseSide:
    """Return one case over several runs that are each judgeable, as `case_sides` would of all their records."""
    aside: Counter[str] = Counter()
    for side in sides:
        aside.update(dict(side.set_aside))
    return CaseSide(
        case=sides[0].case,
        records=tuple(record for side in sides for record in side.records),
        logs={key: log for side in sides for key, log in side.logs.items()},
        process_count=sum(side.process_count for side in sides),
        set_aside=tuple(sorted(aside.items(), key=lambda item: _ORDER[item[0]])),
        method_hashes=frozenset().union(*(side.method_hashes for side in sides)),
    )


def _by_case(records: Iterable[Record], keys: dict[Case, str]) -> dict[str, list[Record]]:
    records_by_case: dict[str, list[Record]] = {}
    for record in records:
        key = keys.get(record.case)
        if key is None:
            key = keys[record.case] = record.case.case_key
        records_by_case.setdefault(key, []).append(record)
    return records_by_case


def _side(records: Sequence[Record], known_methods: dict[int, str]) -> CaseSide:
    medians: dict[ProcessKey, list[float]] = {}
    flagged: dict[ProcessKey, set[str]] = {}
    methods = set()
    for record in records:
        measured = record.measurement
        if record.status == "measured" and measured is not None and 0 < measured.median_s < math.inf:
            key = (record.run_id, record.process.ordinal)
            medians.setdefault(key, []).append(measured.median_s)
            flagged.setdefault(key, set()).update(_INVALIDATING.intersection(measured.flags))
            if record.method is not None:
                identity = id(record.method)  # the records, which live as long as this, share few methods
                if identity not in known_methods:
                    known_methods[identity] = record.method.method_hash
                methods.add(known_methods[identity])
    clean = [key for key in medians if not flagged[key]]
    aside: dict[str, int] = {}
    for flags in flagged.values():
        if flags:
            gravest = min(flags, key=_ORDER.__getitem__)
            aside[gravest] = aside.get(gravest, 0) + 1
    is_enough = 2 * len(clean) >= len(medians)
    logs = {key: math.log(median(medians[key])) for key in clean} if is_enough else {}
    wild = _wild(logs)
    if wild:
        aside[WILD] = len(wild)
    return CaseSide(
        case=records[0].case,
        records=tuple(records),
        logs={key: log for key, log in logs.items() if key not in wild},
        process_count=len(medians),
        set_aside=tuple(sorted(aside.items(), key=lambda item: _ORDER[item[0]])),
        method_hashes=frozenset(methods),
    )


def _wild(logs: Mapping[ProcessKey, float]) -> set[ProcessKey]:
    """Return the processes that are no measurement of the same thing: ×2 away from the others, and few of many.

    One such process hides a real +20 % of all others: the mean and the spread both follow it.
    """
    if len(logs) < LEAST_FOR_WILD:
        return set()
    middle = median(logs.values())
    keys = {key for key, log in logs.items() if abs(log - middle) > math.log(WILD_RATIO)}
    return keys if len(keys) <= len(logs) // LEAST_FOR_WILD else set()


def _clock(measured: Measurement, name: str) -> float | None:
    if name == "sm_clock_hz":
        return measured.sm_clock_hz
    return None if measured.state is None else measured.state.cpu_clock_hz


def _ratio(value: Any) -> float | None:
    """Return a stored threshold, or None for what is none: `extra` may hold anything."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 < value < 1 else None
