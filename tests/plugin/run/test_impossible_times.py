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
from roofline_model import gemm, predict

TIME_S = 1 / 64


@pytest.fixture
def flags_of(fake_timer):
    """Return the flags of a case of 1/64 s whose roof is `ratio` times as long."""
    call = KernelCall(lambda: fake_timer.spend(TIME_S), lambda i: (), False)
    plan = MeasurePlan()
    timing = run_interleaved({"": (call, fake_timer, MedianInterval(max_seconds=1.0))}, plan)[""]
    method = SimpleNamespace(method=lambda *settings: None)

    def flags(ratio, provenance="measured-here", *, cache="cold", is_forced=False, is_own=True, seen=()):
        work = gemm(1, 4096, 4096, a="BF16")
        prediction = replace(predict(work, "b10"), time_s=ratio * TIME_S, provenance=provenance)
        pending = Pending(work.case("k", cache=cache), prediction)
        session = SimpleNamespace(target=SimpleNamespace(is_forced=is_forced), instruments=method)
        timer = SimpleNamespace(runs_kernel=is_own)
        observed = Observed(replace(timing, flags=seen), (), MachineState(), seen)
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
