"""A time that no kernel of this work can have is stored with a doubt: `above-roof`."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from plugin.run.observe import Observed
from plugin.run.pending import Pending
from plugin.run.runner import run_interleaved
from plugin.samples.kernel_call import KernelCall
from plugin.samples.plan import MeasurePlan
from plugin.samples.series import MedianInterval
from results.records.flags import DOUBTFUL_FLAGS
from results.records.state_records import MachineState
from roofline_model import gemm, get_hardware, predict

TIME_S = 1 / 64


@pytest.fixture
def flags_of(fake_timer):
    """Return the flags of a case of 1/64 s whose roof is `ratio` times as long."""
    call = KernelCall(lambda: fake_timer.spend(TIME_S), lambda i: (), False)
    plan = MeasurePlan()
    timing = run_interleaved({"": (call, fake_timer, MedianInterval(max_seconds=1.0))}, plan)[""]
    method = SimpleNamespace(method=lambda *settings: None)

    def flags(
        ratio, provenance="measured-here", *, cache="cold", is_forced=False, is_own=True, seen=(), read_bytes=None
    ):
        work = gemm(1, 4096, 4096, a="BF16")
        prediction = replace(predict(work, "b10"), time_s=ratio * TIME_S, provenance=provenance)
        pending = Pending(work.case("k", cache=cache), prediction if read_bytes is None else None)
        target = SimpleNamespace(is_forced=is_forced, hardware=get_hardware("h100-sxm"))
        session = SimpleNamespace(target=target, instruments=method)
        timer = SimpleNamespace(runs_kernel=is_own)
        observed = Observed(replace(timing, flags=seen, read_bytes=read_bytes or 0), (), MachineState(), seen)
        return pending.measured(session, observed, timer, plan).flags

    return flags


@pytest.mark.parametrize("provenance", ["measured-here", "datasheet"])
def test_more_than_twice_as_fast_as_its_roof_is_impossible(flags_of, provenance):
    assert "above-roof" in DOUBTFUL_FLAGS
    assert "above-roof" in flags_of(2.1, provenance)
    assert "above-roof" in flags_of(17753.0, provenance, cache="flushed")
    for ratio in (0.5, 1.06, 1.9):  # a ceiling a little low: calibrating again mends that
        assert "above-roof" not in flags_of(ratio, provenance)


def test_operands_that_stay_in_a_cache_may_beat_memory_by_more(flags_of):
    assert "above-roof" not in flags_of(30.0, cache="warm")
    assert "above-roof" in flags_of(17753.0, cache="warm")  # a kernel that does nothing at all
    assert "above-roof" not in flags_of(30.0, seen=("cold-unproven",))


@pytest.mark.parametrize("provenance", ["placeholder", "secondary", "unconfirmed", "declared"])
def test_ceilings_that_are_guesses_convict_nobody(flags_of, provenance):
    assert "above-roof" not in flags_of(10.0, provenance)


def test_times_of_another_chip_are_not_held_against_this_one(flags_of):
    assert "above-roof" not in flags_of(10.0, is_forced=True)
    assert "above-roof" not in flags_of(10.0, is_own=False)


@pytest.mark.parametrize("cache", ["cold", "flushed", "warm"])
def test_without_work_the_operands_that_are_read_take_their_time(flags_of, cache):
    bandwidth = get_hardware("h100-sxm").bandwidth.value
    for ratio, is_impossible in ((1.5, False), (2.5, cache != "warm"), (300.0, True), (0.0, False)):
        flags = flags_of(0, cache=cache, read_bytes=int(ratio * TIME_S * bandwidth))
        assert ("above-roof" in flags) is is_impossible, ratio


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
