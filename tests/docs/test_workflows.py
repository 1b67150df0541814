"""The workflows: valid, pinned, asking for little, and calling `roofline nightly` and `roofline pr` as they are."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from loaded_scripts import load_script
from typer.testing import CliRunner

from roofline_cli.main import app

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".github" / "workflows"
FILES = sorted(FOLDER.glob("*.yml"))
MACHINE = ("nightly", "pull-request-bench")
"""Those that run on the self-hosted machine."""


def workflow(name: str) -> dict:
    document = yaml.safe_load((FOLDER / f"{name}.yml").read_text(encoding="utf-8"))
    document["on"] = document.pop(True)  # YAML 1.1 reads the word as a truth value
    return document


def steps(name: str) -> list[tuple[str, dict]]:
    return [(job, step) for job, body in workflow(name)["jobs"].items() for step in body["steps"]]


def options_of(command: str) -> set[str]:
    text = CliRunner().invoke(app, [command, "--help"]).stdout
    return set(re.findall(r"(?<![\w-])(--[a-z][a-z-]+)", text))


def test_a_linter_of_workflows_finds_nothing(tmp_path):
    pytest.importorskip("jactionlint", reason="jactionlint is not installed (pip install 'roofline-bench[dev]')")
    (tmp_path / ".github" / "workflows").mkdir(parents=True)
    (tmp_path / ".git").mkdir()
    places = []
    for path in FILES:
        places.append(tmp_path / ".github" / "workflows" / path.name)
        places[-1].write_bytes(path.read_bytes())
    # The benchmarks' concurrency belongs to the job that holds the machine: the jobs beside it need not wait.
    words = [sys.executable, "-m", "jactionlint", "--ignore", "concurrency-limits", "--shellcheck=", "--pyflakes="]
    done = subprocess.run([*words, *map(str, places)], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_linter_sees_what_it_should(tmp_path):
    pytest.importorskip("jactionlint", reason="jactionlint is not installed (pip install 'roofline-bench[dev]')")
    wrong = tmp_path / "wrong.yml"
    wrong.write_text(
        (FOLDER / "nightly.yml").read_text(encoding="utf-8").replace("inputs.fail_on", "inputs.fail_when"),
        encoding="utf-8",
    )
    done = subprocess.run(
        [sys.executable, "-m", "jactionlint", str(wrong)], capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert "fail_when" in done.stdout


@pytest.mark.parametrize("name", [path.stem for path in FILES])
def test_no_value_from_outside_becomes_program_text(name):
    for _, step in steps(name):
        assert "${{" not in step.get("run", ""), step["name"]


@pytest.mark.parametrize("name", [path.stem for path in FILES])
def test_no_checkout_leaves_its_token_behind(name):
    checkouts = [step for _, step in steps(name) if step.get("uses", "").startswith("actions/checkout@")]
    assert checkouts
    assert all(step["with"]["persist-credentials"] is False for step in checkouts)


@pytest.mark.parametrize("name", MACHINE)
def test_whoever_may_write_runs_no_code_under_test(name):
    jobs = workflow(name)["jobs"]
    assert workflow(name)["permissions"] == {"contents": "read"}
    for job in jobs.values():
        is_on_machine = "inputs.runner" in str(job["runs-on"])
        writes = [scope for scope, right in job.get("permissions", {}).items() if right != "read"]
        assert not (is_on_machine and writes)
        if is_on_machine:
            assert job["concurrency"] == {
                "group": "roofline-${{ inputs.runner || 'blackwell' }}",
                "cancel-in-progress": False,
            }
        assert 0 < job["timeout-minutes"] <= 360
    assert sum("inputs.runner" in str(job["runs-on"]) for job in jobs.values()) == 1


@pytest.mark.parametrize("name", MACHINE)
def test_called_by_another_repository_it_has_the_same_inputs(name):
    events = workflow(name)["on"]
    assert "workflow_call" in events
    called, by_hand = events["workflow_call"]["inputs"], events["workflow_dispatch"]["inputs"]
    assert set(by_hand) <= set(called)
    text = (FOLDER / f"{name}.yml").read_text(encoding="utf-8")
    assert set(re.findall(r"inputs\.(\w+)", text)) == set(called)  # none that nobody reads, none that nobody can give
    assert all("description" in entry for entry in called.values())


def test_strangers_code_waits_for_a_person():
    text = (FOLDER / "pull-request-bench.yml").read_text(encoding="utf-8")
    events = workflow("pull-request-bench")["on"]
    assert set(events) == {"pull_request", "workflow_dispatch", "workflow_call"}
    assert events["pull_request"] == {"types": ["labeled"]}  # never on a push: what was approved is what is measured
    jobs = workflow("pull-request-bench")["jobs"]
    assert jobs["bench"]["environment"] == "${{ inputs.environment || 'benchmark-machine' }}"
    assert jobs["bench"]["needs"] == "commits"
    assert "github.event.pull_request.head.repo.full_name == github.repository" in jobs["commits"]["if"]
    assert "secrets." not in text
    for job, step in steps("pull-request-bench"):
        if job == "bench":
            assert "token" not in str(step).lower().replace("persist-credentials", "")
        if job == "comment" and "checkout" in step.get("uses", ""):
            assert "head" not in step["with"]["ref"]


def test_a_failed_night_leaves_the_summary_and_the_artifact():
    last = [step for job, step in steps("nightly") if job == "bench" and step["name"] in ("summary", "keep the report")]
    assert len(last) == 2
    for step in last:
        assert step["if"] == "${{ !cancelled() && hashFiles('.roofline/night/summary.md') != '' }}"


@pytest.mark.parametrize(("name", "command"), [("nightly", "nightly"), ("pull-request-bench", "pr")])
def test_every_option_that_a_workflow_gives_exists_and_every_value_reaches_it(name, command):
    (step,) = (step for _, step in steps(name) if f"roofline {command} " in step.get("run", ""))
    given = set(re.findall(r"(?<![\w-])(--[a-z][a-z-]+)", step["run"].partition(f"roofline {command} ")[2]))
    assert given
    assert given <= options_of(command)
    assert all(re.search(rf"\$\{{?{variable}\b", step["run"]) for variable in step["env"])


def test_every_input_of_the_night_reaches_it():
    environment = next(step["env"] for _, step in steps("nightly") if step["name"] == "night")
    inputs = set(workflow("nightly")["on"]["workflow_call"]["inputs"])
    elsewhere = {"tool_repository", "tool_ref", "packages", "runner", "issues", "retention_days"}
    assert {name for name in inputs if f"inputs.{name}" in str(environment)} == inputs - elsewhere


@pytest.mark.parametrize(
    ("name", "words"),
    [("nightly", ["alerts", "night/alerts.json"]), ("pull-request-bench", ["comment", "12", "comparison/diff.md"])],
)
def test_what_writes_on_github_is_called_as_it_wants(name, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path(words[-1]).parent.mkdir()
    Path(words[-1]).write_text('{"alerts": []}', encoding="utf-8")
    (step,) = (step for _, step in steps(name) if "scripts/ci/github.py" in step.get("run", ""))
    typed = shlex.split(step["run"].replace("$NUMBER", "12"))[2:]
    assert typed[: len(words)] == words
    assert load_script("github").main(["--dry-run", *typed]) == 0


def test_the_database_reaches_the_night_and_no_action():
    for job, step in steps("nightly"):
        assert ("secrets.database_url }}" in str(step.get("env", {}))) == (step["name"] == "night"), (job, step["name"])


def test_the_environment_keeps_the_vendors_torch(tmp_path):
    """`install.sh` builds as `make bench` does, and adds packages under the constraints of the environment."""
    tools, venv, calls = tmp_path / "tools", tmp_path / "venv", tmp_path / "calls"
    for program in (tools / "make", venv / "bin" / "python"):
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(
            f'#!/bin/sh\nprintf "%s|" "$(basename "$0")" "$@" >>{calls}\necho >>{calls}\n', encoding="utf-8"
        )
        program.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"}
    words = ["bash", str(ROOT / "scripts" / "ci" / "install.sh"), str(venv)]
    subprocess.run([*words, ""], check=True, env=environment)
    (built,) = calls.read_text(encoding="utf-8").splitlines()
    assert built.startswith("make|")
    assert built.endswith(f"|venv|VENV={venv}|")
    subprocess.run([*words, "-e '.[perf]'"], check=True, env=environment)
    (venv / "constraints.txt").write_text("torch==2.12.0a0+nv26.09\n", encoding="utf-8")
    subprocess.run([*words, "-e ."], check=True, env=environment)
    plain, vendor = (line for line in calls.read_text(encoding="utf-8").splitlines() if line.startswith("python|"))
    assert plain.endswith("constraints.txt|-e|.[perf]|")
    assert f"|-c|{venv}/constraints.txt|-e|.|" in vendor
