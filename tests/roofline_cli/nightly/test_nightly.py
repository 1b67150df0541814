"""A night: what cannot be meant costs no hour; which step leaves which out; the exit code that remains."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import diff_runs
import numpy as np
import pytest
from nightly_files import written_run
from typer.testing import CliRunner

from results import open_store
from roofline_cli.main import app
from roofline_cli.nightly import nightly_run
from roofline_cli.shared.run_file import read_run

ROOT = Path(__file__).resolve().parents[3]
STEPS = ["doctor", "canary", "bench", "diff", "history", "report"]
DOCTOR = {
    "checks": [
        {"name": "python", "status": "ok", "detail": "3.11", "fix": ""},
        {"name": "persistence", "status": "warn", "detail": "off", "fix": "sudo nvidia-smi -pm 1"},
    ]
}


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ROOFLINE_MACHINE_LOCK", str(tmp_path / "lock"))
    monkeypatch.delenv("ROOFLINE_DB", raising=False)


def nightly(*words):
    return CliRunner().invoke(app, ["nightly", "-o", "n", *words])


def written_json(name):
    return json.loads(Path("n", name).read_text(encoding="utf-8"))


def step_of(command):
    if "pytest" in command:
        return "bench"
    return "canary" if "--canary" in command else command[4]


def answering(monkeypatch, run=None, **codes):
    """Let every command answer with a code, by the step it belongs to; return the commands."""
    commands = []

    def run_child(command, *, output=None, **options):
        step = step_of(command)
        code = codes.get(step, 0)
        commands.append(command)
        if step == "bench" and (text := written_run(12, ["softmax"]) if run is None else run):
            Path("n/run.json").write_text(text, encoding="utf-8")
        if step == "diff" and code in (0, 1, 3, 4, 5):
            Path(command[command.index("-o") + 1]).write_text("the diff\n", encoding="utf-8")
        if output is not None:
            history = (
                {"metric": {"key": command[command.index("--metric") + 1]}, "cases": []} if step == "history" else {}
            )
            document = DOCTOR if step == "doctor" else history
            output.write_text(
                "canary gemv: not judged\n" if step == "canary" else json.dumps(document), encoding="utf-8"
            )
        return code

    monkeypatch.setattr(nightly_run, "run_child", run_child)
    return commands


@pytest.mark.parametrize(
    ("codes", "verdict", "left_out"),
    [
        ({}, 0, set()),
        ({"doctor": 1}, 2, {"canary", "bench", "diff"}),
        ({"canary": 5}, 5, {"bench", "diff"}),
        ({"canary": 1}, 2, {"bench", "diff"}),
        ({"bench": 1}, 1, set()),
        ({"bench": 5}, 2, set()),
        ({"bench": 130}, 2, set()),
        ({"diff": 1}, 1, set()),
        ({"diff": 3}, 3, set()),
        ({"diff": 4}, 4, set()),
        ({"diff": 5}, 5, set()),
        ({"diff": 2}, 2, set()),
        ({"bench": 1, "diff": 4}, 1, set()),
        ({"diff": 139}, 2, set()),
        ({"history": 1}, 2, set()),
        ({"report": 2}, 2, set()),
    ],
)
def test_the_verdict_is_the_worst_of_the_steps(monkeypatch, codes, verdict, left_out):
    commands = answering(monkeypatch, **codes)
    assert nightly("--label", "night-1").exit_code == verdict
    done = {step_of(command) for command in commands}
    assert not left_out & done
    document = written_json("summary.json")
    assert document["exit_code"] == verdict
    assert [step["step"] for step in document["steps"]] == STEPS
    for step in document["steps"]:
        assert ("left out" in step["note"]) == (step["exit_code"] is None)
    text = Path("n/summary.md").read_text(encoding="utf-8")
    assert f"(exit code {verdict})" in text
    assert ("the diff" in text) == ("diff" in done and codes.get("diff") not in (2, 139))


def test_json_is_the_summary(monkeypatch):
    answering(monkeypatch)
    result = nightly("--label", "night-1", "--json")
    assert json.loads(result.stdout) == written_json("summary.json")
    assert "── bench" in result.stderr


@pytest.fixture
def one_night(tmp_path):
    """A database with one complete run of main, labelled nightly-1."""
    run = diff_runs.run_info("nightly-1", run_id="ef" * 16)
    return diff_runs.stored(
        tmp_path / "r.db", diff_runs.side(diff_runs.noisy(np.random.default_rng(1), 2, 3, 0.003), run=run)
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--label", "nightly-1"], "--label nightly-1 is taken by run efefefef of 2026-03-01T10:00"),
        (["--against", "release-1.4"], "release-1.4"),
        (["--against", "nonsense:5"], "nonsense:5"),
        (["--against", "branch:mian"], "main"),
    ],
)
def test_what_the_database_shows_to_be_wrong_costs_no_measuring(monkeypatch, one_night, words, message):
    commands = answering(monkeypatch)
    result = nightly("--db", str(one_night), *words)
    assert (result.exit_code, commands) == (2, [])
    assert message in result.stderr
    assert not Path("n").exists()


@pytest.mark.parametrize(
    "against", ["baseline", "BASELINE:3", "latest", "latest~2", "branch:main", "nightly-1", "efef"]
)
def test_a_baseline_that_is_there_is_taken(monkeypatch, one_night, against):
    commands = answering(monkeypatch)
    assert nightly("--db", str(one_night), "--against", against).exit_code == 0
    assert "bench" in map(step_of, commands)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--label", "latest~1"], "cannot name a run"),
        (["--label", "a b"], "cannot name a run"),
        (["--fail-on", "bogus"], "--fail-on takes slower"),
        (["--max-ambiguous", "x"], "--max-ambiguous takes a number of cases"),
        (["--max-ambiguous", "101%"], "--max-ambiguous takes a number of cases"),
        (["--against", "baseline:0"], "baseline:N takes 1 to 100 runs"),
        (["--against", "latest~x"], "r.db"),  # no run of that name, as there is no database
        (["--against", "branch:"], "needs the name of a branch"),
        (["--quarantine", "missing.toml"], "missing.toml is not a file"),
        (["--annotations", "bad.toml"], "bad.toml is not TOML"),
        (["--pytest", "perf 'unb"], "--pytest cannot be read as a shell would"),
        (["--pytest", "perf --roofline-run=mine"], "--label names the run"),
        (["--bench-minutes", "0"], "--bench-minutes"),
        (["--db", "postgresql://me:secret@host/db"], "an option holds a password"),
        (["--db", "postgresql+psycopg://h/x?user=u&password=secret"], "an option holds a password"),
        (["--pytest", "-x --roofline-baseline=postgresql+psycopg://u:secret@h/x"], "an option holds a password"),
    ],
)
def test_what_cannot_be_meant_is_said_before_the_hour_of_measuring(monkeypatch, words, message):
    commands = answering(monkeypatch)
    Path("bad.toml").write_text("[[annotation", encoding="utf-8")
    result = nightly("--db", "r.db", *words)
    assert (result.exit_code, commands) == (2, [])
    assert message in result.stderr
    assert "secret" not in result.output
    assert not Path("n").exists()


def test_the_folder_of_a_night_is_its_own(monkeypatch):
    commands = answering(monkeypatch)
    Path("n").mkdir()
    Path("n/thesis.tex").write_text("years of work", encoding="utf-8")
    result = nightly()
    assert (result.exit_code, commands) == (2, [])
    assert "thesis.tex, which no nightly run wrote" in result.stderr
    assert Path("n/thesis.tex").read_text(encoding="utf-8") == "years of work"
    Path("n/thesis.tex").unlink()
    Path("n/diff.txt").mkdir()  # a folder by the name of a result is a stranger's
    assert nightly().exit_code == 2
    Path("n/diff.txt").rmdir()
    for left in (".roofline-phqs31zz", "report.html", "summary.md"):
        Path("n", left).write_text("of yesterday", encoding="utf-8")
    assert nightly("--label", "night-2").exit_code == 0
    assert not Path("n/.roofline-phqs31zz").exists()
    assert not Path("n/report.html").exists()  # the report of tonight is none, here


def test_the_night_that_stored_nothing_is_not_told_from_another_run(monkeypatch):
    commands = answering(monkeypatch, run="no JSON", bench=4)
    assert nightly().exit_code == 2
    assert not {"diff", "report"} & set(map(step_of, commands))
    text = Path("n/summary.md").read_text(encoding="utf-8")
    assert "no run was stored" in text
    assert "report | –" in text


def test_a_night_in_which_every_kernel_failed_is_a_regression_and_not_compared(monkeypatch):
    commands = answering(monkeypatch, run=written_run(0, ["softmax", "norm"]), bench=1, diff=2)
    assert nightly().exit_code == 1
    assert "diff" not in map(step_of, commands)
    text = Path("n/summary.md").read_text(encoding="utf-8")
    assert "- **bench**: cases failed: 2 failed" in text
    assert "left out: no case was measured" in text


def test_an_interrupted_run_is_not_compared(monkeypatch):
    commands = answering(monkeypatch, run=written_run().replace('"complete"', '"interrupted"'), bench=2)
    assert nightly().exit_code == 2
    assert "diff" not in map(step_of, commands)
    assert step_of(commands[-1]) == "report"
    assert "--baseline" not in commands[-1]


def test_what_pytest_runs_and_what_the_commands_name(monkeypatch):
    Path("perf").mkdir()
    commands = answering(monkeypatch)
    words = [
        "--pytest",
        "perf bench_cases -k 'a and not b' --roofline-hw=gb10 --roofline-processes=5",
        "--label",
        "night-1",
    ]
    assert nightly(*words, "--db", "r.db", "--annotations", str(annotations())).exit_code == 0
    bench = next(command for command in commands if step_of(command) == "bench")
    start = bench.index("perf")
    assert bench[start : start + 4] == ["perf", str(ROOT / "bench_cases"), "-k", "a and not b"]
    given = dict(
        word.split("=", 1) for word in bench if word.startswith("--roofline-")
    )  # pytest takes the last of a name
    assert given["--roofline-processes"] == "5"
    assert (given["--roofline-require-measured"], given["--roofline-hw"]) == ("1", "gb10")
    assert (given["--roofline-run"], given["--roofline-db"]) == ("night-1", "r.db")
    diffs = [command for command in commands if step_of(command) == "diff"]
    options = [dict(pairwise(command)) for command in diffs]
    assert [each["--format"] for each in options] == ["text", "md", "json", "junit", "md"]
    assert [each["--against"] for each in options] == [*["baseline"] * 4, "latest"]
    assert {(each["--fail-on"], each["--max-ambiguous"], each["--annotations"]) for each in options} == {
        ("slower,gone", "20%", "a.toml")
    }
    report = dict(pairwise(commands[-1]))
    assert (report["--run"], report["--baseline"]) == ("ab" * 16, "baseline")
    assert all(command[5] == "ab" * 16 for command in diffs)


def annotations():
    path = Path("a.toml")
    path.write_text('[[annotation]]\nmatch = "gemv *"\nreason = "driver"\non = 2026-11-20\n', encoding="utf-8")
    return path


def test_the_summary_says_what_ran(monkeypatch):
    answering(monkeypatch)
    nightly("--label", "night-1")
    text = Path("n/summary.md").read_text(encoding="utf-8")
    assert "`night-1`, run `abababab` on gb10, commit `cccccccccccc` with local changes" in text
    assert "Cases: 12 measured, 1 failed, 2 processes each" in text
    assert "- failed: t.py::softmax: wrong result\n" in text
    assert "- doctor: warn: persistence: off (sudo nvidia-smi -pm 1)" in text
    assert "- state of the machine: governor (value powersave)" in text  # a newer version's code
    assert "- state of the machine: other processes or threads used more than 10 % of the CPUs (94.8 %)" in text
    assert "not judged" in text  # of the canary, among the steps


@pytest.mark.parametrize(
    ("flags", "counts"),
    [
        ((("contended",), ("contended", "noisy")), "12 measured (12 disturbed: no diff judges them), 1 failed"),
        ((("contended",), ()), "12 measured, 1 failed"),
        ((("noisy",), ("bimodal",)), "12 measured, 1 failed"),
    ],
)
def test_the_summary_counts_the_times_that_no_diff_judges(monkeypatch, flags, counts):
    answering(monkeypatch, written_run(12, ["softmax"], flags=flags))
    nightly()
    assert f"Cases: {counts}, 2 processes each" in Path("n/summary.md").read_text(encoding="utf-8")


def in_this_process(monkeypatch):
    """Let the tool's commands run here: a process each would take seconds."""

    def run_child(command, *, output=None, **options):
        done = CliRunner().invoke(app, command[4:])
        if output is not None:
            output.write_text(done.stdout, encoding="utf-8")
        return done.exit_code

    monkeypatch.setattr(nightly_run, "run_child", run_child)


