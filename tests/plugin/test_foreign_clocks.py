"""Suites that bend time while a kernel is measured: the time is that of the system, or stored with a doubt."""

from __future__ import annotations

import threading
import time

import pytest

from plugin.machine import cpu_state
from plugin.timers.clock import time as own_time
from results import open_store

SUITE = """
import threading
import time

import pytest
from freezegun import freeze_time

REST_S = 0.002
real = {name: getattr(time, name) for name in ("perf_counter", "perf_counter_ns", "monotonic", "time")}


def kernel():
    threading.Event().wait(REST_S)  # no clock of Python's is asked
    return 1.0


def measured(roofline):
    roofline.measure(kernel, reference=1.0, again=False)  # not beside a clock that another test bends


@freeze_time("2001-02-03", auto_tick_seconds=15)
def test_frozen_and_ticking(roofline):
    measured(roofline)


@freeze_time("2001-02-03")
def test_frozen(roofline):
    measured(roofline)


@pytest.mark.parametrize("change", [lambda now: now / 2, lambda now: now * 0, lambda now: now + 60 * (now % 2 > 1)],
                         ids=["halved", "stopped", "jumping"])
def test_patched(roofline, monkeypatch, change):
    for name, clock in real.items():
        monkeypatch.setattr(time, name, lambda clock=clock: type(clock())(change(clock())))
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    measured(roofline)


def test_own_clock_halved(roofline, monkeypatch):
    from plugin.timers.clock import time as own

    clock = own.perf_counter_ns
    monkeypatch.setattr(own, "perf_counter_ns", lambda: clock() // 2)
    measured(roofline)
"""


@pytest.fixture
def records(pytester):
    pytester.makepyfile(test_kernels=SUITE)
    # In a process of its own: freezegun looks through every module that is loaded, each time.
    result = pytester.runpytest_subprocess(
        "-p", "no:cacheprovider", "--roofline-db", "r.db", "--hw", "b10", "--roofline-force-measure",
        "--roofline-device", "cpu", "--roofline-isolate", "none", "--roofline-max-seconds", "0.03",
        "--roofline-no-canary",
    )  # fmt: skip
    result.assert_outcomes(passed=6)
    with open_store(pytester.path / "r.db", read_only=True) as store:
        return {record.test_id.rpartition("::")[2]: record for record in store.records(store.runs()[0].run_id)}


def test_a_suite_that_freezes_or_bends_time_gets_the_time_of_the_system(records):
    doubted = records.pop("test_own_clock_halved").measurement
    assert doubted.median_s < 0.002  # half of what no kernel of 2 ms can take less than
    assert "clocks-disagree" in doubted.flags
    for name, record in records.items():
        assert 0.002 <= record.measurement.median_s < 10, name
        assert "clocks-disagree" not in record.measurement.flags, name
        assert record.created_at[:4] > "2001", name


def test_patching_the_module_of_time_reaches_none_of_our_clocks(monkeypatch):
    monkeypatch.setattr(time, "perf_counter", lambda: 3.0)
    assert own_time.perf_counter() != 3.0
    assert own_time is not time


def test_a_thread_that_works_on_when_the_kernel_does_not_is_contention():
    stop = threading.Event()

    def burn():
        while not stop.is_set():
            sum(range(1000))

    before = cpu_state.thread_times()
    thread = threading.Thread(target=burn)
    thread.start()
    try:
        until_s = time.perf_counter() + 30
        while not cpu_state.stray_s(before, 0.05):
            assert time.perf_counter() < until_s, "the thread was not seen"
            time.sleep(0.05)
    finally:
        stop.set()
        thread.join()
    assert cpu_state.stray_s(before, 0.05) == 0.0  # what has ended, or rests, is not in the way


def test_threads_of_a_kernel_are_none():
    before = cpu_state.thread_times()
    with cpu_state.LoadWatch() as load:
        workers = [threading.Thread(target=lambda: sum(range(10**6))) for _ in range(3)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        until_s = time.process_time() + 0.1
        while time.process_time() < until_s:  # the measuring thread itself
            pass
    assert cpu_state.stray_s(before, 0.02) == 0.0
    assert load._stray_s == 0.0
