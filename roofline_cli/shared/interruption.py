"""Ctrl-C at any moment: one calm line and exit code 130.

While nothing can be lost (imports, reading the command line, the end of the interpreter) the process ends at once. A
running command is unwound by `KeyboardInterrupt` instead, so that its files and databases stay whole; but never in the
middle of an import, where libraries take it for a missing package, swallow it or abort: a short one is waited for, a
long one (torch, pandas) ends the process. Imports nothing that takes time: this is what the process does first.
"""

from __future__ import annotations

import _thread
import atexit
import contextlib
import os
import signal
import sys
import time

TYPE_CHECKING = False  # typing's own takes as long to import as all of this
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType
    from typing import Any, NoReturn

EXIT_INTERRUPTED = 130
AGAIN_AFTER_S = 0.02
LONGEST_WAIT_S = 0.4
"""For an import to end: it stands between the user and what has to be tidied up."""

_asked_at_s: float | None = None
_is_said = False


def watch() -> None:
    """Take Ctrl-C over, where nobody else did: a script's background (`… &`) ignores it, and so do we."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, end_at_once)
        # What comes after the last thread is the interpreter's own end: the work is done, and its exit code stands.
        atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)


def end_at_once(number: int = signal.SIGINT, frame: FrameType | None = None) -> NoReturn:
    """Say so and end the process, tidying up nothing."""
    with contextlib.suppress(Exception):  # stderr is closed, or in the middle of a line
        say()
    os._exit(EXIT_INTERRUPTED)


def say() -> None:
    """Tell the user, once: an impatient one presses twice."""
    global _is_said
    if not _is_said:
        _is_said = True
        sys.stderr.write("interrupted\n")
        sys.stderr.flush()


@contextlib.contextmanager
def unwinding() -> Iterator[None]:
    """Within, Ctrl-C raises `KeyboardInterrupt`, where `watch` took it over; outside, it ends the process at once."""
    if signal.getsignal(signal.SIGINT) is not end_at_once:
        yield
        return
    signal.signal(signal.SIGINT, _unwind)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, end_at_once)


def is_asked() -> bool:
    """Return whether Ctrl-C has come: an import that it cut short may end in any other error, or in none."""
    return _asked_at_s is not None


def _unwind(number: int, frame: FrameType | None) -> None:
    global _asked_at_s
    now_s = time.monotonic()
    _asked_at_s = _asked_at_s or now_s
    if _is_importing(frame):
        if now_s - _asked_at_s > LONGEST_WAIT_S:
            end_at_once()
        _thread.start_new_thread(_interrupt_soon, ())
        return
    sys.unraisablehook = _raise_again
    if "logging" in sys.modules:  # a database's connection pool logs how its closing was cut short
        sys.modules["logging"].disable()
    raise KeyboardInterrupt


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def _raise_again(unraisable: Any) -> None:
    """Say nothing of what cannot be raised in a callback; raise an interrupt once more, when the callback is over."""
    if issubclass(unraisable.exc_type, KeyboardInterrupt):
        _thread.start_new_thread(_interrupt_soon, ())


def _interrupt_soon() -> None:
    time.sleep(AGAIN_AFTER_S)
    os.kill(os.getpid(), signal.SIGINT)
