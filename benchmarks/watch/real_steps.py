"""A real step on this machine: one own kernel of twenty with 10 % more work, measured and compared as a gate does.

A stranger's suite: kernels of numpy through the `roofline` fixture, with its defaults. Runs of the unchanged suite and
of one with a slower kernel lie in turn, three fresh processes each: base, slow, base, slow, … base. Every try has
another slower kernel. Found is that kernel called SLOWER between a base and the slow run after it; false alarms are all
other kernels there, and all kernels between a base and the next one. Five tries say little, so the stored times of each
unchanged kernel, in each pair of bases, are also made 10 % longer and compared again. `--quick` takes one short try of
ten kernels.
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path
from statistics import fmean

from benchmarks.timing.interleave import run_seconds
from benchmarks.timing.rows import Figure
from benchmarks.watch.rivals import GATE_RATIO
from results import open_store
from results.diff.case_diff import CaseDiff
from results.diff.gate import gate, parse_fail_on
from results.diff.rules import DiffRules
from results.diff.stored_sides import side_of
from results.diff.suites import SuiteSide, compare_suites
from results.records.records import Record

KERNELS, TRIES, SECONDS = 20, 5, 0.7
QUICK_KERNELS, QUICK_TRIES, QUICK_SECONDS = 10, 1, 0.1
PROCESSES = 3
SLOW_KERNELS = (3, 16, 9, 12, 5)
"""Number of the kernel that gets more work, per try."""

_SUITE = '''
"""Kernels of numpy that differ in size and kind; the number of repetitions is the work."""
import os
import numpy as np
import pytest

SLOW = int(os.environ.get("ROOFLINE_SLOW_KERNEL", "-1"))
KINDS = ("sin", "sqrt", "exp", "add", "cumsum", "sort", "matmul", "matvec", "softmax", "python")


def softmax(x):
    raised = np.exp(x - x.max(-1, keepdims=True))
    return raised / raised.sum(-1, keepdims=True)


def operation(kind, scale):
    source = np.random.default_rng(1)
    vector = source.random(2000 * scale)
    if kind == "add":
        left, right = source.random((2, 30_000 * scale))
        return lambda: left + right
    if kind == "matmul":
        left, right = source.random((32, 64 * scale)), source.random((64 * scale, 32))
        return lambda: left @ right
    if kind == "matvec":
        matrix, right = source.random((64 * scale, 256)), source.random(256)
        return lambda: matrix @ right
    if kind == "softmax":
        rows = source.random((8 * scale, 256))
        return lambda: softmax(rows)
    if kind == "python":
        return lambda: sum(range(300 * scale))
    function = getattr(np, kind)
    return lambda: function(vector)


@pytest.mark.parametrize("number", range({count}))
def test_kernel(number, roofline):
    once = operation(KINDS[number % 10], 1 + 3 * (number // 10))
    repeats = 11 if number == SLOW else 10

    def kernel():
        for _ in range(repeats):
            result = once()
        return result

    roofline.measure(kernel, reference=once, name=f"kernel{{number}}")
'''


def measure(folder: Path, *, quick: bool) -> list[Figure]:
    """Take the tries; the notes have every try's verdict on the slower kernel, and how quiet it was."""
    count, tries, seconds = (QUICK_KERNELS, QUICK_TRIES, QUICK_SECONDS) if quick else (KERNELS, TRIES, SECONDS)
    (folder / "test_suite.py").write_text(_SUITE.format(count=count))
    (folder / "pytest.ini").write_text("[pytest]\n")
    labels = [f"{kind}{number}" for number in range(tries) for kind in ("base", "slow")] + [f"base{tries}"]
    took_s = []
    for label in labels:
        slow = SLOW_KERNELS[int(label[-1])] if label.startswith("slow") else -1
        begin = time.perf_counter()
        take_run(folder, label, slow, seconds)
        took_s.append(time.perf_counter() - begin)
        print(f"real_steps: {label}, {took_s[-1]:.0f} s", file=sys.stderr, flush=True)
    with open_store(folder / "runs.db", create=False, read_only=True) as store:
        sides = {label: side_of(store, (store.resolve_run(label),)) for label in labels}
    hits, notes, unchanged, exits = 0, [], [], []
    lengthened: list[bool] = []
    rival_hits = rival_false = 0
    for number in range(tries):
        base, slow, after = (sides[label] for label in labels[2 * number : 2 * number + 3])
        name = f"kernel{SLOW_KERNELS[number]}"
        for other, changed in ((slow, name), (after, "")):
            diff = compare_suites(base, other, {}, DiffRules())
            unchanged += [case for case in diff.cases if case.case.kernel != changed]
            exits += [] if changed else [gate(diff, parse_fail_on(["slower"]), None, 0.2).exit_code]
            for case in (case for case in diff.cases if case.case.kernel == changed):
                hits += case.verdict == "SLOWER"
                change = "" if case.change_ratio is None else f" {case.change_ratio:+.1%}"
                notes.append(f"{name} {case.verdict} ({case.reason}){change}")
        over = rival_over(base, slow)
        lengthened += [is_called(base, after, kernel) for kernel in sorted(kernels_of(base) & kernels_of(after))]
        rival_hits += name in over
        rival_false += len(over - {name})
    others = [ratio for label in labels for ratio in others_ratios(sides[label])]
    quiet = f"others used {fmean(others):.1%} of the CPUs while kernels ran" if others else "others are not known"
    pairs = 2 * tries
    where = f"{tries} tries, {PROCESSES} processes a side"
    rival = "pytest-benchmark, median:5%"
    return [
        Figure(
            f"a real +10 % of one of {count} found, {where}",
            hits / tries,
            tries,
            "share",
            0.8,
            None,
            rival,
            rival_hits / tries,
            f"{', '.join(notes)}; {2 * fmean(took_s):.0f} s a try; {quiet}",
        ),
        Figure(
            f"+10 % put into the stored times of each of {count} found",
            fmean(lengthened),
            len(lengthened),
            "share",
            0.8,
        ),
        Figure(
            f"unchanged kernels called SLOWER, in {pairs} pairs of runs",
            _count(unchanged, "SLOWER"),
            pairs,
            "count",
            0.0,
            0.0,
            rival,
            rival_false,
            f"exit codes of unchanged pairs: {', '.join(map(str, exits))}",
        ),
        Figure(f"unchanged kernels called FASTER, in {pairs} pairs", _count(unchanged, "FASTER"), pairs, "count"),
        Figure("of unchanged kernels AMBIGUOUS", _count(unchanged, "AMBIGUOUS") / len(unchanged), pairs, "share"),
        Figure("of unchanged kernels INVALID", _count(unchanged, "INVALID") / len(unchanged), pairs, "share"),
    ]


