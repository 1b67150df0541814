"""What our timing loop adds to a call in batch mode: above an empty `for` loop over the same schedule, in the same run.

The kernel is an empty Python function, so that its call is in the figure too; beside it the same loop written by hand.
"""

from __future__ import annotations

import time
from pathlib import Path
from statistics import median

from benchmarks.timing.interleave import differences, interleaved
from benchmarks.timing.rows import Row
from plugin.timers.timers import MonotonicTimer, Schedule

AIM_S = 100e-9
CALL_COUNT = 1000
"""Calls of one sample: about what a kernel of 50 ns gets."""


def measure(folder: Path, *, quick: bool) -> list[Row]:
    """Time the three loops in turn; what is told is the median of the differences of one round."""
    rounds = 50 if quick else 1000
    schedule = [(number, "operand") for number in range(CALL_COUNT)]
    timer = MonotonicTimer()
    seconds = interleaved(
        {
            "ours": lambda: timer.sample(_nothing, schedule),
            "by hand": lambda: _by_hand(schedule),
            "empty": lambda: _empty(schedule),
        },
        rounds,
    )
    return [
        Row(
            "timing loop, per call",
            median(differences(seconds["ours"], seconds["empty"])),
            rounds,
            AIM_S,
            "a loop written by hand",
            median(differences(seconds["by hand"], seconds["empty"])),
            f"{CALL_COUNT} calls of an empty function of two arguments above an empty for loop over the same schedule",
        )
    ]


def _nothing(first: object, second: object) -> None:
    """The kernel that costs its call only."""


def _by_hand(schedule: Schedule) -> float:
    begin = time.perf_counter_ns()
    for first, second in schedule:
        _nothing(first, second)
    return (time.perf_counter_ns() - begin) * 1e-9 / len(schedule)


def _empty(schedule: Schedule) -> float:
    begin = time.perf_counter_ns()
    for _ in schedule:
        pass
    return (time.perf_counter_ns() - begin) * 1e-9 / len(schedule)
