from __future__ import annotations

from dataclasses import replace

import pytest
from run_makers import flat_measurement

from plugin.timers.replay import ReplayTimer, first_measurements
from results.records.records import ProcessInfo, Record
from roofline_model.core.errors import InvalidValueError, UnsupportedError
from roofline_model.operators.case import Case

CASE = Case("gemv", (("M", 1), ("N", 8), ("K", 8)), (("a", "FP32"), ("b", "FP32"), ("c", "FP32")), "matmul")


def record(ordinal, samples, clocks=()):
    measurement = flat_measurement(samples[0], len(samples), samples_s=samples, calls_per_sample=4, clocks_hz=clocks)
    return Record(f"{ordinal:032x}", "f" * 32, CASE, "measured", process=ProcessInfo(ordinal), measurement=measurement)


def play(timer, count):
    timer.begin_case(CASE.case_key, None)
    return [timer.sample(None, [()]) for _ in range(count)]


def test_replay_gives_back_samples_and_clocks_and_then_ends():
    timer = ReplayTimer({"k": record(0, (0.5, 0.25), (2e9, 1e9)).measurement}, "run.json")
    timer.begin_case("k", None)
    assert (timer.sample(None, [()] * 2), timer.last_clock_hz) == (0.5, 2e9)
    assert (timer.sample(None, [()] * 2), timer.last_clock_hz) == (0.25, 1e9)
    assert timer.now() == pytest.approx(1.5)  # two calls a sample
    with pytest.raises(StopIteration):
        timer.sample(None, [()])
    with pytest.raises(UnsupportedError, match=r"run\.json"):
        timer.begin_case("p", None)


def test_the_first_process_is_played_and_of_it_what_it_measured_last():
    records = (record(2, (3.0,)), record(1, (5.0, 6.0)), record(1, (1.0, 2.0)), record(3, (4.0,)))
    assert play(ReplayTimer(first_measurements(records)), 2) == [1.0, 2.0]


def test_a_copy_begins_anew():
    timer = ReplayTimer(first_measurements((record(0, (1.0, 2.0)),)))
    play(timer, 2)
    assert play(replace(timer), 2) == [1.0, 2.0]


def test_neither_kernel_nor_preparation_runs():
    timer = ReplayTimer(first_measurements((record(0, (1.0,)),)))
    timer.begin_case(CASE.case_key, None)
    assert timer.sample(pytest.fail, [("no",)], lambda: pytest.fail("no")) == 1.0
    timer.idle(2.0)
    assert timer.now() == 3.0


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"records": [{"measurement": {"samples_s": [1]}}]}'])
def test_replay_of_something_else_is_refused(tmp_path, content):
    file = tmp_path / "x.json"
    file.write_text(content)
    with pytest.raises(InvalidValueError, match=r"replay: .*x\.json"):
        ReplayTimer.from_file(file)