@pytest.fixture
def three_nights(tmp_path):
    """Two alike, and one with its third case 10 % slower and its last one gone."""
    rng = np.random.default_rng(7)
    runs = [diff_runs.run_info(f"night-{day}", started_at=f"2026-03-0{day}T01:00:00+00:00") for day in (1, 2, 3)]
    logs = [diff_runs.noisy(rng, 8, 3, 0.003) for _ in runs]
    logs[2] = logs[2][:-1]
    logs[2][2] += np.log(1.1)
    return diff_runs.stored(
        tmp_path / "r.db", *(diff_runs.side(log, run=run) for log, run in zip(logs, runs, strict=True))
    )


@pytest.mark.parametrize(("label", "code", "message"), [("night-1", 0, "nothing to compare"), ("night-3", 1, "slower")])
def test_a_first_night_and_a_bad_one(monkeypatch, three_nights, label, code, message):
    in_this_process(monkeypatch)

    def bench(self):
        with open_store(three_nights, read_only=True) as store:
            run_id = store.resolve_run(label).run_id
        Path("n/run.json").write_text(written_run(run_id=run_id), encoding="utf-8")
        self.run = read_run(Path("n/run.json"))
        return 0, ""

    for name in ("doctor", "canary", "report"):
        monkeypatch.setattr(nightly_run.NightlyRun, name, lambda self: (0, ""))
    monkeypatch.setattr(nightly_run.NightlyRun, "bench", bench)
    assert nightly("--label", "tonight", "--db", str(three_nights)).exit_code == code
    assert message in Path("n/diff.txt").read_text(encoding="utf-8")
    summary = Path("n/summary.md").read_text(encoding="utf-8")
    if code:
        assert {failure["rule"] for failure in written_json("diff.json")["failures"]} == {"slower", "gone"}
        assert diff_runs.case(2).id in summary
        assert "<testsuite" in Path("n/diff.junit.xml").read_text(encoding="utf-8")
        assert Path("n/diff-last-run.md").exists()
    else:
        assert summary.startswith("## ✅ nothing was compared: no earlier run (exit code 0)")
        assert not Path("n/diff-last-run.md").exists()
    assert written_json("alerts.json")["alerts"] == []


