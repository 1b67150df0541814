"""A night's steps: their order, what leaves which out, the exit code that remains, and a diff that really runs."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from itertools import pairwise
from pathlib import Path

import diff_runs
import numpy as np
import pytest
from loaded_scripts import load_script
from typer.testing import CliRunner

ROOT = Path(__file__).resolve().parents[2]


nightly = load_script("nightly")
night_plan = sys.modules["night_plan"]
night_summary = sys.modules["night_summary"]
machine_lock = sys.modules["machine_lock"]


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ROOFLINE_MACHINE_LOCK", str(tmp_path / "lock"))
    for name in ("GITHUB_STEP_SUMMARY", "ROOFLINE_DB"):
        monkeypatch.delenv(name, raising=False)


def plan(**values):
    return night_plan.NightPlan(**{"label": "night-1", "python": sys.executable, **values})


def answering(monkeypatch, **codes):
    """Let every command answer with a code, by the step it belongs to; return the commands."""
    asked = []

    def call(command, limit_s=None):
        text = " ".join(command)
        words = {
            "roofline_cli doctor": "doctor",
            "night_canary": "canary",
            "pytest": "bench",
            "roofline_cli diff": "diff",
        }
        step = next((name for word, name in words.items() if word in text), "report")
        asked.append(step)
        if step == "diff" and codes.get(step, 0) in (0, 1, 3, 4, 5):
            Path(command[command.index("-o") + 1]).write_text("the diff\n", encoding="utf-8")
        return codes.get(step, 0)

    monkeypatch.setattr(nightly, "_call", call)
    monkeypatch.setattr(nightly, "_own_run", lambda night: {"status": "complete"} if "bench" in asked else None)
    monkeypatch.setattr(nightly.NightPlan, "history", lambda self, *rest: [sys.executable, "-c", "print('{}')"])
    return asked


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
    asked = answering(monkeypatch, **codes)
    assert nightly.main(["--out", "n", "--label", "night-1"]) == verdict
    assert not left_out & set(asked)
    document = json.loads(Path("n/summary.json").read_text(encoding="utf-8"))
    assert document["exit_code"] == verdict
    assert [one["step"] for one in document["steps"]] == [
        name for name in nightly.STEPS if name not in ("plan", "summary")
    ]
    for name in left_out:
        assert "left out" in next(one["note"] for one in document["steps"] if one["step"] == name)
    text = Path("n/summary.md").read_text(encoding="utf-8")
    assert f"(exit code {verdict})" in text
    assert ("the diff" in text) == ("diff" in asked and codes.get("diff") not in (2, 139))


def test_steps_one_by_one_give_what_the_whole_night_gives(monkeypatch):
    answering(monkeypatch, diff=1)
    assert nightly.main(["plan", "--out", "n", "--label", "night-1", "-k", "gemv"]) == 0
    codes = {step: nightly.main([step, "--out", "n"]) for step in nightly.STEPS if step != "plan"}
    assert codes == {**dict.fromkeys(codes, 0), "diff": 1, "summary": 1}
    state = json.loads(Path("n/night.json").read_text(encoding="utf-8"))
    assert state["plan"]["keyword"] == "gemv"
    assert [one["step"] for one in state["steps"]] == list(codes)[:-1]


def test_a_step_without_a_plan_says_how_to_begin(capsys):
    assert nightly.main(["bench", "--out", "nowhere"]) == 2
    assert "begin with `nightly.py plan" in capsys.readouterr().err


def test_the_folder_of_a_night_is_its_own(capsys):
    Path("n").mkdir()
    Path("n/thesis.tex").write_text("years of work", encoding="utf-8")
    assert nightly.main(["plan", "--out", "n"]) == 2
    assert "thesis.tex" in capsys.readouterr().err
    assert Path("n/thesis.tex").read_text(encoding="utf-8") == "years of work"
    Path("n/thesis.tex").rename("thesis.tex")
    Path("n/diff.md").write_text("of yesterday", encoding="utf-8")
    assert nightly.main(["plan", "--out", "n"]) == 0
    assert [one.name for one in Path("n").iterdir()] == ["night.json"]


def test_an_interrupted_run_is_not_compared(monkeypatch):
    asked = answering(monkeypatch, bench=2)
    monkeypatch.setattr(nightly, "_own_run", lambda night: {"status": "interrupted"})
    assert nightly.main(["--out", "n"]) == 2
    assert "diff" not in asked


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"label": "latest~1"}, "cannot name a night"),
        ({"label": "a b"}, "cannot name a night"),
        ({"db": "postgresql://me:secret@host/db"}, "holds a password"),
        ({"processes": 0}, "1 or more"),
        ({"bench_minutes": 0.0}, "above 0"),
        ({"tests": ()}, "--tests is empty"),
    ],
)
def test_plans_that_cannot_be_meant(values, said):
    with pytest.raises(night_plan.PlanError, match=said) as caught:
        plan(**values)
    assert "\n" not in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_plan_survives_its_file():
    one = plan(tests=("perf", "bench_cases"), keyword="a and not b", bench_minutes=1.5)
    assert night_plan.NightPlan.from_dict(json.loads(json.dumps(one.to_dict()))) == one


def test_the_options_reach_pytest(capsys):
    Path("perf").mkdir()
    words = [
        "--tests",
        "perf bench_cases",
        "--hw",
        "gb10",
        "--db",
        "~/r.db",
        "--pytest-options",
        "-x --roofline-cache warm",
    ]
    assert nightly.main(["plan", "--out", "n", *words, "--processes", "5", "--require-measured", "7"]) == 0
    night = nightly.Night.load(Path("n"))
    command = night.plan.bench()
    assert command[3:5] == ["perf", str(ROOT / "bench_cases")]
    given = dict(pairwise(command))
    assert given["--roofline-hw"] == "gb10"
    assert given["--roofline-processes"] == "5"
    assert given["--roofline-cache"] == "warm"
    assert given["--roofline-db"] == os.path.expanduser("~/r.db")
    assert command[-1] == "--roofline-require-measured=7"
    assert re.fullmatch(r"nightly-\d{4}-\d\d-\d\d-\d{6}", given["--roofline-run"])
    assert given["--roofline-run"] in capsys.readouterr().out


def test_a_vendors_torch_is_held_while_your_packages_are_installed(tmp_path):
    venv = tmp_path / "venv"
    one = plan(venv=str(venv), packages="-e '.[perf]'")
    make, pip = one.install()
    assert make[:2] == ["make", "--no-print-directory"]
    assert make[-2:] == ["venv", f"VENV={venv}"]
    assert pip[-4:] == ["-c", str(ROOT / "constraints.txt"), "-e", ".[perf]"]
    venv.mkdir()
    (venv / "constraints.txt").write_text("torch==2.12.0a0+nv26.09\n", encoding="utf-8")
    assert plan(venv=str(venv), packages="-e .").install()[1][-3] == str(venv / "constraints.txt")
    assert plan().install() == []


def test_a_benchmark_that_does_not_end_is_interrupted(capsys):
    code = "import time\ntry:\n time.sleep(60)\nexcept KeyboardInterrupt:\n open('stored', 'w').write('what there was')"
    began = time.monotonic()
    assert nightly._call([sys.executable, "-c", code], limit_s=1.0) == 130
    assert time.monotonic() - began < 30
    assert Path("stored").read_text(encoding="utf-8") == "what there was"
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
    long = night_summary.cut("µ" * 1_000_000)
    assert len(long.encode()) < 2**20
    assert long.rstrip().endswith("the artifact holds the whole summary.")


def test_one_benchmark_at_a_time(tmp_path):
    said = []
    place = tmp_path / "machine.lock"
    with machine_lock.machine_lock(0, said.append, place) as first:
        assert first
        with machine_lock.machine_lock(0, said.append, place) as second:
            assert not second
    with machine_lock.machine_lock(0, said.append, place) as third:
        assert third
    assert said == []  # nobody waited
    place.unlink()
    (tmp_path / "elsewhere").write_text("", encoding="utf-8")
    place.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError), machine_lock.machine_lock(0, said.append, place):
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
    monkeypatch.setattr(nightly, "_own_run", lambda night: {"status": "complete"})


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
    for label, code, said in (
        ("night-1", 0, "nothing to compare with yet"),
        ("night-3", 1, "slower"),
    ):
        assert nightly.main(["plan", "--out", label, "--label", label, "--db", str(three_nights)]) == 0
        assert nightly.main(["diff", "--out", label]) == code
        assert nightly.main(["summary", "--out", label]) == code
        assert said in (Path(label) / "diff.txt").read_text(encoding="utf-8")
    document = json.loads(Path("night-3/diff.json").read_text(encoding="utf-8"))
    assert {one["rule"] for one in document["failures"]} == {"slower", "gone"}
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
    size = int(rows * 1_000_000 * (float(os.environ.get("SLOW", "1")) if rows == 4 else 1))
    cost = OpCost(flops={"FP32": 1}, read_bytes={"x": size}, write_bytes={"y": size})
    roofline.measure(lambda: 0.0, work=Operator("copy", (("rows", rows),), (("x", "FP32"),), cost), check=lambda out: 0.0, name="mine")
"""


