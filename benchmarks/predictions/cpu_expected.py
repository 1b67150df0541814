"""How far is the expected time from the measured one on this CPU, after `roofline calibrate`?

Calibrate and the quick set of `pytest bench_cases` in turn, in a cache and a database of their own; each round is
scored by the calibration before it. Beside it: how far two runs of the same cases are from each other, which no
prediction can beat.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from statistics import median

from benchmarks.timing.interleave import ROOT, run_seconds
from benchmarks.timing.rows import Figure
from results import open_store
from results.records.records import Record

ROUND_COUNT, QUICK_ROUND_COUNT = 3, 1
AIM_RATIO = 0.10
"""The original documents' own target for the error of a prediction."""
_QUICK_CASES = ("--roofline-shapes", "1x1024x1024,64x1024x1024", "--roofline-max-seconds", "0.1")


def measure(folder: Path, *, quick: bool) -> list[Figure]:
    """Take the rounds and return what they say. `quick`: one round of the small products."""
    runs = []
    with _own_cache(folder / "cache"):
        for number in range(QUICK_ROUND_COUNT if quick else ROUND_COUNT):
            run_seconds(["-m", "roofline_cli", "calibrate", *(("--seconds", "5") if quick else ())], folder)
            runs.append(take_run(folder, f"round-{number}", _QUICK_CASES if quick else ()))
            errors = _errors(runs[-1], "expected")
            print(f"cpu_expected: round {number + 1}, median error {median(errors):.3f}", file=sys.stderr, flush=True)
    return figures(runs)


@contextmanager
def _own_cache(folder: Path) -> Iterator[None]:
    """Let children keep their calibration in `folder`: the user's own is neither read nor changed."""
    before = os.environ.get("ROOFLINE_CACHE")
    os.environ["ROOFLINE_CACHE"] = str(folder)
    try:
        yield
    finally:
        if before is None:
            del os.environ["ROOFLINE_CACHE"]
        else:
            os.environ["ROOFLINE_CACHE"] = before


def take_run(folder: Path, label: str, cases: Sequence[str]) -> list[Record]:
    """Measure the cases on this CPU and return the measured records (without samples)."""
    arguments = [
        "-m",
        "pytest",
        "-q",
        "-p",
        "roofline_pytest",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:benchmark",
        "-c",
        "/dev/null",
        "--rootdir",
        str(ROOT),
        "--import-mode=importlib",
        str(ROOT / "bench_cases"),
        "--hw",
        "auto",
        "--roofline-device",
        "cpu",
        "--roofline-db",
        str(folder / "runs.db"),
        "--roofline-run",
        label,
        *cases,
    ]
    run_seconds(arguments, folder, allowed=(0, 1))
    with open_store(folder / "runs.db", read_only=True) as store:
        records = store.records(store.resolve_run(label).run_id, with_samples=False)
    return [record for record in records if record.status == "measured"]


def figures(runs: Sequence[Sequence[Record]]) -> list[Figure]:
    """Return the errors of all rounds, the share inside the interval, and how far the machine is from itself."""
    expected = [error for run in runs for error in _errors(run, "expected")]
    ideal = [error for run in runs for error in _errors(run, "ideal")]
    inside = [
        record.expected.low_s <= record.measurement.median_s <= record.expected.high_s
        for run in runs
        for record in run
        if record.measurement is not None
        and record.expected is not None
        and record.expected.low_s is not None
        and record.expected.high_s is not None
    ]
    rows = [
        Figure(
            "median |error_expected|",
            median(expected),
            len(runs),
            "share",
            None,
            AIM_RATIO,
            "the ideal roofline",
            median(ideal),
            f"{len(expected)} measured cases of the quick set, each scored by the calibration before its run",
        ),
        Figure(
            "measured inside the 80 % interval",
            sum(inside) / len(inside),
            len(runs),
            "share",
            0.77,
            0.85,
            note="the same cases",
        ),
    ]
    moved = [abs(ratio - 1) for first, other in pairwise(runs) for ratio in _ratios(first, other)]
    if moved:
        rows.append(
            Figure(
                "two runs of one case, median difference",
                median(moved),
                len(runs) - 1,
                "share",
                note="unchanged code, minutes apart: what no prediction can beat",
            )
        )
    return rows


def _errors(run: Sequence[Record], kind: str) -> list[float]:
    errors = [prediction for record in run for prediction in record.predictions if prediction.kind == kind]
    ratios = [abs(prediction.error_ratio) for prediction in errors if prediction.error_ratio is not None]
    if not ratios:
        raise RuntimeError(f"no record has an {kind} time and a measured one")
    return ratios


def _ratios(first: Sequence[Record], other: Sequence[Record]) -> Iterator[float]:
    times = _medians(first)
    for key, seconds in _medians(other).items():
        if key in times:
            yield seconds / times[key]


def _medians(run: Sequence[Record]) -> Mapping[str, float]:
    return {record.case.case_key: record.measurement.median_s for record in run if record.measurement is not None}
