"""`--roofline-processes N`: each roofline test is run in N fresh processes, as N items of the session.

The passes come after every selection and in whole rounds: `-k`, `-m`, `--lf`, `--sw` and the like choose tests, and
each chosen one is measured N times. The first pass keeps the test's own name and place; the others are called `…-p2]`, `…-p3]`
and come after everything else, every second one in reversed order, so that the N measurements of a case are spread over
the whole run and a slow drift of the machine does not favour the first cases. `-x` stops at the first failure of any
pass; the run is then partial. pytest's cache remembers a failed pass as the test that it repeats, so that `--lf` and
`--sw` find it.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest


class PassItem(pytest.Item):
    """A further pass of a test: shown and counted like any test, run by a worker as the test it repeats."""

    def __init__(self, *, measured_item: pytest.Item, pass_number: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.measured_item = measured_item
        self.pass_number = pass_number
        self.fixturenames = list(getattr(measured_item, "fixturenames", ()))
        self.own_markers.extend(measured_item.own_markers)
        self.keywords.update({mark.name: mark for mark in measured_item.own_markers})

    def runtest(self) -> None:
        """Refuse to run here: only a fresh process makes it a further measurement."""
        pytest.fail(f"{self.name} is run by a worker only", pytrace=False)

    def reportinfo(self) -> tuple[Path | str, int | None, str]:
        """Return where the test is, under this pass's name."""
        path, line, _ = self.measured_item.reportinfo()
        return Path(path), line, self.name


def add_passes(items: list[pytest.Item], ours: Sequence[pytest.Item], process_count: int) -> None:
    """Append the passes 2 … N of `ours` to a session's items, every second pass in reversed order."""
    for number in range(2, process_count + 1):
        again = [
            PassItem.from_parent(
                _parent(item), name=pass_name(item.name, number), measured_item=item, pass_number=number
            )
            for item in ours
        ]
        items += again[::-1] if number % 2 == 0 else again


def _parent(item: pytest.Item) -> pytest.Collector:
    assert item.parent is not None  # every collected test lies in a module
    return item.parent


def pass_name(name: str, number: int) -> str:
    """Return a test's name in pass `number`: the suffix goes into the brackets of its parameters, if it has any."""
    return f"{name[:-1]}-p{number}]" if name.endswith("]") else f"{name}[p{number}]"


def remember_as_tests(config: pytest.Config, items: Sequence[pytest.Item]) -> None:
    """Make pytest's cache remember failed passes under the names of their tests; call it before the cache is written."""
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
    fromkeys: dict[pytest.Item, pytest.Item | None] = dict.fromkeys(items)
    for one, other in itertools.pairwise(items):
        if pass_of(one) == pass_of(other):
            fromkeys[one] = measured(other)
    return fromkeys


def pass_of(item: pytest.Item) -> int:
    """Return the pass an item belongs to, from 1."""
    return getattr(item, "pass_number", 1)


def measured(item: pytest.Item) -> pytest.Item:
    """Return the collected test that an item stands for."""
    return getattr(item, "measured_item", item)
