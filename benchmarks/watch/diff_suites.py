"""Simulated suites for `diff_power`, and nights of a quiet and a busy machine for `labelled_truth`: what fresh
processes of unchanged code find, with two states, drift and stolen time among the cases.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

CASE_COUNT = 300
BETWEEN_SD = 0.01
"""Of the logarithm of a process's true time."""
WITHIN_SD = 0.005
"""Of the samples inside a process."""
SAMPLE_COUNT = 100
TWO_STATE_COUNT = 30
"""Cases that a process finds in a second state now and then."""
STATE_STEP = 0.04
STATE_SHARE = 0.3
DRIFTING_COUNT = 30
"""Cases that rise while a run goes on, each run anew by 1 to 3 % from its first to its last process."""
DRIFT_LOW, DRIFT_HIGH = 0.01, 0.03
STORED_RUNS = 5
STORED_PROCESSES = 4
"""Of each: 20 stored A/A processes."""
_MEDIAN_ERROR = math.sqrt(math.pi / 2) / math.sqrt(SAMPLE_COUNT)
"""Standard error of the median over that of one sample; normal samples, many of them."""


TWO_STATES = slice(0, TWO_STATE_COUNT)
DRIFTING = slice(TWO_STATE_COUNT, TWO_STATE_COUNT + DRIFTING_COUNT)
STEADY = slice(TWO_STATE_COUNT + DRIFTING_COUNT, CASE_COUNT)
"""Which cases are what, by index."""


def true_logs(rng: np.random.Generator, process_count: int) -> Floats:
    """Return the logarithm of the true time of every case in every process of one run: (cases, processes)."""
    logs = BETWEEN_SD * rng.standard_normal((CASE_COUNT, process_count))
    slow = rng.random((TWO_STATE_COUNT, process_count)) < STATE_SHARE
    logs[TWO_STATES] += math.log1p(STATE_STEP) * slow
    rise = rng.uniform(DRIFT_LOW, DRIFT_HIGH, (DRIFTING_COUNT, 1)) * np.linspace(0, 1, process_count)
    logs[DRIFTING] += rise
    return logs


def median_logs(rng: np.random.Generator, logs: Floats) -> Floats:
    """Return what the medians of the samples show of the true times, without drawing the samples."""
    return logs + WITHIN_SD * _MEDIAN_ERROR * rng.standard_normal(logs.shape)


def sample_logs(rng: np.random.Generator, logs: Floats) -> Floats:
    """Return the samples: (…, processes, samples)."""
    return logs[..., None] + WITHIN_SD * rng.standard_normal((*logs.shape, SAMPLE_COUNT))


def stored_logs(rng: np.random.Generator) -> Floats:
    """Return the medians of the stored A/A processes, several earlier runs beside each other: (cases, 20)."""
    runs = [median_logs(rng, true_logs(rng, STORED_PROCESSES)) for _ in range(STORED_RUNS)]
    return np.concatenate(runs, axis=1)


# Nights of a labelled machine ---------------------------------------------------------------------------------------


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
