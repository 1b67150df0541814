"""`roofline diff`: what it prints in every form, which runs it takes, its exit codes, and bad input."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from xml.etree import ElementTree as xml

import diff_runs as runs
import numpy as np
import pytest
from typer.testing import CliRunner

from results.records.records import EnvironmentInfo
from results.store.store import open_store
from roofline_cli.main import app

runner = CliRunner()
HOSTILE = "<script>'; DROP TABLE run;--|`x`\x1b[31m\nnext & so"


def run_of_day(day: int, label: str, steps=None, *, gone=(), seed=None, **changes):
    rng = np.random.default_rng(seed or day)
    logs = runs.noisy(rng, 10, 4, 0.003)
    for number, step in (steps or {}).items():
        logs[number] += math.log1p(step)
    run = runs.run_info(label, started_at=f"2026-03-{day:02d}T02:00:00.000000+00:00", **changes)
    made = runs.side(logs, run=run)
    return replace(made, records=tuple(record for record in made.records if record.case not in map(runs.case, gone)))


def with_hostile_case(side: runs.SuiteSide) -> runs.SuiteSide:
    evil = replace(runs.case(0), op=HOSTILE, kernel=HOSTILE + "x" * 1_000_000)
    more = [replace(runs.record(side.runs[0], 0, process, 0.0), case=evil) for process in range(4)]
    return replace(side, records=(*side.records, *more))


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    path = tmp_path_factory.mktemp("diff") / "runs.db"
    updated = EnvironmentInfo({**runs.FACTS, "driver": "590"}, {**runs.CLASS_FACTS, "driver": "590"})
    empty = runs.run_info("empty", started_at="2026-03-09T02:00:00.000000+00:00")
    sides = [
        run_of_day(1, "one"),
        run_of_day(2, "two"),
        run_of_day(3, "three"),
        run_of_day(4, "slow", {3: 0.1}),
        run_of_day(5, "fast", {3: -0.1}),
        run_of_day(6, "gone", gone=(2,)),
        run_of_day(7, "cut", status="interrupted"),
        run_of_day(8, "updated", environment=updated),
        with_hostile_case(run_of_day(11, HOSTILE, {1: 0.2})),
        runs.SuiteSide((empty,), (runs.lost(empty, 0, "skipped", "not this chip"),)),
        run_of_day(12, "wip", git_branch="wip"),
    ]
    return runs.stored(path, *sides, noise=runs.floors(np.full(10, 0.003)))


def diff(database, *arguments: str, width: str = "", monkeypatch=None):
    return runner.invoke(app, ["diff", *arguments, "--db", str(database)], env={"COLUMNS": width})


def test_the_verdict_comes_first_and_the_exit_code_is_a_gate(database):
    comparison = diff(database, "three", "slow")
    assert comparison.exit_code == 1, comparison.output
    first, *rest = comparison.stdout.splitlines()
    assert re.match(
        r"1 of 10 cases is slower: gemv 1x1027x64 BF16 · matmul \+1?[0-9.]+ % \(95 %: \+\S+ % to \+\S+ %\)\.$", first
    )
    text = "\n".join(rest)
    assert "exit code 1: cases that fail slower: 1" in text
    assert "9 same" in text
    assert "four of five such diffs would find a case that got" in text
    assert diff(database, "slow", "fast").stdout.startswith("Nothing is slower; 1 of 10 cases is faster")
    assert diff(database, "slow", "fast").exit_code == 0


@pytest.mark.parametrize("width", ["80", "120"])
def test_tables_keep_to_the_screen(database, width):
    comparison = diff(database, "three", "slow", "--all", width=width)
    assert comparison.exit_code == 1
    assert max(len(line.rstrip()) for line in comparison.stdout.splitlines()) <= int(width)
    assert "SLOWER" in comparison.stdout
    assert comparison.stdout.count("SAME") == 9


def test_piped_output_has_no_escapes_and_all_columns(database):
    text = diff(database, "three", "slow", "--all").stdout
    *_, header = (line for line in text.splitlines() if line.startswith("Verdict"))
    columns = "Verdict Case Format Kernel Before After Change Cache Mode 95 % interval q Processes Sees Reason"
    assert header.split() == columns.split()
    assert "\x1b" not in text


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["slow"], 1), (["slow", "--against", "BASELINE"], 1),
        (["slow", "--against", "three"], 1),
        (["three", "slow", "--fail-on", "slower:5%"], 1), (["three", "slow", "--fail-on", "slower:15%"], 0),
        (["three", "gone"], 0), (["three", "gone", "--fail-on", "slower,gone"], 1),
        (["three", "updated"], 4), (["updated", "--against", "latest"], 4), (["three", "updated", "--allow", "driver"], 0),
        (["three", "slow", "--min-effect", "20 %"], 0),
        (["one,two,three", "slow"], 1), (["three", "cut"], 0), (["wip", "--against", "branch:main"], 0),
    ],
)  # fmt: skip
def test_exit_codes(database, arguments, code):
    comparison = diff(database, *arguments)
    assert comparison.exit_code == code, comparison.output


def test_a_gate_does_not_pass_a_case_that_it_cannot_see(tmp_path):
    rng = np.random.default_rng(3)
    sides = [
        runs.side(runs.noisy(rng, 1, 2, 0.001), run=runs.run_info(label, started_at=f"2026-03-0{day}T02:00:00+00:00"))
        for day, label in ((1, "base"), (2, "head"))
    ]
    database = runs.stored(tmp_path / "two.db", *sides)
    plain = diff(database, "base", "head", "--json")
    document = json.loads(plain.stdout)
    assert [(case["verdict"], case["smallest_step_ratio"]) for case in document["cases"]] == [("SAME", None)]
    assert plain.exit_code == 0
    for form in ("text", "md", "json"):
        gated = diff(database, "base", "head", "--max-ambiguous", "0", "--format", form, *["--all"][: form == "text"])
        assert gated.exit_code == 3, gated.output
        assert "nothing changed" not in gated.stdout
        assert "the noise hides none" not in gated.stdout
        assert "✅" not in gated.stdout
    reason = json.loads(gated.stdout)["exit_findings"][0]
    assert reason["code"] == "too-ambiguous"
    assert diff(database, "base", "head", "--max-ambiguous", "1").exit_code == 0
    with_floor = runs.stored(tmp_path / "known.db", *sides, noise=runs.floors(np.full(1, 0.001)))
    assert diff(with_floor, "base", "head", "--max-ambiguous", "0").exit_code == 0


def test_a_rolling_baseline_pools_its_runs_and_sees_more(database):
    alone = json.loads(diff(database, "slow", "--against", "latest", "--json").stdout)
    rolling = json.loads(diff(database, "slow", "--against", "BASELINE", "--json").stdout)
    assert [run["label"] for run in rolling["before"]] == ["three", "two", "one"]
    assert rolling["cases"][0]["before_process_count"] == 12
    assert rolling["smallest_step_ratio"] < alone["smallest_step_ratio"]


@pytest.mark.parametrize(
    ("words", "baseline"),
    [
        (("slow", "--against", "BASELINE"), "BASELINE"),
        (("slow", "--against", "baseline:2"), "baseline:2"),
        (("slow",), "three"),
        (("one,three,two", "slow"), "three"),
    ],
)
def test_the_next_command_compares_with_the_same_runs_or_the_newest_of_them(database, words, baseline):
    (line,) = [line for line in diff(database, *words).stdout.splitlines() if line.startswith("Next: roofline report")]
    with open_store(database, create=False, read_only=True) as store:
        run_ids = {run.run_id[:8]: run.label for run in store.runs()}
    given = line.split("--baseline ")[1].split()[0]
    assert run_ids.get(given, given) == baseline


def test_the_first_run_is_no_fault(database, tmp_path):
    for form in ("text", "json", "junit"):
        comparison = diff(database, "one", "--against", "BASELINE", "--format", form, "-o", str(tmp_path / form))
        assert comparison.exit_code == 0, comparison.output
    assert "it can be the first baseline" in (tmp_path / "text").read_text()
    assert json.loads((tmp_path / "json").read_text())["exit_code"] == 0
    assert xml.fromstring((tmp_path / "junit").read_bytes()).find("testsuite").get("tests") == "0"


def test_what_differs_is_printed_beside_the_verdict(database):
    text = diff(database, "three", "updated").stdout
    assert text.startswith("Not comparable: 1 fact of machine or software differs.\n")
    assert text.count("driver unknown → 590") == 1, "each difference is said once"
    assert "Note: differs: driver unknown → 590\n--allow driver compares all the same" in text
    markdown = diff(database, "three", "updated", "--format", "md").stdout
    assert markdown.count("driver unknown → 590") == 1
    assert "differs: driver unknown → 590" in diff(database, "three", "updated", "--allow", "driver").stdout


def test_json_is_the_same_by_both_names_and_goes_to_a_file(database, tmp_path):
    target = tmp_path / "diff.json"
    shown = json.loads(diff(database, "three", "slow", "--json").stdout)
    assert diff(database, "three", "slow", "--format", "json", "-o", str(target)).exit_code == 1
    assert json.loads(target.read_text()) == shown
    assert shown["exit_code"] == 1
    assert shown["counts"]["SLOWER"] == 1


def test_text_in_a_file_is_plain_whatever_the_screen(database, tmp_path):
    target = tmp_path / "diff.txt"
    comparison = diff(database, "three", "slow", "-o", str(target), width="100")
    assert (comparison.exit_code, comparison.stdout) == (1, "")
    text = target.read_text()
    assert text.startswith("1 of 10 cases is slower")
    assert "\x1b" not in text


def test_junit_makes_every_case_a_test(database):
    suite = xml.fromstring(diff(database, "three", "slow", "--format", "junit").stdout.split("?>", 1)[1]).find(
        "testsuite"
    )
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("10", "1", "0")
    (failed,) = [test for test in suite.iter("testcase") if test.find("failure") is not None]
    assert failed.get("name") == runs.case(3).id
    assert failed.find("failure").get("message").startswith("slower: +")
    blocked = xml.fromstring(diff(database, "three", "updated", "--format", "junit").stdout.split("?>", 1)[1]).find(
        "testsuite"
    )
    assert blocked.get("errors") == "1"
    assert "driver" in next(blocked.iter("error")).get("message")


def test_markdown_is_a_table_and_its_verdict_a_heading(database):
    text = diff(database, "three", "slow", "--format", "md").stdout
    assert text.startswith("### ❌ 1 of 10 cases is slower")
    assert "| gemv 1x1027x64-w16a16-BF16.BF16-matmul-cold |" in text
    assert diff(database, "slow", "fast", "--format", "md").stdout.startswith("### ✅")


@pytest.mark.parametrize("form", ["text", "md", "json", "junit"])
def test_hostile_labels_and_case_names_do_nothing(database, form):
    with open_store(database, read_only=True) as store:
        hostile = next(run for run in store.runs() if run.label.startswith("<script>"))
    comparison = diff(database, "three", hostile.run_id, "--format", form)
    assert comparison.exit_code == 1, comparison.output
    assert "\x1b" not in comparison.stdout
    assert "\nnext" not in comparison.stdout
    assert form == "json" or len(comparison.stdout) < 20_000
    if form == "md":
        assert "<script>" not in comparison.stdout
        assert "\\<script\\>" in comparison.stdout
    if form == "junit":
        assert "<script>" not in comparison.stdout
        xml.fromstring(comparison.stdout.split("?>", 1)[1])


def test_a_quarantined_case_is_shown_and_fails_nothing(database, tmp_path):
    listed = tmp_path / "q.toml"
    listed.write_text(
        '[[case]]\nmatch = "gemv 1x1027x64-*"\nreason = "two states"\n[[case]]\nmatch = "gemm *"\nreason = "none"\n'
    )
    comparison = diff(database, "three", "slow", "--quarantine", str(listed))
    assert comparison.exit_code == 0
    assert "quarantine gemm *: matches no case" in comparison.stdout
    every = diff(database, "three", "slow", "--quarantine", str(listed), "--all").stdout
    assert "on the quarantine list: two states" in every
    suite = xml.fromstring(
        diff(database, "three", "slow", "--quarantine", str(listed), "--format", "junit").stdout.split("?>", 1)[1]
    )
    assert any("two states" in case.get("message") for case in suite.iter("skipped"))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nobody", "slow"], "unknown run 'nobody'"),
        (["cut", "slow"], "was cut short: an incomplete run is never a baseline"),
        (["slow", "slow"], "is on both sides"),
        (["empty", "slow"], "measured nothing"),
        (["three", "empty"], "measured nothing"),
        (["one", "two", "three"], "takes two runs"),
        (["one", "two", "--against", "latest"], "not both"),
        (["one", "two", "--fail-on", "faster"], "--fail-on takes"),
        (["one", "two", "--min-effect", "none"], "--min-effect must be a percentage"),
        (["one", "two", "--fdr", "2"], "--fdr must be a share"),
        (["one", "two", "--format", "html"], "--format must be"),
        (["one", "two", "--json", "--format", "md"], "exclude each other"),
        (["one", "two", "--quarantine", "none.toml"], "is not a file"),
        (["one", "two", "--max-ambiguous", "-1"], "--max-ambiguous"),
        (["one", "two", "-o", "/"], "is a folder"),
        ([], "Missing argument"),
        (["x" * 100_000, "slow"], "unknown run"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(database, arguments, words):
    comparison = diff(database, *arguments)
    assert comparison.exit_code == 2, comparison.output
    assert comparison.stdout == ""
    assert comparison.stderr.startswith("error: ")
    assert comparison.stderr.count("\n") == 1
    assert words in comparison.stderr
    assert len(comparison.stderr) < 900


def test_the_database_is_never_overwritten(database):
    before = database.read_bytes()
    assert diff(database, "one", "two", "-o", str(database)).exit_code == 2
    assert database.read_bytes() == before
