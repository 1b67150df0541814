"""Time several things fairly on a machine that drifts: one of each in turn, the order turned round by round."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# Without byte code every process compiles every module again: nobody's cost but that setting's.
_NOT_PASSED_ON = ("PYTEST_ADDOPTS", "ROOFLINE_DB", "PYTHONDONTWRITEBYTECODE")


def interleaved(contestants: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """Call every contestant once per round and return its values; each round begins with another contestant."""
    names = list(contestants)
    values: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(rounds):
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            values[name].append(contestants[name]())
    return values


def differences(larger: Sequence[float], smaller: Sequence[float]) -> list[float]:
    """Return the differences round by round: what both suffer in a round is gone."""
    return [a - b for a, b in zip(larger, smaller, strict=True)]


def run_seconds(arguments: Sequence[str], folder: Path, *, allowed: Sequence[int] = (0,)) -> float:
    """Run this Python with `arguments` in `folder` and return the seconds it took, start and end of the process
    included.

    Raises `RuntimeError` with the end of its output when the exit code is not among `allowed`.
    """
    begin = time.perf_counter()
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=child_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    seconds = time.perf_counter() - begin
    if done.returncode not in allowed:
        command = " ".join(arguments)
        raise RuntimeError(f"python {command} ended with {done.returncode}: {done.stdout[-2000:]}")
    return seconds


def batch_seconds(work: Callable[[], object], calls: int) -> float:
    """Return seconds per call over a batch of `calls`."""
    begin = time.perf_counter_ns()
    for _ in range(calls):
        work()
    return (time.perf_counter_ns() - begin) * 1e-9 / calls


def child_environment() -> dict[str, str]:
    """Return our environment with this checkout importable, and without what would change how Python or pytest run."""
    environment = {name: value for name, value in os.environ.items() if name not in _NOT_PASSED_ON}
    path = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return environment | {"PYTHONPATH": os.pathsep.join(path)}
