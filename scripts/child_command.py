"""Run one command with our streams, with a limit: what is over it is interrupted, so that it can store what it has."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from night_plan import shown

STOP_TIMEOUT_S = 120.0
"""After an interrupt the command gets this long to store what it has."""
EXIT_UNUSABLE = 2
EXIT_INTERRUPTED = 130


def run_command(
    command: Sequence[str], environment: Mapping[str, str], *, folder: Path | None = None, limit_s: float | None = None,
    limit_name: str = "",
) -> int:  # fmt: skip
    """Show the command, run it and return its exit code: 130 when it was stopped after `limit_s`, 2 when it does not start.

    A Ctrl-C or a SIGTERM that reaches us (`interruptible`) is handed on before it is raised.
    """
    print(f"$ {shown(command)}", flush=True)
    try:
        process = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, env=environment)
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


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGINT)
    try:
        process.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
