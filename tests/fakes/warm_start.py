"""Processes of Python that start with the libraries imported: `python -m pytest` in 0.3 s instead of 2.

A server imports the libraries once and forks for every process asked for. Such a process has its own id, arguments,
environment, folder, input and outputs, and starts the workers of `--roofline-isolate` warm as well. A test whose
subject is how a process starts (what it imports, how long it takes, which interpreter) starts a real one.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import fcntl
import gc
import importlib
import json
import math
import os
import pkgutil
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import types
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import IO, Any, NoReturn

ROOT = Path(__file__).resolve().parents[2]
# Of the plugins of pytest only ours: pytest rewrites the assertions of the others and warns where it comes too late.
LIBRARIES = (
    "numpy",
    "torch",
    "sqlalchemy.orm",
    "sqlalchemy.dialects.postgresql",
    "alembic.command",
    "alembic.autogenerate",
    "mako.template",
    "filelock",
    "pydantic.type_adapter",
    "pytest",
    "execnet",
    "typer",
    "platformdirs",
    "pdb",
    "numpy.ma",
    "xml.etree.ElementTree",
)
PACKAGES = ("roofline_model", "results", "plugin", "roofline_cli")
LARGEST_REQUEST_BYTES = 1 << 20


class WarmProcess:
    """A process of the server, with the part of `subprocess.Popen` that tests use."""

    stdin = None

    def __init__(self, status: socket.socket) -> None:
        self._status = status
        self.pid = int(status.recv(64))
        self.returncode: int | None = None

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code, negative where a signal killed it. Raises `subprocess.TimeoutExpired` after `timeout`
        seconds.
        """
        if self.returncode is None:
            self._status.settimeout(timeout)
            try:
                self.returncode = int(self._status.recv(64))
            except TimeoutError:
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0) from None
            self._status.close()
        return self.returncode

    def kill(self) -> None:
        """End the process at once."""
        if self.returncode is None:
            os.kill(self.pid, signal.SIGKILL)


def popen(
    module: str, arguments: Sequence[str], folder: Path, environment: Mapping[str, str], out: IO, error: IO
) -> WarmProcess:
    """Start `python -m module *arguments` in `folder`, with nothing to read on its standard input."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    request = {"module": module, "arguments": [*arguments], "folder": str(folder), "environment": {**environment}}
    with theirs, open(os.devnull, "rb") as nothing:
        fds = [file.fileno() for file in (theirs, nothing, out, error)]
        socket.send_fds(_server(), [json.dumps(request).encode()], fds)
    return WarmProcess(ours)


def run(
    module: str, *arguments: str, cwd: Path, env: Mapping[str, str] | None = None, timeout: float = 300
) -> subprocess.CompletedProcess[str]:
    """Run `python -m module *arguments` to its end, as `subprocess.run` does where it captures outputs as text."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as error:
        process = popen(module, arguments, cwd, os.environ if env is None else env, out, error)
        try:
            code = process.wait(timeout)
        except BaseException:
            process.kill()
            raise
        out.seek(0)
        error.seek(0)
        return subprocess.CompletedProcess([module, *arguments], code, out.read(), error.read())


@cache
def _server() -> socket.socket:
    """Start the server, once, and return where it takes requests."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        server = subprocess.Popen(
            [sys.executable, __file__, str(theirs.fileno())],
            cwd=ROOT,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},  # what forks should have one thread
            stdin=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
        )

    def end() -> None:
        ours.close()
        server.wait()

    atexit.register(end)
    return ours


def _serve(requests: socket.socket) -> None:
    """Answer requests until the other side is closed. A keeper is forked for each, which forks the process and waits
    for it.
    """
    for name in LIBRARIES:
        importlib.import_module(name)
    for package in PACKAGES:
        for module in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
            if ".migrations" not in module.name and not module.name.endswith("__main__"):
                importlib.import_module(module.name)
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        message, fds, _, _ = socket.recv_fds(requests, LARGEST_REQUEST_BYTES, 4)
        with contextlib.suppress(ChildProcessError):  # none is left
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if not message:
            return
        if os.fork() == 0:
            requests.close()
            _keep(json.loads(message), fds)
        for fd in fds:
            os.close(fd)


def _keep(request: dict, fds: list[int]) -> NoReturn:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with socket.socket(fileno=fds[0]) as status:
        pid = os.fork()
        if pid == 0:
            status.close()
            _become(request, fds[1:])
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        for fd in fds[1:]:
            os.close(fd)
        status.sendall(str(pid).encode())
        with contextlib.suppress(OSError):  # nobody may be waiting any more
            status.sendall(str(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])).encode())
    os._exit(0)


def _become(request: dict, fds: list[int]) -> NoReturn:
    """Turn this fork into the process that was asked for."""
    if request["module"] == "pytest":
        _start_workers_warm()
    _take_over(request, fds)
    given = [part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part]
    sys.path[:] = [request["folder"], *given, *sys.path[1:]]  # the first is this file's folder
    sys.argv[:] = [request["module"], *request["arguments"]]
    _run_to_the_end(lambda: runpy.run_module(request["module"], run_name="__main__", alter_sys=True))


class _Worker:
    """A child of this process with the part of `subprocess.Popen` that `WorkerProcess` uses."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        until_s = math.inf if timeout is None else time.monotonic() + timeout
        while (code := self.poll()) is None:
            if time.monotonic() > until_s:
                raise subprocess.TimeoutExpired(f"worker {self.pid}", timeout or 0)
            time.sleep(0.005)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)


