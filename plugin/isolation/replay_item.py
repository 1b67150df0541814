"""Replay in pytest's own process of a test that a worker ran: pytest-benchmark's row and fixture teardown.

The test ran in the worker, through pytest's whole protocol. Here no plugin's hooks of a phase are called: they count on
the phases before it (pytest-rerunfailures on the report of the set-up).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from plugin.run import benchmark_bridge

_ENDING = (pytest.exit.Exception, KeyboardInterrupt)


def replay_benchmark(item: pytest.Item, samples_s: Sequence[float]) -> None:
    """Feed a worker's samples to this process's pytest-benchmark, as a test of the same name would.

    Call it when no test will run any more: it ends every fixture. The test is not logged and has no fixture but
    `benchmark`: the user's fixtures have run in the worker. Does nothing where pytest-benchmark is absent or switched
    off, or the test asked for another timer.
    """
    plugins = item.config.pluginmanager
    wants = "benchmark" in getattr(item, "fixturenames", ()) and plugins.hasplugin("benchmark")
    if not wants or not samples_s or item.config.getoption("benchmark_disable", False):
        return
    source = getattr(item, "measured_item", item)

    given = {"callspec": source.callspec} if hasattr(source, "callspec") else {}
    double = pytest.Function.from_parent(
        item.parent, name=item.name, callobj=_nothing, originalname=getattr(source, "originalname", None), **given
    )
    double.fixturenames = ["benchmark"]  # not the automatic ones of the module
    marker = source.get_closest_marker("benchmark")
    if marker is not None:
        double.add_marker(pytest.mark.benchmark(*marker.args, **{**marker.kwargs, **_fresh_timer(marker)}))
    state = item.session._setupstate

    def replay() -> None:
        state.setup(double)
        benchmark_bridge.feed(double.funcargs["benchmark"], double, samples_s)

    for call, when in ((replay, "call"), (lambda: state.teardown_exact(None), "teardown")):
        pytest.CallInfo.from_call(call, when=when, reraise=_ENDING)  # type: ignore[arg-type]


def _nothing() -> None:
    """Stand in for the test."""


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
    call = pytest.CallInfo.from_call(
        lambda: state.teardown_exact(None if stop else nextitem), when="teardown", reraise=_ENDING
    )
    if call.excinfo is not None:
        item.ihook.pytest_runtest_logreport(report=pytest.TestReport.from_item_and_call(item, call))
