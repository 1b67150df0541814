"""Processes beside the server: their answers, their errors, and what happens when one is killed."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

import reports.api.worker_pool as worker_pool
from reports.api.analysis import recommendation_json
from reports.api.analysis_models import SweepRequest
from reports.api.problem import ProblemError
from reports.api.sweep_endpoint import _answer
from reports.api.worker_pool import KeptAnswers, WorkerPool

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


def test_a_problem_found_in_a_worker_is_raised_in_the_server(pool):
    body = SweepRequest(M="1:400:1", N="1:400:1", K=64, formats=["BF16"])
    with pytest.raises(ProblemError, match="160,000 predictions") as found:
        asyncio.run(pool.run(_answer, body, ["gb10"], 100_000))
    assert (found.value.status, found.value.slug, found.value.fields[0].field) == (422, "sweep-too-large", "M")


def test_without_its_workers_the_server_goes_on(pool):
    async def ask():
        return await pool.run(os.getpid)

    worker = asyncio.run(ask())
    os.kill(worker, signal.SIGKILL)
    assert asyncio.run(ask()) == os.getpid()
    assert not pool.is_running
    assert asyncio.run(ask()) == os.getpid()


def test_no_workers_are_wanted():
    none = WorkerPool(0)
    none.start(os.getpid)
    assert not none.is_running
    assert asyncio.run(none.run(os.getpid)) == os.getpid()


def test_the_oldest_answer_makes_room():
    kept = KeptAnswers(2)
    for question in ("a", "b"):
        kept.put(question, question.upper())
    assert kept.get("a") == "A"
    kept.put("c", "C")
    assert [kept.get(question) for question in "abc"] == ["A", None, "C"]
