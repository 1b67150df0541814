"""The error tree of the whole project: every message says what was asked, what is known, what to do next.

RooflineError                    base; carries a slug that docs/reference/errors.md explains
├── UnknownNameError             a chip, format, shape set, model or run nobody knows (nearest names are given)
├── InvalidValueError            a number, shape or option outside its range
├── DefinitionError              a chip or format file that is missing, negative, textual or unknown somewhere
│   └── OtherVersionError        … because another version wrote it
├── UnsupportedError             this chip, device or library cannot do what was asked
├── MissingDependencyError       an optional package is absent (the message holds the install command)
└── StoreError                   the results database cannot be opened, read or written
    └── DatabaseAwayError        … now, and may be later: its server is away
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any


class RooflineError(Exception):
    """An error that the user can correct. `str(error)` is one line; `slug` names its section in
    docs/reference/errors.md.
    """

    slug = "error"

    def __reduce__(self) -> tuple[Any, ...]:
        # Exceptions are rebuilt from `args`, the finished message; subclasses here take the parts it is made of.
        return _rebuilt, (type(self), str(self), dict(self.__dict__))


class UnknownNameError(RooflineError, KeyError):
    """A name that is not in a registry. Also a `KeyError`, so that mapping-like use keeps working."""

    slug = "unknown-name"

    def __init__(
        self, kind: str, requested: str, known_names: Iterable[str], *, aliases: Iterable[str] = (), fix: str = ""
    ) -> None:
        """`aliases`: other names of the same things; they may be the nearest, and are not listed."""
        names = sorted(known_names)
        nearest = nearest_names(requested, [*names, *sorted(aliases)])
        hint = f"Did you mean {' or '.join(nearest)}?" if nearest else f"Known: {_listed(names)}."
        # An unknown name comes from a command line, so it is shown cut and quoted, never raw.
        super().__init__(f"unknown {kind} {_quoted(requested)}. {hint}{' ' + fix if fix else ''}")
        self.slug = f"unknown-{kind.replace(' ', '-')}"
        self.nearest = tuple(nearest)

    def __str__(self) -> str:  # KeyError would print the repr of the message
        return str(self.args[0])


_LISTED_COUNT, _LISTED_CHARACTERS = 24, 320
"""Names of a registry that an error lists, at most, and their characters: one screen, not a wall."""


def _listed(names: Sequence[str]) -> str:
    count = length = 0
    while count < min(len(names), _LISTED_COUNT) and length + len(names[count]) <= _LISTED_CHARACTERS:
        length += len(names[count]) + 2
        count += 1
    first = names[: max(count, 1)]
    return ", ".join(names) if len(first) == len(names) else f"{', '.join(first)}, … ({len(names)} in all)"


class InvalidValueError(RooflineError, ValueError):
    """A value outside its allowed range or of the wrong type."""

    slug = "invalid-value"


class DefinitionError(RooflineError, ValueError):
    """A definition file (chip or format TOML) that cannot be accepted; names file, field and reason."""

    slug = "definition"


class OtherVersionError(DefinitionError):
    """A definition with a field that this version does not know, or without one that it needs."""


class UnsupportedError(RooflineError):
    """Something this chip, device or library version cannot do."""

    slug = "unsupported"
    finding: object = None
    """The `core.finding.Finding` that says why, where there is one."""

    def __init__(self, message: str, finding: object = None) -> None:
        super().__init__(message)
        self.finding = finding


class MissingDependencyError(RooflineError, ImportError):
    """An optional package is not installed."""

    slug = "missing-dependency"

    def __init__(self, package: str, extra: str, purpose: str, *, command: str = "") -> None:
        super().__init__(f"{purpose} needs {package}: " + (command or f"pip install -e '.[{extra}]'"))


class StoreError(RooflineError):
    """The results database cannot be used as asked."""

    slug = "store"


class OldSchemaError(StoreError):
    """An older version wrote the database, and a reading command does not change it."""

    slug = "old-schema"


class DatabaseAwayError(StoreError):
    """The database is unreachable for now. The results are sound and can be stored later."""

    slug = "database-away"


def _rebuilt(kind: type[RooflineError], message: str, state: dict[str, Any]) -> RooflineError:
    """Return the error that was pickled (a worker process hands it to its parent) or copied."""
    error = kind.__new__(kind, message)
    RooflineError.__init__(error, message)
    error.__dict__.update(state)
    return error


_NEAR_RATIO = 0.4
"""Edits per typed character, at most, of a name that is near."""
_INSERTION_COST = 0.4
"""Of a character that the user left out: people shorten names (`llama-9b` for `llama-3.1-8b`).

Any other edit costs 1.
"""
_LONGEST_TYPED = 80
_MOST_COMPARED = 200
"""Names that are compared edit by edit: those that lack fewest of the typed characters."""


def nearest_names(requested: str, known_names: Iterable[str], count: int = 3) -> list[str]:
    """Return up to `count` known names that are a few edits from `requested` or contain it, nearest first; case does
    not count.
    """
    typed = requested.lower()[:_LONGEST_TYPED]
    limit = max(_NEAR_RATIO * len(typed), 2 * _INSERTION_COST)
    letters = Counter(typed)
    candidates: Iterable[str] = dict.fromkeys(known_names)
    candidates = heapq.nsmallest(
        _MOST_COMPARED, candidates, key=lambda name: ((letters - Counter(name.lower())).total(), len(name))
    )
    ranked: list[tuple[float, int, int, str]] = []
    for name in candidates:
        lower = name.lower()
        cost = _edit_cost(typed, lower, limit)
        if cost > limit and len(typed) > 2 and typed in lower:
            cost = limit
        if typed and cost <= limit:
            # Of names as near as each other the one with the nearest version number: `fa4` for `fa5`, not `fa1`.
            distance = sum(abs(ord(letter) - ord(other)) for letter, other in zip(typed, lower, strict=False))
            ranked.append((cost, abs(len(lower) - len(typed)), distance, name))
    names = {name.lower(): name for *_, name in sorted(ranked, reverse=True)}
    return list(reversed(names.values()))[:count]


def _edit_cost(typed: str, name: str, limit: float) -> float:
    """Return the edits that make `name` of `typed`, neighbours that changed places as one; `inf` above `limit`."""
    missing_count = (Counter(typed) - Counter(name)).total()
    if missing_count > limit or (len(name) - len(typed)) * _INSERTION_COST > limit:
        return math.inf  # no need to look: every character that the name has not is an edit
    before: list[float] = []
    row = [column * _INSERTION_COST for column in range(len(name) + 1)]
    for index, character in enumerate(typed):
        above, before = before, row
        row = [index + 1.0]
        for column, wanted in enumerate(name):
            cost = min(before[column + 1] + 1, row[column] + _INSERTION_COST, before[column] + (character != wanted))
            if index and column and character == name[column - 1] and typed[index - 1] == wanted:
                cost = min(cost, above[column - 1] + 1)
            row.append(cost)
        if min(row) > limit:
            return math.inf
    return row[-1]


def _quoted(text: str, limit: int = 60) -> str:
    printable = "".join(ch if ch.isprintable() else "?" for ch in text[: limit + 1])
    return f"'{printable[:limit]}…'" if len(printable) > limit else f"'{printable}'"
