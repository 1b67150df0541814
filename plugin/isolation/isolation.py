"""Isolation of cases: measurement in pytest's own process, or in workers whose death does not end the run.

`--roofline-processes N` runs each test in N fresh processes, as N items of the session. The passes come after every
selection and in whole rounds: `-k`, `-m`, `--lf`, `--sw` and the like choose tests, and each chosen one is measured N
times. The first pass keeps the test's own name and place; the others are called `…-p2]`, `…-p3]` and come after
everything else, every second one in reversed order, so that the N measurements of a case are spread over the whole run
and a slow drift of the machine does not favour the first cases. `-x` stops at the first failure of any pass; the run is
then partial. pytest's cache remembers a failed pass as the test that it repeats, so that `--lf` and `--sw` find it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Literal

import pytest

from plugin.run.options import BenchOptions
from plugin.run.target import Target
from roofline_model.core.errors import InvalidValueError

_DEBUGGERS = ("pydevd", "debugpy")


@dataclass(frozen=True, slots=True)
class Isolation:
    """The decision for one run."""

    kind: Literal["none", "auto", "case"]
    """none: this process; auto: one worker, replaced when it dies; case: a fresh worker for each case."""
    process_count: int | None = None
    """Fresh processes that measure every case, or None: not replicated."""


def decide(options: BenchOptions, target: Target, config: pytest.Config) -> Isolation:
    """Return where the cases of this run are measured. Raises `InvalidValueError` for options that contradict each
    other.

    Without an explicit wish cases are measured here where a worker would gain nothing (nothing is measured, times are
    simulated) or take something away (a debugger, coverage, the display of fixtures). An explicit `--roofline-isolate
    case` or `--roofline-processes` decides against simulation and coverage, but a debugger needs this process.
    """
    if options.predict_only or options.profiler is not None or not target.can_measure:
        return Isolation("none")
    needs_this_process = _needs_this_process(config)
    count = options.process_count
    if count is not None:
        if options.isolate == "none":
            raise InvalidValueError(
                "--roofline-processes measures in worker processes; leave out --roofline-isolate none"
            )
        if needs_this_process:
            raise InvalidValueError(
                f"--roofline-processes measures in worker processes, which {needs_this_process} rules out"
            )
        return Isolation("case" if options.isolate == "case" else "auto", count)
    if options.isolate == "none" or needs_this_process:
        return Isolation("none")
    if options.isolate == "case":
        return Isolation("case")
    gains_nothing = options.is_simulated or _coverage_is_active(config)
    return Isolation("none" if gains_nothing else "auto")


def _needs_this_process(config: pytest.Config) -> str:
    """Return the option or plugin that needs the tests in pytest's own process, or an empty text."""
    option_values = vars(config.option)
    for name, flag in (
        ("usepdb", "--pdb"),
        ("trace", "--trace"),
        ("setuponly", "--setup-only"),
        ("setupshow", "--setup-show"),
        ("setupplan", "--setup-plan"),
    ):
        if option_values.get(name):
            return flag
    if hasattr(config, "workerinput"):
        return "pytest-xdist (-n)"
    if any(name in sys.modules for name in _DEBUGGERS):
        return "a debugger"
    if any(not isinstance(plugin, str) for plugin in config.invocation_params.plugins or ()):
        return "a plugin object"
    return ""


def _coverage_is_active(config: pytest.Config) -> bool:
    plugins = config.pluginmanager
    return (plugins.hasplugin("_cov") and bool(vars(config.option).get("cov_source"))) or sys.gettrace() is not None


class PassItem(pytest.Item):
    """A further pass of a test: shown and counted like any test, run by a worker as the test it repeats."""

    def __init__(self, *, measured_item: pytest.Item, pass_number: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.measured_item = measured_item
        self.pass_number = pass_number
        self.fixturenames = list(getattr(measured_item, "fixturenames", ()))
        self._fixtureinfo = getattr(measured_item, "_fixtureinfo", None)
        self.own_markers.extend(measured_item.own_markers)
        self.keywords.update({mark.name: mark for mark in measured_item.own_markers})

    def runtest(self) -> None:
        """Refuse to run here: only a fresh process makes it a further measurement."""
        pytest.fail(f"{self.name} is run by a worker only", pytrace=False)

    def reportinfo(self) -> tuple[os.PathLike[str] | str, int | None, str]:
        """Return where the test is, under this pass's name."""
        return (*self.measured_item.reportinfo()[:2], self.name)


def add_passes(items: list[pytest.Item], roofline_items: Sequence[pytest.Item], process_count: int) -> None:
    """Append the passes 2 … N of `roofline_items` to a session's items, every second pass in reversed order."""
    for number in range(2, process_count + 1):
        again = [
            PassItem.from_parent(item.parent, name=pass_name(item.name, number), measured_item=item, pass_number=number)
            for item in roofline_items
            if item.parent is not None  # every collected test lies in a module
        ]
        items += again[::-1] if number % 2 == 0 else again


def pass_name(name: str, number: int) -> str:
    """Return a test's name in pass `number`: the suffix goes into the brackets of its parameters, if it has any."""
    return f"{name[:-1]}-p{number}]" if name.endswith("]") else f"{name}[p{number}]"


def remember_as_tests(config: pytest.Config, items: Sequence[pytest.Item]) -> None:
    """Make pytest's cache remember failed passes under the names of their tests; call it before the cache is
    written.
    """
    tests = {item.nodeid: item.measured_item for item in items if isinstance(item, PassItem)}
    if not tests:
        return
    failed = getattr(config.pluginmanager.get_plugin("lfplugin"), "lastfailed", None)
    if isinstance(failed, dict):
        for name in [name for name in failed if str(name) in tests]:
            failed[_like(name, tests[str(name)])] = failed.pop(name)
    by_step = config.pluginmanager.get_plugin("stepwiseplugin")
    for holder, field in ((by_step, "lastfailed"), (getattr(by_step, "cached_info", None), "last_failed")):
        name = getattr(holder, field, None)  # in one place or the other, by pytest's version
        if name is not None and str(name) in tests:
            setattr(holder, field, _like(name, tests[str(name)]))


def _like(name: Any, item: pytest.Item) -> Any:
    """Return the item's name in the form that pytest's cache uses: text, or since pytest 9.2 its parts."""
    return item.nodeid if isinstance(name, str) else getattr(item, "id", item.nodeid)


def followers(items: Sequence[pytest.Item]) -> dict[pytest.Item, pytest.Item | None]:
    """Return for each roofline item what the same worker is asked for next: the next one of its pass, or None."""
    return {
        item: measured(other) if other is not None and pass_of(item) == pass_of(other) else None
        for item, other in zip_longest(items, items[1:])
    }


def pass_of(item: pytest.Item) -> int:
    """Return the pass an item belongs to, from 1."""
    return getattr(item, "pass_number", 1)


def measured(item: pytest.Item) -> pytest.Item:
    """Return the collected test that an item stands for."""
    return getattr(item, "measured_item", item)
