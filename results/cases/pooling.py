"""The one number of a case: its processes pooled by one estimator, which every surface reads.

1. The value of a process is the median of its records' values.
2. A process is invalid if one of its records carries a flag of `INVALIDATING_FLAGS`. The clean ones are used; all, if
   none is clean. The case is judgeable if at least half of its processes are clean.
3. Of five or more used processes of a judgeable case those beyond ×2 of the median are left out, if they are at most
   one in five (`WILD`): one such process hides a real +20 % of all others, for the mean and the spread both follow it.
4. The value is the mean of the used processes on the metric's scale, of times their geometric mean.

`results.statistics.replication` gives the interval around it, and says why it is this mean and no median.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import NamedTuple

from results.records.flags import INVALIDATING_FLAGS
from results.records.metrics import METRICS, Metric
from results.records.records import Record

ProcessKey = tuple[str, int]
"""(run_id, ordinal)"""

WILD = "wild"
"""Left out as: a process whose median is more than twice or less than half the others'."""
WILD_RATIO = 2.0
MIN_FOR_WILD = 5
"""Processes from which one may be called wild; one in five at most, so that two states are never cut down to one."""
TIME = METRICS["time"]
_NORMAL_QUANTILE = 1.959964
_ORDER = {flag: number for number, flag in enumerate((*INVALIDATING_FLAGS, WILD))}
_INVALIDATING = frozenset(INVALIDATING_FLAGS)


class Sighting(NamedTuple):
    """The number of one record."""

    process: ProcessKey
    value: float
    flags: tuple[str, ...] = ()
    sampling_sd_ratio: float | None = None
    """Standard error of the value's logarithm by the record's own samples; None where they are too few."""


@dataclass(frozen=True, slots=True)
class Pooled:
    """The value of a case over its processes."""

    value: float
    """In the unit of what was pooled."""
    logs: Mapping[ProcessKey, float]
    """Value of every process used, on the metric's scale: of a time its natural logarithm."""
    process_count: int
    """Processes, used or not."""
    excluded: tuple[tuple[str, int], ...]
    """Flag, or `WILD` → processes that it disqualifies, the gravest first; they are used only if no other is there."""
    is_judgeable: bool
    """Whether at least half of the processes were clean."""
    flags: tuple[str, ...]
    """Of the processes used, sorted."""
    sampling_sd_ratio: float
    """Standard deviation of a process's logarithm that its own samples explain; 0 where no interval is known."""

    @property
    def mean_log(self) -> float:
        """Mean over the processes used, on the metric's scale."""
        return fmean(self.logs.values())

    @property
    def squares(self) -> float:
        """Sum of the squared deviations from `mean_log`."""
        middle = self.mean_log
        return math.fsum((log - middle) ** 2 for log in self.logs.values())

    @property
    def sampling_variance(self) -> float:
        """The square of `sampling_sd_ratio`."""
        return self.sampling_sd_ratio**2

    @property
    def run_count(self) -> int:
        """Runs that the processes used belong to."""
        return len({run_id for run_id, _ in self.logs})

    @property
    def disturbed_by(self) -> tuple[str, ...]:
        """Flags that make it not judgeable, the gravest first; empty where it is."""
        return () if self.is_judgeable else tuple(flag for flag, _ in self.excluded)


def sightings(records: Iterable[Record]) -> list[Sighting]:
    """Return the times of the measured records, s."""
    return [
        Sighting(
            (record.run_id, record.process.ordinal),
            record.measurement.median_s,
            record.measurement.flags,
            _sampling_sd_ratio(record.measurement.ci_low_s, record.measurement.ci_high_s),
        )
        for record in records
        if record.status == "measured" and record.measurement is not None
    ]


