"""Replay in pytest's own process of a test that a worker ran: pytest-benchmark's row and fixture teardown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import pytest

from plugin.run import benchmark_bridge

Phase = Literal["setup", "call", "teardown"]


def replay_benchmark(item: pytest.Item, samples_s: Sequence[float]) -> Any | None:
    """Feed a worker's samples to this process's pytest-benchmark, as a test of the same name would; return its row.

    The test is not logged and has no fixture but `benchmark`: the user's fixtures have run in the worker. Does nothing
    where pytest-benchmark is absent or switched off, or the test asked for another timer.
    """
    plugins = item.config.pluginmanager
    wants = "benchmark" in getattr(item, "fixturenames", ()) and plugins.hasplugin("benchmark")
    if not wants or not samples_s or item.config.getoption("benchmark_disable", False):
        return None
    source = getattr(item, "measured_item", item)

    rows: list[Any] = []

    def replay(benchmark: Any) -> None:
        rows.append(benchmark_bridge.feed(benchmark, double, samples_s))

    given = {"callspec": source.callspec} if hasattr(source, "callspec") else {}
    double = pytest.Function.from_parent(
        item.parent, name=item.name, callobj=replay, originalname=getattr(source, "originalname", None), **given
    )
    double.fixturenames = ["benchmark"]  # not the automatic ones of the module
    marker = source.get_closest_marker("benchmark")
    if marker is not None:
        double.add_marker(pytest.mark.benchmark(*marker.args, **{**marker.kwargs, **_fresh_timer(marker)}))
    if plugins.hasplugin("warnings"):
        double.add_marker(pytest.mark.filterwarnings("ignore:Benchmark fixture was not used"))
    if _phase(double, "setup", lambda: double.ihook.pytest_runtest_setup(item=double)).passed:
        _phase(double, "call", lambda: double.ihook.pytest_runtest_call(item=double))
    # Followed by its own test, so that only what it has set up itself ends: the rest is `finish_here`'s to log.
    _phase(double, "teardown", lambda: double.ihook.pytest_runtest_teardown(item=double, nextitem=item))
    return rows[0] if rows else None


def _fresh_timer(marker: pytest.Mark) -> dict[str, Any]:
    is_ours = isinstance(marker.kwargs.get("timer"), benchmark_bridge.SampleReplay)
    return {"timer": benchmark_bridge.SampleReplay()} if is_ours else {}


def finish_here(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """End the fixtures of this process that the next test does not share; log an error in them as this test's.

    A test that ran in a worker was never set up here, so pytest would not end what the tests before it have left.
    """
    state = item.session._setupstate
    stop = item.session.shouldfail or item.session.shouldstop
    if not state.stack:
        return
    report = _phase(item, "teardown", lambda: state.teardown_exact(None if stop else nextitem))
    if report.failed:
        item.ihook.pytest_runtest_logreport(report=report)


def _phase(item: pytest.Item, when: Phase, run: Callable[[], Any]) -> pytest.TestReport:
    call = pytest.CallInfo.from_call(run, when=when, reraise=(pytest.exit.Exception, KeyboardInterrupt))
    report: pytest.TestReport = item.ihook.pytest_runtest_makereport(item=item, call=call)
    return report
