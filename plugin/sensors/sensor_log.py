"""A log of power and energy readings while something runs, kept by a thread that can be left behind when it freezes.

With a simulated clock there is no thread: readings are then taken between stretches of work, when `tick` is called.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from plugin.sensors.bounded_sensors import bounded, unbounded
from plugin.sensors.energy_math import infer_period_s
from plugin.sensors.protocol import Sensors
from plugin.timers.clock import time

FAST_READINGS = 1000
FAST_INTERVAL_S = 0.0005
"""The first thousand readings come fast, to find the sensor's period."""
MAX_INTERVAL_S = 0.010
"""A counter's step is known to half the interval between readings: 10 ms in 2 s is half a percent."""
MIN_INTERVAL_S = 0.001
JOIN_S = 0.2
SAME_CLOCK_S = 0.05


class SensorLog:
    """Readings of power and the energy counter between `with` and its end, by the clock `now`."""

    def __init__(self, sensors: Sensors, now: Callable[[], float]) -> None:
        self._guard = bounded(sensors)
        self._sensors = unbounded(sensors)
        self._now = now
        self.is_real_time = abs(now() - time.perf_counter()) < SAME_CLOCK_S
        """Whether `now` shows the process's own clock; a simulated one starts at a number of its own."""
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._readings: list[tuple[float, float | None, float | None]] = []

    def __enter__(self) -> SensorLog:
        if self.is_real_time and not self._guard.is_frozen:
            self._thread = threading.Thread(target=self._loop, name="roofline-energy", daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._stop.set()
        if self._thread is not None:
            self._guard.wait_for(self._thread, JOIN_S)

    def can_tell(self) -> bool:
        """Return whether the sensors answer at all, and give power or energy."""
        return self._guard.power_w() is not None or self._guard.total_energy_j() is not None

    def tick(self) -> None:
        """Take one reading here and now, unless a thread does."""
        if self._thread is None and not self._guard.is_frozen:
            self._read()

    def _read(self) -> None:
        before_s = self._now()
        power_w = self._sensors.power_w()
        energy_j = self._sensors.total_energy_j()
        self._readings.append(((before_s + self._now()) / 2, power_w, energy_j))

    def _loop(self) -> None:
        interval_s = FAST_INTERVAL_S
        while not self._stop.wait(interval_s):
            self._read()
            if len(self._readings) == FAST_READINGS:
                interval_s = min(MAX_INTERVAL_S, max(MIN_INTERVAL_S, (self.period_s() or MAX_INTERVAL_S) / 2))

    def period_s(self) -> float | None:
        """Return how often the power reading changes, or None when it has not changed three times."""
        readings = list(self._readings)
        return infer_period_s([reading[0] for reading in readings], [reading[1] for reading in readings])

    def columns(self) -> tuple[list[float], list[float | None], list[float | None]]:
        """Return the times, powers and counters read so far."""
        readings = list(self._readings)
        return (
            [reading[0] for reading in readings],
            [reading[1] for reading in readings],
            [reading[2] for reading in readings],
        )
