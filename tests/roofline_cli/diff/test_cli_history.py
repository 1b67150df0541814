"""`roofline history`: one case with its chart and changes, all cases, JSON, exit codes, bad input."""

from __future__ import annotations

import json
import math
import random
import uuid
from dataclasses import replace

import pytest
from run_makers import flat_measurement
from typer.testing import CliRunner

from results import open_store
from results.records.records import EnvironmentInfo, Method, ProcessInfo, Record, RunInfo
from roofline_cli.diff.history_plot import Point, chart
from roofline_cli.main import app
from roofline_model.operators.case import Case

runner = CliRunner()
FORMATS = (("a", "BF16"), ("b", "BF16"))
STEADY = Case("gemv", (("M", 1), ("N", 4096), ("K", 4096)), FORMATS, "matmul")
SLOWER = Case("gemv", (("M", 1), ("N", 8192), ("K", 4096)), FORMATS, "matmul")
NEW = Case("gemm", (("M", 64), ("N", 64), ("K", 64)), FORMATS, "matmul")
CONTENDED = 12


def night_records(run, number, source):
    for case, time_s, first in ((STEADY, 1e-4, 0), (SLOWER, 2e-4 if number < 45 else 2.2e-4, 0), (NEW, 3e-5, 57)):
        if number < first:
            continue
        median_s = time_s * math.exp(0.01 * source.gauss(0, 1))
        measured = flat_measurement(
            median_s, 9, samples_s=(), std_s=None, flags=("contended",) if number == CONTENDED else ()
        )
        yield Record(
            uuid.UUID(int=source.getrandbits(128)).hex,
            run.run_id,
            case,
            "measured",
            process=ProcessInfo(0, 1, "spark", ""),
            created_at=run.started_at,
            method=Method("cuda-event", "3", {}),
            measurement=measured,
        )


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    path, source = tmp_path_factory.mktemp("history") / "results.db", random.Random(3)
    with open_store(path) as store:
        for number in range(60):
            day = f"2026-{3 + number // 30:02d}-{number % 30 + 1:02d}T02:00:00.000000+00:00"
            facts = {"device": "GB10", "kernel_release": "6.8" if number < 45 else "6.11"}
            run = RunInfo(
                uuid.UUID(int=source.getrandbits(128)).hex,
                day,
                status="complete",
                git_commit=f"{number:09d}{0:031d}",
                git_branch="main",
                environment=EnvironmentInfo(facts, {"device": "GB10"}),
            )
            store.add_run(run, [], list(night_records(run, number, source)))
    return path


def call(database, *arguments, code=0):
    result = runner.invoke(app, ["history", *arguments, "--db", str(database)])
    assert result.exit_code == code, result.output
    return result


def test_one_case_shows_chart_step_and_what_changed(database):
    text = call(database, "gemv", "1x8192").stdout
    assert text.startswith("60 runs, branch main: 1 alert open; last change +10.7 % on 2026-04-16.\n")
    assert "60 runs from 2026-03-01 to 2026-04-30, 1 of them doubtful (hollow)" in text
    assert "hollow: contended" in text
    assert "○" in text
    assert text.count("●") == 59
    assert "[1] 2026-04-16  +10." in text
    assert "open; found 2026-04-1" in text
    assert "kernel_release 6.8 → 6.11" in text
    assert "commit 000000044 → 000000045" in text
    mark = next(line for line in text.splitlines() if line.strip() == "1")
    axis = next(line for line in text.splitlines() if "┤" in line).index("┤")
    assert mark.index("1") == axis + 1 + 45


def test_all_is_a_line_per_changed_case(database):
    text = call(database, "--all").stdout
    assert "gemv 1x8192x4096" in text
    assert "1x4096x4096" not in text
    assert "3 cases with time: 1 case changed, 1 alert open; 1 too short to tell" in text
    assert any(block in text for block in "▁▂▇█")


def test_json_holds_everything(database):
    document = json.loads(call(database, "gemv 1x8192", "--json").stdout)
    (change,) = document["changes"]
    (segment,) = document["segments"]
    assert (change["status"], change["is_open"], change["kind"]) == ("open", True, "step")
    assert change["change_value"] == pytest.approx(0.1, abs=0.01)
    assert change["run_id"] == segment["nights"][45]["run_id"]
    assert [point["is_used"] for point in segment["nights"]].count(False) == 1
    assert segment["levels"][1]["night_count"] == 15
    whole = json.loads(call(database, "--all", "--json").stdout)
    assert (whole["case_count"], whole["alert_count"], whole["too_short_count"]) == (3, 1, 1)
    (first_change,) = whole["cases"][0]["changes"]
    assert (first_change["alert_id"], first_change["hardware"]) == (change["alert_id"], segment["hardware"])
    assert (first_change["commit_before"], first_change["commit_after"]) == (f"{44:09d}{0:031d}", f"{45:09d}{0:031d}")


def test_exit_code_for_a_gate(database, tmp_path):
    call(database, "--all", "--fail-on-alert", code=1)
    call(database, "gemv", "1x4096", "--fail-on-alert")
    expected = tmp_path / "expected.toml"
    expected.write_text(
        '[[annotation]]\nmatch = "gemv 1x8192*"\nreason = "expected: kernel 6.11"\non = 2026-04-16\n', encoding="utf-8"
    )
    text = call(database, "gemv", "1x8192", "--fail-on-alert", "--annotations", str(expected)).stdout
    assert "annotated" in text
    assert "expected: kernel 6.11" in text
    listed = tmp_path / "quarantine.toml"
    listed.write_text('[[case]]\nmatch = "gemv 1x8192*"\nreason = "flaky board"\n', encoding="utf-8")
    assert "flaky board" in call(database, "gemv", "1x8192", "--fail-on-alert", "--quarantine", str(listed)).stdout