def pool(seen: Iterable[Sighting], metric: Metric = TIME) -> Pooled | None:
    """Return the pooled value; None where no number is on the metric's scale (0 s, NaN)."""
    seen = tuple(seen)
    if len(seen) == 1 and not seen[0].flags:  # as most points of a long history, which wait for nothing
        process, value, _, sd_ratio = seen[0]
        scaled = metric.scaled(value)
        return None if scaled is None else Pooled(value, {process: scaled}, 1, (), True, (), sd_ratio or 0.0)
    members: dict[ProcessKey, list[Sighting]] = {}
    is_flagged = False
    for sighting in seen:
        if metric.scaled(sighting.value) is not None:
            members.setdefault(sighting.process, []).append(sighting)
            is_flagged = is_flagged or bool(sighting.flags)
    if not members:
        return None
    gravest = _gravest(members) if is_flagged else {}
    is_judgeable = 2 * (len(members) - len(gravest)) >= len(members)
    values = {key: _median(here) for key, here in members.items() if key not in gravest}
    values = values or {key: _median(here) for key, here in members.items()}
    if is_judgeable and len(values) >= MIN_FOR_WILD and metric.scale != "plain":
        wild = _wild(values, metric)
        values = {key: value for key, value in values.items() if key not in wild}
        gravest |= dict.fromkeys(wild, WILD)
    logs = {key: scaled for key, value in values.items() if (scaled := metric.scaled(value)) is not None}
    used = [sighting for key in logs for sighting in members[key]]
    variances = [sighting.sampling_sd_ratio**2 for sighting in used if sighting.sampling_sd_ratio is not None]
    distinct = set(values.values())
    return Pooled(
        # One value itself, not rounded by logarithms.
        value=metric.unscaled(fmean(logs.values())) if len(distinct) > 1 else distinct.pop(),
        logs=logs,
        process_count=len(members),
        excluded=_ordered(Counter(gravest.values())) if gravest else (),
        is_judgeable=is_judgeable,
        flags=tuple(sorted({flag for sighting in used for flag in sighting.flags})) if is_flagged else (),
        sampling_sd_ratio=math.sqrt(fmean(variances)) if variances else 0.0,
    )


def joined(pools: Sequence[Pooled]) -> Pooled:
    """Return the times of one case over several runs of which each is judgeable: all their used processes."""
    logs = {key: log for pooled in pools for key, log in pooled.logs.items()}
    excluded: Counter[str] = Counter()
    for pooled in pools:
        excluded.update(dict(pooled.excluded))
    return Pooled(
        value=math.exp(fmean(logs.values())),
        logs=logs,
        process_count=sum(pooled.process_count for pooled in pools),
        excluded=_ordered(excluded),
        is_judgeable=True,
        flags=tuple(sorted({flag for pooled in pools for flag in pooled.flags})),
        sampling_sd_ratio=math.sqrt(
            fmean((pooled.sampling_variance for pooled in pools), weights=[len(pooled.logs) for pooled in pools])
        ),
    )


def _gravest(members: Mapping[ProcessKey, Sequence[Sighting]]) -> dict[ProcessKey, str]:
    """Return the gravest invalidating flag of every process that has one."""
    gravest = {}
    for key, seen in members.items():
        flags = {flag for sighting in seen for flag in sighting.flags if flag in _INVALIDATING}
        if flags:
            gravest[key] = min(flags, key=_ORDER.__getitem__)
    return gravest


def _median(seen: Sequence[Sighting]) -> float:
    return seen[0].value if len(seen) == 1 else median(sighting.value for sighting in seen)


def _wild(values: Mapping[ProcessKey, float], metric: Metric) -> Collection[ProcessKey]:
    logs = {key: scaled for key, value in values.items() if (scaled := metric.scaled(value)) is not None}
    middle = median(logs.values())
    keys = {key for key, log in logs.items() if abs(log - middle) > math.log(WILD_RATIO)}
    return keys if len(keys) <= len(logs) // MIN_FOR_WILD else ()


def _ordered(excluded: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(excluded.items(), key=lambda item: _ORDER[item[0]]))


def _sampling_sd_ratio(low_s: float | None, high_s: float | None) -> float | None:
    """Return the standard error of a median's logarithm from its 95 % interval."""
    if low_s is None or high_s is None or not 0 < low_s <= high_s:
        return None
    return math.log(high_s / low_s) / 2 / _NORMAL_QUANTILE
