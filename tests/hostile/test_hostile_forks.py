"""Kernels that fork: the child comes back into pytest, and nothing it says or stores counts."""

from __future__ import annotations

import multiprocessing
from collections import Counter

import pytest
import warm_start

from results import open_store
from roofline_model.core.errors import StoreError

OPTIONS = (
    "--hw",
    "b10",
    "--roofline-force-measure",
    "--roofline-no-canary",
    "--roofline-max-seconds",
    "0.02",
    "--roofline-db",
    "r.db",
    "-p",
    "no:cacheprovider",
    "-p",
    "no:benchmark",
    "-p",
    "no:hypothesispytest",
)
HEAD = """
import ctypes, os
import pytest
from roofline_model import OpCost

def measure(roofline, kernel, **given):
    roofline.measure(kernel, work=OpCost(read_bytes=1e6), **given)

def once(fork):
    calls = []
    def kernel():
        calls.append(1)
        if len(calls) == 5:
            fork()
    return kernel
"""
SUITE = (
    HEAD
    + """
@pytest.mark.parametrize("fork", [os.fork, ctypes.CDLL(None).fork], ids=["python", "c"])
def test_fork(roofline, fork):
    measure(roofline, once(fork), name=f"fork_{fork.__name__}_{type(fork).__name__}")

@pytest.mark.parametrize("i", range(3))
def test_good(roofline, i):
    measure(roofline, lambda: None, name=f"good{i}")

def test_wrong(roofline):
    measure(roofline, lambda: 1.0, name="wrong", reference=2.0)
"""
)


@pytest.mark.parametrize("isolate", ["auto", "none"])
def test_each_case_is_stored_once_and_a_wrong_one_fails(tmp_path, isolate):
    (tmp_path / "test_forks.py").write_text(SUITE)
    done = warm_start.run("pytest", "-v", *OPTIONS, "--roofline-isolate", isolate, cwd=tmp_path)
    text = done.stdout + done.stderr
    assert done.returncode == 1, text
    assert "1 failed, 5 passed" in text
    assert text.count("= test session starts =") == 1
    with open_store(tmp_path / "r.db", read_only=True) as store:
        (run,) = store.runs()
        records = store.records(run.run_id)
    assert run.status == "complete"
    assert Counter(record.test_id.split("::")[1] for record in records) == dict.fromkeys(
        ["test_fork[python]", "test_fork[c]", "test_good[0]", "test_good[1]", "test_good[2]", "test_wrong"], 1
    )
    assert {record.case.kernel for record in records if record.status == "failed"} == {"wrong"}
    assert not list(tmp_path.glob("*.rescued.json"))


def test_a_store_is_not_used_by_a_forked_process(tmp_path):
    with open_store(tmp_path / "r.db") as store:
        context = multiprocessing.get_context("fork")
        here, there = context.Pipe()

        def use():
            messages = []
            for attempt in (store.runs, lambda: store.flag_records(["x"], "noisy")):
                try:
                    attempt()
                    messages.append("")
                except StoreError as error:
                    messages.append(str(error))
            there.send(messages)

        child = context.Process(target=use)
        child.start()
        messages = here.recv()
        child.join()
        assert all("opened by the process that forked this one" in text for text in messages)
        assert store.runs() == []
