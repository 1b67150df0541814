"""Simulated nights of a quiet and a busy machine: what fresh processes of unchanged code find, with two states, drift
and stolen time among the cases; and the same as sides of a diff.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from results.diff.suites import SuiteSide
from results.records.records import EnvironmentInfo, Measurement, Method, ProcessInfo, Record, RunInfo
from roofline_model.operators.case import Case

Floats = npt.NDArray[np.float64]

WITHIN_SD = 0.005
"""Of the logarithm of the samples inside a process."""
SAMPLE_COUNT = 100
STATE_SHARE = 0.3
_MEDIAN_ERROR = math.sqrt(math.pi / 2) / math.sqrt(SAMPLE_COUNT)
"""Standard error of the median over that of one sample; normal samples, many of them."""
METHOD = Method("monotonic", "2", {})
ENVIRONMENT = EnvironmentInfo({}, {})


@dataclass(frozen=True, slots=True)
class Machine:
    """A simulated machine: what disturbs unchanged code on it. Ratios of the time."""

    name: str
    between_sd: float
    """Standard deviation between processes of the typical case; of a case it is e^(0.3 z) times that."""
    tail_df: float
    """Degrees of freedom of Student's t that the processes follow; infinite: normal."""
    night_sd: float
    """Of what all cases of a night have in common."""
    two_state_ratio: float
    """Share of the cases that have a second state, which a process finds three times in ten."""
    state_step: float
    drifting_ratio: float
    """Share of the cases that rise while a run goes on."""
    drift_high: float
    """From a third of this to this, from the first process to the last."""
    wander: float
    """Amplitude of a slow wave over the nights, of each case its own."""
    stolen_ratio: float
    """Share of the processes that are slowed for a stretch of cases by 5 to 30 %; four of five are noticed (flag)."""


QUIET = Machine("quiet", 0.006, math.inf, 0.0015, 0.05, 0.03, 0.1, 0.015, 0.003, 0.0)
BUSY = Machine("busy", 0.025, 4.0, 0.006, 0.2, 0.08, 0.2, 0.04, 0.01, 0.1)
WAVE_NIGHTS = 40
NOTICED_RATIO = 0.8


@dataclass(frozen=True, slots=True)
class Nights:
    """A history of one machine: logarithms of the process medians, and which of them carry the flag `stolen`."""

    logs: Floats
    """(nights, cases, processes)"""
    is_flagged: npt.NDArray[np.bool_]

    def with_step(self, run_index: int, cases: npt.NDArray[np.intp], ratio: float) -> Nights:
        """Return the same history in which some cases are slower from a night on."""
        logs = self.logs.copy()
        logs[run_index:, cases] += math.log1p(ratio)
        return Nights(logs, self.is_flagged)


def machine_nights(
    rng: np.random.Generator, machine: Machine, night_count: int, case_count: int, process_count: int
) -> Nights:
    """Return nights of unchanged code on a machine."""
    shape = (night_count, case_count, process_count)
    noise = rng.standard_normal(shape)
    if math.isfinite(machine.tail_df):
        noise = rng.standard_t(machine.tail_df, shape) / math.sqrt(machine.tail_df / (machine.tail_df - 2))
    logs = machine.between_sd * np.exp(0.3 * rng.standard_normal((case_count, 1))) * noise
    logs += machine.night_sd * rng.standard_normal((night_count, 1, 1))
    two_state = rng.random((case_count, 1)) < machine.two_state_ratio
    logs += math.log1p(machine.state_step) * (two_state & (rng.random(shape) < STATE_SHARE))
    is_drifting = rng.random((case_count, 1)) < machine.drifting_ratio
    rise = rng.uniform(machine.drift_high / 3, machine.drift_high, (night_count, case_count, 1))
    logs += is_drifting * rise * np.linspace(0, 1, process_count)
    phase = rng.random((case_count, 1))
    wave = np.sin(2 * np.pi * (np.arange(night_count)[:, None, None] / WAVE_NIGHTS + phase))
    logs += machine.wander * wave
    is_flagged = np.zeros(shape, dtype=bool)
    for run_index, process in np.argwhere(rng.random((night_count, process_count)) < machine.stolen_ratio):
        length = rng.integers(case_count // 10, max(2, case_count // 3))
        start = rng.integers(0, case_count - length + 1)
        logs[run_index, start : start + length, process] += math.log1p(rng.uniform(0.05, 0.3))
        is_flagged[run_index, start : start + length, process] = rng.random() < NOTICED_RATIO
    return Nights(logs + WITHIN_SD * _MEDIAN_ERROR * rng.standard_normal(shape), is_flagged)


def sides_of(history: Nights, nights: Sequence[int] | range) -> list[SuiteSide]:
    """Return nights as sides of a diff, in their order."""
    cases = [Case("gemv", (("M", 1), ("N", 64), ("K", 64 + i)), (), "matmul") for i in range(history.logs.shape[1])]
    sides = []
    for ordinal, index in enumerate(nights, 1):
        run = RunInfo(
            run_id=f"{ordinal:032x}",
            started_at=f"{np.datetime64('2026-01-01') + ordinal}T01:00:00.000000+00:00",
            status="complete",
            environment=ENVIRONMENT,
        )
        sides.append(SuiteSide((run,), tuple(_records(run, cases, history.logs[index], history.is_flagged[index]))))
    return sides


def _records(run: RunInfo, cases: Sequence[Case], logs: Floats, is_flagged: npt.NDArray[np.bool_]) -> Iterator[Record]:
    """Yield the records of one run: logarithms of ms, (cases, processes)."""
    for (case, process), log in np.ndenumerate(logs):
        median_s = 1e-3 * math.exp(float(log))
        measured = Measurement(
            samples_s=(),
            calls_per_sample=1,
            median_s=median_s,
            min_s=median_s,
            max_s=median_s,
            mean_s=median_s,
            std_s=0.0,
            q1_s=median_s,
            q3_s=median_s,
            sample_count=100,
            ci_low_s=median_s * 0.999,
            ci_high_s=median_s * 1.001,
            stop_reason="converged",
            flags=("stolen",) if is_flagged[case, process] else (),
        )
        yield Record(
            record_id=f"{run.run_id}-{case}-{process}",
            run_id=run.run_id,
            case=cases[case],
            status="measured",
            process=ProcessInfo(process, 1, "here", run.started_at),
            method=METHOD,
            measurement=measured,
        )


def pool(sides: list[SuiteSide]) -> SuiteSide:
    """Return several nights as one side."""
    return SuiteSide(
        tuple(run for side in sides for run in side.runs), tuple(record for side in sides for record in side.records)
    )
