"""`roofline report --baseline` and `--static`: the diff and the nights in the page, the verdict on the screen."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace

import diff_runs as runs
import numpy as np
import pytest
from typer.testing import CliRunner

from reports.figures.drawing.matplotlib_drawer import draw_figure, figure_svg
from reports.figures.drawing.palette import ACCENT
from reports.figures.drawing.spec import Marks
from reports.figures.history import MOST_POINTS, history_figure
from reports.page.page_data import history_data
from reports.present.changes import code_meaning
from reports.present.words.diff_text import change_text, interval_text
from reports.view.comparison import Comparison, changed_cases, compare_with_baseline, compared_texts
from results.store.store import open_store
from roofline_cli.main import app

CASES, PROCESSES, NIGHTS = 4, 6, 16
STEP_NIGHT, STEP = 10, 0.25
HOSTILE = "</script><script>alert(1)</script>"


def run_of_day(day: int) -> object:
    """One night: case 0 is slower from the tenth on, the last case is missing on the last night."""
    rng = np.random.default_rng(day)
    logs = 0.004 * rng.standard_normal((CASES, PROCESSES))
    if day >= STEP_NIGHT:
        logs[0] += math.log1p(STEP)
    if day == NIGHTS - 1:
        logs[1] += math.log1p(0.12)
        logs = logs[: CASES - 1]
    run = runs.run_info(f"night-{day}" if day else HOSTILE, started_at=f"2026-03-{day + 1:02d}T02:00:00.000000+00:00")
    return runs.side(logs, run=run)


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    path = tmp_path_factory.mktemp("nights") / "results.db"
    with open_store(path) as store:
        for day in range(NIGHTS):
            side = run_of_day(day)
            store.add_run(side.runs[0], [], list(side.records))
    return path


@pytest.fixture(scope="module")
def compared(database) -> Comparison:
    with open_store(database, read_only=True) as store:
        return compare_with_baseline(store, store.resolve_run("latest"), "latest")


def report(database, page, *arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, ["report", "--db", str(database), "-o", str(page), *arguments])
    assert result.exit_code == code, result.output
    return result.output


def test_the_comparison_is_that_of_the_diff(compared):
    assert [case.verdict for case, _ in changed_cases(compared.diff)] == ["SLOWER", "GONE"]
    (slower, _), (gone, _) = changed_cases(compared.diff)
    assert slower.case_key == runs.case(1).case_key
    assert change_text(slower) == f"{slower.change_ratio * 100:+.1f} %"
    assert gone.after_s is None
    assert compared.result.exit_code == 1
    assert any("such diffs would find a case" in text for text in compared_texts(compared))
    assert any(text.startswith("before and after: geometric mean") for text in compared_texts(compared))


def test_the_histories_are_those_of_the_runs_cases(compared):
    assert {history.case.case_key for history in compared.histories} == {
        runs.case(number).case_key for number in range(CASES - 1)
    }
    (history, change), *_ = compared.changes
    assert history.case.case_key == runs.case(0).case_key
    assert change.kind == "step"
    assert change.started_at.startswith(f"2026-03-{STEP_NIGHT + 1:02d}")
    assert compared.alert_count == 1


def test_the_pages_histories_hold_the_stored_values(compared):
    data = history_data(compared.histories)
    stored = {history.name: [point.value for point in history.points] for history in compared.histories}
    assert {history["name"]: [point["value_s"] for point in history["nights"]] for history in data} == stored
    assert max(len(history["nights"]) for history in data) <= MOST_POINTS


def test_the_figure_of_a_history_has_every_night_its_levels_and_its_open_step(compared):
    history = next(candidate for candidate in compared.histories if candidate.alerts)
    figure = history_figure(history)
    marks = [series for series in figure.series if isinstance(series, Marks)]
    assert sum(len(mark.x) for mark in marks) == len(history.points)
    assert sum(series.name == "level" for series in figure.series) == 2
    (step,) = (series for series in figure.series if series.name.startswith("step"))
    assert step.colour is ACCENT
    (label,) = figure.labels
    assert (label.place, label.x) == ("top", step.x[0])
    assert label.lines[0] in figure_svg(draw_figure(figure), text_as_paths=False)


def test_the_page_has_the_verdict_first_then_the_changes(database, tmp_path):
    page = tmp_path / "report.html"
    shown = report(database, page, "--baseline", "latest")
    text = page.read_text(encoding="utf-8")
    assert re.search(r"Against [0-9a-f]{8} night-14", shown)
    verdict = re.search(r'What got worse</b>: (<span class="bad">.*?</span>)', text)[1]
    assert "slower" in verdict
    assert "1x" not in verdict  # no raw case ids on the first screen
    assert text.index(verdict) < text.index('id="baseline"') < text.index('id="history"') < text.index("All cases")
    assert "Against the baseline" in text
    assert ">SLOWER<" in text
    assert ">GONE<" in text
    assert "1 open alert" in text


def test_a_busy_machine_gets_no_red_verdict_and_one_row_for_all_its_cases(tmp_path):
    quiet, busy = run_of_day(1), run_of_day(2)
    records = [
        replace(record, measurement=replace(record.measurement, flags=("contended",))) for record in busy.records
    ]
    with open_store(tmp_path / "r.db") as store:
        store.add_run(quiet.runs[0], [], list(quiet.records))
        store.add_run(busy.runs[0], [], records)
    with open_store(tmp_path / "r.db", read_only=True) as store:
        comparison = compare_with_baseline(store, store.resolve_run("latest"), "latest")
    assert (comparison.result.exit_code, comparison.diff.is_judged) == (5, False)
    ((case, count),) = changed_cases(comparison.diff)
    assert (case.verdict, count) == ("INVALID", CASES)
    page = tmp_path / "report.html"
    report(tmp_path / "r.db", page, "--baseline", "latest")
    text = page.read_text(encoding="utf-8")
    assert not re.search(r'What got worse</b>: <span class="(bad|good)">', text)
    assert text.count(">INVALID<") == 1


def test_json_tells_verdict_and_exit_code_and_a_report_never_fails_for_them(database, tmp_path):
    data = json.loads(report(database, tmp_path / "r.html", "--baseline", "baseline:3", "--json"))
    assert data["baseline"]["exit_code"] == 1
    assert len(data["baseline"]["run_ids"]) == 3
    assert data["baseline"]["alert_count"] == 1


def test_markdown_and_paper_carry_the_comparison_of_the_page(database, compared, tmp_path):
    report(database, tmp_path / "r.md", "--format", "md", "--baseline", "latest")
    text = (tmp_path / "r.md").read_text(encoding="utf-8")
    assert text.index("What got worse") < text.index("## Against the baseline") < text.index("## Over the runs")
    (slower, _), (gone, _) = changed_cases(compared.diff)
    row = next(line for line in text.splitlines() if line.startswith("| SLOWER"))
    assert change_text(slower) in row
    assert interval_text(slower) in row
    assert any(line.startswith("| GONE") for line in text.splitlines())
    assert code_meaning(gone) in text.replace("\\", "")
    assert "four of five such diffs would find a case that got" in text
    assert "1 open alert" in text
    report(database, tmp_path / "r.html", "--format", "pdf-ready", "--baseline", "latest")
    paper = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "Against the baseline" in paper
    assert interval_text(slower) in paper
    assert "<script" not in paper


def test_the_json_report_holds_the_diff_of_what_changed(database, compared, tmp_path):
    report(database, tmp_path / "r.json", "--format", "json", "--baseline", "latest")
    comparison = json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))["comparison"]
    cases = [case for case, _ in changed_cases(compared.diff)]
    assert [case["verdict"] for case in comparison["diff"]["cases"]] == [case.verdict for case in cases]
    slower = comparison["diff"]["cases"][0]
    assert (slower["low_ratio"], slower["high_ratio"]) == (cases[0].low_ratio, cases[0].high_ratio)
    assert comparison["diff"]["counts"]["SAME"] == len(compared.diff.of("SAME"))
    assert isinstance(comparison["diff"]["environment_differences"], list)
    assert comparison["changes_over_nights"][0]["kind"] == "step"
    assert (comparison["exit_code"], comparison["alert_count"]) == (1, 1)
    report(database, tmp_path / "alone.json", "--format", "json")
    assert json.loads((tmp_path / "alone.json").read_text(encoding="utf-8"))["comparison"] is None


@pytest.mark.parametrize("form", [("--format", "md"), ("--static",)], ids=["markdown", "page"])
def test_the_first_night_of_any_form_says_that_it_can_be_the_baseline(database, tmp_path, form):
    with open_store(database, read_only=True) as store:
        first = store.runs()[-1].run_id
    shown = report(database, tmp_path / "first", "--run", first, "--baseline", "latest", *form)
    assert "nothing to compare with yet" in shown
    text = (tmp_path / "first").read_text(encoding="utf-8")
    assert "can be the first baseline" in text
    assert not re.search(r"(?<!\\)<script", text)


def test_a_static_page_has_no_script_and_a_tenth_of_the_size(database, tmp_path):
    report(database, tmp_path / "live.html")
    report(database, tmp_path / "still.html", "--static")
    live, still = ((tmp_path / name).read_text(encoding="utf-8") for name in ("live.html", "still.html"))
    assert live.count("<script") == 3
    assert "<script" not in still
    assert "script-src" not in still
    assert len(still) < len(live) / 10


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--baseline", "nobody"], "unknown run 'nobody'"),
        (["--baseline", "branch:"], "needs the name of a branch"),
        (["--format", "md", "--baseline", "nobody"], "unknown run 'nobody'"),
        (["--format", "json", "--static"], "--static is about the page"),
        (["-o", "roofline.png"], "the report is a page, roofline.png is none"),
        (["-o", "run.json"], "or give --format md or json"),
    ],
)
def test_bad_input_is_one_line(database, tmp_path, arguments, words):
    shown = report(database, tmp_path / "r.html", *arguments, code=2)
    assert words in shown
    assert len(shown.strip().splitlines()) == 1
    assert not (tmp_path / "r.html").exists()


def test_a_word_means_the_same_run_as_in_the_diff(database):
    """`report --baseline latest~1` and `diff latest~1 latest` compare the same two runs; too far back names the run to
    take.
    """
    with open_store(database, read_only=True) as store:
        newest, second = store.resolve_run("latest"), store.resolve_run("latest~1")
        comparison = compare_with_baseline(store, newest, "latest~1")
        assert [run.run_id for run in comparison.diff.before] == [second.run_id]
        far = compare_with_baseline(store, newest, "latest~99")
    assert far.diff is None
    assert far.first_text == f"`latest` means run {second.run_id[:8]}, compare with that"
