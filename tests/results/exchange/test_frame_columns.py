"""The columns that a frame shows first, and which runs it holds."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from reports.present.encoder import answer_keys
from results import load_frame, open_store
from results.cases.case_result import CaseResult
from results.exchange.exported.flat import COLUMNS
from results.exchange.exported.frame import FIRST_COLUMNS
from results.operations.run_care import delete_run
from results.records.records import Record, RunInfo
from roofline_model import InvalidValueError


def test_a_frame_says_the_speedup_over_bf16(request: pytest.FixtureRequest) -> None:
    golden = request.config.rootpath / "examples/runs/cpu-amd-epyc-2t/quick.json"
    from results import import_any, open_store

    place = request.getfixturevalue("tmp_path") / "r.db"
    with open_store(place) as store:
        import_any(store, golden)
    frame = load_frame(place)
    assert tuple(frame.columns) == FIRST_COLUMNS
    everything = load_frame(place, columns="all")
    assert len(everything) == len(frame)
    assert len(everything.columns) > 100
    has_speedup = frame["speedup_ratio"].notna()
    assert has_speedup.any()
    assert (frame.loc[has_speedup, "speedup_ratio"] > 0).all()
    baseline = frame[(frame["format"] == "BF16") & has_speedup]
    assert (baseline["speedup_ratio"] <= 1).all()
    with pytest.raises(InvalidValueError):
        load_frame(place, columns="some")  # type: ignore[arg-type]


def test_a_frame_names_its_columns_as_json_does() -> None:
    case = set(answer_keys(CaseResult))
    assert {name for name in FIRST_COLUMNS if name.endswith(("_s", "expected_ratio")) or name in (
        "hardware", "cache", "mode", "op", "kernel", "status", "case_id"
    )} <= case  # fmt: skip
    assert {"hardware", "cache", "mode", "timer", "measured_s", "expected_s", "ideal_s"} <= set(FIRST_COLUMNS)
    assert {"measured_s", "expected_s", "ideal_s", "error_ideal_ratio", "error_expected_ratio"} <= set(COLUMNS)


@pytest.fixture
def mixed(tmp_path: Path, make_run: Callable[..., RunInfo], make_record: Callable[..., Record]) -> Path:
    """Return a database of three runs of one case: measured on b10, then on h100, then simulated."""
    place = tmp_path / "r.db"
    with open_store(place) as store:
        for day, (chip, timer, time_s) in enumerate(
            [("b10", "monotonic", 4e-5), ("h100-sxm", "cuda-event", 2e-6), ("b10", "simulated", 1e-9)], 1
        ):
            run = replace(
                make_run(), run_id=f"{day:032x}", started_at=f"2026-03-0{day}T00:00:00.000000+00:00", status="complete"
            )
            store.begin_run(run)
            record = make_record(run.run_id, record_id=f"{day + 9:032x}")
            assert record.measurement is not None
            assert record.method is not None
            store.add_record(
                replace(
                    record,
                    measurement=replace(record.measurement, median_s=time_s, flags=()),
                    method=replace(record.method, timer=timer),
                    predictions=tuple(replace(prediction, hardware_key=chip) for prediction in record.predictions),
                )
            )
    return place


def test_a_frame_of_all_runs_keeps_chips_apart_and_simulated_times_out(
    mixed: Path, request: pytest.FixtureRequest
) -> None:
    frame = load_frame(mixed, run=None)
    assert list(frame["hardware"]) == ["b10", "h100-sxm"]
    assert list(frame["timer"]) == ["monotonic", "cuda-event"]
    assert len(load_frame(mixed, since="2026-01-01")) == 2
    assert list(load_frame(mixed, run=None, simulated=True)["measured_s"]) == [4e-5, 2e-6, 1e-9]
    assert list(load_frame(mixed, run=f"{3:032x}")["timer"]) == ["simulated"]  # asked for by its name
    # The lines that the documentation gives.
    page = (request.config.rootpath / "docs/reference/exchange.md").read_text(encoding="utf-8")
    (rows, line) = re.findall(r"^(?:measured|best) = (.*)$", page, re.MULTILINE)
    assert sorted(eval(line, {"measured": eval(rows, {"frame": frame})})) == [2e-6, 4e-5]


def test_a_frame_without_a_run_is_the_newest_that_was_measured(mixed: Path) -> None:
    assert list(load_frame(mixed)["hardware"]) == ["h100-sxm"]
    assert list(load_frame(mixed, simulated=True)["timer"]) == ["simulated"]
    with open_store(mixed) as store:
        for day in (1, 2):
            delete_run(store, f"{day:032x}")
    assert len(load_frame(mixed)) == 0


def test_a_time_in_doubt_is_told_by_a_column_and_left_out_of_the_documented_selection(
    tmp_path: Path, make_run: Callable[..., RunInfo], make_record: Callable[..., Record], request: pytest.FixtureRequest
) -> None:
    place = tmp_path / "doubts.db"
    run = replace(make_run(), status="complete")
    with open_store(place) as store:
        store.begin_run(run)
        for number, flags in enumerate([(), ("few-samples",), ("noisy", "few-samples", "drift")]):
            record = make_record(run.run_id, record_id=f"{number + 9:032x}")
            assert record.measurement is not None
            store.add_record(replace(record, measurement=replace(record.measurement, flags=flags)))
    frame = load_frame(place, run=None, simulated=True)
    assert sorted(frame.doubts) == ["", "", "noisy drift"]
    page = (request.config.rootpath / "docs/reference/exchange.md").read_text(encoding="utf-8")
    (rows,) = re.findall(r"^measured = (.*)$", page, re.MULTILINE)
    assert len(eval(rows, {"frame": frame})) == 2
