"""May two sides be compared at all, and what differs between them although they may? Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
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
    permitted = set(allowed)
    rows = [
        _difference(
            "chip",
            _values(before, lambda run: run.hardware_key),
            _values(after, lambda run: run.hardware_key),
            "chip" not in permitted,
        ),
        _difference(
            "forced",
            _values(before, lambda run: run.is_forced),
            _values(after, lambda run: run.is_forced),
            "forced" not in permitted,
        ),
    ]
    classes = dict.fromkeys(name for run in (*before, *after) for name in run.environment.class_facts)
    for name in classes:
        sides = [
            _values(side, lambda run, name=name: run.environment.class_facts.get(name)) for side in (before, after)
        ]
        rows += _parts(name, sides[0], sides[1], name not in permitted)
    facts = dict.fromkeys(name for run in (*before, *after) for name in run.environment.facts)
    for name in facts:
        if name not in classes and name not in _MOVING_FACTS:
            # Some facts are known only to a process that had loaded torch: stored as None they are no difference.
            sides = [
                _values(
                    [run for run in side if run.environment.facts.get(name, "") is not None],
                    lambda run, name=name: run.environment.facts.get(name),
                )
                for side in (before, after)
            ]
            if all(sides):
                rows += _parts(name, sides[0], sides[1], False)
    rows.append(_difference("commit", _values(before, _commit), _values(after, _commit), False))
    rows.append(
        _difference(
            "branch", _values(before, lambda run: run.git_branch), _values(after, lambda run: run.git_branch), False
        )
    )
    differing = [row for row in rows if row is not None]
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


def _parts(name: str, before: list[Any], after: list[Any], is_blocking: bool) -> list[Difference | None]:
    """Return the difference of a fact; of one that is itself a table, the differences of its entries."""
    if len(before) == len(after) == 1 and isinstance(before[0], Mapping) and isinstance(after[0], Mapping):
        return [
            _difference(f"{name}.{key}", [before[0].get(key)], [after[0].get(key)], is_blocking)
            for key in dict.fromkeys((*before[0], *after[0]))
        ]
    return [_difference(name, before, after, is_blocking)]


def _difference(name: str, before: list[Any], after: list[Any], is_blocking: bool) -> Difference | None:
    old, new = ("; ".join(plain_fact(value) for value in side) for side in (before, after))
    return None if old == new else Difference(name, _cut(old), _cut(new), is_blocking)


def _values(side: Sequence[RunInfo], get: Any) -> list[Any]:
    """Return the distinct values of a side's runs, in order."""
    values: list[Any] = []
    for run in side:
        value = get(run)
        if value not in values:
            values.append(value)
    return values


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
