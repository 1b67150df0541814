"""Do runs of unchanged code agree within the interval they state, and is that interval no wider than needed?

R pairs of runs back to back (A, B, A, B, …), the same cases in P fresh processes each, through `pytest bench_cases`
itself into a database of its own. What the pairs say is computed from the stored records.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import fmean, median, stdev

from benchmarks.timing.interleave import ROOT, run_seconds
from benchmarks.timing.rows import Figure
from results import open_store
from results.records.records import Measurement, Record
from results.statistics.replication import TotalInterval, agree, total_intervals

PROCESS_COUNT = 3
"""Fresh processes of each run."""
PAIR_COUNT = 10
QUICK_PAIR_COUNT = 2

AGREE_LOW, AGREE_HIGH = 0.92, 0.98
MOST_WIDTH_RATIO = 2.5
RIVAL_THRESHOLD = 1.05
"""pytest-benchmark's usual `--benchmark-compare-fail=median:5%`."""

_CASES = ("-k", "gemv or gemm", "--roofline-formats", "FP32,BF16,FP16,INT8,INT4")
"""The products of the quick set without the emulated format, whose kernels take seconds and say nothing about the
machine's noise.
"""
_QUICK_CASES = (
    "--roofline-shapes",
    "1x1024x1024,64x1024x1024",
    "--roofline-formats",
    "FP32,BF16,INT8",
    "--roofline-max-seconds",
    "0.3",
)

_DISTURBED = frozenset({"contended", "stolen", "shared-device"})


def measure(folder: Path, *, quick: bool) -> list[Figure]:
    """Take the runs and return what they say."""
    pairs = QUICK_PAIR_COUNT if quick else PAIR_COUNT
    runs = []
    for number in range(2 * pairs):
        begin = time.perf_counter()
        runs.append(CaseRuns.of(take_run(folder, f"run-{number}", PROCESS_COUNT, _QUICK_CASES if quick else _CASES)))
        seconds = time.perf_counter() - begin
        print(f"interval_agreement: run {number + 1} of {2 * pairs}, {seconds:.0f} s", file=sys.stderr, flush=True)
    return figures(runs)


def take_run(folder: Path, label: str, process_count: int, cases: Sequence[str]) -> list[Record]:
    """Measure the cases in fresh processes and return the stored records (without samples)."""
    # The chip is given, so that no run begins with measuring this machine's ceilings.
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
        "b10",
        "--roofline-force-measure",
        "--roofline-db",
        str(folder / "runs.db"),
        "--roofline-run",
        label,
        "--roofline-processes",
        str(process_count),
        *cases,
    ]
    run_seconds(arguments, folder, allowed=(0, 1))
    with open_store(folder / "runs.db", read_only=True) as store:
        records = store.records(store.resolve_run(label).run_id, with_samples=False)
    lost = [record for record in records if record.status != "measured"]
    if len(lost) == len(records):
        reasons = (
            "; ".join(dict.fromkeys(f"{record.status}: {record.reason}" for record in lost)) or "nothing was selected"
        )
        raise RuntimeError(f"run {label} measured nothing ({reasons[:400]})")
    return records


@dataclass(frozen=True, slots=True)
class CaseRuns:
    """One run, by case: what its processes say together, and what its first process says alone."""

    totals: Mapping[str, TotalInterval]
    firsts: Mapping[str, Measurement]
    disturbed: frozenset[str]
    """Cases of which another process used the CPUs in at least one process."""

    @classmethod
    def of(cls, records: Sequence[Record]) -> CaseRuns:
        """Return the run of these records."""
        firsts: dict[str, Measurement] = {}
        disturbed = set()
        for record in sorted(records, key=lambda candidate: candidate.process.ordinal):
            measured = record.measurement
            if record.status == "measured" and measured is not None:
                firsts.setdefault(record.case.case_key, measured)
                if _DISTURBED.intersection(measured.flags):
                    disturbed.add(record.case.case_key)
        return cls(total_intervals(records), firsts, frozenset(disturbed))


