"""What CSV and data frame say of the machine: the columns of schema 2, behind all that were there before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from run_makers import csv_rows

from results import load_frame
from results.exchange.exported.flat import COLUMNS
from results.records.records import Measurement, ProcessInfo, Record, RunInfo
from results.records.state_records import MachineState
from results.store.store import open_store
from roofline_model.operators.case import Case

NEW = (
    "process_role",
    "process_end_reason",
    "effective_sample_count",
    "outlier_count",
    "throttled_s",
    "throttle_reasons",
    "retry_count",
    "rated_clock_hz",
    "cpu_clock_hz",
    "others_ratio",
    "stolen_ratio",
    "device_process_count",
    "net_energy_j",
    "energy_std_j",
    "idle_power_w",
    "energy_scope",
    "energy_window_count",
    "energy_window_s",
    "energy_call_count",
    "energy_cross_check_j",
    "energy_disagreement_ratio",
    "power_sensor_period_s",
    "kernel_count",
    "busy_s",
    "gap_s",
)


@pytest.fixture
def rows(
    tmp_path: Path, make_run: Callable[..., RunInfo], make_record: Callable[..., Record], full_measurement: Measurement
) -> list[dict[str, str]]:
    """Cells of: everything known, looked but nothing found, never looked, not measured."""
    run = make_run(status="complete")
    worker = ProcessInfo(1, 4712, "box", "2026-03-01T10:00:00+00:00", "worker", "device lost")
    quiet = replace(full_measurement, state=MachineState(throttled_s={}), energy=None, attribution=None)
    with open_store(tmp_path / "r.db") as store:
        store.begin_run(run)
        store.add_record(make_record(run.run_id, measurement=full_measurement, process=worker))
        store.add_record(make_record(run.run_id, measurement=quiet))
        store.add_record(make_record(run.run_id))
        store.add_record(make_record(run.run_id, measurement=None, status="skipped"))
        return csv_rows(store, run.run_id)


def test_they_stand_behind_the_columns_of_schema_1() -> None:
    first = COLUMNS.index(NEW[0])
    assert COLUMNS[first : first + len(NEW)] == NEW
    assert COLUMNS[first - 1] == "roof_ratio"
    assert len(set(COLUMNS)) == len(COLUMNS)


def test_everything_that_is_known(rows: list[dict[str, str]]) -> None:
    full = rows[0]
    assert {name: full[name] for name in NEW} == {
        "process_role": "worker",
        "process_end_reason": "device lost",
        "effective_sample_count": "2.25",
        "outlier_count": "1",
        "throttled_s": "0.625",
        "throttle_reasons": "hw-thermal;sw-power-cap",
        "retry_count": "3",
        "rated_clock_hz": "2418000000.0",
        "cpu_clock_hz": "3100000000.0",
        "others_ratio": "0.0625",
        "stolen_ratio": "0.03125",
        "device_process_count": "1",
        "net_energy_j": "0.0003",
        "energy_std_j": "1.5e-06",
        "idle_power_w": "4.25",
        "energy_scope": "module",
        "energy_window_count": "3",
        "energy_window_s": "2.001",
        "energy_call_count": "134061",
        "energy_cross_check_j": "0.00055",
        "energy_disagreement_ratio": full["energy_disagreement_ratio"],
        "power_sensor_period_s": "0.02",
        "kernel_count": "2.0",
        "busy_s": "4.2e-05",
        "gap_s": full["gap_s"],
    }
    assert float(full["energy_disagreement_ratio"]) == pytest.approx(0.1)
    assert float(full["gap_s"]) == pytest.approx(2e-6)
    assert full["energy_j"] == "0.0005"


def test_nothing_gained_is_zero_and_never_looked_is_empty(rows: list[dict[str, str]]) -> None:
    quiet, bare, skipped = rows[1:]
    assert (quiet["throttled_s"], quiet["throttle_reasons"], quiet["retry_count"]) == ("0.0", "", "0")
    assert {quiet[name] for name in NEW if "energy" in name or name in ("kernel_count", "busy_s", "gap_s")} == {""}
    for row in (bare, skipped):
        assert {row[name] for name in NEW if name != "process_role"} == {""}
        assert row["process_role"] == "main"


def test_a_frame_has_numbers_where_they_are_known(rows: list[dict[str, str]], tmp_path: Path) -> None:
    frame = load_frame(tmp_path / "r.db", columns="all")
    assert tuple(frame.columns) == COLUMNS
    assert frame["throttled_s"].iloc[:2].tolist() == [0.625, 0.0]
    assert frame["throttled_s"].isna().tolist() == [False, False, True, True]
    assert frame["net_energy_j"].isna().tolist() == [False, True, True, True]


def cells(tmp_path: Path, run: RunInfo, record: Record) -> dict[str, str]:
    with open_store(tmp_path / "csv.db") as store:
        store.begin_run(run)
        store.add_record(record)
        (row,) = csv_rows(store, run.run_id)
    return row


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("=1+1", "'=1+1"),
        ("+1", "'+1"),
        ("-x", "'-x"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("a=1", "a=1"),
        ("\t=1", "\\t=1"),
        ("one\r\ntwo", "one\\r\\ntwo"),
        ("\x1b[2J", "\\x1b[2J"),
        ("pay \u202egnp.exe", "pay \\u202egnp.exe"),
        ("\u2066x\u2069", "\\u2066x\\u2069"),
        ("größer; “so”", "größer; “so”"),
    ],
)
def test_a_cell_cannot_act_on_its_reader(
    tmp_path: Path, make_run: Callable[..., RunInfo], make_record: Callable[..., Record], text: str, shown: str
) -> None:
    run = make_run(label=text)
    assert cells(tmp_path, run, make_record(run.run_id))["run_label"] == shown


def test_what_a_reader_would_compute(
    tmp_path: Path, make_run: Callable[..., RunInfo], make_record: Callable[..., Record]
) -> None:
    run = make_run()
    formats = (("a", "BF16"), ("b", "INT4"), ("c", "FP32"))
    case = Case("gemv", (("M", 1), ("N", 4096), ("K", 2048)), formats, "matmul")
    row = cells(tmp_path, run, make_record(run.run_id, case=case))
    assert (row["M"], row["N"], row["K"]) == ("1", "4096", "2048")
    assert (row["weight_format"], row["activation_format"], row["output_format"]) == ("INT4", "BF16", "FP32")
    assert float(row["achieved_bytes_per_s"]) == pytest.approx((33562624 + 8192) / 4.4e-5)
    assert float(row["achieved_flops_per_s"]) == pytest.approx(33554432 / 4.4e-5)
    assert float(row["roof_ratio"]) == pytest.approx(0.75)
    assert (row["read_bytes"], row["write_bytes"]) == ("33562624", "8192")
    assert row["error_ideal_ratio"] == "-0.25"  # a number, not a formula


def test_what_cannot_be_computed_is_empty(
    tmp_path: Path, make_run: Callable[..., RunInfo], make_record: Callable[..., Record]
) -> None:
    run = make_run()
    case = Case("attention", (("B", 1), ("S", 128)), (("q", "BF16"),), "sdpa")
    row = cells(tmp_path, run, make_record(run.run_id, case=case, measurement=None, status="predicted"))
    empty = ("M", "N", "K", "weight_format", "activation_format", "output_format", "achieved_bytes_per_s")
    assert {row[name] for name in (*empty, "achieved_flops_per_s", "roof_ratio")} == {""}
