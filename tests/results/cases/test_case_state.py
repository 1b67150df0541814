"""State and energy of a case over its processes, by hand; missing stays missing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reports.present.cases import clocks_text, load_text, per_flop_text, throttled_text, windows_text
from reports.present.display_text import prefixed
from results.cases.case_result import case_results
from results.records.state_records import EnergyReading, MachineState

READING = EnergyReading(
    energy_j=0.1,
    power_w=500.0,
    window_s=2.0,
    window_count=3,
    call_count=30_000,
    source="nvml-energy-counter",
    scope="gpu",
    std_j=0.001,
    idle_power_w=70.0,
    net_energy_j=0.086,
    cross_check_j=0.098,
    sensor_period_s=0.1,
)


def case_of(make, *measurements, flops=None):
    records = []
    for ordinal, values in enumerate(measurements):
        record = make.record((1, 4096, 4096), "BF16", "BF16", "matmul", 1e-3, number=ordinal, **values)
        if flops is not None:
            record = replace(record, predictions=(replace(record.ideal, flops=flops),))
        records.append(make.in_process(record, ordinal))
    (case,) = case_results(records)
    return case


def test_state_is_the_worst_of_the_processes_and_the_median_clock(make):
    case = case_of(
        make,
        {
            "state": MachineState(
                throttled_s={"sw-power-cap": 1.0},
                rated_clock_hz=2e9,
                retry_count=1,
                others_ratio=0.02,
                stolen_ratio=0.0,
                cpu_clock_hz=3e9,
            ),
            "sm_clock_hz": 1.8e9,
            "clocks_hz": (1.7e9, 1.8e9, 1.9e9),
            "temperature_c": 60.0,
        },
        {
            "state": MachineState(
                throttled_s={"sw-power-cap": 0.5, "hw-thermal": 0.25},
                retry_count=2,
                others_ratio=0.11,
                device_process_count=1,
            ),
            "sm_clock_hz": 2.0e9,
            "temperature_c": 71.0,
        },
    )
    state = case.state
    assert state.clock_hz == 1.9e9
    assert (state.clock_low_hz, state.clock_high_hz) == (1.7e9, 1.9e9)
    assert clocks_text(state) == "1.9 GHz (1.7 GHz to 1.9 GHz)"
    assert state.throttled_s == {"sw-power-cap": 1.5, "hw-thermal": 0.25}
    assert throttled_text(state) == "sw-power-cap 1.5 s, hw-thermal 250 ms"
    assert (state.retry_count, state.others_ratio, state.stolen_ratio) == (3, 0.11, 0.0)
    assert load_text(state) == "others 11 %, stolen 0 %"
    assert (state.device_process_count, state.rated_clock_hz, state.cpu_clock_hz, state.temperature_c) == (
        1,
        2e9,
        3e9,
        71.0,
    )


def test_counters_that_cannot_be_read_are_not_the_same_as_no_throttling(make):
    unreadable = case_of(make, {"state": MachineState()}).state
    none = case_of(make, {"state": MachineState(throttled_s={})}).state
    assert (throttled_text(unreadable), throttled_text(none)) == ("–", "none")
    assert clocks_text(unreadable) == "–"
    assert load_text(unreadable) == "–"


@pytest.mark.parametrize(
    ("clock_hz", "throttled_s", "text"),
    [
        (1e9, {}, "none counted"),  # half the rated clock is not "none"
        (1.98e9, {}, "none"),
        (1e9, {"power cap": 0.0}, "power cap seen, time not counted"),
        (1e9, {"power cap": 0.0, "heat": 0.2}, "heat 200 ms, power cap seen, time not counted"),
        (2e9, {"power cap": 0.0}, "none"),
        (1e9, None, "–"),
    ],
)
def test_a_low_clock_is_not_said_to_be_untouched(make, clock_hz, throttled_s, text):
    state = MachineState(throttled_s=throttled_s, rated_clock_hz=2e9)
    assert throttled_text(case_of(make, {"state": state, "sm_clock_hz": clock_hz}).state) == text


def test_records_of_the_first_version_have_no_state_and_no_energy(make):
    case = case_of(make, {})
    assert case.state is None
    assert case.energy is None


def test_energy_by_hand(make):
    energy = case_of(make, {"energy": READING}, flops=2e11).energy
    assert energy.energy_j_per_flop == pytest.approx(0.5e-12)
    assert energy.flops_per_j == pytest.approx(2e12)
    assert per_flop_text(energy) == "0.5 pJ/FLOP, 2 TFLOP/J"
    assert energy.disagreement_ratio == pytest.approx(-0.02)
    assert not energy.is_disputed
    assert windows_text(energy) == "3 windows of 2 s"
    assert (energy.net_energy_j, energy.idle_power_w, energy.std_j) == (0.086, 70.0, 0.001)


def test_energy_of_processes_is_pooled_and_the_worst_disagreement_counts(make):
    far = replace(READING, energy_j=0.2, cross_check_j=0.25, std_j=None, net_energy_j=None, source="rapl")
    energy = case_of(make, {"energy": READING}, {"energy": far}, {}).energy
    assert energy.energy_j == pytest.approx(0.15)
    assert energy.disagreement_ratio == pytest.approx(0.25)
    assert energy.is_disputed
    assert windows_text(energy) == "6 windows of 2 s"
    assert energy.sources == ("nvml-energy-counter", "rapl")
    assert energy.net_energy_j == 0.086


def test_energy_of_an_old_record_is_shown_without_what_it_did_not_keep(make):
    energy = case_of(make, {"energy_j": 0.3, "power_w": 300.0, "power_source": "nvml"}).energy
    assert (energy.energy_j, energy.power_w, energy.sources, windows_text(energy)) == (0.3, 300.0, ("nvml",), "")
    assert energy.net_energy_j is None
    assert energy.disagreement_ratio is None
    assert case_of(make, {"power_w": 300.0}).energy is None  # power alone is no energy


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (0.0, "0 J"),
        (1.0, "1 J"),
        (0.9996, "1 J"),
        (2.5e-5, "25 µJ"),
        (31.8e-3, "31.8 mJ"),
        (1234.0, "1.23 kJ"),
        (999.9e-6, "1 mJ"),
        (6e-14, "0.06 pJ"),
        (-3e-3, "-3 mJ"),
        (float("inf"), "inf J"),
    ],
)
def test_prefixes(value, text):
    assert prefixed(value, "J") == text