SUITE = """
import os
import pytest
from roofline_model import OpCost, Operator

@pytest.mark.parametrize("rows", [1, 2, 4, 8])
def test_copy(roofline, rows):
    if rows == 8 and "LOST" in os.environ:
        pytest.skip("lost")
    size = rows * 1_000_000
    cost = OpCost(flops={"FP32": 1}, read_bytes={"x": size}, write_bytes={"y": size})
    roofline.measure(lambda: 0.0, work=Operator("copy", (("rows", rows),), (("x", "FP32"),), cost), check=lambda out: 0.0, name="mine")
"""


@pytest.mark.full
def test_whole_nights_in_processes_of_their_own(monkeypatch):
    Path("perf").mkdir()
    Path("perf/test_copy.py").write_text(SUITE, encoding="utf-8")
    for label, device, environment, code, message in (
        ("one", "seed=1", {}, 0, "nothing to compare with yet"),
        ("same", "seed=2", {}, 0, "nothing changed by more than noise"),
        ("slow", "seed=3,slow=copy 4*:1.1", {}, 1, "copy 4 FP32 · mine, warm +"),
        ("mended", "seed=4", {}, 0, ""),
        ("lost", "seed=5", {"LOST": "1"}, 1, "gone"),
    ):
        with monkeypatch.context() as patch:
            for name, value in environment.items():
                patch.setenv(name, value)
            timer = f"--roofline-timer 'simulated:noise=0.005,process_noise=0.003,{device}'"
            words = ["--label", label, "--db", "r.db", "--pytest", f"perf -q --roofline-hw=gb10 {timer}"]
            assert nightly(*words).exit_code == code, label
        assert message in Path("n/diff.txt").read_text(encoding="utf-8")
        assert Path("n/report.html").stat().st_size > 10_000
        if label == "mended":
            assert "FASTER" in Path("n/diff-last-run.md").read_text(encoding="utf-8")
            assert "FASTER" in Path("n/summary.md").read_text(encoding="utf-8")
