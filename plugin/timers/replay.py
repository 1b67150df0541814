"""Replay of an exported run: its samples and clocks in place of a clock, so that the whole pipeline is
deterministic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from plugin.timers.timers import Kernel, Schedule
from results.records.records import Measurement, Record
from roofline_model.core.errors import InvalidValueError, StoreError, UnsupportedError


@dataclass(slots=True)
class ReplayTimer:
    """Plays back recorded samples, case by case; after the last it raises `StopIteration`, which ends the series."""

    measurements: Mapping[str, Measurement]
    """Of each case, by its key."""
    source: str = ""
    name: str = "replay"
    min_sample_s: float = 0.0
    runs_kernel: bool = False
    last_clock_hz: float | None = None
    _measurement: Measurement | None = None
    _next: int = 0
    _clock_s: float = 0.0

    @classmethod
    def from_file(cls, path: Path) -> ReplayTimer:
        """Read a file written by `roofline export --format json` or `--roofline-json`; raises `InvalidValueError` for
        another.

        Of a case that several processes measured, the first one's samples are played; of two in one process, the later.
        """
        from results.exchange.exported.load import read_export

        try:
            records = read_export(path).records
        except StoreError as error:
            raise InvalidValueError(f"--roofline-timer replay: {error}") from None
        return cls(first_measurements(records), str(path))

    def begin_case(self, case_key: str, ideal_s: float | None) -> None:
        """Find the recorded samples of the case; raises `UnsupportedError` when there are none."""
        self._measurement = self.measurements.get(case_key)
        if self._measurement is None:
            raise UnsupportedError(f"{self.source} holds no samples of this case; measure it, or replay another run")
        self._next = 0
        self.last_clock_hz = None

    def sample(self, kernel: Kernel, schedule: Schedule, prepare: Callable[[], None] | None = None) -> float:
        """Return the next recorded sample; raises `StopIteration` after the last.

        Neither kernel nor `prepare` is run.
        """
        assert self._measurement is not None
        samples_s, clocks_hz = self._measurement.samples_s, self._measurement.clocks_hz
        if self._next >= len(samples_s):
            raise StopIteration
        value = float(samples_s[self._next])
        self.last_clock_hz = clocks_hz[self._next] if self._next < len(clocks_hz) else None
        self._next += 1
        self._clock_s += value * len(schedule)
        return value

    def capture(self, kernel: Kernel, schedule: Schedule) -> list[object]:
        """Run each call once and return the outputs, as a captured graph would hold them for the check."""
        return [kernel(*args) for args in schedule]

    def synchronize(self) -> None:
        """Nothing runs."""

    def now(self) -> float:
        """Return the replayed clock."""
        return self._clock_s

    def idle(self, seconds: float) -> None:
        """Let the replayed clock pass."""
        self._clock_s += max(0.0, seconds)


def first_measurements(records: Iterable[Record]) -> dict[str, Measurement]:
    """Return the measurement of each case by its first process; of two in one process, the later."""
    latest_process_first = sorted(records, key=lambda record: -record.process.ordinal)
    measured = [(record.case.case_key, record.measurement) for record in latest_process_first]
    return {key: measurement for key, measurement in measured if measurement is not None and measurement.samples_s}
