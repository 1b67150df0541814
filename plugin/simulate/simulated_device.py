"""The physics of the simulated device: its clock, heat, power and energy while it works and while it rests.

While cool the chip runs at its rated clock and heats up; hot, it throttles to a lower clock until it has rested for
half of its recovery. Everything is integrated piece by piece between the moments at which something changes, so that a
kernel of a nanosecond and one of an hour are both exact.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass, field

from plugin.simulate.simulated_settings import SimulatedSettings

RATED_CLOCK_HZ = 2e9
BUSY_POWER_W = 300.0
KEPT_HISTORY_S = 30.0
"""Power further back than this is forgotten: no sensor looks at it."""
_MAX_HISTORY = 20_000


@dataclass(frozen=True, slots=True)
class Stretch:
    """Totals of one stretch of work."""

    seconds: float
    clock_hz: float
    """Mean clock: cycles over seconds, as a device-side counter would give it."""


@dataclass(slots=True)
class SimulatedDevice:
    """State of one device on its own clock, which only work, rest and sensor readings advance."""

    settings: SimulatedSettings
    now_s: float = 0.0
    heat: float = 0.0
    """0 cold, 1 so hot that the clock is held down."""
    is_throttled: bool = False
    throttled_s: float = 0.0
    _times_s: list[float] = field(default_factory=lambda: [0.0])
    _energies_j: list[float] = field(default_factory=lambda: [0.0])
    """Energy used until each of the times: linear in between."""

    @property
    def rated_clock_hz(self) -> float:
        """The clock of the cool chip, before any step."""
        return self.settings.clock if self.settings.clock is not None else RATED_CLOCK_HZ

    @property
    def clock_ratio(self) -> float:
        """The present clock over the rated one."""
        settings = self.settings
        stepped = settings.clock_step_at is not None and self.now_s >= settings.clock_step_at
        return (settings.clock_step if stepped else 1.0) * (settings.throttle_clock if self.is_throttled else 1.0)

    @property
    def is_in_slow_state(self) -> bool:
        """Whether the device is in the state that neither clock nor counter shows."""
        settings = self.settings
        return settings.state_at is not None and settings.state_at <= self.now_s < settings.state_until

    @property
    def busy_power_w(self) -> float:
        """Power at work at the present clock: dynamic power as its square (voltage follows the clock)."""
        settings = self.settings
        dynamic = (BUSY_POWER_W if settings.power is None else settings.power) - settings.idle_power
        if self.is_in_slow_state:
            dynamic *= settings.state_power
        return settings.idle_power + max(0.0, dynamic) * self.clock_ratio**2

    def work(self, full_clock_s: float) -> Stretch:
        """Do work that takes `full_clock_s` at the rated clock in the healthy state."""
        remaining, seconds, cycles = full_clock_s, 0.0, 0.0
        while remaining > 0:
            ratio = self.clock_ratio
            rate = ratio / (self.settings.state_factor if self.is_in_slow_state else 1.0)
            step = remaining / rate
            until_change = self._seconds_to_change(is_busy=True)
            remaining = 0.0 if step <= until_change else remaining - until_change * rate
            step = min(step, until_change)
            seconds += step
            cycles += ratio * self.rated_clock_hz * step
            self._pass(step, self.busy_power_w, is_busy=True)
        return Stretch(seconds, cycles / seconds if seconds > 0 else self.clock_ratio * self.rated_clock_hz)

    def rest(self, seconds: float) -> None:
        """Let the device idle: it cools down."""
        end = self.now_s + max(0.0, seconds)
        while self.now_s < end:
            step = min(end - self.now_s, self._seconds_to_change(is_busy=False))
            self._pass(max(step, math.ulp(self.now_s)), self.settings.idle_power, is_busy=False)

    def energy_until_j(self, time_s: float) -> float:
        """Return the energy used from the start to a moment not after now."""
        index = bisect_right(self._times_s, time_s)
        if index in (0, len(self._times_s)):
            return self._energies_j[0 if index == 0 else -1]
        early, late = self._times_s[index - 1], self._times_s[index]
        share = (time_s - early) / (late - early)
        return self._energies_j[index - 1] + share * (self._energies_j[index] - self._energies_j[index - 1])

    def _seconds_to_change(self, *, is_busy: bool) -> float:
        """Return how long nothing changes by itself; infinite when nothing ever will."""
        settings = self.settings
        moments = (settings.clock_step_at, settings.state_at, settings.state_until)
        times = [moment - self.now_s for moment in moments if moment is not None and moment > self.now_s]
        if settings.throttle_after is not None:
            if is_busy and not self.is_throttled:
                times.append((1 - self.heat) * settings.throttle_after)
            if not is_busy and self.is_throttled:
                times.append(max(0.0, self.heat - 0.5) * settings.recover_after)
        return min(times, default=math.inf)

    def _pass(self, seconds: float, power_w: float, *, is_busy: bool) -> None:
        """Let time pass in which nothing changes but heat and energy."""
        settings = self.settings
        self.now_s += seconds
        self._remember(power_w * seconds)
        if settings.throttle_after is None:
            return
        if is_busy:
            self.throttled_s += seconds if self.is_throttled else 0.0
            self.heat = min(1.0, self.heat + (0.0 if self.is_throttled else seconds / settings.throttle_after))
            self.is_throttled = self.is_throttled or self.heat >= 1 - 1e-12
        else:
            self.heat = max(0.0, self.heat - seconds / settings.recover_after)
            self.is_throttled = self.is_throttled and self.heat > 0.5 + 1e-12

    def _remember(self, energy_j: float) -> None:
        self._times_s.append(self.now_s)
        self._energies_j.append(self._energies_j[-1] + energy_j)
        if len(self._times_s) > _MAX_HISTORY:
            keep = max(1, min(bisect_right(self._times_s, self.now_s - KEPT_HISTORY_S), _MAX_HISTORY // 2) - 1)
            del self._times_s[:keep], self._energies_j[:keep]
