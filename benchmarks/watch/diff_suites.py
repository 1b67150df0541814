"""Simulated suites for `diff_power`: what fresh processes of unchanged code find, with two states and drift among the
cases.
"""

from __future__ import annotations

import math

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