def _count(cases: list[CaseDiff], verdict: str) -> int:
    return sum(case.verdict == verdict for case in cases)


def others_ratios(side: SuiteSide) -> list[float]:
    """Return the share of the CPUs that other processes used beside each measurement that knows it."""
    states = [record.measurement.state for record in side.records if record.measurement is not None]
    return [state.others_ratio for state in states if state is not None and state.others_ratio is not None]


def kernels_of(side: SuiteSide) -> set[str]:
    """Return the kernels that a side measured."""
    return {record.case.kernel for record in side.records if record.measurement is not None}


def is_called(before: SuiteSide, after: SuiteSide, kernel: str) -> bool:
    """Return whether a kernel would be called SLOWER if all its times on the later side were 10 % longer."""
    records = [
        longer(record) if record.case.kernel == kernel and record.measurement is not None else record
        for record in after.records
    ]
    diff = compare_suites(before, replace(after, records=tuple(records)), {}, DiffRules())
    return any(case.case.kernel == kernel and case.verdict == "SLOWER" for case in diff.cases)


def longer(record: Record) -> Record:
    """Return a measured record with times that are 10 % longer."""
    measured = record.measurement
    assert measured is not None
    low_s, high_s = measured.ci_low_s, measured.ci_high_s
    return replace(
        record,
        measurement=replace(
            measured,
            median_s=1.1 * measured.median_s,
            ci_low_s=None if low_s is None else 1.1 * low_s,
            ci_high_s=None if high_s is None else 1.1 * high_s,
        ),
    )


def rival_over(before: SuiteSide, after: SuiteSide) -> set[str]:
    """Return the kernels whose first process is slower by more than the rival's limit."""
    firsts = [
        {
            record.case.kernel: record.measurement.median_s
            for record in sorted(side.records, key=lambda record: -record.process.ordinal)
            if record.measurement is not None
        }
        for side in (before, after)
    ]
    return {kernel for kernel in firsts[0] if firsts[1][kernel] > GATE_RATIO * firsts[0][kernel]}


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
