"""A night's steps: their order, what leaves which out, the exit code that remains, and a diff that really runs."""

from __future__ import annotations

import dataclasses
import json
import signal
import sys
import time
from itertools import pairwise
from pathlib import Path

import diff_runs
import numpy as np
import pytest
from loaded_scripts import load_script
from nightly_files import written_run
from typer.testing import CliRunner

from results import open_store

ROOT = Path(__file__).resolve().parents[2]


nightly = load_script("nightly")
nightly_plan = sys.modules["nightly_plan"]
measured_run = sys.modules["measured_run"]
nightly_summary = sys.modules["nightly_summary"]
machine_lock = sys.modules["machine_lock"]


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ROOFLINE_MACHINE_LOCK", str(tmp_path / "lock"))
    for name in ("GITHUB_STEP_SUMMARY", "ROOFLINE_DB"):
        monkeypatch.delenv(name, raising=False)


RUN = measured_run.MeasuredRun(
    run_id="ab" * 16,
    status="complete",
    hardware="gb10",
    commit="c" * 40,
    is_dirty=True,
    counts={"measured": 12, "skipped": 1, "failed": 1},
    failures=("t.py::softmax: wrong result",),
    warnings=("the governor is powersave",),
)
DOCTOR = {
    "checks": [
        {"name": "python", "status": "ok", "detail": "3.11", "fix": ""},
        {"name": "persistence", "status": "warn", "detail": "off", "fix": "sudo nvidia-smi -pm 1"},
    ]
}


def answering(monkeypatch, run=RUN, stored=(), **codes):
    """Let every command answer with a code, by the step it belongs to; return the commands."""
    steps = []

    def output(command):
        text = " ".join(command)
        if "roofline_cli history" in text:
            return 0, "{}"
        is_doctor = "roofline_cli doctor" in text
        return call(command), json.dumps(DOCTOR) if is_doctor else "canary gemv: 7.7 ms, not judged\n"

    def call(command, limit_s=None):
        text = " ".join(command)
        words = {
            "roofline_cli doctor": "doctor",
            "nightly_canary": "canary",
            "pytest": "bench",
            "roofline_cli diff": "diff",
        }
        step = next((name for word, name in words.items() if word in text), "report")
        steps.append(step)
        if step == "diff" and codes.get(step, 0) in (0, 1, 3, 4, 5):
            Path(command[command.index("-o") + 1]).write_text("the diff\n", encoding="utf-8")
        return codes.get(step, 0)

    monkeypatch.setattr(nightly, "_call", call)
    monkeypatch.setattr(nightly, "_output", output)
    monkeypatch.setattr(nightly, "_stored_runs", lambda nightly_run: stored)
    monkeypatch.setattr(nightly.MeasuredRun, "read", lambda path: run)
    return steps


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
        ({"report": 2}, 2, set()),
    ],
)
def test_the_verdict_is_the_worst_of_the_steps(monkeypatch, codes, verdict, left_out):
    steps = answering(monkeypatch, **codes)
    assert nightly.main(["--out", "n", "--label", "night-1"]) == verdict
    assert not left_out & set(steps)
    document = json.loads(Path("n/summary.json").read_text(encoding="utf-8"))
    assert document["exit_code"] == verdict
    assert [step["step"] for step in document["steps"]] == [
        name for name in nightly.STEPS if name not in ("plan", "summary")
    ]
    for name in left_out:
        assert "left out" in next(step["note"] for step in document["steps"] if step["step"] == name)
    text = Path("n/summary.md").read_text(encoding="utf-8")
    assert f"(exit code {verdict})" in text
    assert ("the diff" in text) == ("diff" in steps and codes.get("diff") not in (2, 139))


def test_steps_one_by_one_give_what_the_whole_night_gives(monkeypatch):
    answering(monkeypatch, diff=1)
    assert nightly.main(["plan", "--out", "n", "--label", "night-1", "-k", "gemv"]) == 0
    codes = {step: nightly.main([step, "--out", "n"]) for step in nightly.STEPS if step != "plan"}
    assert codes == {**dict.fromkeys(codes, 0), "diff": 1, "summary": 1}
    state = json.loads(Path("n/night.json").read_text(encoding="utf-8"))
    assert state["plan"]["keyword"] == "gemv"
    assert [step["step"] for step in state["steps"]] == list(codes)[:-1]
    assert nightly.NightlyRun.load(Path("n")).run == RUN


