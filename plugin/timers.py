"""Timers: how one sample is taken. Real clocks, a simulated device and a replay behave alike to the runner.

A timer is handed the schedule of argument tuples of one sample and returns the seconds per call. The loop over the
schedule is the only Python inside the timed region.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from roofline_model.errors import InvalidValueError, StoreError, UnsupportedError

Kernel = Callable[..., Any]
Schedule = Sequence[tuple[Any, ...]]


class Timer(Protocol):
    """One way of timing. `name` is stored with every result; results of different timers are never compared."""

    name: str
    min_sample_s: float
    """A sample shorter than this is dominated by the timer itself: the runner puts more calls into it."""
    runs_kernel: bool
    """False where samples are invented or replayed and the kernel is only run for its correctness check."""

    def begin_case(self, case_key: str, ideal_s: float | None) -> None:
        """Prepare for the samples of one case."""
        ...

    def sample(self, kernel: Kernel, schedule: Schedule) -> float:
        """Run `kernel(*args)` for each entry of `schedule` and return seconds per call."""
        ...

    def synchronize(self) -> None:
        """Wait until all work issued so far is done."""
        ...

    def now(self) -> float:
        """Return the time, in seconds, on the clock that budgets are kept on."""
        ...


@dataclass(slots=True)
class MonotonicTimer:
    """The host's monotonic clock; right for work that is done when the call returns."""

    name: str = "monotonic"
    min_sample_s: float = 50e-6
    """The clock costs about 50 ns and steps in nanoseconds: below 0.2 % of this."""
    runs_kernel: bool = True

    def begin_case(self, case_key: str, ideal_s: float | None) -> None:
        """Nothing to prepare."""

    def sample(self, kernel: Kernel, schedule: Schedule) -> float:
        """Return the mean seconds per call over the schedule."""
        begin = time.perf_counter_ns()
        for args in schedule:
            kernel(*args)
        end = time.perf_counter_ns()
        return (end - begin) * 1e-9 / len(schedule)

    def synchronize(self) -> None:
        """The host's work is always done."""

    def now(self) -> float:
        """Return the monotonic clock."""
        return time.perf_counter()


_SIMULATION_RANGES = {
    "efficiency": (1e-6, 1e3), "noise": (0.0, 2.0), "drift": (-0.1, 1e3), "bimodal": (0.0, 1.0), "slow_factor": (1e-3, 1e3), "true_s": (1e-12, 1e4),
}  # fmt: skip


@dataclass(slots=True)
class SimulatedTimer:
    """An imaginary device with a known true time: every rule of the runner can be checked against the truth.

    Seconds per call = true time × (1 + drift·n/100) × log-normal noise, with an optional second mode. The true time is
    the ideal prediction over `efficiency`, or `true_s` when given. Its own clock advances by what it returns.
    """

    efficiency: float = 0.7
    noise: float = 0.01
    """Standard deviation of the logarithm of one sample."""
    drift: float = 0.0
    """Relative slow-down per 100 samples."""
    bimodal: float = 0.0
    """Share of samples that take `slow_factor` times as long."""
    slow_factor: float = 1.5
    true_s: float | None = None
    seed: int = 0
    name: str = "simulated"
    min_sample_s: float = 0.0
    runs_kernel: bool = False
    _random: random.Random = field(default_factory=random.Random)
    _base_s: float = 0.0
    _count: int = 0
    _clock_s: float = 0.0

    @classmethod
    def from_text(cls, text: str) -> SimulatedTimer:
        """Build one from `noise=0.02,drift=0.1,…`; raises `InvalidValueError` naming the known settings."""
        known = ("efficiency", "noise", "drift", "bimodal", "slow_factor", "true_s", "seed")
        settings: dict[str, float] = {}
        for part in filter(None, text.split(",")):
            name, separator, value = part.partition("=")
            try:
                if name not in known or not separator:
                    raise ValueError
                settings[name] = float(value)
                if not math.isfinite(settings[name]):
                    raise ValueError
            except ValueError:
                raise InvalidValueError(
                    f"--roofline-timer simulated: {part!r} is not a setting; write simulated:noise=0.02,seed=1 with {', '.join(known)}"
                ) from None
        for setting, number in settings.items():
            low, high = _SIMULATION_RANGES.get(setting, (0.0, 1e9))
            if not low <= number <= high:
                raise InvalidValueError(
                    f"--roofline-timer simulated: {setting} must be from {low:g} to {high:g}, got {number:g}"
                )
        seed = int(settings.pop("seed", 0))
        return replace(cls(seed=seed), **settings)  # type: ignore[arg-type]  # names were checked above

    def begin_case(self, case_key: str, ideal_s: float | None) -> None:
        """Seed the case so that its samples do not depend on the order of cases."""
        if self.true_s is None and ideal_s is None:
            raise InvalidValueError("the simulated timer needs a prediction or true_s to know the true time")
        self._base_s = self.true_s if self.true_s is not None else (ideal_s or 0.0) / self.efficiency
        self._random = random.Random(f"{self.seed}:{case_key}")
        self._count = 0

    def sample(self, kernel: Kernel, schedule: Schedule) -> float:
        """Return the next simulated seconds per call; the kernel is not run."""
        value = self._base_s * (1 + self.drift * self._count / 100) * math.exp(self._random.gauss(0, self.noise))
        if self.bimodal and self._random.random() < self.bimodal:
            value *= self.slow_factor
        self._count += 1
        self._clock_s += value * len(schedule)
        return value

    def synchronize(self) -> None:
        """Nothing runs."""

    def now(self) -> float:
        """Return the simulated clock."""
        return self._clock_s


@dataclass(slots=True)
class ReplayTimer:
    """Plays back the samples of an exported run, case by case: the whole pipeline without its clock."""

    samples_by_case: Mapping[str, Sequence[float]]
    source: str = ""
    name: str = "replay"
    min_sample_s: float = 0.0
    runs_kernel: bool = False
    _samples: Sequence[float] = ()
    _next: int = 0
    _clock_s: float = 0.0

    @classmethod
    def from_file(cls, path: Path) -> ReplayTimer:
        """Read a file written by `roofline export --format json` or `--roofline-json`; raises `InvalidValueError` for another."""
        from results.load import read_export

        try:
            records = read_export(path).records
        except StoreError as error:
            raise InvalidValueError(f"--roofline-timer replay: {error}") from None
        samples = {
            record.case.case_key: record.measurement.samples_s
            for record in records
            if record.measurement and record.measurement.samples_s
        }
        return cls(samples, str(path))

    def begin_case(self, case_key: str, ideal_s: float | None) -> None:
        """Find the recorded samples of the case; raises `UnsupportedError` when the file has none."""
        if case_key not in self.samples_by_case:
            raise UnsupportedError(f"{self.source} holds no samples of this case")
        self._samples = self.samples_by_case[case_key]
        self._next = 0

    def sample(self, kernel: Kernel, schedule: Schedule) -> float:
        """Return the next recorded sample; raises `StopIteration` after the last, which ends the series."""
        if self._next >= len(self._samples):
            raise StopIteration
        value = float(self._samples[self._next])
        self._next += 1
        self._clock_s += value
        return value

    def synchronize(self) -> None:
        """Nothing runs."""

    def now(self) -> float:
        """Return the replayed clock."""
        return self._clock_s
