"""Signals that end a run or a case: SIGTERM and SIGHUP end it as interrupted, SIGALRM ends a case that takes too long."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any

import pytest

_ENDING = (signal.SIGTERM, signal.SIGHUP)


class EndOnSignal:
    """While installed, SIGTERM or SIGHUP ends pytest like Ctrl-C: the run is closed as interrupted, exit code 128 + signal.

    A second signal finds the default action again and kills at once. A handler that somebody else installed stays.
    """

    def __init__(self) -> None:
        self._installed: list[signal.Signals] = []

    def install(self) -> None:
        """Install the handlers, in the main thread only (Python allows no other)."""
        if threading.current_thread() is not threading.main_thread():
            return
        for number in _ENDING:
            if signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, self._end)
                self._installed.append(number)

    def restore(self) -> None:
        """Give the signals their default action back."""
        while self._installed:
            signal.signal(self._installed.pop(), signal.SIG_DFL)

    def _end(self, number: int, frame: FrameType | None) -> None:
        self.restore()
        pytest.exit(f"{signal.Signals(number).name}: the run was ended from outside", returncode=128 + number)


@contextlib.contextmanager
def alarm(limit_s: float) -> Iterator[None]:
    """Fail the test whose code runs inside for longer than `limit_s`: the watchdog of a case that has no worker.

    It reaches Python code and system calls, not a hang inside C code. Does nothing outside the main thread or where
    somebody else (pytest-timeout) uses the timer.
    """
    is_free = (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGALRM) is signal.SIG_DFL
        and signal.getitimer(signal.ITIMER_REAL)[0] == 0
    )
    if not is_free:
        yield
        return

    def ring(number: int, frame: Any) -> None:
        pytest.fail(f"timeout after {limit_s:g} s: raise it with --roofline-timeout SECONDS")

    signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)


def silence_alarm() -> None:
    """Stop the watchdog of the running case: a person is looking at it in a debugger."""
    signal.setitimer(signal.ITIMER_REAL, 0)
