"""Commands that a gate starts: each with our streams and a limit, and one benchmark at a time on this machine."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from roofline_model.core.errors import InvalidValueError, RooflineError

EXIT_INTERRUPTED = 130
STOP_TIMEOUT_S = 120.0
"""After an interrupt a command gets this long to store what it has."""
PACKAGE_ROOT = Path(__file__).resolve().parents[2]
_STDERR = 2


def say(text: str) -> None:
    """Print a line of progress to stderr: stdout stays for the verdict."""
    print(text, file=sys.stderr, flush=True)


def end_with_ctrl_c() -> None:
    """Treat SIGTERM, with which CI cancels a job, like a Ctrl-C: what runs can store what it has."""
    signal.signal(signal.SIGTERM, lambda number, frame: signal.raise_signal(signal.SIGINT))


def run_child(
    command: Sequence[str],
    *,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
    limit_s: float | None = None,
    output: Path | None = None,
) -> int:
    """Show a command, run it and return its exit code, 130 where it was stopped after `limit_s`.

    What it prints goes to our stderr; `output` is a file that takes its stdout instead. A command that is still running
    when we are interrupted is interrupted, too. Raises `InvalidValueError` where it does not start.
    """
    from bench_cases.child_process import start_interruptible, stop_child

    say(f"$ {shlex.join(word.removeprefix(f'{os.getcwd()}{os.sep}') for word in command)}")
    stdout = _STDERR if output is None else os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    try:
        process = start_interruptible(
            command,
            cwd=folder,
            env=tool_environment() if environment is None else environment,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
        )
    except OSError as error:
        raise InvalidValueError(f"{command[0]} does not start ({error.strerror})") from None
    finally:
        if output is not None:
            os.close(stdout)
    try:
        return process.wait(limit_s)
    except subprocess.TimeoutExpired:
        say(f"stopped after {(limit_s or 0) / 60:g} minutes")
        return EXIT_INTERRUPTED
    finally:
        if process.poll() is None:
            stop_child(process, STOP_TIMEOUT_S)


def roofline_command(*arguments: str) -> list[str]:
    """Return a command of ours. -P: a results.py of the repository under test is not ours."""
    return [sys.executable, "-P", "-m", "roofline_cli", *arguments]


def tool_environment() -> dict[str, str]:
    """Return our environment, with our packages importable in a checkout that is not installed."""
    paths = [str(PACKAGE_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONPATH": os.pathsep.join(paths)}


def pytest_words(text: str, reserved: Mapping[str, str]) -> list[str]:
    """Return the words of `--pytest`, as a shell splits them; `bench_cases` is the folder of our own workloads.

    Raises `InvalidValueError` for a quotation that is not closed, and for options that are `reserved` (name → reason).
    """
    words = shell_words("--pytest", text)
    for word in words:
        if (name := word.partition("=")[0]) in reserved:
            raise InvalidValueError(f"--pytest holds {name}, which pytest is given already: {reserved[name]}")
    ours = str(PACKAGE_ROOT / "bench_cases")
    return [ours if word == "bench_cases" and not Path(word).exists() else word for word in words]


def shell_words(option: str, text: str) -> list[str]:
    """Return the words of a text as a shell reads it; raises `InvalidValueError` naming the option."""
    try:
        return shlex.split(text)
    except ValueError as error:
        raise InvalidValueError(f"{option} cannot be read as a shell would ({str(error).lower()})") from None


@contextmanager
def machine_lock(wait_s: float) -> Iterator[None]:
    """Hold the machine while the block runs, whoever else benchmarks here: another repository, a person at a terminal.

    The lock ends with the process that holds it. Its file: ROOFLINE_MACHINE_LOCK, else one in the folder for temporary
    files that all users share. Raises `RooflineError` where another holds it for longer than `wait_s`.
    """
    from filelock import FileLock, Timeout

    place = os.environ.get("ROOFLINE_MACHINE_LOCK") or str(Path(tempfile.gettempdir()) / "roofline-bench-machine.lock")
    lock = FileLock(place, mode=0o666, poll_interval=1, fallback_to_soft=False)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        say(f"another benchmark runs on this machine ({place}): waiting up to {wait_s / 60:g} minutes")
        try:
            lock.acquire(timeout=wait_s)
        except Timeout:
            raise RooflineError("another benchmark held the machine all the time") from None
    try:
        yield
    finally:
        lock.release()