def stored_run(**values):
    return {
        "run_id": "ef" * 16,
        "label": "nightly-1",
        "started_at": "2026-11-20T01:17:00+00:00",
        "status": "complete",
        "git_branch": "main",
        **values,
    }


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--label", "nightly-1"], "--label nightly-1 is taken by run efefefef of 2026-11-20T01:17"),
        (["--against", "release-1.4"], "no stored run has this label or id"),
        (["--against", "nonsense:5"], "no stored run has this label or id"),
        (["--against", "branch:mian"], "no complete run is of this branch; known: main"),
    ],
)
def test_what_the_database_shows_to_be_wrong_costs_no_measuring(monkeypatch, capsys, words, message):
    steps = answering(monkeypatch, stored=[stored_run()])
    assert nightly.main(["--out", "n", *words]) == 2
    assert "bench" not in steps
    assert message in capsys.readouterr().err
    assert message in Path("n/summary.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "against", ["baseline", "BASELINE:3", "latest", "latest~2", "branch:main", "nightly-1", "efef"]
)
def test_a_baseline_that_is_there_is_taken(monkeypatch, against):
    steps = answering(monkeypatch, stored=[stored_run()])
    assert nightly.main(["--out", "n", "--against", against]) == 0
    assert "bench" in steps


def test_the_night_that_stored_nothing_is_not_told_from_another_run(monkeypatch):
    steps = answering(monkeypatch, run=None, bench=4)
    assert nightly.main(["--out", "n"]) == 2
    assert "diff" not in steps
    text = Path("n/summary.md").read_text(encoding="utf-8")
    assert "no run was stored" in text
    assert "report | –" in text


def test_every_step_after_the_bench_names_the_run_by_its_id(monkeypatch):
    answering(monkeypatch)
    commands = []
    inner = nightly._call
    monkeypatch.setattr(nightly, "_call", lambda command, limit_s=None: commands.append(command) or inner(command))
    assert nightly.main(["--out", "n", "--label", "night-1"]) == 0
    of_the_run = [command for command in commands if "roofline_cli" in command]
    assert len(of_the_run) == 6  # four forms, last night, report
    assert dict(pairwise(of_the_run[-1]))["--baseline"] == "baseline"
    assert all(RUN.run_id in command and "night-1" not in command for command in of_the_run)


def test_the_summary_says_what_ran(monkeypatch):
    answering(monkeypatch)
    nightly.main(["--out", "n", "--label", "night-1"])
    text = Path("n/summary.md").read_text(encoding="utf-8")
    assert "`night-1`, run `abababab` on gb10, commit `cccccccccccc` with local changes" in text
    assert "Cases: 12 measured, 1 skipped, 1 failed, 3 processes each" in text
    assert "- failed: t.py::softmax: wrong result" in text
    assert "- doctor: warn: persistence: off (sudo nvidia-smi -pm 1)" in text
    assert "- state of the machine: the governor is powersave" in text
    assert "not judged" in text  # of the canary, among the steps


def test_the_run_is_read_from_the_file_pytest_wrote(tmp_path):
    path = tmp_path / "run.json"
    assert measured_run.MeasuredRun.read(path) is None
    path.write_text(written_run(3, ["bad"]), encoding="utf-8")
    summary = measured_run.MeasuredRun.read(path)
    assert summary.counts == {"measured": 3, "failed": 1}  # two processes of a case are one case
    assert summary.counts_text == "3 measured, 1 failed"
    assert summary.failures == ("t.py::bad: wrong result",)
    assert (summary.commit, summary.is_dirty, summary.warnings) == ("c" * 40, True, ("the governor is powersave",))
    assert measured_run.MeasuredRun.from_dict(json.loads(json.dumps(summary.to_dict()))) == summary
    path.write_text(path.read_text(encoding="utf-8")[:-9], encoding="utf-8")
    assert measured_run.MeasuredRun.read(path) is None


def test_an_interrupted_run_is_not_compared(monkeypatch):
    steps = answering(monkeypatch, bench=2, run=dataclasses.replace(RUN, status="interrupted"))
    commands = []
    inner = nightly._call
    monkeypatch.setattr(nightly, "_call", lambda command, limit_s=None: commands.append(command) or inner(command))
    assert nightly.main(["--out", "n"]) == 2
    assert "diff" not in steps
    assert "--baseline" not in commands[-1]
    assert "report" in commands[-1]


