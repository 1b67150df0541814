"""Processes of Python that start with the libraries imported: `python -m pytest` in 0.3 s instead of 2.

A server imports the libraries once and forks for every process asked for. Such a process has its own id, arguments,
environment, folder, input and outputs, and so has every process that it spawns with `multiprocessing`. A test whose
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
import os
import pkgutil
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from multiprocessing import util
from pathlib import Path
from typing import IO, NoReturn

ROOT = Path(__file__).resolve().parents[2]
# Of the plugins of pytest only ours: pytest rewrites the assertions of the others and warns where it comes too late.
LIBRARIES = (
    "numpy",
    "scipy.stats",
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
    _take_over(request, fds)
    given = [part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part]
    sys.path[:] = [request["folder"], *given, *sys.path[1:]]  # the first is this file's folder
    sys.argv[:] = [request["module"], *request["arguments"]]
    _spawn_warm()
    _run_to_the_end(lambda: runpy.run_module(request["module"], run_name="__main__", alter_sys=True))


def _spawn_warm() -> None:
    """Make a process that this one spawns with `multiprocessing` a fork of this one as it is now.

    The tracker of resources is small and starts as ever.
    """
    start = util.spawnv_passfds
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if os.fork() == 0:
        ours.close()
        _serve_spawns(theirs)
    theirs.close()

    def spawn(path: bytes, arguments: Sequence[str | bytes], passed: Sequence[int]) -> int:
        targets = [0, 1, 2, *passed]
        command = [os.fsdecode(argument) for argument in arguments]
        if "--multiprocessing-fork" not in command:
            return start(path, arguments, passed)
        request = {"command": command, "targets": targets, "environment": {**os.environ}, "folder": os.getcwd()}
        _adopt(True)
        try:
            socket.send_fds(ours, [json.dumps(request).encode()], targets)
            return int(ours.recv(64))
        finally:
            _adopt(False)

    util.spawnv_passfds = spawn


def _adopt(does: bool) -> None:
    """Become the parent of processes below this one whose own parent ends, or leave that to the system again."""
    PR_SET_CHILD_SUBREAPER = 36
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, int(does), 0, 0, 0)


def _serve_spawns(requests: socket.socket) -> NoReturn:
    """Fork for every request until the other side is closed; whoever asks becomes the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.chdir("/")  # tests look for what still runs in the folder of a run that has ended
    while True:
        message, fds, _, _ = socket.recv_fds(requests, LARGEST_REQUEST_BYTES, 64)
        if not message:
            os._exit(0)
        reader, writer = os.pipe()
        between = os.fork()
        if between == 0:
            pid = os.fork()
            if pid == 0:
                os.close(reader)
                os.close(writer)
                requests.close()
                _become_spawned(json.loads(message), fds)
            os.write(writer, str(pid).encode())
            os._exit(0)
        os.waitpid(between, 0)
        requests.sendall(os.read(reader, 64))
        for fd in (reader, writer, *fds):
            os.close(fd)


def _become_spawned(request: dict, fds: list[int]) -> NoReturn:
    """Turn this fork into `python … -c code …` with the descriptors under the numbers that the code names."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    first_free = max(request["targets"]) + 1
    moved = [fcntl.fcntl(fd, fcntl.F_DUPFD, first_free) for fd in fds]
    for fd in fds:
        os.close(fd)
    for target, fd in zip(request["targets"], moved, strict=True):
        os.dup2(fd, target)
        os.close(fd)
    _take_over(request, [])
    code = request["command"].index("-c")
    sys.argv[:] = request["command"][code:][:1] + request["command"][code + 2 :]
    _run_to_the_end(lambda: exec(request["command"][code + 1], {"__name__": "__main__"}))


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
