"""A time that no kernel of this work can have is stored with a doubt: `above-roof`."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from plugin.run.pending import Pending
from plugin.run.runner import run_interleaved
from plugin.samples.kernel_call import KernelCall
from plugin.samples.plan import MeasurePlan
from plugin.samples.series import MedianInterval
from results.records.flags import DOUBTFUL_FLAGS
from roofline_model import gemm, get_hardware, predict

TIME_S = 1 / 64
WORK = gemm(1, 4096, 4096, a="BF16")


@pytest.fixture
def flags_of(fake_timer):
    """Return the flags of a case of 1/64 s whose bytes take `ratio` times as long at the bandwidth of the chip."""
    call = KernelCall(lambda: fake_timer.spend(TIME_S), lambda i: (), False)
    plan = MeasurePlan()
    timing = run_interleaved({"": (call, fake_timer, MedianInterval(max_seconds=1.0))}, plan)[""]
    method = SimpleNamespace(method=lambda *settings: None)

    def flags(ratio, status="measured-here", *, cache="cold", is_forced=False, is_own=True, seen=(), read_bytes=None):
        real = get_hardware("b200")
        total_bytes = WORK.cost.total_bytes if read_bytes is None else read_bytes
        bandwidth = replace(real.bandwidth, value=total_bytes / (ratio * TIME_S), status=status)
        chip = replace(real, bandwidth=bandwidth)
        pending = Pending(WORK.case("k", cache=cache), predict(WORK, chip) if read_bytes is None else None)
        session = SimpleNamespace(target=SimpleNamespace(is_forced=is_forced, hardware=chip), instruments=method)
        timer = SimpleNamespace(runs_kernel=is_own)
        kernel = replace(timing, measurement=replace(timing.measurement, flags=seen), read_bytes=read_bytes or 0)
        return pending.measured(session, kernel, timer, plan).flags

    return flags


@pytest.mark.parametrize(
    ("status", "possible", "impossible"), [("measured-here", (0.5, 1.06, 1.9), 2.1), ("datasheet", (0.5, 1.01), 1.05)]
)
def test_faster_than_the_chip_allows_is_impossible(flags_of, status, possible, impossible):
    assert "above-roof" in DOUBTFUL_FLAGS
    assert "above-roof" in flags_of(impossible, status)
    assert "above-roof" in flags_of(17753.0, status, cache="flushed")
    for ratio in possible:  # a measured ceiling is a little low: calibrating again mends that
        assert "above-roof" not in flags_of(ratio, status)


def test_operands_that_stay_in_a_cache_may_beat_memory_by_more(flags_of):
    assert "above-roof" not in flags_of(30.0, cache="warm")
    assert "above-roof" in flags_of(17753.0, cache="warm")  # a kernel that does nothing at all
    assert "above-roof" not in flags_of(30.0, seen=("cold-unproven",))


@pytest.mark.parametrize("status", ["placeholder", "unconfirmed", "declared"])
def test_ceilings_that_are_guesses_convict_nobody(flags_of, status):
    assert "above-roof" not in flags_of(10.0, status)


def test_times_of_another_chip_are_not_held_against_this_one(flags_of):
    assert "above-roof" not in flags_of(10.0, is_forced=True)
    assert "above-roof" not in flags_of(10.0, is_own=False)


@pytest.mark.parametrize("cache", ["cold", "flushed", "warm"])
def test_without_work_the_operands_that_are_read_take_their_time(flags_of, cache):
    for ratio, is_impossible in ((1.5, False), (2.5, cache != "warm"), (300.0, True)):
        flags = flags_of(ratio, "datasheet", cache=cache, read_bytes=10**6)
        assert ("above-roof" in flags) is is_impossible, ratio
    assert "above-roof" not in flags_of(1.0, "datasheet", cache=cache, read_bytes=0)


def test_operands_are_read_where_every_row_of_them_counts(fake_timer):
    table, rows = np.random.default_rng(0).random((4096, 8)), np.array([3, 5, 9])
    vector = np.random.default_rng(1).random(8)

    def read_bytes(kernel, *arguments):
        def timed(*given):
            fake_timer.spend(1e-4)
            return kernel(*given)

        call = KernelCall(timed, lambda i: arguments, False, reference=kernel)
        rule = MedianInterval(max_seconds=0.1)
        return run_interleaved({"": (call, fake_timer, rule)}, MeasurePlan(wants_read_bytes=True))[""].read_bytes

    assert read_bytes(np.matmul, table, vector) == table.nbytes + vector.nbytes
    assert read_bytes(lambda t, r: t[r], table, rows) == 0  # a few rows of many
    memo = {}
    assert read_bytes(lambda t, v: memo.setdefault(0, t @ v) * v.sum(), table, vector) == vector.nbytes
