"""Processes that compute what would keep the server from answering: sweeps.

Threads do not help: one interpreter runs one of them at a time. Without workers (tests, another ASGI server, the first
second of ours) the same functions run here.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import shutil
import signal
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import resource_tracker
from multiprocessing.connection import wait
from multiprocessing.util import get_temp_dir
from typing import Any, TypeVar

import anyio

T = TypeVar("T")

WORKER_NICENESS = 10
"""What a long answer waits for a core longer is little; a short one that waits for a sweep is late."""

SETTLE_S = 0.1

PRELOADED = ("reports.api.predict.product", "reports.api.predict.sweep", "roofline_model.sweep", "pandas")
"""Imported once by the process that workers are forked from."""


class WorkerPool:
    """A few processes, started when `start` is called. Functions and arguments are pickled, errors too."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._pool: ProcessPoolExecutor | None = None
        self._is_settled = threading.Event()
        self._is_settled.set()

    def start(self, first: Callable[[], object]) -> None:
        """Start the processes and have each call `first`, then use them; blocks meanwhile, so not in the event loop."""
        if self._count < 1:
            return
        self._is_settled.clear()
        try:
            self._pool = self._started(first)
        finally:
            self._is_settled.set()

    def _started(self, first: Callable[[], object]) -> ProcessPoolExecutor | None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(list(PRELOADED))
        pool = ProcessPoolExecutor(self._count, mp_context=context, initializer=_prepare)
        try:
            with _ctrl_c_withheld():
                begun = [pool.submit(first) for _ in range(self._count)]
            for done in begun:
                done.result()
        except (BrokenProcessPool, OSError, EOFError):
            pool.shutdown(wait=False, cancel_futures=True)  # no processes here: all is computed in the server itself
            return None
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
        return pool

    @property
    def is_starting(self) -> bool:
        """Whether the processes are being started at this moment."""
        return not self._is_settled.is_set()

    @property
    def is_running(self) -> bool:
        """Whether there are processes to ask."""
        return self._pool is not None

    async def run(self, function: Callable[..., T], *arguments: Any) -> T:
        """Return what `function` returns in a worker; in a thread of ours where there is none. Its errors are raised
        here.
        """
        pool = self._pool
        if pool is not None:
            try:
                return await asyncio.wrap_future(pool.submit(function, *arguments))
            except (BrokenProcessPool, RuntimeError):
                self._pool = None  # a worker was killed (out of memory, say): the server goes on without
        return await anyio.to_thread.run_sync(function, *arguments)

    def close(self) -> None:
        """End the processes; what they are at is dropped."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=False, cancel_futures=True)

    def abandon(self) -> None:
        """Do what multiprocessing would do at an orderly end; for who is about to end this process without one."""
        if self._count < 1:
            return
        self._is_settled.wait(SETTLE_S)  # a process that is being forked is known a moment later
        for process in multiprocessing.active_children():
            process.kill()  # one that is still starting would miss what it shares with us, and say so at length
        shutil.rmtree(get_temp_dir(), ignore_errors=True)


class AnswerCache:
    """The newest answers by question. Not safe between threads: for the event loop, or under a lock of the caller's."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._answers: OrderedDict[Any, Any] = OrderedDict()

    def get(self, question: Any) -> Any:
        """Return the answer that is kept, or None."""
        answer = self._answers.get(question)
        if answer is not None:
            self._answers.move_to_end(question)
        return answer

    def put(self, question: Any, answer: Any) -> None:
        """Keep an answer in place of the one that was asked for longest ago."""
        self._answers[question] = answer
        if len(self._answers) > self._most:
            self._answers.popitem(last=False)


@contextlib.contextmanager
def _ctrl_c_withheld() -> Iterator[None]:
    """Have the processes that this thread starts be born deaf to Ctrl-C, which a terminal sends to all of them.

    They learn to ignore it only after imports that take a second, and would print a traceback each until then.
    """
    resource_tracker.ensure_running()  # starting it lifts the mask
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _prepare() -> None:
    """Make a worker end with its server, and have short answers go first."""
    with contextlib.suppress(AttributeError, OSError):  # not every system has it
        os.nice(WORKER_NICENESS)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()


def _end_with(sentinel: int) -> None:
    wait([sentinel])
    os._exit(0)