@pytest.mark.full
def test_whole_nights_in_processes_of_their_own(monkeypatch):
    Path("perf").mkdir()
    Path("perf/test_copy.py").write_text(SUITE, encoding="utf-8")
    words = [
        "--tests",
        "perf",
        "--hw",
        "gb10",
        "--db",
        "r.db",
        "--processes",
        "2",
        "--pytest-options",
        "-q --roofline-timer simulated:noise=0.005",
    ]
    slow = {"SLOW": "1.1"}
    for label, environment, code, said in (
        ("one", {}, 0, "nothing to compare with yet"),
        ("same", {}, 0, "nothing changed by more than noise"),
        ("slow", slow, 1, "copy 4-FP32-mine-warm +10.0 %"),
        ("mended", {}, 0, ""),
        ("lost", {"LOST": "1"}, 1, "gone"),
    ):
        with monkeypatch.context() as patch:
            for name, value in environment.items():
                patch.setenv(name, value)
            assert nightly.main(["--out", label, "--label", label, *words]) == code, label
        assert said in (Path(label) / "diff.txt").read_text(encoding="utf-8")
        assert (Path(label) / "report.html").stat().st_size > 10_000
    assert "FASTER" in Path("mended/diff-last-night.md").read_text(encoding="utf-8")
    assert "FASTER" in Path("mended/summary.md").read_text(encoding="utf-8")
