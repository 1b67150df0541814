"""The machine's own A/A floor: how far medians of fresh processes differ when nothing changed. Pure; scipy lazily."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median, stdev

from results.records.records import Record
from results.records.state_records import NoiseFloor
from results.statistics.replication import CONFIDENCE, LATER, OTHER_RUN
from results.statistics.shrinkage import Variance, fit_prior, t_quantile
from roofline_model.core.grouping import grouped

POWER = 0.8
"""How often a step of the stated size is seen."""

Key = tuple[str, str]


def noise_floors(records: Iterable[Record], class_hash: str, created_at: str) -> list[NoiseFloor]:
    """Return a floor for every case measured in at least two processes, in order of first appearance.

    `records`: runs of unchanged code on one machine, whose `EnvironmentInfo.class_hash` is given. `created_at`: UTC,
    ISO 8601.
    """
    timed = (record for record in records if record.timing is not None and record.method is not None)
    records_by_key = grouped(timed, lambda record: (record.case.case_key, record.method.method_hash))  # type: ignore[union-attr]
    floors = (_floor(key, members, class_hash, created_at) for key, members in records_by_key.items())
    return [floor for floor in floors if floor is not None]


def _floor(key: Key, records: Sequence[Record], class_hash: str, created_at: str) -> NoiseFloor | None:
    medians_s: dict[tuple[str, int], list[float]] = {}
    within = []
    for record in records:
        measured = record.measurement
        if measured is not None:
            medians_s.setdefault((record.run_id, record.process.ordinal), []).append(measured.median_s)
            if measured.std_s is not None:
                within.append(measured.std_s / measured.median_s)
    logs = [math.log(median(times_s)) for times_s in medians_s.values()]
    if len(logs) < 2:
        return None
    return NoiseFloor(
        class_hash=class_hash,
        case_key=key[0],
        method_hash=key[1],
        between_sd_ratio=stdev(logs),
        within_sd_ratio=median(within) if within else None,
        process_count=len(logs),
        created_at=created_at,
        run_ids=tuple(dict.fromkeys(record.run_id for record in records)),
    )


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """Sensitivity of later comparisons on this machine."""

    floor: NoiseFloor
    between_sd_ratio: float
    """The floor's, drawn towards the machine's other cases: a few processes alone say little about a spread."""
    df: float

    def smallest_step_ratio(self, process_count: int) -> float:
        """Return the smallest slow-down that a comparison of `process_count` processes a side sees 80 % of the time.

        (`LATER` · t(97.5 %) + z(80 %)) · s · √(2/n): the two-sided test at 5 % with that power.
        """
        df = self.df + (1 + OTHER_RUN) * (process_count - 1)
        quantiles = LATER * t_quantile((1 + CONFIDENCE) / 2, df) + t_quantile(POWER, math.inf)
        return math.expm1(min(quantiles * self.between_sd_ratio * math.sqrt(2 / process_count), 300.0))


def sensitivities(floors: Sequence[NoiseFloor]) -> list[Sensitivity]:
    """Return the sensitivity for each floor, in order."""
    variances = [Variance(floor.between_sd_ratio**2, floor.process_count - 1) for floor in floors]
    prior = fit_prior(variances)
    pooled = []
    for floor, own_variance in zip(floors, variances, strict=True):
        other_df = math.fsum(variance.df for variance in variances) - own_variance.df
        drawn = own_variance.drawn_to(prior.capped(other_df) if prior is not None else None)
        pooled.append(Sensitivity(floor, math.sqrt(drawn.value), drawn.df))
    return pooled
