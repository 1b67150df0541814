"""What the plugin's tests share: pytest runs in this process, and a clock that says what the test wants."""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import dataclass, field

import pytest

import plugin
import results
import roofline_model


@pytest.fixture(scope="session")
def _measuring_side() -> None:
    """Import what a measuring run imports.

    `runpytest_inprocess` forgets every module that its run was the first to import, and numpy cannot be imported twice.
    """
    import numpy  # noqa: F401
    import torch  # noqa: F401

    for package in (plugin, results, roofline_model):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if ".migrations" not in module.name:
                importlib.import_module(module.name)


@pytest.fixture
def pytester(pytester: pytest.Pytester, _measuring_side: None) -> pytest.Pytester:
    """The fixture, in a process that can run pytest inside itself: a quarter of the time of a process of its own."""
    return pytester


@dataclass
class FakeTimer:
    """A timer whose clock moves only when the kernel or the set-up says so."""

    name: str = "fake"
    min_sample_s: float = 0.0
    runs_kernel: bool = True
    clock_s: float = 0.0
    events: list = field(default_factory=list)
    last_clock_hz: float | None = None

    def begin_case(self, case_key, ideal_s):
        self.events.append("begin")

    def spend(self, seconds):
        self.clock_s += seconds

    def sample(self, kernel, schedule, prepare=None):
        if prepare is not None:
            prepare()
            self.events.append("prepare")
        begin = self.clock_s
        for args in schedule:
            kernel(*args)
        self.events.append(("sample", len(schedule)))
        return (self.clock_s - begin) / len(schedule)

    def synchronize(self):
        self.events.append("synchronize")

    def idle(self, seconds):
        self.events.append(("idle", seconds))
        self.clock_s += seconds

    def now(self):
        return self.clock_s


@pytest.fixture
def fake_timer():
    return FakeTimer()