def figures(runs: Sequence[CaseRuns]) -> list[Figure]:
    """Return what runs of unchanged code, taken as pairs A, B, A, B, …, say about the intervals.

    Raises `RuntimeError` when no case was measured in every run with several processes.
    """
    totals = [key for key in runs[0].totals if all(_is_replicated(run.totals.get(key)) for run in runs)]
    if not totals:
        counts = sorted({total.process_count for run in runs for total in run.totals.values()})
        raise RuntimeError(f"no case was measured in several processes in every run; processes per case: {counts}")
    count = len(runs) // 2
    pairs = [(runs[2 * number], runs[2 * number + 1]) for number in range(count)]
    agreed = [(key, a, b, bool(agree(a.totals[key], b.totals[key]))) for a, b in pairs for key in totals]
    quiet = [is_same for key, a, b, is_same in agreed if key not in a.disturbed | b.disturbed]
    alone = [_agree_alone(a.firsts[key], b.firsts[key]) for a, b in pairs for key in totals]
    alarms = [not agree(first.totals[key], other.totals[key]) for first, other in pairwise(runs) for key in totals]
    rival = [
        other.firsts[key].median_s > RIVAL_THRESHOLD * first.firsts[key].median_s
        for first, other in pairwise(runs)
        for key in totals
    ]
    where = f"{len(totals)} cases, {PROCESS_COUNT} processes a side"
    rows = [
        Figure(
            "agree within interval_total",
            fmean([ratio for *_, ratio in agreed]),
            count,
            "share",
            AGREE_LOW,
            AGREE_HIGH,
            "interval_within alone",
            fmean(alone),
            f"back-to-back pairs of unchanged code, {where}; the rival knows one process",
        ),
        Figure(
            "half width over A/A spread",
            _width_ratio(runs, totals),
            len(runs),
            "ratio",
            None,
            MOST_WIDTH_RATIO,
            "interval_within alone",
            _width_ratio_alone(runs, totals),
            "median case; the spread is the standard deviation of the runs' estimates",
        ),
        Figure(
            "false alarms at 5 %",
            fmean(alarms),
            len(runs) - 1,
            "share",
            1 - AGREE_HIGH,
            1 - AGREE_LOW,
            "pytest-benchmark median:5%",
            fmean(rival),
            "each run against the next; the rival compares one process a side and fails the slower ones only",
        ),
        Figure(
            "A/A spread of a run's estimate",
            median(stdev([math.log(run.totals[key].estimate_s) for run in runs]) for key in totals),
            len(runs),
            "share",
            rival="of one process's median",
            rival_value=median(stdev([math.log(run.firsts[key].median_s) for run in runs]) for key in totals),
            note="standard deviation over the runs, median case: what the machine does to unchanged code",
        ),
    ]
    if len(quiet) < len(agreed):
        rows.append(
            Figure(
                "agree, where nobody else used the CPUs",
                fmean(quiet),
                count,
                "share",
                note=(
                    f"{len(quiet)} of {len(agreed)} comparisons; in the others a measurement carries "
                    f"{', '.join(sorted(_DISTURBED))}"
                ),
            )
            if quiet
            else Figure(
                "comparisons in which nobody else used the CPUs", 0.0, count, "share", note="measure on a quiet machine"
            )
        )
    return rows


def _is_replicated(interval: TotalInterval | None) -> bool:
    return interval is not None and interval.process_count > 1 and interval.half_width_log is not None


def _agree_alone(first: Measurement, other: Measurement) -> bool:
    """Return whether two processes agree within the intervals that know nothing but their own samples."""
    return abs(math.log(first.median_s / other.median_s)) <= math.hypot(_half_alone(first), _half_alone(other))


def _half_alone(measured: Measurement) -> float:
    low_s, high_s = measured.ci_low_s, measured.ci_high_s
    # Too few samples for an interval: their whole range, which is wider.
    return math.log((high_s or measured.max_s) / (low_s or measured.min_s)) / 2


def _width_ratio(runs: Sequence[CaseRuns], keys: Sequence[str]) -> float:
    """Return, of the median case, the median half width over the standard deviation of the estimates."""
    ratios = []
    for key in keys:
        spread = stdev([math.log(run.totals[key].estimate_s) for run in runs])
        halves = [run.totals[key].half_width_log or 0.0 for run in runs]
        ratios.append(median(halves) / spread if spread > 0 else math.inf)
    return median(ratios)


def _width_ratio_alone(runs: Sequence[CaseRuns], keys: Sequence[str]) -> float:
    ratios = []
    for key in keys:
        spread = stdev([math.log(run.firsts[key].median_s) for run in runs])
        ratios.append(median(_half_alone(run.firsts[key]) for run in runs) / spread if spread > 0 else math.inf)
    return median(ratios)
