"""Was the clock held down while we measured? Time per reason from the driver's cumulative counters, and the retry rule.

Sampling the reason bits misses short events; the counters do not. They advance in steps of about 100 ms (observed on
NVIDIA; none documented), so a short case can end before its step is booked. Therefore: when the case ends with a reason
active that has gained nothing, the counters are read once more a step later; and a step that belongs to the case before
does no harm, because a reason alone never marks a case: its clock must also be low (`is_capped`). A case too short for
any step is told by the reason that is active when it ends.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from plugin.sensors.protocol import Sensors
from plugin.timers.clock import time
from results.records.state_records import RATED_RATIO

COUNTER_STEP_S = 0.1
RETRY_RESTS_S = (0.05, 0.075, 0.1125)
"""Rests of the chip before a capped case is tried again (nvbench's recovery delays, bounded); after the last it is kept
and marked, never dropped.
"""
CGROUP_QUOTA = "cgroup quota"
"""The reason by which `cpu_state` reports a container stopped by its CPU limit: no clock shows it, the threads stand
still.
"""
_CLOCKLESS_REASONS = frozenset({"software thermal", "hardware thermal", "hardware power brake", "package thermal"})
"""Reasons that count where the clock is unknown: heat and supply are never ordinary regulation, a power cap is."""
_SETTINGS = frozenset({"idle", "application clocks", "display clocks"})
"""Reasons that hold nothing down: nothing to do, or a clock the user has chosen, which is then the rated one."""


def is_capped(
    throttled_s: Mapping[str, float] | None,
    clock_hz: float | None,
    rated_hz: float | None,
    active: Collection[str] = (),
) -> bool:
    """Return whether a case ran on a held-down chip: a reason gained time and the clock was below 98.5 % of rated.

    `active`: reasons seen when the case ended, which count like those that gained time, but only with a low clock: a
    counter's step may be longer than a case. A container stopped by its CPU quota is capped at any clock. Where either
    clock is unknown only heat and supply count.
    """
    gained = {reason for reason, seconds in (throttled_s or {}).items() if seconds > 0}
    if CGROUP_QUOTA in gained:
        return True
    if clock_hz is None or rated_hz is None or rated_hz <= 0:
        return bool(gained & _CLOCKLESS_REASONS)
    return bool(gained or active) and clock_hz < RATED_RATIO * rated_hz


def gained_s(before: Mapping[str, float] | None, after: Mapping[str, float] | None) -> dict[str, float] | None:
    """Return the seconds each reason gained: only those that did, empty for none, None where unreadable.

    A counter that ran backwards (driver reloaded) tells nothing and is left out; when all did, nothing is known.
    """
    if before is None or after is None:
        return None
    differences = {reason: after[reason] - before[reason] for reason in after if reason in before}
    grown = {reason: seconds for reason, seconds in differences.items() if seconds >= 0}
    if not grown:
        return None
    return {reason: seconds for reason, seconds in grown.items() if seconds > 0}


class ThrottleWatch:
    """Watches one device's throttle counters between `with` and its end; sensors of None tell nothing."""

    def __init__(self, sensors: Sensors | None, pause: Callable[[float], Any] = time.sleep) -> None:
        self._sensors = sensors
        self._pause = pause
        self._before: Mapping[str, float] | None = None
        self._after: Mapping[str, float] | None = None
        self.active: tuple[str, ...] = ()
        """The reasons that held the clock down when the window ended; a clock that the user has set is none."""

    def __enter__(self) -> ThrottleWatch:
        self._after, self.active = None, ()
        self._before = self._read()
        return self

    def __exit__(self, *_: Any) -> None:
        if self._sensors is not None:  # first: a reason goes as soon as the work does
            self.active = tuple(
                throttle_reason
                for throttle_reason in self._sensors.throttle_reasons() or ()
                if throttle_reason not in _SETTINGS
            )
        self._after = self._read()
        if self._has_late_step():
            self._pause(COUNTER_STEP_S)
            self._after = self._read()

    @property
    def throttled_s(self) -> Mapping[str, float] | None:
        """Seconds each reason gained in the window; empty: none did, None: unreadable."""
        return gained_s(self._before, self._after)

    def _read(self) -> Mapping[str, float] | None:
        return None if self._sensors is None else self._sensors.throttle_s()

    def _has_late_step(self) -> bool:
        """Return whether a counted reason was active at the end whose counter has not moved yet."""
        throttled_s = self.throttled_s
        if throttled_s is None or self._after is None:
            return False
        return bool({*self.active} & set(self._after) - set(throttled_s))
