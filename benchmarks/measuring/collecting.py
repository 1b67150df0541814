"""Collecting 1,000 cases of `bench_cases` against 1,000 parametrized pytest-benchmark tests."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from statistics import median

from bench_cases.kernels.products.catalog import cases_for
from bench_cases.shapes.products import Shape
from benchmarks.timing.interleave import ROOT, interleaved, run_seconds
from benchmarks.timing.rows import Row

COLLECTION_AIM_S = 2.0
CASE_COUNT = 1000

_RIVAL = f"""
import pytest

@pytest.mark.parametrize("shape", [f"{{number}}x4096x4096" for number in range({CASE_COUNT})])
def test_product(benchmark, shape):
    benchmark(lambda: shape)
"""
_BARE = """
def test_nothing():
    pass
"""


def measure(folder: Path, *, quick: bool) -> list[Row]:
    """Collect with both and with a suite of one test, in turn, whole processes; the medians."""
    rounds = 1 if quick else 9
    shapes, case_count = _write_shapes(folder / "shapes.csv")
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "test_rival.py").write_text(_RIVAL)
    (folder / "test_bare.py").write_text(_BARE)
    collect = ["-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
    ours = [*collect, "bench_cases", "--roofline-device", "cpu", "--roofline-shapes", str(shapes)]
    contestants = {
        "ours": lambda: run_seconds(ours, ROOT),
        "rival": lambda: run_seconds([*collect, "test_rival.py"], folder),
        "bare": lambda: run_seconds([*collect, "test_bare.py"], folder),
    }
    if not quick:
        for contestant in contestants.values():
            contestant()
    seconds = {name: median(values) for name, values in interleaved(contestants, rounds).items()}
    return [
        Row(
            f"collect {case_count:,} cases (whole pytest process)",
            seconds["ours"],
            rounds,
            COLLECTION_AIM_S,
            f"pytest-benchmark, {CASE_COUNT:,} tests",
            seconds["rival"],
            f"pytest itself with one test needs {seconds['bare']:.2g} s of both",
        )
    ]


def _write_shapes(path: Path) -> tuple[Path, int]:
    """Write as few decode shapes as give at least `CASE_COUNT` cases; return the file and the number of cases."""
    lines, cases = ["m,n,k"], 0
    for step in count(1):
        if cases >= CASE_COUNT:
            break
        shape = Shape(1 + step % 16, 1024 + 128 * step, 4096, "given")
        cases += len(cases_for("cpu", [shape]))
        lines.append(f"{shape.M},{shape.N},{shape.K}")
    path.write_text("\n".join(lines) + "\n")
    return path, cases
