"""A time that no kernel of this work can have is stored with a doubt: `above-roof`."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

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
WORK = gemm(1, 4096, 4096, a="BF16")


@pytest.fixture
def flags_of(fake_timer):
    """Return the flags of a case of 1/64 s whose bytes take `ratio` times as long at the bandwidth of the chip."""
    call = KernelCall(lambda: fake_timer.spend(TIME_S), lambda i: (), False)
    plan = MeasurePlan()
    timing = run_interleaved({"": (call, fake_timer, MedianInterval(max_seconds=1.0))}, plan)[""]
    method = SimpleNamespace(method=lambda *settings: None)

    def flags(ratio, status="measured-here", *, cache="cold", is_forced=False, is_own=True, seen=()):
        real = get_hardware("b200")
        bandwidth = replace(real.bandwidth, value=WORK.cost.total_bytes / (ratio * TIME_S), status=status)
        chip = replace(real, bandwidth=bandwidth)
        pending = Pending(WORK.case("k", cache=cache), predict(WORK, chip))
        session = SimpleNamespace(target=SimpleNamespace(is_forced=is_forced, hardware=chip), instruments=method)
        timer = SimpleNamespace(runs_kernel=is_own)
        observed = Observed(replace(timing, flags=seen), (), MachineState(), seen)
        return pending.measured(session, observed, timer, plan).flags

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
