"""A pytest plugin for the processes that `roofline` starts: they stop when the command that started them is gone.

A command that is killed outright (kill -9, out of memory) can stop nobody. Its child holds the reading end of a pipe
whose writing end only the command has: the end of the file is the end of the command. (Linux's parent-death signal
would fire when the thread that started the child ends, not the process.)
"""

from __future__ import annotations

import os
import signal
import threading
import time

PIPE_VARIABLE = "ROOFLINE_PARENT_PIPE"
"""Number of the inherited file descriptor."""
STOP_TIMEOUT_S = 30.0
"""After an interrupt pytest gets this long to store what it has."""

_WAKE = signal.SIGUSR1


def pytest_configure() -> None:
    """Begin to watch, where the command left a pipe."""
    pipe = os.environ.pop(PIPE_VARIABLE, None)  # for this process: what it starts is its own to stop
    if pipe is not None:
        # Not SIGINT: what a script starts in the background ignores that.
        signal.signal(_WAKE, signal.default_int_handler)
        threading.Thread(target=_stop_at_end_of, args=(int(pipe),), name="roofline-parent-watch", daemon=True).start()


def _stop_at_end_of(pipe: int) -> None:
    os.read(pipe, 1)  # nothing is ever written: this returns when the writing end is closed
    os.kill(os.getpid(), _WAKE)
    time.sleep(STOP_TIMEOUT_S)
    os._exit(128 + signal.SIGINT)
