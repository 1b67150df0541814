"""Run one command with our streams, with a limit: what is over it is interrupted, so that it can store what it has."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nightly_plan import shown

STOP_TIMEOUT_S = 120.0
"""After an interrupt the command gets this long to store what it has."""
EXIT_UNUSABLE = 2
EXIT_INTERRUPTED = 130


def run_command(
    command: Sequence[str],
    environment: Mapping[str, str],
    *,
    folder: Path | None = None,
    limit_s: float | None = None,
    limit_name: str = "",
) -> int:
    """Show the command, run it and return its exit code: 130 when it was stopped after `limit_s`, 2 when it does not
    start.

    A Ctrl-C or a SIGTERM that reaches us (`interruptible`) is handed on before it is raised.
    """
    print(f"$ {shown(command)}", flush=True)
    try:
        process = _started(command, environment, folder)
    except OSError as error:
        print(f"error: {command[0]} does not start ({error.strerror})", file=sys.stderr)
        return EXIT_UNUSABLE
    try:
        return process.wait(limit_s)
    except subprocess.TimeoutExpired:
        print(f"error: stopped after {(limit_s or 0) / 60:g} minutes ({limit_name})", file=sys.stderr, flush=True)
        _stop(process)
        return EXIT_INTERRUPTED
    except KeyboardInterrupt:
        _stop(process)
        raise


def interruptible() -> None:
    """Treat SIGTERM, with which CI cancels a job, like a Ctrl-C."""
    signal.signal(signal.SIGTERM, _interrupt)


def _interrupt(number: int, frame: Any) -> None:
    raise KeyboardInterrupt


def _started(command: Sequence[str], environment: Mapping[str, str], folder: Path | None) -> subprocess.Popen[bytes]:
    """Start a command that an interrupt from us reaches, although a shell that put us in the background has us ignore
    them.
    """
    ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN  # `nohup … &`; a child would inherit it
    if ignored:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        # In a group of its own then, so that a Ctrl-C at the terminal still does not reach it.
        group = 0 if ignored else None
        return subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, env=environment, process_group=group)
    finally:
        if ignored:
            signal.signal(signal.SIGINT, signal.SIG_IGN)


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGINT)
    try:
        process.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
