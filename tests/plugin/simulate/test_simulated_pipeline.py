"""Modes, throttling and energy on the simulated device, from a test function to the database: known truth, known
answers.
"""

from __future__ import annotations

import itertools

import pytest

from reports.figures.timeline import run_stack
from reports.view.run_state import run_state
from reports.view.views import report_view
from results import open_store
from results.cases.case_result import case_results
from results.exchange.exported.load import read_export

SUITE = """
    from roofline_model import OpCost

    def test_short(roofline):
        roofline.measure(lambda: None, work=OpCost(flops={"BF16": 1e6}, read_bytes=1e6), name="short", check=lambda _: 0.0)
"""


@pytest.fixture
def measured(pytester):
    pytester.makepyfile(test_suite=SUITE)

    def run(settings, *options):
        done = pytester.runpytest_inprocess(
            "--hw",
            "b10",
            "--roofline-timer",
            f"simulated:seed=3,noise=0.002,{settings}",
            "--roofline-db",
            "r.db",
            *options,
            "-p",
            "no:cacheprovider",
        )
        assert done.ret == 0, done.stdout.str()
        with open_store(pytester.path / "r.db", read_only=True) as store:
            (record,) = store.records(store.runs()[0].run_id)
        return record.measurement

    return run


def test_a_graph_hides_launches_that_eager_calls_wait_for(measured):
    eager = measured("true_s=3e-6,launch=8e-6", "--roofline-mode", "eager")
    graph = measured("true_s=3e-6,launch=8e-6", "--roofline-mode", "graph")
    assert eager.median_s == pytest.approx(8e-6, rel=0.01)
    assert graph.median_s == pytest.approx(3e-6, rel=0.01)


def test_the_readings_of_a_simulated_device_are_stored_and_drawn(measured, pytester):
    measured("true_s=1e-3,power=300,idle_power=60", "--roofline-max-seconds", "1")
    with open_store(pytester.path / "r.db", read_only=True) as store:
        run = store.runs()[0]
        (record,) = store.records(run.run_id)
        view = report_view(run, [record])
    times = [sample.time_s for sample in record.telemetry]
    assert len(times) > 10
    assert all(
        after - before >= 0.0099 for before, after in itertools.pairwise(times)
    )  # one reading each 10 ms at most
    assert max(sample.power_w for sample in record.telemetry) == pytest.approx(300, rel=0.05)
    assert all(sample.sm_clock_hz for sample in record.telemetry)
    assert record.measurement.temperature_c is not None
    timeline = view.timeline
    assert sum(len(span.readings) for span in timeline.spans) == len(record.telemetry)
    assert len(run_stack(view, timeline).panels) >= 3  # power, clock, temperature


def test_reading_the_sensors_takes_no_time_of_the_device(measured):
    with_sensors = measured("true_s=1e-3,power=300,read_cost=0.01")
    without = measured("true_s=1e-3,power=300,refuse=power+energy+clock+temperature+memory+memory_clock+utilization")
    assert with_sensors.median_s == without.median_s


def test_energy_is_power_times_time_and_net_of_idle(measured):
    measurement = measured("true_s=1e-3,power=300,idle_power=60,energy_step=0.05", "--roofline-power")
    assert measurement.energy_j == pytest.approx(0.3, rel=0.01)
    assert measurement.energy.power_w == pytest.approx(300, rel=0.01)
    assert measurement.energy.cross_check_j == pytest.approx(0.3, rel=0.02)
    assert not {"energy-pace", "energy-disagrees"}.intersection(measurement.flags)


def test_a_chip_that_throttles_in_the_energy_windows_says_that_it_did(measured):
    measurement = measured(
        "true_s=1e-3,power=300,throttle_after=1.5,throttle_clock=0.6,recover_after=0.2", "--roofline-power"
    )
    assert measurement.median_s == pytest.approx(1e-3, rel=0.02)
    assert measurement.energy.call_s > 1.1 * measurement.median_s
    assert "energy-pace" in measurement.flags


def test_a_capped_case_is_tried_again_and_then_marked(measured):
    measurement = measured("true_s=1e-3,power=300,throttle_after=0.01,throttle_clock=0.5,recover_after=1000")
    assert "capped" in measurement.flags
    assert measurement.state.retry_count > 0
    assert measurement.median_s == pytest.approx(2e-3, rel=0.05)


@pytest.mark.parametrize("isolate", ["none", "case"])
def test_a_run_that_began_in_the_slow_state_says_so_everywhere(pytester, isolate):
    """The first reading is its own reference: only the one after the case shows that it was slow."""
    pytester.makepyfile(test_suite=SUITE)
    done = pytester.runpytest_inprocess(
        "--hw",
        "b10",
        "--roofline-timer",
        "simulated:seed=3,noise=0.002,true_s=1e-3,state_at=0,state_until=0.06",
        "--roofline-db",
        "r.db",
        "--roofline-json",
        "run.json",
        "--roofline-isolate",
        isolate,
        "-p",
        "no:cacheprovider",
    )
    text = " ".join(done.stdout.str().split())
    assert "1 of 1 case is quarantined: the canary kernel (simulated) was slow in 1 of 2 readings" in text
    with open_store(pytester.path / "r.db", read_only=True) as store:
        (run,) = store.runs()
        (record,), canaries = store.records(run.run_id), store.canaries(run.run_id)
    assert "quarantined" in record.measurement.flags
    assert [canary.is_slow for canary in canaries] == [True, False]
    assert canaries[0].reference_s == canaries[1].time_s
    state = run_state(run, case_results([record]), [record], canaries)
    assert state.canary_sentence == "2 canary readings, 1 slow: up to 3.3× the usual time."
    exported = read_export(pytester.path / "run.json")
    assert [canary.is_slow for canary in exported.canaries] == [True, False]


def test_a_case_shorter_than_the_counters_step_is_capped_by_the_reason_seen_at_its_end(measured):
    measurement = measured(
        "true_s=1e-4,throttle_after=0.001,throttle_clock=0.5,recover_after=1000", "--roofline-max-seconds", "0.02"
    )
    assert measurement.median_s == pytest.approx(2e-4, rel=0.05)
    assert sum(measurement.samples_s) < 0.1  # the counter's step
    assert "capped" in measurement.flags
    assert measurement.state.throttled_s.keys() == {"software thermal"}
