"""One worker as pytest's own process sees it: started, listened to, watched, killed. Knows processes, not tests."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from plugin.isolation.worker import DUMP_SIGNAL, VARIABLE
from plugin.isolation.worker_protocol import Message, MessageBuffer, ProtocolError, send
from plugin.timers.clock import time

_TICK_S = 0.25
"""How often a worker's death is looked for where the kernel has no process descriptors."""
_DUMP_WAIT_S = 2.0
_TAIL_BYTES = 4000

# The same search path and arguments as here, whatever started this pytest (`pytest`, `python -m pytest`, an IDE).
_BOOTSTRAP = """
import sys
sys.path[:] = filter(None, sys.path)
import json
given = json.loads(sys.argv[1])
sys.path[:] = given["path"]
sys.argv[:] = ["pytest", *given["arguments"]]
import pytest
sys.exit(pytest.main(given["arguments"]))
"""


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
    """A running worker and its pipes. Whoever starts one calls `kill`, however it ends."""

    process: subprocess.Popen[bytes]
    ordinal: int
    started_s: float
    """On the monotonic clock."""
    _commands: int
    _answers: int
    _output: Any
    """What the worker printed outside its tests, or None where it prints to ours."""
    _crash: Any
    _oom_kill_count: int | None
    _buffer: MessageBuffer = field(default_factory=MessageBuffer)
    _messages: deque[Message] = field(default_factory=deque)
    _pidfd: int | None = None
    _is_closed: bool = False

    @classmethod
    def start(
        cls, arguments: Sequence[str], folder: Path, ordinal: int, passes_output: bool, environment: Mapping[str, str]
    ) -> WorkerProcess:
        """Start a pytest with these arguments as a worker.

        It prints to our standard output only where `passes_output`.
        """
        command_read, command_write = os.pipe()
        answer_read, answer_write = os.pipe()
        crash = tempfile.TemporaryFile()  # noqa: SIM115 - read when the worker has died, closed with it
        output = None if passes_output else tempfile.TemporaryFile()  # noqa: SIM115
        inherited = (command_read, answer_write, crash.fileno())
        bootstrap_input = json.dumps({"path": sys.path, "arguments": list(arguments)})
        variables = {**environment, VARIABLE: ",".join(map(str, (*inherited, os.getpid())))}
        try:
            process = subprocess.Popen(
                [sys.executable, *subprocess._args_from_interpreter_flags(), "-c", _BOOTSTRAP, bootstrap_input],  # type: ignore[attr-defined]
                cwd=folder,
                env=variables,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=inherited,
                start_new_session=True,  # Ctrl-C is ours to handle, and what it forks dies with its group
            )
        finally:
            os.close(command_read)
            os.close(answer_write)
        os.set_blocking(answer_read, False)
        worker = cls(process, ordinal, time.monotonic(), command_write, answer_read, output, crash, oom_kill_count())
        with contextlib.suppress(OSError, AttributeError):  # an old kernel: look for its death now and then instead
            worker._pidfd = os.pidfd_open(process.pid)
        return worker

    def send(self, message: Message) -> None:
        """Give the worker a command. Raises `WorkerDiedError` when it no longer listens."""
        try:
            send(self._commands, message)
        except OSError:
            raise self._death() from None

    def wait(self, until_s: float) -> Message | None:
        """Return the next message, or None when there is none before `until_s`. Raises `WorkerDiedError`.

        A child that the test forked may hold the pipe open after the worker's death, so the process itself is watched.
        """
        while not self._messages:
            left_s = until_s - time.monotonic()
            if left_s <= 0:
                return None
            has_ended = self._poll(left_s)
            try:
                is_closed = self._read()
            except ProtocolError as error:
                raise WorkerDiedError.was(f"stopped: {error}") from None
            if not self._messages and (has_ended or is_closed):
                raise self._death()
        return self._messages.popleft()

    def _poll(self, left_s: float) -> bool:
        """Wait for the pipe or the process; return whether the process has ended."""
        poll = select.poll()
        poll.register(self._answers, select.POLLIN)
        if self._pidfd is not None:
            poll.register(self._pidfd, select.POLLIN)
        poll.poll(1000 * (left_s if self._pidfd is not None else min(left_s, _TICK_S)))
        return self.process.poll() is not None

    def _read(self) -> bool:
        """Take all that is in the pipe now; return whether the other side has closed it."""
        while True:
            try:
                data = os.read(self._answers, 1 << 20)
            except BlockingIOError:
                return False
            if not data:
                return True
            self._messages.extend(self._buffer.feed(data))

    # The end -------------------------------------------------------------------------------------------------

    def stack(self) -> list[str]:
        """Make the living worker write its Python stack and return the main thread's lines, innermost first."""
        old_size = self._crash_size()
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(DUMP_SIGNAL)
        deadline = time.monotonic() + _DUMP_WAIT_S
        size = old_size
        while time.monotonic() < deadline:
            time.sleep(0.02)
            new_size = self._crash_size()
            if new_size > old_size and new_size == size:
                break
            size = new_size
        return main_thread(self._crash_text(old_size))

    def crash_stack(self) -> list[str]:
        """Return the main thread's Python stack at the crash, innermost first; empty when nothing was written."""
        return main_thread(self._crash_text(0))

    def output_tail(self) -> str:
        """Return the last of what the worker printed outside its tests."""
        if self._output is None:
            return ""
        size = os.fstat(self._output.fileno()).st_size
        data = os.pread(self._output.fileno(), _TAIL_BYTES, max(0, size - _TAIL_BYTES))
        return data.decode("utf-8", "replace").strip()

    def end(self) -> str | None:
        """Return how the worker has ended, or None while it lives."""
        return None if self.process.poll() is None else self._death().end

    def kill(self) -> None:
        """End the worker and everything in its process group at once. May be called again."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        if not self._is_closed:
            self._is_closed = True
            for descriptor in (self._commands, self._answers, self._pidfd):
                if descriptor is not None:
                    os.close(descriptor)

    def _death(self) -> WorkerDiedError:
        try:
            code = self.process.wait(timeout=_DUMP_WAIT_S)
        except subprocess.TimeoutExpired:
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

    def _crash_size(self) -> int:
        return os.fstat(self._crash.fileno()).st_size

    def _crash_text(self, offset: int) -> str:
        return os.pread(self._crash.fileno(), 1 << 16, offset).decode("utf-8", "replace")


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
    total = None
    for path in (Path("/proc/vmstat"), Path("/sys/fs/cgroup/memory.events")):
        with contextlib.suppress(OSError, ValueError):
            for line in path.read_text().splitlines():
                name, _, value = line.partition(" ")
                if name == "oom_kill":
                    total = (total or 0) + int(value)
    return total
