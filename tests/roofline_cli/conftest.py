"""The commands that measure find a quiet machine, unless a test gives them another."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from plugin.machine import cpu_state
from plugin.machine.cpu_state import CpuTimes, LoadWatch


def load_of(others_ratio: float) -> LoadWatch:
    """Return a window of one second in which other processes used this share of two CPUs."""
    load = LoadWatch()
    load._cpus = [0, 1]
    load._before, load._after = CpuTimes(0.0, 0.0, 0.0, 0.0), CpuTimes(1.0, 2 * others_ratio, 0.0, 0.0)
    return load


@pytest.fixture(autouse=True, scope="session")
def _quiet() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cpu_state, "load_over", lambda seconds: load_of(0.0))
        yield


@pytest.fixture
def others_use(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Set what other processes use of the CPUs: in one look after the other, the last for ever."""

    def set_ratios(*ratios: float) -> None:
        left = list(ratios)
        monkeypatch.setattr(cpu_state, "load_over", lambda seconds: load_of(left.pop(0) if len(left) > 1 else left[0]))

    return set_ratios
