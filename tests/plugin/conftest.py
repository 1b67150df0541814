"""Fakes shared by the plugin's tests: a clock that is told what to say."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest


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
