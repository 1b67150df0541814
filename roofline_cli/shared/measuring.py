"""Measure one shape with pytest in a process of its own, exactly as `pytest bench_cases` would."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from roofline_cli.shared.parent_watch import PIPE_VARIABLE, STOP_TIMEOUT_S
from roofline_model.core.errors import MissingDependencyError, RooflineError, UnsupportedError

_TESTS_FAILED = 1
_NOTHING_SELECTED = 5


@dataclass(frozen=True, slots=True)
class MeasuringPlan:
    """What to measure: one shape, on one chip, into one database."""

    op: str
    shape: tuple[int, int, int]
    hw: str
    db: str | None
    formats: tuple[str, ...] | None
    """Format keys, or None for every kernel the machine can run."""
    options: tuple[str, ...] = ()
    """Further pytest options, passed through."""

    def label(self) -> str:
        """Return a label no other run has: the run is found again by it."""
        return f"compare-{'x'.join(map(str, self.shape))}-{uuid.uuid4().hex[:8]}"


def check_can_measure() -> None:
    """Raise `MissingDependencyError` when a package that measuring needs is absent."""
    for module, name in (("pytest", "pytest"), ("torch", "torch")):
        if importlib.util.find_spec(module) is None:
            raise MissingDependencyError(name, "measure", "measuring (without it: --no-measure)")


def workload_command(*arguments: str) -> list[str]:
    """Return the command line that runs our workloads under pytest, without its report.

    It reads no ini file of the folder it is called in, and writes no cache there.
    """
    root = _package_root()
    # By path, not with --pyargs: its conftest.py is then loaded early enough to make a bad option one line.
    return [
        sys.executable,
        "-P",
        "-m",
        "pytest",
        "-p",
        "roofline_pytest",
        "-p",
        "roofline_cli.shared.parent_watch",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:benchmark",
        "--no-header",
        "--no-summary",
        "-c",
        os.devnull,
        "--rootdir",
        str(root),
        "--import-mode=importlib",
        str(root / "bench_cases"),
        *arguments,
    ]


def run_workloads(command: list[str], *, timeout_s: float | None = None) -> tuple[int, str]:
    """Run pytest, its progress on our stderr, and return its exit code and what it wrote to its own stderr.

    Raises `RooflineError` when it has not ended after `timeout_s`.
    """
    return _run(command, _environment(), timeout_s)


def pytest_command(plan: MeasuringPlan, label: str) -> list[str]:
    """Return the command line: pytest's progress; the results are printed by the caller, from the store."""
    shape = "x".join(map(str, plan.shape))
    command = workload_command(
        "-k", plan.op, "--roofline-shapes", shape, "--roofline-run", label, "--roofline-hw", plan.hw
    )
    if plan.db is not None:
        command += ["--roofline-db", plan.db]
    if plan.formats is not None:
        command += ["--roofline-formats", ",".join(plan.formats)]
    return [*command, *plan.options]


def shown_command(plan: MeasuringPlan) -> str:
    """Return the command a user would type for the same measurement, with everything pytest has to say."""
    shape = "x".join(map(str, plan.shape))
    words = ["pytest", "--pyargs", "bench_cases", "-k", plan.op, "--roofline-shapes", shape, "--roofline-hw", plan.hw]
    words += ["--roofline-formats", ",".join(plan.formats)] if plan.formats is not None else []
    return shlex.join([*words, *plan.options])


def measure(plan: MeasuringPlan) -> tuple[str, bool]:
    """Run pytest to its end and return the label of the stored run and whether every kernel was correct.

    pytest's own output goes to stderr: stdout stays for the result. Raises `RooflineError` when nothing was stored.
    """
    label = plan.label()
    all_correct = run_to_end(
        pytest_command(plan, label),
        nothing=f"no {plan.op} kernel was selected for {', '.join(plan.formats or ('any format',))}; `roofline formats` "
        "lists the names, --no-measure predicts formats that have no kernel",
        stopped=f"this shows why: {shown_command(plan)}. --no-measure shows the prediction alone",
    )
    return label, all_correct


def run_to_end(command: list[str], *, nothing: str, stopped: str) -> bool:
    """Run pytest to its end and return whether every kernel was correct.

    Raises `RooflineError` with what pytest says of an option, `UnsupportedError` with `nothing` where no case was
    selected, and for any other end a `RooflineError` with `stopped`.
    """
    exit_code, errors = run_workloads(command)
    match = re.search(r"^ERROR: (.+)$", errors, re.MULTILINE)
    if exit_code not in (0, _TESTS_FAILED) and match:
        raise RooflineError(match[1].replace("--roofline-", "--"))
    sys.stderr.write(errors)
    if exit_code == _NOTHING_SELECTED:
        raise UnsupportedError(nothing)
    if exit_code not in (0, _TESTS_FAILED):
        raise RooflineError(f"measuring stopped (pytest exit code {exit_code}); {stopped}")
    return exit_code == 0


def _run(command: list[str], environment: dict[str, str], timeout_s: float | None) -> tuple[int, str]:
    from bench_cases.child_process import start_interruptible, stop_child

    screen = _stream_with_handle(sys.stderr)
    with _pipe_that_ends_with_us() as pipe:
        process = start_interruptible(
            command,
            env={**environment, PIPE_VARIABLE: str(pipe)},
            pass_fds=(pipe,),
            stdout=screen or subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
        try:
            output, errors = process.communicate(timeout=timeout_s)
        except KeyboardInterrupt:
            stop_child(process, STOP_TIMEOUT_S)
            raise
        except subprocess.TimeoutExpired:
            stop_child(process, STOP_TIMEOUT_S)
            raise RooflineError(
                f"measuring had not ended after {timeout_s:.0f} s, so it was stopped: the machine is busy; "
                "--wait-until-quiet waits for a quiet one"
            ) from None
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
    # Without a real stderr (a notebook, a test runner) the progress is shown when it is over.
    sys.stderr.write(output or "")
    return process.returncode, errors


@contextmanager
def _pipe_that_ends_with_us() -> Iterator[int]:
    """Yield the reading end for a child; the writing end is inherited by none, so it closes with this process at the
    latest.
    """
    reading, writing = os.pipe()
    try:
        yield reading
    finally:
        os.close(reading)
        os.close(writing)


def _stream_with_handle(stream: IO[str]) -> IO[str] | None:
    try:
        stream.fileno()
    except (OSError, ValueError, AttributeError):
        return None
    stream.flush()
    return stream


def _environment() -> dict[str, str]:
    """Return the caller's environment without its pytest options, with our packages before the caller's folder."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}
    environment["PYTHONUNBUFFERED"] = "1"  # progress is seen while it goes, in a pipe and a log, too
    inherited = environment.get("PYTHONPATH")
    environment["PYTHONPATH"] = os.pathsep.join([str(_package_root()), *([inherited] if inherited else [])])
    return environment


def _package_root() -> Path:
    spec = importlib.util.find_spec("bench_cases")
    locations = list(spec.submodule_search_locations or ()) if spec is not None else []
    if not locations:
        raise UnsupportedError(
            "the workloads (package bench_cases) are not importable; install roofline-bench, or run in its checkout"
        )
    return Path(locations[0]).parent
