"""Sensors that cannot stop us: a reading that does not come back in time is None, and so is all after it until it does.

A driver may block for seconds (a GPU falling off the bus, a full PCIe queue). Each reading runs in a thread of its own,
which costs about a tenth of a millisecond: for readings before and after a case, not for a sampler's loop.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from plugin.sensors.protocol import Sensors

LIMIT_S = 0.5


@dataclass(slots=True)
class _Freeze:
    """The reading of one device that has not come back: shared by all who guard that device."""

    thread: threading.Thread | None = None


_FREEZES: WeakKeyDictionary[Any, _Freeze] = WeakKeyDictionary()


def bounded(sensors: Sensors) -> BoundedSensors:
    """Return the guarded form of `sensors`. A freeze seen by one guard is not waited for again by the next."""
    return sensors if isinstance(sensors, BoundedSensors) else BoundedSensors(sensors)


def unbounded(sensors: Sensors) -> Sensors:
    """Return the sensors themselves, for a reader that has a thread of its own."""
    return sensors.inner if isinstance(sensors, BoundedSensors) else sensors


class BoundedSensors:
    """`Sensors` whose every reading ends within `limit_s` (0.5 s). Attributes beyond the protocol are the inner
    sensors'.
    """

    def __init__(self, inner: Sensors, limit_s: float | None = None) -> None:
        self.inner = inner
        self.limit_s = LIMIT_S if limit_s is None else limit_s
        try:
            self._freeze = _FREEZES.setdefault(inner, _Freeze())
        except TypeError:  # not hashable or not weakly referable: guarded for itself
            self._freeze = _Freeze()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    @property
    def is_frozen(self) -> bool:
        """Whether a reading has not come back yet."""
        return self._freeze.thread is not None and self._freeze.thread.is_alive()

    def wait_for(self, thread: threading.Thread, limit_s: float | None = None) -> bool:
        """Wait for a thread that reads these sensors, `limit_s` at most; return whether it ended. If not, they are
        frozen.
        """
        thread.join(self.limit_s if limit_s is None else limit_s)
        self._freeze.thread = thread if thread.is_alive() else None
        return self._freeze.thread is None

    def ask(self, call: Callable[[], Any]) -> Any:
        """Return the result of `call`, or None if it raises, exceeds its time limit, or another call is still stuck."""
        if self.is_frozen:
            return None
        answers: list[Any] = []
        thread = threading.Thread(target=_answer, args=(call, answers), name="roofline-reading", daemon=True)
        thread.start()
        self.wait_for(thread)
        return answers[0] if answers else None

    @property
    def scope(self) -> str:
        """What power and energy cover."""
        return self.inner.scope

    def power_w(self) -> float | None:
        """Return the instantaneous power."""
        return self.ask(self.inner.power_w)

    def total_energy_j(self) -> float | None:
        """Return the energy counter."""
        return self.ask(self.inner.total_energy_j)

    def sm_clock_hz(self) -> float | None:
        """Return the current SM clock."""
        return self.ask(self.inner.sm_clock_hz)

    def memory_clock_hz(self) -> float | None:
        """Return the current memory clock."""
        return self.ask(self.inner.memory_clock_hz)

    def rated_clock_hz(self) -> float | None:
        """Return the SM clock the chip should hold."""
        return self.ask(self.inner.rated_clock_hz)

    def temperature_c(self) -> float | None:
        """Return the temperature in °C."""
        return self.ask(self.inner.temperature_c)

    def utilization_ratio(self) -> float | None:
        """Return the share of the last sensor period in which a kernel ran."""
        return self.ask(self.inner.utilization_ratio)

    def memory_used_bytes(self) -> float | None:
        """Return the device memory in use."""
        return self.ask(self.inner.memory_used_bytes)

    def throttle_s(self) -> Mapping[str, float] | None:
        """Return the cumulative seconds per throttle reason."""
        return self.ask(self.inner.throttle_s)

    def throttle_reasons(self) -> tuple[str, ...] | None:
        """Return the reasons active now for a clock below the maximum."""
        return self.ask(lambda: self.inner.throttle_reasons())  # an inner one without them is one that does not tell

    def other_process_count(self) -> int | None:
        """Return how many other processes have a compute context on the device."""
        return self.ask(self.inner.other_process_count)


def _answer(call: Callable[[], Any], answers: list[Any]) -> None:
    try:
        answers.append(call())
    except Exception:
        answers.append(None)
