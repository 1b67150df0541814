"""The live line of a terminal: which case runs, how far the run is, how long it will take. Nothing in a log file."""

from __future__ import annotations

from plugin.timers.clock import time
from roofline_model.core.units import format_time


class Progress:
    """Estimates the time left from the cases done so far."""

    def __init__(self, total: int, first_guess_s: float) -> None:
        self._total = total
        self._done = 0
        self._guess_s = first_guess_s
        self._began_s = time.perf_counter()

    def finished_one(self) -> None:
        """Count a finished case."""
        self._done += 1

    def line(self, case_id: str, width: int) -> str:
        """Return the line to show while `case_id` runs, cut to the terminal's width."""
        text = f"[{min(self._done + 1, self._total)}/{self._total}] {case_id}"
        tail = f"  about {_rounded(self.seconds_left())} left"
        room = max(10, width - len(tail) - 1)
        return (text if len(text) <= room else text[: room - 1] + "…") + tail

    def seconds_left(self) -> float:
        """Return the estimated seconds until the last case is done."""
        remaining = self._total - self._done
        per_case = (time.perf_counter() - self._began_s) / self._done if self._done else self._guess_s
        return max(0.0, remaining * per_case)


def _rounded(seconds: float) -> str:
    if seconds >= 90:
        return f"{round(seconds / 60)} min"
    return format_time(float(max(1, round(seconds))), 2)
