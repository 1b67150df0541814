"""The Makefile in a folder of its own, with an installer and a Python that only write down what they are asked."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="needs make")

# Stands for scripts/install/make_venv.py: makes a `python` that logs its arguments and fails as the test asks.
INSTALLER = """
import os, sys
from pathlib import Path
arguments = sys.argv[1:]
with open("calls.txt", "a") as log:
    log.write("install " + " ".join(arguments) + "\\n")
binary = Path(arguments[arguments.index("--venv") + 1]) / "bin"
binary.mkdir(parents=True, exist_ok=True)
script = '#!/bin/sh\\necho "$@" >> calls.txt\\ncase "$*" in *pytest*) exit ${PYTEST_EXIT:-0};; esac\\n'
(binary / "python").write_text(script)
(binary / "python").chmod(0o755)
"""
AT_A_TIME = "-m pytest -n 3 --dist loadfile --no-loadscope-reorder"


@pytest.fixture
def project(tmp_path):
    folder = tmp_path / "a project"  # the space is on purpose
    (folder / "scripts" / "install").mkdir(parents=True)
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, folder / name)
    (folder / "scripts" / "install" / "make_venv.py").write_text(INSTALLER, encoding="utf-8")
    (folder / "scripts" / "install" / "interpreter_choice.py").write_text("", encoding="utf-8")
    return folder


def make(folder: Path, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    plain = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", os.sep)}
    return subprocess.run(
        ["make", *arguments],
        cwd=folder,
        env={**plain, **environ},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )


def calls(folder: Path) -> list[str]:
    log = folder / "calls.txt"
    lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
    log.unlink(missing_ok=True)
    return lines


def test_make_alone_lists_every_target(project):
    done = make(project)
    assert done.returncode == 0
    makefile = (project / "Makefile").read_text(encoding="utf-8")
    phony = next(line for line in makefile.splitlines() if line.startswith(".PHONY:")).split()[1:]
    assert not [target for target in phony if target != "ask-again" and f"  make {target} " not in done.stdout]
    assert calls(project) == []


def test_bench_installs_once_and_ends_with_the_report(project):
    first = make(project, "bench")
    assert first.returncode == 0, first.stderr
    assert first.stdout.splitlines()[-1] == f"{project}/.roofline/report.html"
    assert calls(project) == [
        "install --venv .venv --extra measure --torch ",
        "-m roofline_cli calibrate --if-needed",
        "-m pytest bench_cases -k gemv --roofline-require-measured",
        "-m roofline_cli report -o .roofline/report.html",
    ]
    make(project, "bench", "BENCH_ARGS=--hw gb10")
    assert calls(project) == [
        "-m roofline_cli calibrate --if-needed",
        "-m pytest bench_cases -k gemv --roofline-require-measured --hw gb10",
        "-m roofline_cli report -o .roofline/report.html",
    ]


def test_bench_reports_a_failed_case_and_keeps_the_failure(project):
    done = make(project, "bench", PYTEST_EXIT="1")
    assert done.returncode != 0
    assert done.stdout.splitlines()[-1].endswith("/.roofline/report.html")


def test_test_installs_dev_which_serves_bench_too(project):
    make(project, "test", "TEST_ARGS=-x")
    make(project, "bench")
    assert [line for line in calls(project) if "pytest" in line or "install" in line] == [
        "install --venv .venv --extra dev --torch ",
        f"{AT_A_TIME} --timeout 300 -x",
        "-m pytest bench_cases -k gemv --roofline-require-measured",
    ]
    assert make(project, "test", PYTEST_EXIT="1").returncode != 0


@pytest.mark.parametrize("changed", ["pyproject.toml", "constraints.txt"])
def test_a_changed_dependency_installs_again(project, changed):
    make(project, "venv")
    calls(project)
    later = (project / ".venv" / "bin").stat().st_mtime + 100
    os.utime(project / changed, (later, later))
    make(project, "venv")
    assert calls(project) == ["install --venv .venv --extra measure --torch "]


def test_a_moved_checkout_installs_again(project):
    make(project, "venv")
    moved = project.rename(project.with_name("moved"))
    calls(moved)
    make(moved, "venv")
    assert calls(moved) == ["install --venv .venv --extra measure --torch "]


def test_a_choice_of_torch_or_python_is_asked_each_time(project):
    make(project, "venv")
    calls(project)
    make(project, "venv", "TORCH=cpu")
    make(project, "venv", TORCH="system")
    make(project, "venv", "VENV=other")
    assert calls(project) == [
        "install --venv .venv --extra measure --torch cpu",
        "install --venv .venv --extra measure --torch system",
        "install --venv other --extra measure --torch ",
    ]


def test_full_tests_leave_nothing_out(project):
    make(project, "test-full")
    assert calls(project)[-1].rstrip() == f"{AT_A_TIME} --timeout 3000 -m"


def test_a_browser_is_asked_for(project):
    make(project, "test-browser")
    assert calls(project)[-1] == f"{AT_A_TIME} --timeout 300 -m browser and not full"


def test_check_runs_every_check_although_one_fails(project):
    (project / "results").mkdir()
    make(project, "venv")
    python = project / ".venv" / "bin" / "python"
    python.write_text('#!/bin/sh\necho "$@" >> calls.txt\ncase "$*" in *mypy*) exit 1;; esac\n', encoding="utf-8")
    (project / "scripts" / "install" / "make_venv.py").write_text("", encoding="utf-8")  # keeps this python
    calls(project)
    assert make(project, "check").returncode != 0
    checks = calls(project)
    assert [line.split()[1] for line in checks[:3]] == ["ruff", "ruff", "mypy"]
    assert "results" in checks[0].split()
    assert "importlinter" in checks[3]


def test_clean_keeps_results(project):
    for name in (".roofline", ".pytest_cache", "reports/__pycache__"):
        (project / name).mkdir(parents=True)
    assert make(project, "distclean").returncode == 0
    assert (project / ".roofline").is_dir()
    assert not (project / ".pytest_cache").exists()
    assert not (project / "reports" / "__pycache__").exists()
    assert not (project / ".venv").exists()


def test_no_python_says_what_to_install(project):
    tools = project / "tools"
    tools.mkdir()
    for name in ("make", "sh", "mkdir", "touch", "cksum", "cut", "env"):
        (tools / name).symlink_to(shutil.which(name))
    done = make(project, "bench", PATH=str(tools))
    assert done.returncode != 0
    assert "error: no Python found; install Python 3.11 or newer" in done.stderr
    assert calls(project) == []
