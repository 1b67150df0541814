"""Progress of a pipeline: step number, step count, and remaining time."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

FIRST_MEASUREMENT_S = 30.0
"""Guess for measuring a small candidate in one process, before one was measured; with what a case of its size may need
beside.
"""
PER_BILLION_S = {"cpu": 240.0, "cuda": 25.0}


STEPS = ("load", "recommend", "measure", "save")
"""What is counted: how many candidates the third measures is known only after the second."""


@dataclass(frozen=True, slots=True)
class PipelineEvent:
    """One line of progress."""

    kind: Literal["begin", "end", "reused"]
    """reused: an earlier run of the same command had finished it."""
    text: str
    """What is done, or what came out."""
    step_index: int
    """Of `STEPS`, from 1."""
    remaining_s: float | None
    """Of the whole pipeline; None: nothing to go by."""


Tell = Callable[[PipelineEvent], None]


class StepClock:
    """Numbers the steps, and estimates what is left from what similar steps took."""

    def __init__(self, tell: Tell, clock: Callable[[], float] = time.monotonic) -> None:
        self._tell, self._clock = tell, clock
        self._index = 0
        self._steps: list[str] = []
        self._took: dict[str, list[float]] = {}
        self._guesses: dict[str, float] = {}
        self._began = 0.0

    def plan(self, steps: Sequence[str], guesses: dict[str, float]) -> None:
        """Set the kinds of the remaining steps (a `measure` per candidate), and the guessed seconds of one of each
        kind.
        """
        self._steps = [*self._steps[: self._index], *steps]
        self._guesses |= guesses

    def begin(self, text: str) -> None:
        """Report that the next step begins."""
        self._began = self._clock()
        self._index += 1
        self._say("begin", text, self._remaining_s(self._index - 1))

    def end(self, text: str) -> float:
        """Report the outcome of the step; return its seconds."""
        took = self._clock() - self._began
        self._took.setdefault(self._steps[self._index - 1], []).append(took)
        self._say("end", text, self._remaining_s(self._index))
        return took

    def reuse(self, text: str, took_s: float | None) -> None:
        """Report that an earlier run finished a step, and its seconds."""
        self._index += 1
        if took_s is not None:
            self._took.setdefault(self._steps[self._index - 1], []).append(took_s)
        self._say("reused", text, self._remaining_s(self._index))

    def _say(self, kind: Literal["begin", "end", "reused"], text: str, remaining_s: float | None) -> None:
        step = self._steps[self._index - 1]
        of_kind = [index for index, name in enumerate(self._steps, 1) if name == step]
        place = f" ({of_kind.index(self._index) + 1} of {len(of_kind)})" if len(of_kind) > 1 and kind != "end" else ""
        self._tell(PipelineEvent(kind, text + place, STEPS.index(step) + 1, remaining_s))

    def _remaining_s(self, done: int) -> float | None:
        remaining_s = 0.0
        for kind in self._steps[done:]:
            took = self._took.get(kind)
            guess = sum(took) / len(took) if took else self._guesses.get(kind)
            if guess is None:
                return None
            remaining_s += guess
        return remaining_s


def measuring_guess_s(parameters_count: int, device: str, processes_count: int) -> float:
    """Return a first guess of what measuring one candidate takes."""
    return processes_count * (FIRST_MEASUREMENT_S + PER_BILLION_S[device] * parameters_count / 1e9)
