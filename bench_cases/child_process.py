"""Start a child that an interrupt from us reaches, and stop it so that it can store what it has.

Standard library only.
"""

from __future__ import annotations

import signal
import subprocess
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

_TERMINAL_WAIT_S = 1.0
"""A terminal sends Ctrl-C to the child as well; it gets this long to act on that one."""


def start_interruptible(command: Sequence[str], **options: Any) -> subprocess.Popen[Any]:
    """Start a command whose SIGINT is not ignored, although a shell that put us in the background has us ignore it.

    `options` are those of `subprocess.Popen`. Outside the main thread Python changes no signal: the child inherits
    ours.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        return subprocess.Popen(command, **options)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a child would inherit that it is ignored (`nohup … &`)
    try:
        # In a group of its own, so that a Ctrl-C at the terminal still does not reach it.
        return subprocess.Popen(command, **{**options, "process_group": 0})
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def stop_child(process: subprocess.Popen[Any], timeout_s: float) -> None:
    """Interrupt a child and give it `timeout_s` to end; one that does not is killed. Returns when it has ended."""
    with suppress(subprocess.TimeoutExpired):
        process.wait(_TERMINAL_WAIT_S)
        return
    process.send_signal(signal.SIGINT)
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout_s)
        return
    process.kill()
    process.wait()
