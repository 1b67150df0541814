"""A night's plan and folder: what cannot be meant is said before an hour is measured, and nothing of a password
stays.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from loaded_scripts import load_script

ROOT = Path(__file__).resolve().parents[2]
nightly = load_script("nightly")
nightly_plan = sys.modules["nightly_plan"]


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ROOFLINE_MACHINE_LOCK", str(tmp_path / "lock"))
    for name in ("GITHUB_STEP_SUMMARY", "ROOFLINE_DB"):
        monkeypatch.delenv(name, raising=False)


def plan(**values):
    return nightly_plan.NightlyPlan(**{"label": "night-1", "python": sys.executable, **values})


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
    assert [path.name for path in Path("n").iterdir()] == ["night.json"]


@pytest.mark.parametrize("left", ["night.json.new", ".roofline-phqs31zz", "run.json"])
def test_a_night_that_was_killed_does_not_block_the_next(left):
    Path("n").mkdir()
    Path("n", left).write_text("half a fi", encoding="utf-8")
    assert nightly.main(["plan", "--out", "n"]) == 0
    assert [path.name for path in Path("n").iterdir()] == ["night.json"]


def test_a_folder_by_the_name_of_a_result_is_a_strangers(capsys):
    Path("n/diff.txt").mkdir(parents=True)
    assert nightly.main(["plan", "--out", "n"]) == 2
    assert "diff.txt, which no night wrote" in capsys.readouterr().err


@pytest.mark.parametrize(
    "state",
    ["{}", "[]", '{"plan": {}}', '{"plan": {"label": "a", "python": "p"}, "steps": []}', '{"plan": 3, "steps": [4]}'],
)
def test_a_plan_that_is_none_is_said(state, capsys):
    Path("n").mkdir()
    Path("n/night.json").write_text(state, encoding="utf-8")
    assert nightly.main(["diff", "--out", "n"]) == 2
    assert "holds no plan: begin with" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"label": "latest~1"}, "cannot name a night"),
        ({"label": "a b"}, "cannot name a night"),
        ({"db": "postgresql://me:secret@host/db"}, "--db holds a password"),
        ({"db": "postgresql+psycopg://h/x?user=u&password=secret"}, "--db holds a password"),
        ({"db": "host=h password=secret"}, "--db holds a password"),
        (
            {"pytest_options": "-x --roofline-baseline=postgresql+psycopg://u:secret@h/x"},
            "--pytest-options holds a password",
        ),
        ({"tests": ("perf", "postgresql://me:secret@host/db")}, "--tests holds a password"),
        ({"packages": "git+https://me:secret@host/kernels"}, "--packages holds a password"),
        ({"processes": 0}, "1 or more"),
        ({"bench_minutes": 0.0}, "above 0"),
        ({"tests": ()}, "--tests is empty"),
    ],
)
def test_plans_that_cannot_be_meant(values, message):
    with pytest.raises(nightly_plan.PlanError, match=message) as caught:
        plan(**values)
    assert "\n" not in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "packages", ["-e '.[perf]'", "git+ssh://git@host:22/o/kernels@v1.0", "git+https://github.com/o/k@main"]
)
def test_an_address_of_a_package_without_a_password_is_none(packages):
    assert plan(packages=packages).packages == packages


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--fail-on", "bogus"], "--fail-on takes slower"),
        (["--against", "baseline:0"], "baseline:N takes 1 to 100 runs"),
        (["--against", "baseline-5"], "baseline:N takes 1 to 100 runs"),
        (["--against", "latest~x"], "is none of latest, latest~N"),
        (["--against", "branch:"], "needs the name of a branch"),
        (["--against", ""], "--against is empty"),
        (["--max-ambiguous", "x"], "--max-ambiguous takes a number of cases"),
        (["--max-ambiguous", "101%"], "--max-ambiguous takes a number of cases"),
        (["--quarantine", "missing.toml"], "missing.toml is not a file"),
        (["--annotations", "bad.toml"], "bad.toml is not TOML"),
        (["--pytest-options=--roofline-keep 'unb"], "close the quotation"),
        (["--pytest-options=--roofline-keep 1"], "--roofline-keep, which pytest does not know"),
        (["--pytest-options=--roofline-run mine"], "--label names the run"),
        (["--tests", "perf 'unb"], "close the quotation"),
        (["--tests", "nowhere/perf"], "nowhere/perf: there is no such file"),
        (["--packages=-e '."], "close the quotation"),
    ],
)
def test_what_cannot_be_meant_is_said_before_the_hour_of_measuring(words, message, capsys):
    Path("bad.toml").write_text("[[annotation", encoding="utf-8")
    assert nightly.main(["plan", "--out", "n", *words]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert len(error.strip().splitlines()) == 1
    assert not Path("n").exists()


def test_a_plan_survives_its_file():
    made_plan = plan(tests=("perf", "bench_cases"), keyword="a and not b", bench_minutes=1.5)
    assert nightly_plan.NightlyPlan.from_dict(json.loads(json.dumps(made_plan.to_dict()))) == made_plan


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
    nightly_run = nightly.NightlyRun.load(Path("n"))
    command = nightly_run.plan.bench(Path("n/run.json"))
    assert command[3:5] == ["perf", str(ROOT / "bench_cases")]
    given = dict(pairwise(command)) | dict(
        word.split("=", 1) for word in command if word.startswith("--roofline-") and "=" in word
    )
    assert given["--roofline-hw"] == "gb10"
    assert given["--roofline-processes"] == "5"
    assert given["--roofline-cache"] == "warm"
    assert given["--roofline-db"] == os.path.expanduser("~/r.db")
    assert command[-1] == "--roofline-require-measured=7"
    assert re.fullmatch(r"nightly-\d{4}-\d\d-\d\d-\d{6}", given["--roofline-run"])
    assert given["--roofline-run"] in capsys.readouterr().out


def test_a_vendors_torch_is_held_while_your_packages_are_installed(tmp_path):
    venv = tmp_path / "venv"
    made_plan = plan(venv=str(venv), packages="-e '.[perf]'")
    make, pip = made_plan.install()
    assert make[:2] == ["make", "--no-print-directory"]
    assert make[-2:] == ["venv", f"VENV={venv}"]
    assert pip[-4:] == ["-c", str(ROOT / "constraints.txt"), "-e", ".[perf]"]
    venv.mkdir()
    (venv / "constraints.txt").write_text("torch==2.12.0a0+nv26.09\n", encoding="utf-8")
    assert plan(venv=str(venv), packages="-e .").install()[1][-3] == str(venv / "constraints.txt")
    assert plan().install() == []


def test_a_plan_needs_nothing_but_python(tmp_path):
    """CI plans before it installs."""
    (tmp_path / "q.toml").write_text('[[case]]\nmatch = "gemv *"\nreason = "flaky"\n', encoding="utf-8")
    words = [
        "plan",
        "--out",
        "n",
        "--quarantine",
        "q.toml",
        "--fail-on",
        "slower:5%",
        "--pytest-options=-x --roofline-no-canary",
    ]
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(ROOT / "scripts" / "ci" / "nightly.py"), *words],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
