"""Hand our samples to pytest-benchmark through its public API: a timer that replays them and `benchmark.pedantic`.

Its table, JSON, comparison and `--benchmark-only/-skip/-disable` then work on our measurements as on its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest


class SampleReplay:
    """A timer for pytest-benchmark: each pair of calls is one sample apart."""

    __name__ = "roofline_samples"
    __module__ = "plugin.run.benchmark_bridge"

    def __init__(self) -> None:
        self._samples: Sequence[float] = ()
        self._next = 0
        self._now_s = 0.0

    @property
    def is_loaded(self) -> bool:
        """Whether samples were handed over already."""
        return bool(self._samples)

    def load(self, samples_s: Sequence[float]) -> None:
        """Set the samples that the next rounds will seem to take."""
        self._samples, self._next, self._now_s = samples_s, 0, 0.0

    def __call__(self) -> float:
        """Return the start of a round, then its end one sample later, and so on."""
        index, is_end = divmod(self._next, 2)
        self._next += 1
        if not is_end:
            # Each round starts at zero: a growing clock would round the later samples.
            self._now_s = 0.0
        elif index < len(self._samples):
            self._now_s = self._samples[index]
        return self._now_s


def attach_timer(item: pytest.Item) -> None:
    """Give the item's `benchmark` fixture a replaying timer; must run before the item's set-up."""
    marker = item.get_closest_marker("benchmark")
    marker_options = marker.kwargs if marker is not None else {}
    if item.config.pluginmanager.hasplugin("benchmark") and "timer" not in marker_options:
        # In front of the test's own marker, whose group and other settings stay.
        item.add_marker(pytest.mark.benchmark(**marker_options, timer=SampleReplay()), append=False)
        # A case that is skipped or fails has nothing to feed it; that is our story to tell, not a warning's.
        if item.config.pluginmanager.hasplugin("warnings"):
            item.add_marker(pytest.mark.filterwarnings("ignore:Benchmark fixture was not used"))


def feed(benchmark: Any, item: pytest.Item, samples_s: Sequence[float]) -> Any | None:
    """Replay the samples into pytest-benchmark and return its row; None where there is none: it is absent or off, the
    user gave a timer of their own, or the test has its row, that of its first measurement.
    """
    marker = item.get_closest_marker("benchmark")
    timer = marker.kwargs.get("timer") if marker else None
    if benchmark is None or not isinstance(timer, SampleReplay) or timer.is_loaded or not samples_s:
        return None
    timer.load(samples_s)
    benchmark.pedantic(_nothing, rounds=len(samples_s), iterations=1)
    return benchmark.stats


def replace_samples(row: Any, samples_s: Sequence[float]) -> None:
    """Put other samples into a row that `feed` returned: those of later visits."""
    row.stats = type(row.stats)()
    for sample_s in samples_s:
        row.stats.update(sample_s)


def show_few_columns(config: pytest.Config) -> None:
    """Keep pytest-benchmark's 187-column table narrow unless the user chose its columns."""
    has_columns_option = any(
        str(argument).startswith("--benchmark-columns") for argument in config.invocation_params.args
    )
    session = getattr(config, "_benchmarksession", None)
    if session is not None and not has_columns_option and hasattr(session, "columns"):
        session.columns = ["min", "median", "max", "rounds"]


def _nothing() -> None:
    """Stand in for the kernel: it has been measured already."""
