"""Replay of an exported run: its samples and clocks in place of a clock, so that the whole pipeline is
deterministic.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from plugin.timers.timers import Kernel, Schedule
from results.records.records import Record
from roofline_model.core.errors import InvalidValueError, StoreError, UnsupportedError


@dataclass(frozen=True, slots=True)
class RecordedSeries:
    """The samples of one case in one process, and the clock at each where it was known."""

    samples_s: tuple[float, ...]
    clocks_hz: tuple[float, ...] = ()
    process_ordinal: int = 0


@dataclass(slots=True)
class ReplayTimer:
    """Plays back recorded samples, case by case; after the last it raises `StopIteration`, which ends the series.

    A run measured in several processes holds several series per case: `process_ordinal` says whose is played. A case
    which that process did not measure is played from the first process that did, unless `is_strict`.
    """

    series_by_case: Mapping[str, tuple[RecordedSeries, ...]]
    """Case key → one series per process, by process ordinal."""
    source: str = ""
    process_ordinal: int = 0
    is_strict: bool = False
    name: str = "replay"
    min_sample_s: float = 0.0
    runs_kernel: bool = False
    last_clock_hz: float | None = None
    _series: RecordedSeries = field(default_factory=lambda: RecordedSeries(()))
    _next: int = 0
    _clock_s: float = 0.0

    @classmethod
    def from_file(cls, path: Path, process_ordinal: int | None = None) -> ReplayTimer:
        """Read a file written by `roofline export --format json` or `--roofline-json`; raises `InvalidValueError` for
        another.

        Without `process_ordinal` the first process that measured a case is replayed.
        """
        from results.exchange.exported.load import read_export

        try:
            records = read_export(path).records
        except StoreError as error:
            raise InvalidValueError(f"--roofline-timer replay: {error}") from None
        series_by_case = _by_case(records)
        ordinals = sorted({recorded.process_ordinal for series in series_by_case.values() for recorded in series})
        if process_ordinal is not None and process_ordinal not in ordinals:
            listed = ", ".join(map(str, ordinals)) or "none"
            raise InvalidValueError(
                f"--roofline-timer replay: {path} holds no samples of process {process_ordinal}; it has those of "
                f"{listed}"
            )
        return cls(series_by_case, str(path), process_ordinal or 0, process_ordinal is not None)

    def again(self, process_ordinal: int | None = None) -> ReplayTimer:
        """Return a fresh timer over the same recording, for one process of it when that is named."""
        if process_ordinal is None:
            return ReplayTimer(self.series_by_case, self.source, self.process_ordinal, self.is_strict)
        return ReplayTimer(self.series_by_case, self.source, process_ordinal, True)

    def begin_case(self, case_key: str, ideal_s: float | None) -> None:
        """Find the recorded samples of the case; raises `UnsupportedError` when there are none."""
        every = self.series_by_case.get(case_key, ())
        own_samples = [recorded for recorded in every if recorded.process_ordinal == self.process_ordinal]
        if not every:
            raise UnsupportedError(f"{self.source} holds no samples of this case; measure it, or replay another run")
        if self.is_strict and not own_samples:
            raise UnsupportedError(
                f"{self.source} holds no samples of this case from process {self.process_ordinal}; "
                f"processes {', '.join(str(recorded.process_ordinal) for recorded in every)} measured it"
            )
        self._series = own_samples[0] if own_samples else every[0]
        self._next = 0
        self.last_clock_hz = None

    def sample(self, kernel: Kernel, schedule: Schedule, prepare: Callable[[], None] | None = None) -> float:
        """Return the next recorded sample; raises `StopIteration` after the last.

        Neither kernel nor `prepare` is run.
        """
        if self._next >= len(self._series.samples_s):
            raise StopIteration
        value = float(self._series.samples_s[self._next])
        clocks = self._series.clocks_hz
        self.last_clock_hz = clocks[self._next] if self._next < len(clocks) else None
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


def _by_case(records: tuple[Record, ...]) -> dict[str, tuple[RecordedSeries, ...]]:
    """Return the series of each case by process; of a case measured twice in one process, the later."""
    series_by_process: dict[str, dict[int, RecordedSeries]] = {}
    for record in records:
        measurement = record.measurement
        if measurement is None or not measurement.samples_s:
            continue
        ordinal = record.process.ordinal
        series = RecordedSeries(measurement.samples_s, measurement.clocks_hz, ordinal)
        series_by_process.setdefault(record.case.case_key, {})[ordinal] = series
    return {
        key: tuple(by_process[ordinal] for ordinal in sorted(by_process))
        for key, by_process in series_by_process.items()
    }
