from __future__ import annotations

from dataclasses import replace

import pytest

from plugin.machine.canary import EVERY_S, CanaryKeeper, CanaryLedger, make_canary_kernel, reference_s
from results.records.state_records import CanaryReading

KERNEL = "gemv"


class Machine:
    """A clock and a canary kernel that takes what it is told."""

    def __init__(self, times):
        self.clock_s = 0.0
        self.times = iter(times)
        self.delivered = []
        self.rests = []

    def rest(self, seconds):
        self.rests.append(seconds)
        self.clock_s += seconds

    def keeper(self, earlier=()):
        return CanaryKeeper(
            name=KERNEL,
            run_kernel=lambda: next(self.times),
            earlier_s=earlier,
            deliver=self.delivered.append,
            utc_now=lambda: f"t{len(self.delivered)}",
            now=lambda: self.clock_s,
            rest=self.rest,
        )


def reading(time_s, is_slow=False, kernel=KERNEL, ordinal=0):
    return CanaryReading(ordinal, 0, "", kernel, time_s, None, is_slow)


def test_the_canary_runs_before_the_first_case_and_then_every_few_seconds():
    machine = Machine([1.0, 1.0, 1.0])
    keeper = machine.keeper()
    for at in (0.0, EVERY_S / 2, EVERY_S + 0.1, EVERY_S + 0.2):
        machine.clock_s = at
        keeper.before_case()
    assert [canary.ordinal for canary in machine.delivered] == [0, 1]


def test_a_slow_reading_is_looked_at_again_after_a_rest():
    machine = Machine([1.0, 4.0, 1.0])
    keeper = machine.keeper()
    keeper.look()
    keeper.look()
    assert [canary.is_slow for canary in machine.delivered] == [False, True, False]
    assert len(machine.rests) == 1


def test_a_state_that_stays_slow_is_delivered_as_such_and_the_run_goes_on():
    machine = Machine([3.3, 3.3, 3.3])
    machine.keeper(earlier=[1.0, 1.01, 0.99]).look()
    assert [canary.is_slow for canary in machine.delivered] == [True, True, True]
    assert {canary.reference_s for canary in machine.delivered} == {1.0}


@pytest.mark.parametrize(
    ("earlier", "current", "expected"),
    [
        ([], [2.0, 1.0], 1.0),  # nothing known: the fastest of this run
        ([5.0, 5.0], [2.0], 2.0),  # too few earlier readings to make a reference
        ([1.0, 1.1, 1.2], [1.1], 1.1),
        ([3.3, 3.3, 3.3], [1.0], 1.5),  # every earlier run was in the slow state
    ],
)
def test_reference(earlier, current, expected):
    assert reference_s(earlier, current) == pytest.approx(expected)


def test_ordinary_noise_is_not_slow():
    machine = Machine([1.0, 1.3, 0.9, 1.2])
    keeper = machine.keeper(earlier=[1.0] * 5)
    for _ in range(4):
        keeper.look()
    assert not any(canary.is_slow for canary in machine.delivered)


def test_a_slow_reading_quarantines_the_cases_on_both_sides_of_it():
    ledger = CanaryLedger()
    assert ledger.add_reading(reading(1.0)) == []
    assert [ledger.add_record(name) for name in "ab"] == [[], []]
    assert ledger.add_reading(reading(1.0)) == []
    assert ledger.add_record("c") == []
    assert ledger.add_reading(reading(3.3, is_slow=True)) == ["c"]
    assert ledger.add_record("d") == ["d"]
    assert ledger.add_reading(reading(1.0)) == []
    assert ledger.add_record("e") == []


def test_the_look_after_a_rest_replaces_the_slow_one():
    ledger = CanaryLedger()
    ledger.add_reading(reading(1.0))
    ledger.add_record("a")
    assert ledger.add_reading(reading(3.0, is_slow=True)) == ["a"]  # what ran before it stays in doubt
    ledger.add_reading(reading(1.0))
    assert ledger.add_record("b") == []


def test_a_run_that_began_slow_is_found_out_when_the_machine_recovers():
    ledger = CanaryLedger()
    assert ledger.add_reading(reading(3.3)) == []
    assert ledger.add_record("a") == []
    assert ledger.add_reading(reading(1.0, ordinal=1)) == ["a"]
    # and the reading itself says so from now on, with what it is compared with
    assert [(canary.is_slow, canary.reference_s) for canary in ledger.readings] == [(True, 1.0), (False, None)]
    assert ledger.rejudged == [ledger.readings[0]]
    assert ledger.add_reading(reading(1.1, ordinal=2)) == []
    assert ledger.rejudged == []  # told once


def test_a_fresh_process_that_began_slow_is_judged_by_the_readings_of_the_one_before():
    ledger = CanaryLedger()
    ledger.add_reading(reading(1.0))
    assert ledger.add_record("a") == []
    assert ledger.add_reading(replace(reading(3.3), process_ordinal=1)) == ["a"]
    assert [canary.is_slow for canary in ledger.readings] == [False, True]
    assert ledger.rejudged == []  # it is not stored yet: it goes there as it is judged now


def test_a_reading_that_a_second_look_replaced_is_judged_again_too():
    ledger = CanaryLedger()
    ledger.add_reading(reading(3.3))
    ledger.add_reading(reading(3.2, ordinal=1))  # nothing was measured between the two
    ledger.add_reading(reading(1.0, ordinal=2))
    assert [canary.is_slow for canary in ledger.readings] == [True, True, False]


def test_readings_of_another_kernel_are_no_reference():
    ledger = CanaryLedger()
    ledger.add_reading(reading(0.001, kernel="copy"))
    ledger.add_record("a")
    assert ledger.add_reading(reading(3.3)) == []


def test_the_kernel_is_named_by_what_it_does_and_takes_time():
    name, run = make_canary_kernel("cpu", 1024.0)
    assert name in ("gemv-fp32-4096x4096-torch", "copy-32MiB-numpy")
    assert 0 < run() < 10


def test_a_large_cache_gets_a_larger_matrix():
    names = {make_canary_kernel("cuda", cache)[0] for cache in (24e6, 126e6)}
    assert names == {"gemv-bf16-8192x4096-cuda", "gemv-bf16-30761x4096-cuda"}