def test_short_and_since(database):
    assert "too short: 3 of the 6 runs" in call(database, "gemm").stdout
    text = call(database, "gemv", "1x8192", "--since", "2026-04-20").stdout
    assert "11 runs from 2026-04-20 to 2026-04-30 (of 60)" in text
    # The alert of April 16th is open: it stays, however few nights are shown.
    assert "[1] 2026-04-16" in text
    assert "1 alert open" in text
    call(database, "gemv", "1x8192", "--since", "2026-04-20", "--fail-on-alert", code=1)
    assert "1 case with time: 1 case changed, 1 alert open" in call(database, "--all", "--since", "0d").stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["gemv", "1x8192x4096-w16a16-BF16.BF16-matmull-cold"], "Did you mean gemv 1x8192x4096"),
        (["gemv"], "names 2 cases"),
        ([], "needs a CASE"),
        (["gemv", "--all"], "--all looks at every case"),
        (["--all", "--since", "yesterday"], "--since must be a date"),
        (["--all", "--since", "2026-02-30"], "--since must be a date"),
        (["--all", "--since", "99999d"], "--since must be a date"),
        (["--all", "--metric", "speed"], "unknown metric 'speed'"),
        (["--all", "--annotations", "absent.toml"], "is not a file"),
        (
            ["gemv", "1x8192", "--metric", "energy"],
            "no run with energy (--roofline-power measures it) of gemv 1x8192",
        ),
        (["\x1b[2J"], "unknown case"),
    ],
)
def test_bad_input_is_one_line(database, arguments, words):
    result = call(database, *arguments, code=2)
    assert result.stderr.startswith("error: ")
    assert words in result.stderr
    assert result.stderr.count("\n") == 1
    assert "\x1b" not in result.stderr


def test_a_lower_clock_is_named(database, tmp_path):
    copy = tmp_path / "clocks.db"
    source = random.Random(4)
    with open_store(copy) as store:
        for number in range(50):
            run = RunInfo(
                uuid.UUID(int=source.getrandbits(128)).hex,
                f"2026-{3 + number // 30:02d}-{number % 30 + 1:02d}T02:00:00",
                status="complete",
            )
            (record,) = [night_record for night_record in night_records(run, 0, source) if night_record.case == STEADY]
            slow = number >= 40
            measured = replace(
                record.measurement,
                median_s=record.measurement.median_s * (1.25 if slow else 1),
                sm_clock_hz=1.6e9 if slow else 2e9,
            )
            store.add_run(run, [], [replace(record, measurement=measured)])
    assert "SM clock -20.0 %: the same cycles, a lower clock" in call(copy, "gemv").stdout


def test_the_chart_puts_points_where_they_belong():
    points = [Point(1.0, True), Point(2.0, False), Point(3.0, True, "1"), Point(3.0, True)]
    lines = chart(points, ("1 s", "3 s"), 60)
    assert lines[0] == "3 s ┤  ●●"
    assert lines[-2] == "1 s ┤●"
    assert lines[4] == "    ┤ ○"
    assert lines[-1] == "       1"
    many = chart([Point(float(number % 7), True) for number in range(500)], ("0 s", "6 s"), 60)
    assert max(len(line) for line in many) <= 60
    assert chart([], ("", ""), 60) == []
    assert len(chart([Point(1.0, True)], ("1 s", "1 s"), 60)) == 9


def test_newer_runs_that_differ_are_announced_wherever_a_history_is_told(tmp_path):
    """Nine nights, the last four 10 % slower: the diff calls it, and the history says what it waits for."""
    from fastapi.testclient import TestClient

    from reports.api.http.app import create_app

    path, source = tmp_path / "nine.db", random.Random(6)
    with open_store(path) as store:
        for number in range(9):
            run = RunInfo(
                uuid.UUID(int=source.getrandbits(128)).hex,
                f"2026-03-{number + 1:02d}T02:00:00.000000+00:00",
                status="complete",
            )
            (record,) = [night_record for night_record in night_records(run, 0, source) if night_record.case == STEADY]
            time_s = record.measurement.median_s * (1.1 if number >= 5 else 1.0)
            store.add_run(run, [], [replace(record, measurement=replace(record.measurement, median_s=time_s))])
    sentence, values = "4 newer runs differ; 5 are needed", {"newer_count": 4, "needed_count": 5}
    text = call(path, "gemv").stdout
    assert text.startswith(f"9 runs: 0 alerts open; {sentence}.\n")
    assert "no step" not in text
    assert sentence in call(path, "--all").stdout

    def is_announced(pending):
        return pending["code"] == "step-pending" and pending["values"] == values

    document = json.loads(call(path, "gemv", "--json").stdout)
    assert is_announced(document["pending"])
    assert is_announced(document["segments"][0]["pending"])
    (overview,) = json.loads(call(path, "--all", "--json").stdout)["cases"]
    assert is_announced(overview["pending"])
    answer = TestClient(create_app(path)).get(f"/api/cases/{STEADY.case_key}/history").json()
    assert is_announced(answer["pending"])
    for name, options in (("page.html", ()), ("page.md", ("--format", "md"))):
        page = tmp_path / name
        result = runner.invoke(app, ["report", "--db", str(path), "--baseline", "latest", "-o", str(page), *options])
        assert result.exit_code == 0, result.output
        assert sentence in page.read_text(encoding="utf-8")
        assert "No case has a step" not in page.read_text(encoding="utf-8")