class _Subprocess:
    """What `worker_process` sees as the module `subprocess`: its `Popen` asks the maker of workers."""

    def __init__(self, maker: socket.socket) -> None:
        self._maker = maker

    def __getattr__(self, name: str) -> Any:
        return getattr(subprocess, name)

    def Popen(
        self, command: Sequence[str], *, cwd: Path, env: Mapping[str, str], stdin: int, stdout: IO | None,
        stderr: IO | None, pass_fds: Sequence[int], start_new_session: bool,
    ) -> _Worker:  # fmt: skip
        *_, code, given = command
        numbers = [0, 1, 2, *pass_fds]
        request = {"code": code, "given": given, "folder": str(cwd), "environment": {**env}, "numbers": numbers}
        with open(os.devnull, "rb") as nothing:
            streams = [nothing.fileno(), *(file.fileno() if file else fd for file, fd in ((stdout, 1), (stderr, 2)))]
            socket.send_fds(self._maker, [json.dumps(request).encode()], [*streams, *pass_fds])
            pid = int(self._maker.recv(64))
            self._maker.recv(64)  # the fork between has ended: the worker is a child of this process
        return _Worker(pid)


def _start_workers_warm() -> None:
    """Fork a maker of workers from this process, in which nothing has run yet."""
    set_child_subreaper = 36  # PR_SET_CHILD_SUBREAPER of linux/prctl.h
    ctypes.CDLL(None).prctl(set_child_subreaper, 1, 0, 0, 0)  # a worker becomes a child of this process
    parent = os.getpid()
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if os.fork() == 0:
        ours.close()
        _make_workers(theirs, parent)
    theirs.close()
    worker_process = importlib.import_module("plugin.isolation.worker_process")
    worker_process.subprocess = _Subprocess(ours)  # type: ignore[attr-defined]


def _make_workers(requests: socket.socket, parent: int) -> NoReturn:
    """Fork a worker for each request until the pytest that asks has ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        message, fds, _, _ = socket.recv_fds(requests, LARGEST_REQUEST_BYTES, 16)
        if not message:
            os._exit(0)
        between = os.fork()
        if between == 0:
            pid = os.fork()
            if pid == 0:
                requests.close()
                _become_worker(json.loads(message), fds, parent)
            requests.send(str(pid).encode())
            os._exit(0)
        os.waitpid(between, 0)
        requests.send(b"made")
        for fd in fds:
            os.close(fd)


def _become_worker(request: dict, fds: list[int], parent: int) -> NoReturn:
    """Turn this fork into a worker: descriptors at the numbers that it was told, a session of its own, a bare
    `__main__`.
    """
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    while os.getppid() != parent:
        time.sleep(0.001)
    moved = [fcntl.fcntl(fd, fcntl.F_DUPFD, 500) for fd in fds]
    for fd in fds:
        os.close(fd)
    for fd, number in zip(moved[3:], request["numbers"][3:], strict=True):
        os.dup2(fd, number)
        os.close(fd)
    _take_over(request, moved[:3])
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    sys.argv[:] = ["-c", request["given"]]
    _run_to_the_end(lambda: exec(request["code"], vars(main)))


def _take_over(request: dict, fds: list[int]) -> None:
    """Make the streams, the folder and the environment of this process those that were asked for."""
    for target, fd in enumerate(fds):
        os.dup2(fd, target)
        os.close(fd)
    sys.stdin = sys.__stdin__ = os.fdopen(0, closefd=False)  # type: ignore[misc]
    sys.stdout = sys.__stdout__ = os.fdopen(1, "w", encoding="utf-8", closefd=False)  # type: ignore[misc]
    sys.stderr = os.fdopen(2, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)
    sys.__stderr__ = sys.stderr  # type: ignore[misc]
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])


def _run_to_the_end(main: Callable[[], object]) -> NoReturn:
    """Run the program and end this process as the interpreter would."""
    code = 1
    try:
        main()
        code = 0
    except SystemExit as ending:
        if isinstance(ending.code, str):
            print(ending.code, file=sys.stderr)
        else:
            code = int(ending.code or 0)
    except BaseException:  # as the interpreter would
        sys.excepthook(*sys.exc_info())
    finally:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code & 0xFF)


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