@pytest.mark.parametrize(
    "handler", [signal.default_int_handler, signal.SIG_IGN], ids=["foreground", "nohup in the background"]
)
def test_a_benchmark_that_does_not_end_is_interrupted(capsys, handler):
    ends = "trap 'kill $!; echo what there was > stored; exit' INT; sleep 60 & wait"  # a shell is there within milliseconds
    before = signal.signal(signal.SIGINT, handler)
    try:
        began = time.monotonic()
        assert nightly._call(["sh", "-c", ends], limit_s=1.0) == 130
        assert time.monotonic() - began < 30
        assert signal.getsignal(signal.SIGINT) is handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert Path("stored").read_text(encoding="utf-8") == "what there was\n"
    assert "--bench-minutes" in capsys.readouterr().err


def test_a_program_that_is_not_there(capsys):
    assert nightly._call(["no-such-program-of-ours"]) == 2
    assert "does not start" in capsys.readouterr().err


def test_what_waits_for_the_database_outlives_the_workspace(tmp_path):
    keep = tmp_path / "kept"
    nightly.keep_spool(str(keep))
    (Path(".roofline/spool") / "one.spool.jsonl").write_text("{}", encoding="utf-8")
    assert (keep / "one.spool.jsonl").exists()
    nightly.keep_spool(str(keep))  # the second night finds the link
    nightly.keep_spool("")


def test_the_summary_reaches_github_and_fits(monkeypatch, tmp_path):
    shown = tmp_path / "github.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(shown))
    answering(monkeypatch)
    nightly.main(["--out", "n"])
    assert shown.read_text(encoding="utf-8").startswith("## ✅ nothing worse (exit code 0)")
    long = nightly_summary.cut("µ" * 1_000_000)
    assert len(long.encode()) < 2**20
    assert long.rstrip().endswith("the artifact holds the whole summary.")


def test_one_benchmark_at_a_time(tmp_path):
    messages = []
    place = tmp_path / "machine.lock"
    with machine_lock.machine_lock(0, messages.append, place) as first:
        assert first
        with machine_lock.machine_lock(0, messages.append, place) as second:
            assert not second
    with machine_lock.machine_lock(0, messages.append, place) as third:
        assert third
    assert messages == []  # nobody waited
    place.unlink()
    (tmp_path / "elsewhere").write_text("", encoding="utf-8")
    place.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError), machine_lock.machine_lock(0, messages.append, place):
        pass  # never through a link that somebody laid in a shared folder


def in_this_process(monkeypatch):
    """Let the tool's commands run here: a process each would take seconds."""
    from roofline_cli.main import app

    def call(command, limit_s=None):
        assert command[1:4] == ["-P", "-m", "roofline_cli"]
        done = CliRunner().invoke(app, command[4:])
        if done.exit_code == 2:
            print(done.output)
        return done.exit_code

    monkeypatch.setattr(nightly, "_call", call)


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


def test_a_first_night_and_a_bad_one(monkeypatch, three_nights):
    in_this_process(monkeypatch)
    for label, code, message in (
        ("night-1", 0, "nothing to compare with yet"),
        ("night-3", 1, "slower"),
    ):
        assert nightly.main(["plan", "--out", label, "--label", label, "--db", str(three_nights)]) == 0
        nightly_run = nightly.NightlyRun.load(Path(label))
        with open_store(three_nights, read_only=True) as store:
            nightly_run.run = dataclasses.replace(RUN, run_id=store.resolve_run(label).run_id)
        nightly_run.save()
        assert nightly.main(["diff", "--out", label]) == code
        assert nightly.main(["summary", "--out", label]) == code
        assert message in (Path(label) / "diff.txt").read_text(encoding="utf-8")
    first = Path("night-1/summary.md").read_text(encoding="utf-8")
    assert first.startswith("## ✅ nothing was compared: no earlier run (exit code 0)")
    assert not Path("night-1/diff-last-night.md").exists()
    document = json.loads(Path("night-3/diff.json").read_text(encoding="utf-8"))
    assert {failure["rule"] for failure in document["failures"]} == {"slower", "gone"}
    assert diff_runs.case(2).id in Path("night-3/summary.md").read_text(encoding="utf-8")
    assert "<testsuite" in Path("night-3/diff.junit.xml").read_text(encoding="utf-8")


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
    words = ["--tests", "perf", "--hw", "gb10", "--db", "r.db", "--processes", "3"]
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
            options = f"--pytest-options=-q --roofline-timer 'simulated:noise=0.005,process_noise=0.003,{device}'"
            assert nightly.main(["--out", label, "--label", label, *words, options]) == code, label
        assert message in (Path(label) / "diff.txt").read_text(encoding="utf-8")
        assert (Path(label) / "report.html").stat().st_size > 10_000
    assert "FASTER" in Path("mended/diff-last-night.md").read_text(encoding="utf-8")
    assert "FASTER" in Path("mended/summary.md").read_text(encoding="utf-8")
