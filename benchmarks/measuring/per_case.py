"""Seconds per case beyond the measuring itself: ours against pytest-benchmark, both above a bare pytest.

All three run the same number of tests of one function. From the time of the whole process we take a bare pytest's, and
the time the plugin says it spent measuring (ours: `wall_s` of each stored record, which is first call, warm-up and
samples; theirs: the rounds of its JSON). What is left is what using the plugin costs: its start, set-up, statistics,
storing every result, the table. Ours includes pytest-benchmark's own cost, because we feed it.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks.timing.interleave import differences, interleaved, run_seconds
from benchmarks.timing.rows import Row
from results import open_store

PER_CASE_AIM_S = 0.010
ROUND_COUNT = 20
"""Rounds of the rival: about as many as the samples ours takes in its budget of 1 ms."""

_HEAD = """
import pytest

def work():
    return sum(range(2000))

cases = pytest.mark.parametrize("number", range({count}))
"""
_BODIES = {
    "bare": """
@cases
def test_case(number):
    work()
""",
    "rival": """
@cases
def test_case(benchmark, number):
    benchmark.pedantic(work, rounds={rounds}, iterations=1)
""",
    "ours": """
from roofline_model import OpCost

@cases
def test_case(roofline, number):
    roofline.measure(work, work=OpCost(read_bytes=1e6), name=f"case_{{number}}")
""",
}


@dataclass(frozen=True, slots=True)
class _Suite:
    """One folder with `count` tests, how to run it, and how much of the time was measuring."""

    folder: Path
    arguments: Sequence[str]
    measuring_s: Callable[[Path], float]

    def beyond_measuring_s(self) -> float:
        """Run it once from nothing; return the seconds of the process without those spent measuring."""
        for left in (*self.folder.glob("*.db*"), *self.folder.glob("*.json")):
            left.unlink()
        total_s = run_seconds(["-m", "pytest", "-q", "-p", "no:cacheprovider", *self.arguments], self.folder)
        return total_s - self.measuring_s(self.folder)


def measure(folder: Path, *, quick: bool) -> list[Row]:
    """Run the suites in turn, at two sizes: the difference tells the cost of a case from the cost of the start."""
    rounds, small, large = (1, 2, 12) if quick else (7, 10, 110)
    suites = {
        (name, count): _make_suite(folder / f"{name}_{count}", name, count)
        for name in ("bare", "rival", "ours", "simulated")
        for count in (small, large)
    }
    seconds = interleaved(
        {f"{name} {count}": suite.beyond_measuring_s for (name, count), suite in suites.items()}, rounds
    )
    for suite in suites.values():
        shutil.rmtree(suite.folder)

    def beyond(name: str, count: int) -> list[float]:
        return differences(seconds[f"{name} {count}"], seconds[f"bare {count}"])

    def per_case_s(name: str) -> float:
        return median(differences(beyond(name, large), beyond(name, small))) / (large - small)

    def start_s(name: str) -> float:
        return median(beyond(name, small)) - small * per_case_s(name)

    rival = f"pytest-benchmark, {ROUND_COUNT} rounds"
    return [
        Row(
            "per case beyond measuring",
            per_case_s("ours"),
            rounds,
            PER_CASE_AIM_S,
            rival,
            per_case_s("rival"),
            f"growth from {small} to {large} cases above a bare pytest: set-up, statistics, commit, feeding "
            "pytest-benchmark, table",
        ),
        Row(
            "… on the simulated device, nothing subtracted",
            per_case_s("simulated"),
            rounds,
            PER_CASE_AIM_S,
            rival,
            per_case_s("rival"),
            "no kernel is timed, so all of it is ours: sampling loop and stopping rule included",
        ),
        Row(
            "start of a run, once",
            start_s("ours"),
            rounds,
            None,
            "pytest-benchmark",
            start_s("rival"),
            "loading SQLAlchemy, looking at machine and repository, creating the database",
        ),
    ]


def _make_suite(folder: Path, name: str, count: int) -> _Suite:
    folder.mkdir(parents=True)
    body = "ours" if name == "simulated" else name
    text = (_HEAD + _BODIES[body]).format(count=count, rounds=ROUND_COUNT)
    (folder / "test_cases.py").write_text(text)
    (folder / "pytest.ini").write_text("[pytest]\n")
    plugin = ["-p", "roofline_pytest", "--hw", "b10", "--roofline-device", "cpu", "--roofline-db", "run.db"]
    if name == "ours":
        arguments = [*plugin, "--roofline-force-measure", "--roofline-max-seconds", "0.001"]
        return _Suite(folder, arguments, _our_measuring_s)
    if name == "simulated":
        return _Suite(folder, [*plugin, "--roofline-timer", "simulated"], lambda _: 0.0)
    if name == "rival":
        return _Suite(folder, ["--benchmark-json=run.json"], _rival_measuring_s)
    return _Suite(folder, [], lambda _: 0.0)


def _our_measuring_s(folder: Path) -> float:
    """Return the seconds that the stored records say they took to measure."""
    with open_store(folder / "run.db", read_only=True) as store:
        measurements = [record.measurement for record in store.records(store.resolve_run("latest").run_id)]
    return sum(measured.wall_s or 0.0 for measured in measurements if measured is not None)


def _rival_measuring_s(folder: Path) -> float:
    """Return the seconds that pytest-benchmark says its rounds took."""
    entries = json.loads((folder / "run.json").read_text())["benchmarks"]
    return sum(entry["stats"]["total"] * entry["stats"]["iterations"] for entry in entries)
