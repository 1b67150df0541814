"""Sensors of the simulated device, with the habits of real ones: they step, lag, cover part of the time, refuse,
freeze.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from plugin.simulate.simulated_device import BUSY_POWER_W, SimulatedDevice

SENSOR_PERIOD_S = 0.1
THROTTLE_STEP_S = 0.1
THROTTLE_REASON = "software thermal"
_COLD_C, _HOT_C = 40.0, 90.0
_ENERGY_UNIT_J = 1e-3
"""NVML counts millijoules."""
_MEMORY_CLOCK_HZ = 1.6e9
_MEMORY_USED_BYTES = 2e9

Value = TypeVar("Value")


@dataclass(slots=True)
class SimulatedSensors:
    """Implements `plugin.sensors.protocol.Sensors`. A reading takes `read_cost` seconds of the device's own clock."""

    device: SimulatedDevice
    scope: str = "gpu"
    takes_time: bool = True
    """False: read as by a thread beside the work, which costs the device nothing."""
    _said: dict[str, object] = field(default_factory=dict)

    def beside_work(self) -> SimulatedSensors:
        """Return the same sensors, read by a thread beside the work."""
        return replace(self, takes_time=False)

    def power_w(self) -> float | None:
        """Return the mean power over the covered share at the end of the last whole sensor period."""
        return self._read("power", self._sensed_power_w)

    def total_energy_j(self) -> float | None:
        """Return the energy until the counter's last step, in whole millijoules."""
        step = self.device.settings.energy_step or SENSOR_PERIOD_S

        def counted() -> float:
            used = self.device.energy_until_j(_last_step(self.device.now_s, step))
            return math.floor(used / _ENERGY_UNIT_J) * _ENERGY_UNIT_J

        return self._read("energy", counted)

    def sm_clock_hz(self) -> float | None:
        """Return the present clock."""
        return self._read("clock", lambda: self.device.clock_ratio * self.device.rated_clock_hz)

    def memory_clock_hz(self) -> float | None:
        """Return the memory clock, which never changes."""
        return self._read("memory_clock", lambda: _MEMORY_CLOCK_HZ)

    def rated_clock_hz(self) -> float | None:
        """Return the clock of the cool chip."""
        return self._read("rated", lambda: self.device.rated_clock_hz)

    def temperature_c(self) -> float | None:
        """Return 40 °C for a cold chip, 90 °C for one that throttles."""
        return self._read("temperature", lambda: _COLD_C + (_HOT_C - _COLD_C) * self.device.heat)

    def utilization_ratio(self) -> float | None:
        """Return about what share of the last sensor period was work, as its power tells."""
        settings = self.device.settings
        span = (BUSY_POWER_W if settings.power is None else settings.power) - settings.idle_power

        def share() -> float:
            return min(1.0, max(0.0, (self._sensed_power_w() - settings.idle_power) / span)) if span > 0 else 0.0

        return self._read("utilization", share)

    def memory_used_bytes(self) -> float | None:
        """Return a constant."""
        return self._read("memory", lambda: _MEMORY_USED_BYTES)

    def throttle_s(self) -> Mapping[str, float] | None:
        """Return the seconds spent throttled, in whole steps of 0.1 s."""
        return self._read("throttle", lambda: {THROTTLE_REASON: _last_step(self.device.throttled_s, THROTTLE_STEP_S)})

    def throttle_reasons(self) -> tuple[str, ...] | None:
        """Return the reasons that hold the clock down now."""
        return self._read("throttle", lambda: (THROTTLE_REASON,) if self.device.is_throttled else (), "reasons")

    def other_process_count(self) -> int | None:
        """Return 0: nobody else is on an imaginary device."""
        return self._read("processes", lambda: 0)

    def _sensed_power_w(self) -> float:
        settings = self.device.settings
        period = settings.sensor_period or SENSOR_PERIOD_S
        end = _last_step(self.device.now_s, period)
        begin = max(0.0, end - period * settings.sensor_share)
        if end <= begin:  # no period has passed yet
            return settings.idle_power
        return (self.device.energy_until_j(end) - self.device.energy_until_j(begin)) / (end - begin)

    def _read(self, name: str, value: Callable[[], Value], kept_as: str = "") -> Value | None:
        """Return a reading, None where it is refused, and from `freeze_at` on what was said last."""
        settings = self.device.settings
        if name in settings.refuse:
            return None
        if self.takes_time:
            self.device.rest(settings.read_cost)
        key = kept_as or name
        is_frozen = settings.freeze_at is not None and self.device.now_s >= settings.freeze_at
        if not is_frozen or key not in self._said:
            self._said[key] = value()
        return self._said[key]  # type: ignore[return-value]  # kept under the reading's own name


def _last_step(value: float, step: float) -> float:
    """Return the last whole multiple of a step; a multiple itself counts, whatever rounding did to it."""
    return math.floor(value / step * (1 + 1e-12)) * step
