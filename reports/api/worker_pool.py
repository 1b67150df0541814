"""Processes that compute what would keep the server from answering: sweeps.

Threads do not help: one interpreter runs one of them at a time. Without workers (tests, another ASGI server, the first
second of ours) the same functions run here.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import signal
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import wait
from typing import Any, TypeVar

import anyio

T = TypeVar("T")

WORKER_NICENESS = 10
"""What a long answer waits for a core longer is little; a short one that waits for a sweep is late."""

PRELOADED = ("reports.api.analysis", "reports.api.sweep_endpoint", "roofline_model.sweep", "pandas")
"""Imported once by the process that workers are forked from."""


class WorkerPool:
    """A few processes, started when `start` is called. Functions and arguments are pickled, errors too."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._pool: ProcessPoolExecutor | None = None

    def start(self, first: Callable[[], object]) -> None:
        """Start the processes and have each call `first`, then use them; blocks meanwhile, so not in the event loop."""
        if self._count < 1:
            return
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(list(PRELOADED))
        pool = ProcessPoolExecutor(self._count, mp_context=context, initializer=_prepare)
        try:
            for done in [pool.submit(first) for _ in range(self._count)]:
                done.result()
        except (BrokenProcessPool, OSError):
            pool.shutdown(wait=False, cancel_futures=True)  # no processes here: all is computed in the server itself
            return
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
        self._pool = pool

    @property
    def is_running(self) -> bool:
        """Whether there are processes to ask."""
        return self._pool is not None

    async def run(self, function: Callable[..., T], *arguments: Any) -> T:
        """Return what `function` returns in a worker; in a thread of ours where there is none. Its errors are raised here."""
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


class KeptAnswers:
    """The newest answers by question. Not safe between threads: for the event loop, or under a lock of the caller's."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._answers: OrderedDict[Any, Any] = OrderedDict()

    def get(self, question: Any) -> Any:
        """Return the answer that is kept, or None."""
        found = self._answers.get(question)
        if found is not None:
            self._answers.move_to_end(question)
        return found

    def put(self, question: Any, answer: Any) -> None:
        """Keep an answer in place of the one that was asked for longest ago."""
        self._answers[question] = answer
        if len(self._answers) > self._most:
            self._answers.popitem(last=False)


def _prepare() -> None:
    """Make a worker end with its server, and not before: Ctrl-C in a terminal reaches it too. Short answers go first."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(AttributeError, OSError):  # not every system has it
        os.nice(WORKER_NICENESS)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()


def _end_with(sentinel: int) -> None:
    wait([sentinel])
    os._exit(0)
