"""`roofline show RUN [CASE…]` on a run of three processes with flags, state and energy; and samples as text."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from reports.present.sample_drawing import histogram_lines, sparkline
from results import open_store
from results.cases.case_result import case_results
from results.records.records import (
    EnvironmentInfo,
    HardwareProfile,
    Measurement,
    Method,
    PredictionRecord,
    ProcessInfo,
    Record,
    RunInfo,
)
from results.records.state_records import CanaryReading, EnergyReading, KernelAttribution, MachineState
from roofline_cli.main import app
from roofline_model.chips.hardware import get_hardware
from roofline_model.core.finding import finding, stored_form
from roofline_model.ideal.roofline import predict
from roofline_model.operators.product import gemm

runner = CliRunner()
RUN_ID = "0190" + "cd" * 14
HOSTILE = "thermal [red]"


def record(
    number: int, weight: str, kernel: str, median_s: float, ordinal: int = 0, mode: str = "eager", **values: object
) -> Record:
    activation = "BF16" if weight == "INT4" else weight
    work, chip = gemm(1, 4096, 4096, a=activation, b=weight), get_hardware("b10")
    samples = tuple(median_s * (1 + 0.001 * (index % 5 - 2)) for index in range(40))
    fields: dict[str, object] = {
        "samples_s": samples,
        "calls_per_sample": 8,
        "median_s": median_s,
        "min_s": min(samples),
        "max_s": max(samples),
        "mean_s": median_s,
        "std_s": median_s / 700,
        "q1_s": samples[1],
        "q3_s": samples[3],
        "sample_count": 40,
        "ci_low_s": median_s * 0.99,
        "ci_high_s": median_s * 1.01,
        "stop_reason": "converged",
        **values,
    }
    stored = PredictionRecord.from_prediction(predict(work, chip), chip.content_hash, median_s)
    case = replace(work.case(kernel), mode=mode)
    role = "worker" if ordinal else "main"
    return Record(
        record_id=f"{number:032x}",
        run_id=RUN_ID,
        case=case,
        status="measured",
        created_at="2026-11-21T09:00:01.000000+00:00",
        process=ProcessInfo(ordinal, 100 + ordinal, "lab", role=role),
        method=Method("cuda-event", "2", {"max_seconds": 0.7}),
        measurement=Measurement(**fields),
        predictions=(stored,),  # type: ignore[arg-type]
    )


ENERGY = EnergyReading(
    5e-3,
    300.0,
    2.0,
    3,
    1_000_000,
    "nvml-energy-counter",
    "module",
    std_j=1e-4,
    idle_power_w=40.0,
    net_energy_j=4.3e-3,
    cross_check_j=4e-3,
)
STATE = MachineState(
    throttled_s={HOSTILE: 1.5}, rated_clock_hz=2e9, retry_count=3, others_ratio=0.02, device_process_count=1
)
RECORDS = [
    *(record(i, "BF16", "matmul", 40e-6 * (1 + 0.01 * i), i) for i in range(3)),
    record(
        3,
        "INT4",
        "tinygemm",
        16e-6,
        flags=("capped", "outliers"),
        state=STATE,
        energy=ENERGY,
        energy_j=5e-3,
        power_w=300.0,
        sm_clock_hz=1.5e9,
    ),
    record(
        4,
        "INT4",
        "tinygemm",
        12.345e-9,
        mode="graph",
        attribution=KernelAttribution("cupti", 2.0, 9e-9, 11e-9, ("a[31m", "b")),
    ),
    record(5, "BF16", "matmul", 38e-6, mode="graph"),
]
CANARIES = [
    CanaryReading(index, 0, "2026-11-21T09:00:00+00:00", "gemv", time_s, 1e-3, time_s > 2e-3)
    for index, time_s in enumerate((1e-3, 3.2e-3))
]


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    path = tmp_path_factory.mktemp("show") / "r.db"
    chip = get_hardware("b10")
    environment = EnvironmentInfo({"host": "lab", "driver": "580.142"}, {"driver": "580.142", "device": "B10"})
    with open_store(path) as store:
        store.begin_run(
            RunInfo(
                run_id=RUN_ID,
                started_at="2026-11-21T09:00:00.000000+00:00",
                hardware_key="b10",
                environment=environment,
            )
        )
        store.add_profile(HardwareProfile(chip.key, chip.name, chip.content_hash, chip.to_dict()))
        for record in RECORDS:
            store.add_record(record)
        for reading in CANARIES:
            store.add_canary(RUN_ID, reading)
        store.finish_run(RUN_ID, status="complete", exit_code=0, finished_at="2026-11-21T09:00:09.000000+00:00")
    return str(path)


@pytest.fixture(scope="module")
def busy_database(tmp_path_factory):
    """A run on a machine whose ceilings say nothing: measured cases without predictions, one case failed."""
    path = tmp_path_factory.mktemp("busy") / "r.db"
    why = finding("ceilings-contended", hardware="cpu-here", disturbed_by=("contended",))
    environment = EnvironmentInfo({"host": "lab", "warnings": [stored_form(why)]}, {"device": "CPU"})
    timed = [replace(record(number, "BF16", f"mine{number}", 2e-3), predictions=()) for number in (1, 2)]
    wrong = replace(
        record(3, "BF16", "wrong", 1e-3), predictions=(), status="failed", measurement=None, reason="off by 0.01"
    )
    with open_store(path) as store:
        run = RunInfo(RUN_ID, "2026-11-21T09:00:00.000000+00:00", hardware_key="cpu-here", environment=environment)
        store.begin_run(run)
        for each in (*timed, wrong):
            store.add_record(each)
        store.finish_run(RUN_ID, status="complete", exit_code=1, finished_at="2026-11-21T09:00:09.000000+00:00")
    return str(path)


@pytest.fixture(autouse=True)
def piped(monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.delenv("ROOFLINE_DB", raising=False)


def invoke(*arguments: str) -> str:
    result = runner.invoke(app, list(arguments))
    assert result.exit_code == 0, result.output
    return result.stdout


def test_several_processes_are_one_row_and_modes_are_tables_of_their_own(database):
    lines = invoke("show", "latest", "--all", "--db", database).splitlines()
    titles = [line for line in lines if line.startswith("gemv 1x4096x4096")]
    assert titles == ["gemv 1x4096x4096, cold", "gemv 1x4096x4096, cold, graph"]
    start, stop = (lines.index(title) for title in titles)
    rows = [line for line in lines[start:stop] if line.startswith("BF16 ")]
    assert len(rows) == 1
    assert rows[0].split()[2:4] == ["40.40", "µs"]  # the median of 40, 40.4 and 40.8 µs
    total = next(each.total for each in case_results(RECORDS) if each.case_key == RECORDS[0].case.case_key)
    assert f"±{total.half_width_ratio * 100:.1f} %" in rows[0]
    assert "5 mJ" in next(line for line in lines if line.startswith("INT4 (W4A16)  tinygemm  16") or "16.00 µs" in line)
    text = "\n".join(lines)
    assert "2 canary readings, 1 slow: up to 3.2× the usual time." in text
    assert text.count("held the clock down") == 1
    assert "capped: INT4 (W4A16) · tinygemm" in text


def test_a_run_without_predictions_shows_what_failed_its_times_and_why(busy_database):
    lines = invoke("show", "latest", "--db", busy_database).splitlines()
    assert lines[0] == "1 of 3 cases failed, such as gemv 1x4096x4096 BF16 · wrong: off by 0.01"
    assert lines[1] == "2 cases measured, without a prediction to compare with."
    assert sum("2.00 ms" in line for line in lines) == 2
    (why,) = [line for line in lines if line.startswith("Note: nothing is predicted from the calibration of cpu-here")]
    assert why.endswith("`roofline calibrate` on a quiet machine")


def test_small_and_large_times_in_one_table_keep_their_digits(database):
    lines = invoke("show", "latest", "--all", "--db", database).splitlines()
    graph = lines[lines.index("gemv 1x4096x4096, cold, graph") :]
    assert any("12.35 ns" in line or "12.34 ns" in line for line in graph)
    assert any("38.00 µs" in line or "38 µs" in line for line in graph)


@pytest.mark.parametrize("width", ["80", "120"])
@pytest.mark.parametrize("cases", [[], ["tinygemm-cold"], ["BF16"]])
def test_it_fits_the_screen(database, monkeypatch, width, cases):
    monkeypatch.setenv("COLUMNS", width)
    assert max(map(len, invoke("show", "latest", *cases, "--db", database).splitlines())) <= int(width)


def test_one_case_with_everything_about_it(database):
    text = " ".join(invoke("show", "latest", "w4a16-INT4.BF16-tinygemm-cold", "--db", database).split())
    for part in (
        "2 of 4 cases",
        "measured 16 µs (median, one process)",
        "± within ±1.0 % (15.84 µs to 16.16 µs)",
        "ideal 8.405 µs; error -47.5 %, memory-bound",
        "capped (!): power, heat or supply held the clock down",
        "outliers: more than 5 % of the samples",
        "SM clock 1.5 GHz, rated 2 GHz",
        "1.5 s; measured anew 3 times",
        "1 other process on the GPU",
        "5 mJ per call (sd 100 µJ), net of idle 4.3 mJ",
        "scope module, source nvml-energy-counter",
        "second source -20.0 %: they do not confirm each other",
        "40 samples of 8 calls, stopped by converged",
        "2 per call, busy 9 ns, gap 2 ns (cupti)",
        "method cuda-event, version 2",
        "device B10, driver 580.142",
    ):
        assert part in text, part
    assert "█" in text
    assert "\x1b" not in text


def test_a_replicated_case_lists_its_processes(database):
    lines = invoke("show", "latest", "matmul-cold", "--db", database).splitlines()
    text = "\n".join(lines)
    assert "geometric mean of 3 processes" in text
    assert "from 3 processes" in text
    table = [line.split() for line in lines if line.split()[:1] in (["0"], ["1"], ["2"])]
    assert [row[:3] for row in table] == [["0", "40.00", "µs"], ["1", "40.40", "µs"], ["2", "40.80", "µs"]]
    assert sum(line.startswith("  process ") for line in lines) == 3


def test_parts_are_found_whatever_the_case_and_each_must_match_something(database):
    assert "2 of 4 cases" in invoke("show", "latest", "TINYGEMM", "--db", database)
    result = runner.invoke(app, ["show", "latest", "tinygemm", "cutlass", "--db", database])
    assert result.exit_code == 2
    assert result.stderr.startswith(
        "error: no case of run 0190cdcd has 'cutlass' in its operator, sizes or id; it has 4 cases, such as "
        "1x4096x4096-"
    )
    assert "`roofline show 0190cdcd` lists them" in result.stderr


def test_a_case_is_found_by_the_name_that_diff_history_and_warnings_print(database):
    for case in {record.case.case_key: record.case for record in RECORDS}.values():
        assert case.case_key in invoke("show", "latest", f"{case.op} {case.id}", "--db", database)
    for name in ("gemv 1x4096x4096-w4a16-INT4.BF16-tiny…", "tinygemm 1x4096x4096 gemv"):
        assert "2 of 4 cases" in invoke("show", "latest", name, "--db", database), name
    assert runner.invoke(app, ["show", "latest", "gemv 2x4096x4096-w4a16", "--db", database]).exit_code == 2


def test_json_has_both_intervals_and_every_process(database):
    data = json.loads(invoke("show", "latest", "--db", database, "--json"))
    case = data["cases"][0]
    total = next(each.total for each in case_results(RECORDS) if each.case_key == RECORDS[0].case.case_key)
    assert case["measured_s"] == pytest.approx(total.estimate_s)
    assert (case["process_count"], case["interval_total_basis"]) == (3, "processes")
    assert case["interval_total_low_s"] == pytest.approx(total.low_s)
    assert case["interval_within_half_width_ratio"] == pytest.approx(0.01)
    assert [process["process"] for process in case["processes"]] == [0, 1, 2]
    assert [canary["is_slow"] for canary in data["canaries"]] == [False, True]


def test_json_of_a_case_has_samples_energy_state_and_environment(database):
    data = json.loads(invoke("show", "latest", "tinygemm-cold", "--db", database, "--json"))
    assert data["environment_class"]["class_facts"] == {"driver": "580.142", "device": "B10"}
    cold, graph = data["cases"]
    measured = cold["processes"][0]["measurement"]
    assert len(measured["samples_s"]) == 40
    assert measured["energy"]["disagreement_ratio"] == pytest.approx(-0.2)
    assert measured["state"]["throttled_s"] == {HOSTILE: 1.5}
    assert graph["processes"][0]["measurement"]["attribution"]["gap_s"] == pytest.approx(2e-9)
    assert cold["processes"][0]["method"]["method_hash"] == RECORDS[3].method.method_hash
    assert cold["interval_total_basis"] == "one process"


def test_a_histogram_counts_every_sample_once():
    samples = [1e-3 + 1e-6 * (index % 10) for index in range(100)] + [5e-3]
    lines = histogram_lines(samples, 60)
    counts = [int(line.split()[-1]) for line in lines]
    assert sum(counts) == 101
    assert lines[-1].strip().startswith("above 1.0")
    assert counts[-1] == 1
    assert max(map(len, lines)) <= 60
    labels = [line.split()[0] for line in lines[:-1]]
    assert len(set(labels)) == len(labels)  # enough decimals to tell the bins apart


def test_degenerate_samples_as_text():
    assert histogram_lines([], 60) == []
    (line,) = histogram_lines([2e-6] * 7, 60)
    assert line.startswith("2 µs")
    assert line.endswith(" 7")


def test_a_sparkline_has_all_values():
    assert sparkline([1.0, 2.0, 3.0, 8.0], 4) == "▁▂▃█"
    assert sparkline([1.0, 1.0, 8.0, 8.0, 1.0, 1.0], 3) == "▁█▁"
    assert sparkline([], 4) == ""
    assert sparkline([5.0, 5.0], 4) == "▅▅"
    assert sparkline([1.0, 3.0], 4, is_ascii=True) == "_#"
    assert len(sparkline([float(i) for i in range(1000)], 60)) == 60
