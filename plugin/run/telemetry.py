"""The sensors while a case runs: a background thread reads them as often as they change, and never holds the case up.

Reading more often than a sensor updates costs the host and tells nothing: the thread begins at 10 ms and slows to the
period it finds (`energy_math.infer_period_s`), never slower than 0.1 s, and starts there the next time. Sensors may name
their period themselves (`reading_period_s`, a CPU's do); sensors that tell nothing at all are not read on. A sensor that
freezes is left behind: the end of a case waits 0.2 s at most, and no second thread is started while one is stuck.
"""

from __future__ import annotations

import threading
import time
from dataclasses import fields
from typing import Any
from weakref import WeakKeyDictionary

from plugin.samples.stats import quantile
from plugin.sensors.bounded_sensors import bounded, unbounded
from plugin.sensors.energy_math import infer_period_s
from plugin.sensors.protocol import Sensors
from results.records.records import TelemetrySample

PERIOD_S = 0.010
MAX_PERIOD_S = 0.1
JOIN_S = 0.2
LEARNING_READINGS = 100
"""After this many readings the sensor's period is looked for."""
SILENT_READINGS = 3
"""Sensors that have told nothing in this many readings have nothing to tell."""

_LEARNT_S: WeakKeyDictionary[Any, float] = WeakKeyDictionary()
"""Period found for each device in this process."""


class Telemetry:
    """Samples the sensors of one device between `with` and its end; sensors of None give empty results."""

    def __init__(self, sensors: Sensors | None, period_s: float | None = None) -> None:
        self._sensors = None if sensors is None else unbounded(sensors)
        self._guard = None if sensors is None else bounded(sensors)
        self._given_s = period_s if period_s is not None else getattr(self._sensors, "reading_period_s", None)
        self.period_s = self._given_s if self._given_s is not None else _learnt_s(self._sensors)
        """Time between two readings."""
        self._stop = threading.Event()
        self._samples: list[TelemetrySample] = []

    def __enter__(self) -> Telemetry:
        # The thread holds what it works on: one that was left behind frozen cannot write into the next window.
        self._samples, self._stop, self._thread = [], threading.Event(), None
        if self._sensors is not None and self._guard is not None and not self._guard.is_frozen:
            self._thread = threading.Thread(
                target=self._loop,
                args=(self._sensors, self._samples, self._stop, time.perf_counter()),
                name="roofline-telemetry",
                daemon=True,
            )
            self._thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._stop.set()
        if self._thread is not None and self._guard is not None:
            self._guard.wait_for(self._thread, JOIN_S)
            self._thread = None

    def _loop(self, sensors: Sensors, samples: list[TelemetrySample], stop: threading.Event, began_s: float) -> None:
        while not stop.wait(self.period_s):
            sample = _read(sensors, began_s)
            if sample is None:
                return  # sensors never raise; these do, and would go on doing so
            if stop.is_set():
                return
            samples.append(sample)
            if len(samples) == SILENT_READINGS and not any(map(_tells, samples)):
                samples.clear()
                return
            if len(samples) == LEARNING_READINGS and self._given_s is None:
                self._learn(sensors, samples)

    def _learn(self, sensors: Sensors, samples: list[TelemetrySample]) -> None:
        found_s = infer_period_s([sample.time_s for sample in samples], [sample.power_w for sample in samples])
        self.period_s = min(MAX_PERIOD_S, max(PERIOD_S, found_s or PERIOD_S))
        if found_s is not None:
            try:
                _LEARNT_S[sensors] = self.period_s
            except TypeError:  # not weakly referable: learnt anew each time
                return

    @property
    def samples(self) -> tuple[TelemetrySample, ...]:
        """The readings of the last window, in order."""
        return tuple(self._samples)


def median_of(samples: tuple[TelemetrySample, ...], name: str) -> float | None:
    """Return the median of one sensor over a window, or None when it was never readable."""
    values = sorted(value for value in (getattr(sample, name) for sample in samples) if value is not None)
    return quantile(values, 0.5) if values else None


_READINGS = tuple(field.name for field in fields(TelemetrySample) if field.name != "time_s")


def _read(sensors: Sensors, began_s: float) -> TelemetrySample | None:
    try:
        values = {name: getattr(sensors, name)() for name in _READINGS}
    except Exception:
        return None
    return TelemetrySample(time_s=time.perf_counter() - began_s, **values)


def _tells(sample: TelemetrySample) -> bool:
    return any(getattr(sample, name) is not None for name in _READINGS)


def _learnt_s(sensors: Sensors | None) -> float:
    try:
        return _LEARNT_S.get(sensors, PERIOD_S)
    except TypeError:
        return PERIOD_S
