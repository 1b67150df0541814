"""The machine over a run: canary readings against their reference, quarantine, workers, warnings."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reports.view.run_state import run_state
from results.cases.case_result import case_results
from results.records.records import EnvironmentInfo
from roofline_model.core.finding import finding, stored_form


def state_of(make, records, canaries, **run):
    return run_state(make.run(**run), case_results(records), records, canaries)


def test_readings_are_drawn_on_the_runs_own_clock_and_slow_ones_stand_out(make):
    state = state_of(make, make.rich_records(), make.canaries(), started_at="2026-11-21T09:09:00+00:00")
    assert [canary.offset_s for canary in state.canaries] == [30.0 + 60 * index for index in range(9)]
    assert [round(state_case.slowdown_ratio, 1) for state_case in state.slow] == [3.2, 3.1]
    assert state.has_time_axis
    assert len(state.quarantined) == len(state.quarantined_offsets_s) == 2
    assert all(0 < offset_s < 600 for offset_s in state.quarantined_offsets_s)
    assert state.canary_sentence == "9 canary readings, 2 slow: up to 3.2× the usual time."


def test_without_a_reference_the_runs_own_healthy_median_is_the_measure(make):
    readings = [replace(reading, reference_s=None) for reading in make.canaries()]
    state = state_of(make, [], readings)
    assert state.slow[0].slowdown_ratio == pytest.approx(1.31e-3 / 411e-6)  # the median of the seven healthy ones


def test_a_healthy_run_says_so_and_a_run_without_canary_says_that(make):
    healthy = state_of(make, [], [reading for reading in make.canaries() if not reading.is_slow])
    assert healthy.canary_sentence == "7 canary readings, none slow (at most 1.0× the usual time)."
    nothing = state_of(make, make.cpu_records(), [])
    assert not nothing.is_known
    assert nothing.canary_sentence.startswith("No canary ran")


def test_unreadable_times_are_drawn_by_number(make):
    state = state_of(make, [], [replace(reading, created_at="then") for reading in make.canaries()])
    assert not state.has_time_axis
    assert {canary.offset_s for canary in state.canaries} == {None}


def test_each_ended_worker_is_told_once(make):
    record = make.record((1, 64, 64), "BF16", "BF16", "k", 1e-3)
    records = [
        make.in_process(replace(record, record_id=str(i)), ordinal, reason)
        for i, (ordinal, reason) in enumerate([(1, "timeout after 60 s"), (1, "timeout after 60 s"), (2, ""), (0, "")])
    ]
    state = state_of(make, records, [])
    assert state.restarts == ("process 1 (pid 4001): timeout after 60 s; a fresh one took over",)
    assert state.is_known


def test_stored_warnings_are_shown_and_anything_else_under_that_name_is_not(make):
    stored = [stored_form(finding("contended", others_ratio=0.3)), stored_form(finding("stolen", stolen_ratio=0.1))]
    contended, stolen = state_of(make, [], [], environment=EnvironmentInfo({"warnings": stored}, {})).warnings
    assert "30.0 %" in contended
    assert "10.0 %" in stolen
    assert state_of(make, [], [], environment=EnvironmentInfo({"warnings": "text"}, {})).warnings == ()
