"""Seconds until the median is known to ±1 %, and the error really made: our stopping rule beside its rivals'.

The same kernels in one pytest process, every contestant once per round, reference samples of each real kernel between
them; on the simulated device the truth is known. Each gives its own median after its own defaults. Their times are
compared at equal error: an error falls with the root of the time, so a rival whose error is k times ours would have
needed k² times as long. A user has one setting for a whole set of kernels: the line with the aim asks for the time on all
of them when the rival is given as much longer (or less) as brings its worst kernel to the error of our worst.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks.interleave import run_seconds
from benchmarks.precision_contestants import CONTESTANTS, REAL, SIMULATED, TARGET_RATIO
from benchmarks.rows import Row
from roofline_model.units import format_time

AIM_RATIO = 0.5
"""Our time over a rival's at equal error."""
ROUND_COUNT = 15
REFERENCE_S = 0.5
SIMULATED_FACTOR = 8
"""Rounds on the simulated device for one on real kernels: they cost nothing but Python."""
_TRUST_RATIO = 10.0
"""Errors of a few rounds scatter: a rival's time is scaled by at most this squared."""

_SUITE = """
import json
import pytest
from benchmarks.precision_contestants import CONTESTANTS, PRECISE, REAL, TARGET_RATIO, estimate, reference_samples, truth_of

steps = []
for name, rounds in {rounds!r}.items():
    for turn in range(rounds):
        order = CONTESTANTS[turn % 5:] + CONTESTANTS[:turn % 5]
        for contestant in order:
            mark = [pytest.mark.benchmark(precision=TARGET_RATIO)] if contestant == PRECISE else []
            steps.append(pytest.param(turn, name, contestant, marks=mark))
steps.sort(key=lambda step: step.values[0])  # all kernels once, then all again

samples = {{}}

@pytest.mark.parametrize(("turn", "name", "contestant"), steps)
def test_step(turn, name, contestant, benchmark):
    taken = samples.setdefault((turn, name), [])
    if name in REAL:
        taken += reference_samples(name, {reference_s} / 6)
    found = estimate(contestant, name, f"{{turn}} {{contestant}}", benchmark)
    if name in REAL:
        taken += reference_samples(name, {reference_s} / 6)
    with open("found.jsonl", "a") as stream:
        stream.write(json.dumps([turn, name, contestant, found.seconds, found.median_s]) + "\\n")

def test_truths():
    with open("truths.json", "w") as stream:
        json.dump([[turn, name, truth_of(name, taken)] for (turn, name), taken in samples.items()], stream)
"""


@dataclass(frozen=True, slots=True)
class Standing:
    """What one contestant spent on one kernel and how far off it was, over the rounds."""

    seconds: float
    errors: tuple[float, ...]

    @property
    def median_error(self) -> float:
        """Median |error|."""
        return median(self.errors)

    @property
    def p90_error(self) -> float:
        """The |error| that nine rounds of ten stay below."""
        ordered = sorted(self.errors)
        return ordered[min(len(ordered) - 1, int(0.9 * len(ordered)))]

    def __str__(self) -> str:
        return f"{format_time(self.seconds)}, |error| median {self.median_error:.2%}, p90 {self.p90_error:.2%}"


def measure(folder: Path, *, quick: bool) -> list[Row]:
    """Run the suite in one process; return a row per set of kernels and rival, then one per kernel and rival."""
    rounds = 2 if quick else ROUND_COUNT
    sets = {"real kernels": (REAL[1],) if quick else REAL, "simulated": tuple(SIMULATED)}
    counts = {
        name: rounds * (SIMULATED_FACTOR if name in SIMULATED else 1) for names in sets.values() for name in names
    }
    suite = _SUITE.format(rounds=counts, reference_s=0.1 if quick else REFERENCE_S)
    (folder / "test_suite.py").write_text(suite)
    (folder / "pytest.ini").write_text("[pytest]\n")
    run_seconds(["-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--benchmark-quiet", "test_suite.py"], folder)
    found = [json.loads(line) for line in (folder / "found.jsonl").read_text().splitlines()]
    truths = {(turn, name): value for turn, name, value in json.loads((folder / "truths.json").read_text())}
    by_kernel = {name: standings(name, found, truths) for name in counts}
    rows = [
        row
        for title, names in sets.items()
        for row in set_rows(title, [by_kernel[name] for name in names], counts[names[0]])
    ]
    return rows + [row for name in counts for row in kernel_rows(name, by_kernel[name], counts[name])]


def standings(
    kernel: str, found: Sequence[tuple[int, str, str, float, float]], truths: dict[tuple[int, str], float]
) -> dict[str, Standing]:
    """Return every contestant's standing on one kernel; each round is held against the truth of that round."""
    result = {}
    for contestant in CONTESTANTS:
        own = [
            (turn, seconds, value) for turn, name, who, seconds, value in found if (name, who) == (kernel, contestant)
        ]
        errors = tuple(abs(value / truths[turn, kernel] - 1) for turn, _, value in own)
        result[contestant] = Standing(median(seconds for _, seconds, _ in own), errors)
    return result


def set_rows(title: str, kernels: Sequence[dict[str, Standing]], rounds: int) -> list[Row]:
    """Return our time on a whole set beside each rival's at the error of our worst kernel; the aim is half of it."""
    ours_s = sum(found["ours"].seconds for found in kernels)
    worst = max(found["ours"].p90_error for found in kernels)
    rows = []
    for rival in CONTESTANTS[1:]:
        rival_s = sum(found[rival].seconds for found in kernels)
        rival_worst = max(found[rival].p90_error for found in kernels)
        equal_s = rival_s * min(_TRUST_RATIO, max(1 / _TRUST_RATIO, rival_worst / worst)) ** 2
        note = f"ours {ours_s:.3g} s, worst p90 |error| {worst:.2%}; {rival} {rival_s:.3g} s, {rival_worst:.2%}"
        rows.append(Row(f"all {title}, {TARGET_RATIO:.0%}", ours_s, rounds, AIM_RATIO * equal_s, rival, equal_s, note))
    return rows


def kernel_rows(kernel: str, found: dict[str, Standing], rounds: int) -> list[Row]:
    """Return what each spent on one kernel, as it came, and its errors."""
    ours = found["ours"]
    return [
        Row(kernel, ours.seconds, rounds, None, rival, found[rival].seconds, f"ours {ours}; {rival} {found[rival]}")
        for rival in CONTESTANTS[1:]
    ]
