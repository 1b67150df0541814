"""The run over time: where each case stands, what is drawn, and what is said to be missing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reports.figures.drawing.matplotlib_drawer import draw_stack
from reports.figures.drawing.palette import format_colours
from reports.figures.drawing.plotly_drawer import stack_json
from reports.figures.drawing.spec import Bars, Line
from reports.figures.timeline import timeline_stack
from reports.view.run_state import CHANNELS, spans_over_time
from results.cases.case_result import case_results
from results.records.records import TelemetrySample
from results.records.state_records import EnergyReading, MachineState

ENDS = "2026-11-21T09:08:{second:02d}.123456+00:00"  # the run began at 09:08:11.123456
READINGS = tuple(TelemetrySample(time_s=0.1 * n, power_w=100.0 + n, sm_clock_hz=1.9e9) for n in range(1, 11))


def spans_of(make, *records, **run):
    return spans_over_time(make.run(**run), case_results(records))


def record(make, second, **measurement):
    kernel = f"k{second}"
    made = make.record((1, 64, 64), "BF16", "BF16", kernel, 1e-4, number=second, wall_s=2.0, **measurement)
    return replace(made, created_at=ENDS.format(second=second))


def test_a_case_ends_when_its_record_was_made_and_is_as_long_as_its_series(make):
    (span,) = spans_of(make, record(make, 21, power_w=50.0)).spans
    assert (span.begin_s, span.end_s, span.power_w) == (8.0, 10.0, 50.0)


def test_windows_of_energy_follow_the_series(make):
    energy = EnergyReading(1e-3, 50.0, 1.5, 2, 100, "nvml-energy-counter", "gpu")
    (span,) = spans_of(make, replace(record(make, 21, energy=energy), telemetry=READINGS)).spans
    assert span.begin_s == span.readings_begin_s == 10.0 - 2.0 - 3.0
    simulated = record(make, 21, energy=energy, flags=("simulated",))
    (span,) = spans_of(make, simulated).spans
    assert span.begin_s == 8.0  # nobody waited for the windows of an imaginary device


def test_spans_stand_in_the_order_of_time_and_keep_the_number_of_their_case(make):
    timeline = spans_of(make, record(make, 30), record(make, 21), record(make, 25))
    assert [(span.ordinal, span.end_s) for span in timeline.spans] == [(2, 10.0), (3, 14.0), (1, 19.0)]
    assert timeline.has_time_axis


def test_without_usable_times_cases_stand_in_their_order(make):
    records = [record(make, 21, power_w=5.0), replace(record(make, 25), created_at="yesterday", telemetry=READINGS)]
    timeline = spans_of(make, *records)
    assert not timeline.has_time_axis
    assert [(span.begin_s, span.end_s, span.readings) for span in timeline.spans] == [(0, 1, ()), (1, 2, ())]
    # A record that is older than its run has no place on its time line, either.
    assert not spans_of(make, record(make, 5)).has_time_axis


@pytest.mark.parametrize(
    ("rated_hz", "reasons", "flags", "is_throttled"),
    [
        (2e9, {"power-cap": 0.4}, (), True),
        (1.71e9, {"power-cap": 0.4}, (), False),  # at its clock: the cap is ordinary regulation
        (2e9, {}, (), False),
        (None, None, ("capped",), True),
    ],
)
def test_a_clock_is_held_down_when_it_is_low_for_a_reason(make, rated_hz, reasons, flags, is_throttled):
    state = MachineState(throttled_s=reasons, rated_clock_hz=rated_hz)
    (span,) = spans_of(make, record(make, 21, sm_clock_hz=1.7e9, state=state, flags=flags)).spans
    assert span.is_throttled is is_throttled


def test_the_clock_is_that_of_the_cpus_only_where_no_sm_has_one(make):
    cpu = MachineState(cpu_clock_hz=3.1e9)
    timeline = spans_of(make, record(make, 21, state=cpu))
    assert (timeline.channels, timeline.has_sm_clock, timeline.spans[0].clock_hz) == (("clock_hz",), False, 3.1e9)
    timeline = spans_of(make, record(make, 21, state=cpu), record(make, 25, sm_clock_hz=1.7e9, state=cpu))
    assert [span.clock_hz for span in timeline.spans] == [None, 1.7e9]


def test_what_is_missing_is_said_with_the_option_that_records_it(make):
    bare = spans_of(make, record(make, 21))
    assert bare.channels == ()
    assert "--roofline-power records power" in bare.sentence
    assert timeline_stack(bare, {}) is None
    steps = spans_of(make, record(make, 21, power_w=5.0))
    assert steps.sentence.startswith("Only averages per case are stored")
    assert "Not stored: the clock" in steps.sentence
    assert "power and energy" not in steps.sentence
    every = spans_of(make, replace(record(make, 21, temperature_c=50.0), telemetry=READINGS))
    assert every.channels == CHANNELS
    assert every.sentence == "Lines are sensor readings, steps the average of a case."
    assert spans_of(make).sentence == ""


def test_the_figure_has_a_panel_per_channel_and_shades_what_was_held_down(make):
    state = MachineState(throttled_s={"power-cap": 1.0}, rated_clock_hz=2e9)
    held = record(make, 21, power_w=50.0, energy_j=1e-3, sm_clock_hz=1.7e9, state=state, temperature_c=60.0)
    free = replace(record(make, 25, power_w=51.0, energy_j=2e-3), telemetry=READINGS)
    stack = timeline_stack(spans_of(make, held, free), format_colours(["BF16"]))
    titles = [panel.y.title for panel in stack.panels]
    assert titles == ["Power (W)", "SM clock (GHz)", "Temp. (°C)", "Energy per call", ""]
    lines = {line.name: line for line in stack.panels[0].series if isinstance(line, Line)}
    assert {y for y in lines["average power_w"].y if y is not None} == {50.0, 51.0}
    assert [y for y in lines["readings power_w"].y if y is not None] == [reading.power_w for reading in READINGS]
    assert len(stack.shades) == 1
    assert [bars.is_hatched for bars in stack.panels[-1].series if isinstance(bars, Bars)] == [True, False]
    drawn = draw_stack(stack)
    assert [axes.get_ylabel() for axes in reversed(drawn.axes)] == titles
    assert [len(axes.patches) for axes in drawn.axes] == [1] * 5
    data = stack_json(stack)
    assert {trace["yaxis"] for trace in data["data"]} == {"y", "y2", "y3", "y4", "y5"}
    assert len(data["layout"]["shapes"]) == 1


def test_readings_that_tell_nothing_are_not_counted(make):
    empty = TelemetrySample(time_s=0.1, power_w=None, sm_clock_hz=None)
    assert spans_of(make, replace(record(make, 21, power_w=5.0), telemetry=(empty, *READINGS[:2]))).reading_count == 2
