"""Case on one side of a diff: its processes, their measurements, and the unused ones."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any

from results.cases import pooling
from results.cases.case_result import is_timed
from results.cases.pooling import Pooled, ProcessKey
from results.records.records import Measurement, Record
from roofline_model.operators.case import Case

CPU_TIMER = "monotonic"
"""The timer of kernels on the CPU, which other processes slow down."""


@dataclass(frozen=True, slots=True)
class CaseSide:
    """One case on one side, over all its runs. Only processes without an invalidating flag are used, as long as half
    are.
    """

    case: Case
    records: tuple[Record, ...]
    """All of the case, used or not."""
    pooled: Pooled | None
    """None where it was not measured."""
    method_hashes: frozenset[str]

    @property
    def logs(self) -> Mapping[ProcessKey, float]:
        """Natural logarithm of the median of every process that is used; empty where the case cannot be judged."""
        return {} if self.pooled is None or not self.pooled.is_judgeable else self.pooled.logs

    @property
    def process_count(self) -> int:
        """Processes that measured it, used or not."""
        return 0 if self.pooled is None else self.pooled.process_count

    @property
    def set_aside(self) -> tuple[tuple[str, int], ...]:
        """Flag → processes that are not used for it, the gravest first."""
        return () if self.pooled is None else self.pooled.excluded

    @property
    def was_measured(self) -> bool:
        """Whether any process measured it."""
        return self.pooled is not None

    @property
    def is_judgeable(self) -> bool:
        """Whether enough processes are left to be judged by."""
        return self.pooled is not None and self.pooled.is_judgeable

    @property
    def mean_log(self) -> float:
        """Mean of the logarithms over the processes used."""
        return fmean(self.logs.values())

    @property
    def estimate_s(self) -> float | None:
        """Pooled time; None where it was not measured."""
        return None if self.pooled is None else self.pooled.value

    @property
    def squares(self) -> float:
        """Sum of the squared deviations of the logarithms from their mean."""
        return 0.0 if self.pooled is None else self.pooled.squares

    @property
    def run_count(self) -> int:
        """Runs that the processes used belong to."""
        return 0 if self.pooled is None else self.pooled.run_count

    @property
    def sampling_variance(self) -> float:
        """Variance of a process median's logarithm that its own samples explain; 0 where no interval is known."""
        return 0.0 if self.pooled is None else self.pooled.sampling_variance

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
        """Flags of the processes used, and what makes it not judgeable, sorted."""
        return () if self.pooled is None else tuple(sorted({*self.pooled.flags, *self.pooled.disturbed_by}))

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

    def _measurements(self, *, timer: str | None = None) -> list[Measurement]:
        return [
            record.measurement
            for record in self.records
            if record.measurement is not None
            and record.status == "measured"
            and (record.run_id, record.process.ordinal) in self.logs
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
    return CaseSide(
        case=sides[0].case,
        records=tuple(record for side in sides for record in side.records),
        pooled=pooling.joined([side.pooled for side in sides if side.pooled is not None]),
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


def _side(records: Sequence[Record], hashes: dict[int, str]) -> CaseSide:
    methods = set()
    for record in records:
        if is_timed(record) and record.method is not None:
            identity = id(record.method)  # the records, which live as long as this, share few methods
            if identity not in hashes:
                hashes[identity] = record.method.method_hash
            methods.add(hashes[identity])
    return CaseSide(records[0].case, tuple(records), pooling.pool(pooling.sightings(records)), frozenset(methods))


def _clock(measured: Measurement, name: str) -> float | None:
    if name == "sm_clock_hz":
        return measured.sm_clock_hz
    return None if measured.state is None else measured.state.cpu_clock_hz


def _ratio(value: Any) -> float | None:
    """Return a stored threshold, or None for what is none: `extra` may hold anything."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 < value < 1 else None
