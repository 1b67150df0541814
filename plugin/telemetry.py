"""The sensors while a case runs: a background thread reads NVML every 10 ms; energy comes from the driver's counter.

Power is reported only for windows long enough to mean something: the counter advances in steps of about 100 ms
(zeus, ml-energy project), so a window below 2 s is worse than 5 % uncertain and gives None.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import Any

from plugin.nvml import NvmlDevice
from plugin.stats import quantile
from results.records import TelemetrySample

PERIOD_S = 0.010
MIN_POWER_WINDOW_S = 2.0


@dataclass(frozen=True, slots=True)
class PowerReading:
    """Mean power over one window, and where it came from."""

    power_w: float
    window_s: float
    source: str
    call_count: int
    """Kernel calls in the window."""

    @property
    def energy_per_call_j(self) -> float:
        """Energy of one call, gaps between launches included: what the window used over the calls it held."""
        return self.power_w * self.window_s / self.call_count


class Telemetry:
    """Samples the sensors of one device between `start` and `stop`; a device of None gives empty results."""

    def __init__(self, device: NvmlDevice | None, period_s: float = PERIOD_S) -> None:
        self._device = device
        self._period_s = period_s
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()
        self._samples: list[TelemetrySample] = []
        self._began_s = 0.0
        self._energy_j: float | None = None
        self._window_s = 0.0
        self._window_energy_j: float | None = None

    def __enter__(self) -> Telemetry:
        self._samples, self._window_s, self._window_energy_j = [], 0.0, None
        self._began_s = time.perf_counter()
        if self._device is not None:
            self._stop.clear()
            self._energy_j = self._device.total_energy_j()
            self._thread = threading.Thread(target=self._loop, name="roofline-telemetry", daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._window_s = time.perf_counter() - self._began_s
        if self._device is not None and self._energy_j is not None:
            now_j = self._device.total_energy_j()
            self._window_energy_j = None if now_j is None else now_j - self._energy_j
        if self._thread is not None:
            self._stop.set()
            self._thread.join(timeout=1.0)
            self._thread = None

    def _loop(self) -> None:
        assert self._device is not None
        while not self._stop.wait(self._period_s):
            device = self._device
            self._samples.append(
                TelemetrySample(
                    time_s=time.perf_counter() - self._began_s,
                    power_w=device.power_w(),
                    sm_clock_hz=device.sm_clock_hz(),
                    memory_clock_hz=device.memory_clock_hz(),
                    temperature_c=device.temperature_c(),
                    utilization_ratio=device.utilization_ratio(),
                    memory_used_bytes=device.memory_used_bytes(),
                )
            )

    @property
    def samples(self) -> tuple[TelemetrySample, ...]:
        """The readings of the last window, in order."""
        return tuple(self._samples)

    def power(self, call_count: int) -> PowerReading | None:
        """Return the mean power of the last window, in which `call_count` calls ran, or None when the window was too short or the chip refused."""
        if self._window_s < MIN_POWER_WINDOW_S:
            return None
        if self._window_energy_j:
            return PowerReading(
                self._window_energy_j / self._window_s, self._window_s, "nvml-energy-counter", call_count
            )
        readings = [sample.power_w for sample in self._samples if sample.power_w is not None]
        if len(readings) < 20:
            return None
        return PowerReading(sum(readings) / len(readings), self._window_s, "nvml-power-samples", call_count)


def median_of(samples: tuple[TelemetrySample, ...], name: str) -> float | None:
    """Return the median of one sensor over a window, or None when it was never readable."""
    values = sorted(value for value in (getattr(sample, name) for sample in samples) if value is not None)
    return quantile(values, 0.5) if values else None
