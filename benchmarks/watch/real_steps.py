"""A real step on this machine: one kernel of 21 with 10 % more work, measured and compared as a nightly job does.

Each round measures the unchanged suite and the suite with the slower kernel in fresh processes, back to back. Found is
the slower kernel called SLOWER; a false alarm is any other kernel. `--quick` takes one short round of seven kernels.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from benchmarks.timing.interleave import run_seconds
from benchmarks.timing.rows import Figure
from benchmarks.watch.rivals import GATE_RATIO
from results import open_store
from results.diff.rules import DiffRules
from results.diff.stored_sides import side_of
from results.diff.suites import compare_suites

KERNELS, ROUNDS, SECONDS = 21, 5, 0.7
QUICK_KERNELS, QUICK_ROUNDS, QUICK_SECONDS = 7, 1, 0.1
PROCESSES = 3
SLOW = 3
"""Number of the kernel that gets more work."""
WORK_RATIO = 1.1

_SUITE = '''
"""Kernels of numpy that differ in size and kind; the number of repetitions is the work."""
import os
import numpy as np
import pytest

SLOW = int(os.environ.get("ROOFLINE_SLOW_KERNEL", "-1"))
KINDS = (np.sin, np.sqrt, np.exp)

@pytest.mark.parametrize("number", range({count}))
def test_kernel(number, roofline):
    size = 2000 + 1000 * (number % 7)
    values = np.linspace(0.1, 1.0, round(size * ({ratio} if number == SLOW else 1.0)))
    out = np.empty_like(values)
    kind = KINDS[number % 3]

    def kernel(values):
        for _ in range(10):
            kind(values, out=out)
        return out

    roofline.measure(kernel, args=(values,), reference=lambda values: kind(values), name=f"kernel{{number}}")
'''


def measure(folder: Path, *, quick: bool) -> list[Figure]:
    """Take the rounds; the note has every round's verdict on the slower kernel."""
    count, rounds, seconds = (QUICK_KERNELS, QUICK_ROUNDS, QUICK_SECONDS) if quick else (KERNELS, ROUNDS, SECONDS)
    (folder / "test_suite.py").write_text(_SUITE.format(count=count, ratio=WORK_RATIO))
    (folder / "pytest.ini").write_text("[pytest]\n")
    hits = false = invalid = rival_hits = rival_false = 0
    notes = []
    for number in range(rounds):
        for name, slow in (("a", -1), ("b", SLOW)):
            begin = time.perf_counter()
            take_run(folder, f"{name}{number}", slow, seconds)
            print(f"real_steps: {name}{number}, {time.perf_counter() - begin:.0f} s", file=sys.stderr, flush=True)
        with open_store(folder / "runs.db", create=False, read_only=True) as store:
            sides = [side_of(store, (store.resolve_run(f"{name}{number}"),)) for name in "ab"]
        diff = compare_suites(*sides, {}, DiffRules())
        for case in diff.cases:
            is_slow = case.case.kernel == f"kernel{SLOW}"
            hits += is_slow and case.verdict == "SLOWER"
            false += not is_slow and case.verdict == "SLOWER"
            invalid += case.verdict == "INVALID"
            if is_slow:
                change = "" if case.change_ratio is None else f" {case.change_ratio:+.1%}"
                notes.append(f"{case.verdict} ({case.reason}){change}")
        firsts = [
            {
                record.case.kernel: record.measurement.median_s
                for record in sorted(side.records, key=lambda record: -record.process.ordinal)
                if record.measurement is not None
            }
            for side in sides
        ]
        over = {kernel for kernel in firsts[0] if firsts[1][kernel] > GATE_RATIO * firsts[0][kernel]}
        rival_hits += f"kernel{SLOW}" in over
        rival_false += len(over - {f"kernel{SLOW}"})
    rival = "pytest-benchmark, median:5%"
    where = f"{rounds} rounds, {PROCESSES} processes a side"
    return [
        Figure(
            f"a real +10 % found, {where}",
            hits / rounds,
            rounds,
            "share",
            None,
            None,
            rival,
            rival_hits / rounds,
            ", ".join(notes),
        ),
        Figure(
            f"unchanged kernels of {count - 1} called slower, a round",
            false / rounds,
            rounds,
            "count",
            None,
            None,
            rival,
            rival_false / rounds,
            f"{invalid} of {count * rounds} cases could not be judged (contended, stolen)",
        ),
    ]


def take_run(folder: Path, label: str, slow: int, seconds: float) -> None:
    """Measure the suite once; `slow`: number of the kernel with more work, −1 for none."""
    run_seconds(
        [
            "-c",
            "import os, sys, pytest; os.environ['ROOFLINE_SLOW_KERNEL'] = sys.argv[1]; sys.exit(pytest.main(sys.argv[2:]))",
            str(slow),
            *("-q", "-p", "roofline_pytest", "-p", "no:cacheprovider", "-p", "no:benchmark", "test_suite.py"),
            *("--hw", "b10", "--roofline-force-measure", "--roofline-db", str(folder / "runs.db")),
            *("--roofline-run", label, "--roofline-processes", str(PROCESSES)),
            *("--roofline-max-seconds", str(seconds)),
        ],
        folder,
    )
