"""Annotations: expected changes with their reasons, from a TOML file; an annotated change is no alert.

[[annotation]]
match = "gemv *"                      # operator and id, * and ? stand for any; or a case key
reason = "expected: driver 590"
on = 2026-11-20                       # the day it happened; or
commit = "395a8f7"                    # the commit whose night began the new level
metric = "time"                       # optional: only this one
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from results.records.metrics import METRICS
from results.watch.lists import name_matches, read_tables, table_day, table_text
from roofline_model.core.errors import DefinitionError

SEE = "docs/reference/history.md#annotations"
_FIELDS = ("match", "reason", "on", "commit", "metric")


@dataclass(frozen=True, slots=True)
class Annotation:
    """One entry of the list: it covers changes of the cases it matches, by day or by commit."""

    match: str
    """Operator and id of a case, * and ? stand for any; or a case key."""
    reason: str
    """Why the change was expected."""
    on: datetime.date | None = None
    """The day it happened; null: any."""
    commit: str = ""
    """Commit whose night began the new level; empty: any."""
    metric: str = ""
    """Empty: every metric."""

    def covers_case(self, name: str, case_key: str) -> bool:
        """Return whether it is about this case: `name` is operator and id."""
        return self.match == case_key or name_matches(self.match, name)

    def covers(self, metric: str, first_day: str, last_day: str, commits: Sequence[str | None]) -> bool:
        """Return whether it is about a change between two days (ISO dates, both included) that these commits
        brought.
        """
        if self.metric not in ("", metric):
            return False
        if self.on is not None and not first_day <= self.on.isoformat() <= last_day:
            return False
        return not self.commit or any(commit is not None and commit.startswith(self.commit) for commit in commits)


def load_annotations(path: str | Path) -> tuple[Annotation, ...]:
    """Read the list. Raises `DefinitionError` naming the file, the entry and what is wrong with it."""
    tables = read_tables(path, "annotation", _FIELDS, "an annotation list", SEE)
    return tuple(_annotation(table, f"{path}: annotation {number}") for number, table in enumerate(tables, 1))


def _annotation(table: Mapping[str, Any], where: str) -> Annotation:
    match, reason, on = (
        table_text(table, "match", where),
        table_text(table, "reason", where),
        table_day(table, "on", where),
    )
    commit, metric = table.get("commit", ""), table.get("metric", "")
    if not isinstance(commit, str) or (commit and re.fullmatch(r"[0-9a-fA-F]{4,40}", commit) is None):
        raise DefinitionError(f"{where}: commit must be 4 to 40 hex digits in quotes, got {str(commit)[:40]!r}")
    if on is None and not commit:
        raise DefinitionError(
            f"{where} says neither when (on = 2026-11-20) nor which commit: it would silence everything"
        )
    if metric not in ("", *METRICS):
        raise DefinitionError(f"{where}: metric must be one of {', '.join(METRICS)}, got {str(metric)[:40]!r}")
    return Annotation(match, reason, on, commit.lower(), metric)
