"""Was the machine ours? `plugin.machine.cpu_state.LoadWatch`, with the work of our own child processes taken out."""

from __future__ import annotations

import os

from plugin.machine.cpu_state import CONTENDED_RATIO, LoadWatch


class Contention:
    """Watches between `with` and its end. Every child process must have been waited for by then."""

    def __init__(self) -> None:
        self._watch = LoadWatch()
        self._cpu_count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        self._wall_s = 0.0
        self._children_s = 0.0

    def __enter__(self) -> Contention:
        self._watch.__enter__()
        begin = os.times()
        self._wall_s, self._children_s = -begin.elapsed, -(begin.children_user + begin.children_system)
        return self

    def __exit__(self, *_: object) -> None:
        end = os.times()
        self._wall_s += end.elapsed
        self._children_s += end.children_user + end.children_system
        self._watch.__exit__()

    @property
    def others_ratio(self) -> float | None:
        """Share of the CPUs that neither we nor our children used, or None where the system does not tell."""
        if self._watch.others_ratio is None or self._wall_s <= 0:
            return None
        return max(0.0, self._watch.others_ratio - self._children_s / (self._wall_s * self._cpu_count))

    @property
    def is_contended(self) -> bool | None:
        """Whether others used so much that absolute times are too long."""
        return None if self.others_ratio is None else self.others_ratio > CONTENDED_RATIO
