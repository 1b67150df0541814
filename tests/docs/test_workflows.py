"""The workflows: valid, pinned, asking for little, and doing what scripts/ci/nightly.py does and nothing else."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from loaded_scripts import load_script

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


def options_of(name: str, capsys) -> set[str]:
    with pytest.raises(SystemExit):
        load_script(name).main(["--help"])
    return set(re.findall(r"(?<![\w-])(--[a-z][a-z-]+)", capsys.readouterr().out))


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


def test_the_nights_steps_are_the_scripts_steps():
    nightly = load_script("nightly")
    called = [re.search(r'scripts/ci/nightly\.py" (\w+)', step.get("run", "")) for _, step in steps("nightly")]
    assert [match[1] for match in called if match] == list(nightly.STEPS)


def test_a_failed_step_leaves_the_summary_and_the_artifact():
    for job, step in steps("nightly"):
        is_early = step["name"] in (
            "check out the repository under test",
            "check out roofline-bench",
            "plan",
            "install",
        )
        if job == "bench" and not is_early:
            assert step["if"] == "${{ !cancelled() && steps.plan.outcome == 'success' }}", step["name"]


@pytest.mark.parametrize(
    ("name", "called"),
    [
        ("nightly", "nightly"),
        ("nightly", "nightly_issues"),
        ("pull-request-bench", "nightly"),
        ("pull-request-bench", "pull_request_bench"),
        ("pull-request-bench", "pull_request_comment"),
    ],
)
def test_every_option_that_a_workflow_gives_exists(name, called, capsys):
    runs = [step["run"] for _, step in steps(name) if f"/{called}.py" in step.get("run", "")]
    given = {option for run in runs for option in re.findall(r"(?<![\w-])(--[a-z][a-z-]+)", run)}
    assert given
    assert given <= options_of(called, capsys)


def test_every_input_of_the_night_reaches_the_plan():
    plan = next(step for _, step in steps("nightly") if step["name"] == "plan")
    for variable in plan["env"]:
        assert f'"${variable}"' in plan["run"], variable
    inputs = set(workflow("nightly")["on"]["workflow_call"]["inputs"])
    elsewhere = {"tool_repository", "tool_ref", "runner", "issues", "retention_days"}
    assert {name for name in inputs if f"inputs.{name}" in str(plan["env"])} == inputs - elsewhere


def test_the_database_reaches_the_steps_that_need_it_and_no_action():
    for job, step in steps("nightly"):
        has_it = "secrets.database_url }}" in str(step.get("env", {}))
        needs_it = step["name"] in ("doctor", "canary", "bench", "diff", "history", "report")
        assert has_it == needs_it, (job, step["name"])
