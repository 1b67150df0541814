"""The aims of the page on labelled truth, in reduced counts and from fixed seeds; nothing here looks at a clock."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import poisson

from benchmarks.watch import labelled_page, labelled_truth
from benchmarks.watch.labelled_nights import BUSY, QUIET, machine_nights
from benchmarks.watch.labelled_truth import GATES, LEVELS, OURS
from benchmarks.watch.rivals import DETECTORS


def test_unchanged_nights_fail_fewer_than_one_gate_in_twenty():
    quiet, busy = (labelled_truth.false_alarms(machine, 1, cases=60, nights=25) for machine in (QUIET, BUSY))
    assert quiet.night_count == busy.night_count == 20
    for alarms in (quiet, busy):
        assert alarms.nights[OURS[0]] <= poisson.ppf(0.999, 1)  # more is seen once in a thousand runs at the aim
        assert alarms.nights[OURS[1]] <= alarms.nights[OURS[0]]
    assert busy.nights[GATES[2]] > 15  # the rival is as bad as is said of it
    assert quiet.ambiguous_ratio < 0.2


def test_five_per_cent_are_found_on_a_quiet_machine_and_never_called_the_same_on_a_busy_one():
    quiet = labelled_truth.detection(QUIET, 0.05, 0.1, 2, cases=40)
    assert quiet.rates[OURS[0]] >= 0.85  # of 8; fewer are found once in a thousand runs at 95 %
    busy = labelled_truth.detection(BUSY, 0.05, 0.1, 3, cases=40)
    assert busy.same_ratio <= 2 / 12
    assert busy.rates[OURS[0]] + busy.ambiguous_ratio >= 10 / 12


@pytest.mark.parametrize("noise", [0.005, 0.01, 0.0175, 0.03])
def test_three_processes_find_five_per_cent_or_say_that_they_cannot(noise):
    changed = labelled_truth.power_of(noise, 0.05, 60)
    unchanged = labelled_truth.power_of(noise, 0.0, 20)
    assert changed.same <= 0.12  # a 95 % interval misses 2.5 % on one side: 7 of 60 once in a thousand runs
    if changed.half_width_ratio < 0.02:
        assert changed.slower >= 0.85
    if unchanged.half_width_ratio <= 0.03:
        assert unchanged.ambiguous <= 0.22
    assert unchanged.slower < 0.002


@pytest.mark.parametrize("name", LEVELS)
def test_every_history_finds_a_large_step_where_it_is(name):
    history = machine_nights(np.random.default_rng(4), QUIET, 46, 10, 3).with_step(40, np.arange(10), 0.2)
    values = labelled_truth.case_values(history)
    hits = sum(any(abs(start - 40) <= 1 for _, start in labelled_truth.raised(name, series)) for series in values)
    assert hits >= 9


def test_the_rivals_alone_see_a_step_down_as_none():
    series = np.concatenate([np.full(20, 1.0), np.full(20, 0.8)]) + 0.001 * np.random.default_rng(1).normal(size=40)
    assert all(detector(series, 10) == [] for detector in DETECTORS.values())


def test_the_page_names_every_contestant_and_table(monkeypatch):
    for name in ("QUICK_SERIES", "QUICK_ROUNDS"):
        monkeypatch.setattr(labelled_page, name, 1)
    monkeypatch.setattr(labelled_page, "false_alarms", lambda machine, count: labelled_truth.Alarms(machine.name, 20))
    monkeypatch.setattr(labelled_page, "alarm_text", lambda alarms: f"{len(alarms)} machines\n")
    monkeypatch.setattr(
        labelled_page,
        "detection",
        lambda machine, step, share, rounds: labelled_truth.Detection(
            machine.name, step, share, dict.fromkeys((*GATES, *LEVELS), 0.5), 0.25, 0.25
        ),
    )
    page = labelled_page.render(quick=True)
    assert all(name in page for name in (*GATES, *LEVELS))
    assert page.count("| quiet, +") == page.count("| busy, +") == 9
    assert page.count("| 1.00 % |") == 1
