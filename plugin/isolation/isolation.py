"""Where cases are measured: in pytest's own process, or in workers that may die without taking the run along."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from plugin.run.options import BenchOptions
from plugin.run.target import Target
from roofline_model.core.errors import InvalidValueError

if TYPE_CHECKING:
    import pytest

_DEFAULT_TIMEOUT_S = BenchOptions().timeout_s
_DEBUGGERS = ("pydevd", "debugpy")


@dataclass(frozen=True, slots=True)
class Isolation:
    """The decision for one run."""

    kind: Literal["none", "auto", "case"]
    """none: this process; auto: one worker, replaced when it dies; case: a fresh worker for each case."""
    reason: str
    """Why it is none; empty otherwise."""
    process_count: int | None = None
    """Fresh processes that measure every case, or None: not replicated."""


def decide(options: BenchOptions, target: Target, config: pytest.Config) -> Isolation:
    """Return where the cases of this run are measured. Raises `InvalidValueError` for options that contradict each other.

    Without an explicit wish cases are measured here where a worker would gain nothing (nothing is measured, times are
    simulated) or take something away (a debugger, coverage, the display of fixtures). An explicit `--roofline-isolate
    case` or `--roofline-processes` decides against simulation and coverage, but a debugger needs this process.
    """
    idle = _nothing_to_measure(options, target)
    if idle:
        return Isolation("none", idle)
    here = _needs_this_process(config)
    count = options.process_count
    if count is not None:
        if options.isolate == "none":
            raise InvalidValueError(
                "--roofline-processes measures in worker processes; leave out --roofline-isolate none"
            )
        if here:
            raise InvalidValueError(f"--roofline-processes measures in worker processes, which {here} rules out")
        return Isolation("case" if options.isolate == "case" else "auto", "", count)
    if options.isolate == "none":
        return Isolation("none", "--roofline-isolate none")
    if here:
        return Isolation("none", here)
    if options.isolate == "case":
        return Isolation("case", "")
    if options.timer.partition(":")[0] in ("simulated", "replay"):
        return Isolation("none", "no kernel is timed")
    if _coverage_is_active(config):
        return Isolation("none", "coverage is measured")
    return Isolation("auto", "")


def watchdog_s(options: BenchOptions) -> float:
    """Return how long one case may take: what the user said, else the default, which grows with the sampling budget.

    A burst rests more than it measures and takes several budgets; loading and warming up come on top.
    """
    if options.timeout_s != _DEFAULT_TIMEOUT_S:
        return options.timeout_s
    return max(_DEFAULT_TIMEOUT_S, 30 + 10 * options.max_seconds)


def _nothing_to_measure(options: BenchOptions, target: Target) -> str:
    if options.predict_only or options.profiler is not None:
        return "nothing is measured"
    return "" if target.can_measure else target.reason


def _needs_this_process(config: pytest.Config) -> str:
    """Return what needs the tests in pytest's own process, else nothing."""
    given = vars(config.option)
    for name, flag in (
        ("usepdb", "--pdb"),
        ("trace", "--trace"),
        ("setuponly", "--setup-only"),
        ("setupshow", "--setup-show"),
        ("setupplan", "--setup-plan"),
    ):
        if given.get(name):
            return flag
    if hasattr(config, "workerinput"):
        return "pytest-xdist (-n)"
    if any(name in sys.modules for name in _DEBUGGERS):
        return "a debugger"
    if any(not isinstance(plugin, str) for plugin in config.invocation_params.plugins or ()):
        return "a plugin object handed to pytest.main"
    return ""


def _coverage_is_active(config: pytest.Config) -> bool:
    plugins = config.pluginmanager
    return (plugins.hasplugin("_cov") and bool(vars(config.option).get("cov_source"))) or sys.gettrace() is not None
