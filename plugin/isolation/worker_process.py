"""One worker as pytest's own process sees it: spawned, listened to, watched, killed. Knows processes, not tests."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import re
import signal
import sys
import tempfile
import types
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing import connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

import roofline_pytest
from plugin.isolation.worker import DUMP_SIGNAL, Message
from plugin.isolation.worker_session import WorkerStart
from plugin.timers.clock import time

MAX_MESSAGE_BYTES = 512 * 1024 * 1024
"""A longer one is garbage that a test has written into the pipe."""
_TICK_S = 0.25
"""How often a worker's death is looked for: a child that its test forked may hold the pipe open."""
_DUMP_WAIT_S = 2.0
_TAIL_BYTES = 4000


class WorkerDiedError(Exception):
    """The worker is gone, or no longer makes sense; its text is what the running test fails with."""

    def __init__(self, end: str, message: str = "") -> None:
        """`end`: how the process ended, as it is stored: `killed by SIGABRT`, `timeout after 60 s`."""
        super().__init__(message or f"the worker {end}")
        self.end = end

    @classmethod
    def was(cls, end: str) -> WorkerDiedError:
        """Return the death of a worker to which something was done: `killed by SIGABRT`, `stopped: …`."""
        return cls(end, f"the worker was {end}")


@dataclass(slots=True)
class WorkerProcess:
    """A running worker. Whoever starts one calls `kill`, however it ends."""

    process: BaseProcess
    started_s: float
    """On the monotonic clock."""
    _pipe: connection.Connection
    _output: Any
    """File of what the worker printed outside its tests; empty where that goes to our standard output."""
    _crash: Any
    _oom_kill_count: int | None

    @classmethod
    def start(cls, arguments: Sequence[str], folder: Path, start: WorkerStart, passes_output: bool) -> WorkerProcess:
        """Start a pytest with these arguments as a worker. It prints to our standard output only where `passes_output`.

        It imports neither our program (`python my_runner.py` need not guard its `pytest.main`) nor what lies in the
        working folder under a name of the standard library.
        """
        context = multiprocessing.get_context("spawn")
        pipe, theirs = context.Pipe()
        output, crash = tempfile.TemporaryFile(), tempfile.TemporaryFile()  # noqa: SIM115 - read when it has died
        environment = {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}
        with theirs, _inherited(output) as its_output, _inherited(crash) as its_crash:
            files = theirs, its_crash, None if passes_output else its_output
            given = list(arguments), str(folder), environment, pickle.dumps(start), *files
            process = context.Process(target=roofline_pytest.run_worker, args=given, daemon=False)
            with pytest.MonkeyPatch.context() as patch:
                patch.setitem(sys.modules, "__main__", types.ModuleType("__main__"))
                patch.setenv("PYTHONSAFEPATH", "1")
                process.start()
        return cls(process, time.monotonic(), pipe, output, crash, oom_kill_count())

    def send(self, command: tuple[str, str | None] | None) -> None:
        """Tell the worker which test to run, and which comes next; None: to end.

        Raises `WorkerDiedError` when it no longer listens.
        """
        try:
            self._pipe.send(command)
        except OSError:
            raise self._death() from None

    def wait(self, until_s: float) -> Message | None:
        """Return the next message, or None when there is none before `until_s`. Raises `WorkerDiedError`."""
        while (left_s := until_s - time.monotonic()) > 0:
            has_ended = not self.process.is_alive()  # asked before looking: what it sent before its death counts
            if connection.wait([self._pipe], 0 if has_ended else min(left_s, _TICK_S)):
                return self._receive()
            if has_ended:
                raise self._death()
        return None

    def _receive(self) -> Message:
        try:
            message: Message = pickle.loads(self._pipe.recv_bytes(MAX_MESSAGE_BYTES))
        except (OSError, EOFError):
            raise self._death() from None
        except Exception:
            raise WorkerDiedError.was("stopped: something else was written into the worker's pipe") from None
        return message

    # The end -------------------------------------------------------------------------------------------------

    def stack(self) -> list[str]:
        """Make the living worker write its Python stack and return the main thread's lines, innermost first."""
        old_size = size = _size(self._crash)
        os.kill(self.process.pid or 0, DUMP_SIGNAL)
        deadline = time.monotonic() + _DUMP_WAIT_S
        while time.monotonic() < deadline:
            time.sleep(0.02)
            new_size = _size(self._crash)
            if new_size > old_size and new_size == size:
                break
            size = new_size
        return main_thread(_text(self._crash, old_size))

    def crash_stack(self) -> list[str]:
        """Return the main thread's Python stack at the crash, innermost first; empty when nothing was written."""
        return main_thread(_text(self._crash, 0))

    def output_tail(self) -> str:
        """Return the last of what the worker printed outside its tests."""
        return _text(self._output, max(0, _size(self._output) - _TAIL_BYTES)).strip()

    def end(self) -> str | None:
        """Return how the worker has ended, or None while it lives."""
        return None if self.process.is_alive() else self._death().end

    def kill(self) -> None:
        """End the worker and everything in its process group at once. May be called again."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid or 0, signal.SIGKILL)
        self.process.kill()  # it may not have come so far as to have a group
        self.process.join()
        self._pipe.close()

    def _death(self) -> WorkerDiedError:
        self.process.join(_DUMP_WAIT_S)
        code = self.process.exitcode
        if code is None:
            return WorkerDiedError("closed its pipe to pytest and lived on")
        if code >= 0:
            return WorkerDiedError(f"ended itself (exit code {code})")
        name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
        if name != "SIGKILL":
            return WorkerDiedError.was(f"killed by {name}")
        kill_count = oom_kill_count()
        if kill_count is None or self._oom_kill_count is None:
            return WorkerDiedError.was("killed by SIGKILL: out of memory?")
        if kill_count > self._oom_kill_count:
            return WorkerDiedError.was("killed by SIGKILL: out of memory")
        return WorkerDiedError.was("killed by SIGKILL from outside (memory did not run out)")


def _inherited(file: Any) -> connection.Connection:
    """Return a file's descriptor in the form in which multiprocessing hands one to a spawned process."""
    return connection.Connection(os.dup(file.fileno()), readable=False)


def _size(file: Any) -> int:
    return os.fstat(file.fileno()).st_size


def _text(file: Any, offset: int) -> str:
    return os.pread(file.fileno(), 1 << 16, offset).decode("utf-8", "replace")


def main_thread(dump: str) -> list[str]:
    """Return the lines of the main thread in what `faulthandler` wrote: it is the oldest thread, which comes last."""
    lines: list[str] = []
    for line in dump.splitlines():
        if line.lstrip().startswith(("Thread 0x", "Current thread 0x", "Stack (most recent")):
            lines = []
        elif line.startswith("  "):
            lines.append(line.strip())
    return lines


def oom_kill_count() -> int | None:
    """Return how many processes this machine's (or container's) kernel has killed for memory, or None where
    unreadable.
    """
    counts: list[str] = []
    for path in (Path("/proc/vmstat"), Path("/sys/fs/cgroup/memory.events")):
        with contextlib.suppress(OSError):
            counts += re.findall(r"^oom_kill (\d+)$", path.read_text(), re.MULTILINE)
    return sum(map(int, counts)) if counts else None
