"""Processes beside the server: their answers, their errors, and what happens when one is killed."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
from functools import partial

import pytest

import reports.api.http.worker_pool as worker_pool
from reports.api.http.problem import ProblemError
from reports.api.http.worker_pool import AnswerCache, WorkerPool
from reports.api.predict.product import recommendation_json
from reports.api.predict.sweep import PIECE_ROWS, SweepRequest, sweep_plan

QUESTION = ("gb10", (1, 4096, 4096), None, None, None, None)


@pytest.fixture(scope="module")
def pool():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(worker_pool, "PRELOADED", ())
        made = WorkerPool(1)
        made.start(os.getpid)
        yield made
        made.close()


def test_a_worker_gives_the_same_answer_as_the_server(pool):
    async def both():
        return await pool.run(os.getpid), await pool.run(recommendation_json, *QUESTION)

    pid, answer = asyncio.run(both())
    assert pid != os.getpid()
    assert answer == recommendation_json(*QUESTION)


def test_ctrl_c_in_a_terminal_does_not_reach_the_workers(pool):
    async def mask():
        return await pool.run(signal.pthread_sigmask, signal.SIG_BLOCK, ())

    assert signal.SIGINT in asyncio.run(mask())
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())  # the server itself does end with it


def test_a_problem_found_in_a_worker_is_raised_in_the_server(pool):
    body = SweepRequest(M="1:400:1", N="1:400:1", K=64, formats=["BF16"])
    with pytest.raises(ProblemError, match="160,000 predictions") as caught:
        asyncio.run(pool.run(sweep_plan, body, ["gb10"], 100_000))
    assert (caught.value.status, caught.value.slug, caught.value.fields[0].field) == (422, "sweep-too-large", "M")


def test_many_small_grids_share_a_piece_and_large_ones_are_cut():
    body = SweepRequest(M=[1, 2], N=64, K=64, formats=["FP16", "FP8", "INT4.BF16"])
    small = sweep_plan(body, ["gb10", "h100-sxm"], 100)
    assert (small.point_count, small.series_count, len(small.pieces)) == (12, 6, 1)
    large = sweep_plan(SweepRequest(M="1:300:1", N="64:6400:64", K=[64, 128], formats=["FP16"]), ["gb10"], 60_000)
    sizes = [grid.sizes for piece in large.pieces for grid in piece]
    assert all(len(m) * len(n) * len(k) <= PIECE_ROWS for m, n, k in sizes)
    shapes = [shape for axes in sizes for shape in itertools.product(*axes)]
    assert shapes == list(itertools.product(*large.axes))
    assert len(shapes) == large.point_count == 60_000


def test_without_its_workers_the_server_goes_on(pool):
    async def ask():
        return await pool.run(os.getpid)

    worker = asyncio.run(ask())
    os.kill(worker, signal.SIGKILL)
    assert asyncio.run(ask()) == os.getpid()
    assert not pool.is_running
    assert asyncio.run(ask()) == os.getpid()


def test_workers_that_fail_at_their_first_task_do_not_stay():
    import multiprocessing
    import time

    pool = WorkerPool(1)
    before = set(multiprocessing.active_children())
    with pytest.raises(ZeroDivisionError):
        pool.start(partial(divmod, 1, 0))
    until_s = time.monotonic() + 10
    while set(multiprocessing.active_children()) - before and time.monotonic() < until_s:
        time.sleep(0.02)
    assert set(multiprocessing.active_children()) - before == set()


def test_abandoned_workers_leave_nothing(monkeypatch, tmp_path):
    class Child:
        is_killed = False

        def kill(self):
            self.is_killed = True

    child, folder = Child(), tmp_path / "sockets"
    folder.mkdir()
    monkeypatch.setattr(worker_pool.multiprocessing, "active_children", lambda: [child])
    monkeypatch.setattr(worker_pool, "get_temp_dir", lambda: str(folder))
    WorkerPool(0).abandon()
    assert not child.is_killed
    WorkerPool(1).abandon()
    assert child.is_killed
    assert not folder.exists()


def test_no_workers_are_wanted():
    none = WorkerPool(0)
    none.start(os.getpid)
    assert not none.is_running
    assert asyncio.run(none.run(os.getpid)) == os.getpid()


def test_the_oldest_answer_makes_room():
    cache = AnswerCache(2)
    for question in ("a", "b"):
        cache.put(question, question.upper())
    assert cache.get("a") == "A"
    cache.put("c", "C")
    assert [cache.get(question) for question in "abc"] == ["A", None, "C"]
