"""Sensors that cannot stop us: a reading that does not come back in time is None, and so is all after it until it does.

A driver may block for seconds (a GPU falling off the bus, a full PCIe queue). Each reading runs in a thread of its own,
which costs about a tenth of a millisecond: for readings before and after a case, not for a sampler's loop.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from plugin.sensors.protocol import READINGS, Sensors

LIMIT_S = 0.5


@dataclass(slots=True)
class DeviceState:
    """What is known of one device's sensors: shared by all who guard that device."""

    stuck: threading.Thread | None = None
    """The reading that has not come back."""
    period_s: float | None = None
    """Time between two updates of its power; None while it is not known."""


_STATES: WeakKeyDictionary[Any, DeviceState] = WeakKeyDictionary()


def bounded(sensors: Sensors) -> BoundedSensors:
    """Return the guarded form of `sensors`. A freeze seen by one guard is not waited for again by the next."""
    return sensors if isinstance(sensors, BoundedSensors) else BoundedSensors(sensors)


def unbounded(sensors: Sensors) -> Sensors:
    """Return the sensors themselves, for a reader that has a thread of its own."""
    return sensors.inner if isinstance(sensors, BoundedSensors) else sensors


class BoundedSensors(Sensors):
    """`Sensors` whose every reading ends within `limit_s` (0.5 s). Attributes beyond the protocol are the inner
    sensors'.
    """

    def __init__(self, inner: Sensors, limit_s: float | None = None) -> None:
        self.inner = inner
        self.limit_s = LIMIT_S if limit_s is None else limit_s
        try:
            self.state = _STATES.setdefault(inner, DeviceState())
        except TypeError:  # not hashable or not weakly referable: guarded for itself
            self.state = DeviceState()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    @property
    def is_frozen(self) -> bool:
        """Whether a reading has not come back yet."""
        return self.state.stuck is not None and self.state.stuck.is_alive()

    def wait_for(self, thread: threading.Thread, limit_s: float | None = None) -> bool:
        """Wait for a thread that reads these sensors, `limit_s` at most; return whether it ended. If not, they are
        frozen.
        """
        thread.join(self.limit_s if limit_s is None else limit_s)
        self.state.stuck = thread if thread.is_alive() else None
        return self.state.stuck is None

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
        """Scope of the inner sensors' power and energy."""
        return self.inner.scope


def _guarded(name: str) -> Callable[[BoundedSensors], Any]:
    return lambda guard: guard.ask(lambda: getattr(guard.inner, name)())  # an inner one may lack it


for _name in READINGS:
    setattr(BoundedSensors, _name, _guarded(_name))


def _answer(call: Callable[[], Any], answers: list[Any]) -> None:
    try:
        answers.append(call())
    except Exception:
        answers.append(None)
