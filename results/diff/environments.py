"""May two sides be compared at all, and what differs between them although they may? Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from results.records.records import Method, RunInfo

_MOVING_FACTS = frozenset(
    {"load_1min", "warnings", "git", "cpu_clock_hz", "uptime_s", "memory_available_bytes", "temperature_c"}
)
"""Facts of the moment; the measurements carry what they did to them."""
_SHOWN_CHARACTERS = 80


@dataclass(frozen=True, slots=True)
class Difference:
    """One fact that differs."""

    name: str
    """Name of the fact."""
    before: str
    """Its value on the earlier side."""
    after: str
    """Its value on the later side."""
    is_blocking: bool
    """Whether the sides are not comparable for it."""

    @property
    def text(self) -> str:
        """`driver 580.95 → 590.12`."""
        return f"{self.name} {self.before} → {self.after}"


def differences(
    before: Sequence[RunInfo], after: Sequence[RunInfo], allowed: Iterable[str] = ()
) -> tuple[Difference, ...]:
    """Return the differences between the environments of two sides, blocking ones first.

    Blocking: the chip asked for, measured by force or not, and every fact of the environment class, unless its name is
    in `allowed` (`chip`, `forced`, or a fact's). Other facts (host, kernel, Python, commit) are told, never blocking.
    """
    permitted, runs = set(allowed), (*before, *after)
    classes = dict.fromkeys(name for run in runs for name in run.environment.class_facts)
    facts = dict.fromkeys(name for run in runs for name in run.environment.facts)

    def values(get: Callable[[RunInfo], Any]) -> list[list[Any]]:
        return [_distinct(map(get, side)) for side in (before, after)]

    rows = [("chip", values(lambda run: run.hardware_key), True), ("forced", values(lambda run: run.is_forced), True)]
    rows += [
        (name, [_distinct(run.environment.class_facts.get(name) for run in side) for side in (before, after)], True)
        for name in classes
    ]
    for name in facts:
        # Some facts are known only to a process that had loaded torch: stored as None they are no difference.
        sides = [_distinct(run.environment.facts.get(name, "") for run in side) for side in (before, after)]
        known_sides = [[value for value in side if value is not None] for side in sides]
        if name not in classes and name not in _MOVING_FACTS and all(known_sides):
            rows.append((name, known_sides, False))
    rows += [("commit", values(_commit), False), ("branch", values(lambda run: run.git_branch), False)]
    differing = [
        difference
        for name, (old, new), is_class in rows
        for difference in _differing(name, old, new, is_class and name not in permitted)
    ]
    return tuple(sorted(differing, key=lambda difference: not difference.is_blocking))


def method_difference(before: Method | None, after: Method | None) -> list[str]:
    """Return the differences between two methods, timer, version and settings by name: `version 1 → 2`; `none` for a
    setting that one of them does not have.
    """
    old, new = (
        {} if side is None else {"timer": side.timer, "version": side.version, **side.settings}
        for side in (before, after)
    )
    names = dict.fromkeys((*old, *new))
    return [f"{name} {_setting(old, name)} → {_setting(new, name)}" for name in names if old.get(name) != new.get(name)]


def _setting(settings: Mapping[str, Any], name: str) -> str:
    return _cut(plain_fact(settings[name])) if name in settings else "none"


def _differing(name: str, before: list[Any], after: list[Any], is_blocking: bool) -> Iterator[Difference]:
    """Yield the difference of a fact; of one that is itself a table, the differences of its entries."""
    facts = [(name, before, after)]
    if len(before) == len(after) == 1 and isinstance(before[0], Mapping) and isinstance(after[0], Mapping):
        keys = dict.fromkeys((*before[0], *after[0]))
        facts = [(f"{name}.{key}", [before[0].get(key)], [after[0].get(key)]) for key in keys]
    for fact, *sides in facts:
        old, new = ("; ".join(map(plain_fact, side)) for side in sides)
        if old != new:
            yield Difference(fact, _cut(old), _cut(new), is_blocking)


def _distinct(values: Iterable[Any]) -> list[Any]:
    """Return each value once, in order; tables have no hash."""
    distinct: list[Any] = []
    for value in values:
        if value not in distinct:
            distinct.append(value)
    return distinct


def _commit(run: RunInfo) -> str | None:
    return None if run.git_commit is None else run.git_commit[:9] + ("+" if run.git_is_dirty else "")


def plain_fact(value: Any) -> str:
    """Return a fact as text: `NAME=value` for each entry of a table; `unknown` for none."""
    if value is None or value == "":
        return "unknown"
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={entry}" for name, entry in sorted(value.items()))
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[: _SHOWN_CHARACTERS - 1]}…"
