"""The clocks that everything here reads: a copy of Python's `time` that no suite can reach by patching `time`.

A suite may freeze or bend `time` while we measure (freezegun, a monkeypatch, a test's own fake). Such tools change the
attributes of the module `time`, and freezegun whatever in any loaded module is one of its functions. What is made here
is a second module of the interpreter's built-in: its functions are other objects, right even where it is first imported
while `time` is frozen.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import time
else:
    _spec = importlib.machinery.BuiltinImporter.find_spec("time")
    time = importlib.util.module_from_spec(_spec)
    _spec.loader.exec_module(time)


_RAW_CLOCK: int | None = getattr(time, "CLOCK_MONOTONIC_RAW", getattr(time, "CLOCK_MONOTONIC", None))


def raw_s() -> float:
    """Return seconds on the witness of `perf_counter`: another clock of the system, which nobody sets or slews."""
    return time.monotonic() if _RAW_CLOCK is None else time.clock_gettime_ns(_RAW_CLOCK) * 1e-9


def utc_now() -> str:
    """Return the current time in UTC, ISO 8601 with microseconds: whoever freezes time stops `datetime` as well."""
    now_ns = time.time_ns()
    seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now_ns // 10**9))
    return f"{seconds}.{now_ns % 10**9 // 1000:06d}+00:00"
