"""Cases that are known to be unreliable: judged and shown, but they fail no gate. Read from a TOML file; pure once
read.

[[case]]
match = "gemm 512x*-int8pack-*"   # operator and id as `roofline show` prints them, * and ? stand for any; or a case key
reason = "two code paths, chosen by the allocator; issue 41"
until = 2026-12-31                # optional: not applied after that day
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from results.watch.lists import name_matches, read_tables, table_day, table_text
from roofline_model.core.finding import Finding, finding

SEE = "docs/reference/diff.md#quarantine"
_FIELDS = ("match", "reason", "until")


@dataclass(frozen=True, slots=True)
class QuarantineEntry:
    """One line of the list."""

    match: str
    reason: str
    until: datetime.date | None = None
    has_expired: bool = False

    def covers(self, name: str, case_key: str) -> bool:
        """Return whether the entry applies to a case, by its name or by its key."""
        return not self.has_expired and (self.match == case_key or name_matches(self.match, name))


@dataclass(frozen=True, slots=True)
class Quarantine:
    """The whole list."""

    entries: tuple[QuarantineEntry, ...]

    def reason_of(self, name: str, case_key: str) -> str:
        """Return why a case is quarantined; empty where it is not. The first entry that covers it counts."""
        return next((entry.reason for entry in self.entries if entry.covers(name, case_key)), "")

    def unused(self, cases: Iterable[tuple[str, str]]) -> tuple[Finding, ...]:
        """Return the entries that cover none of these (name, case key), and those that have expired."""
        listed = list(cases)
        findings = []
        for entry in self.entries:
            if entry.has_expired:
                findings.append(
                    finding("entry-unused", f"quarantine {entry.match}", kind="expired", until=str(entry.until))
                )
            elif not any(entry.covers(*case) for case in listed):
                findings.append(finding("entry-unused", f"quarantine {entry.match}", kind="unmatched"))
        return tuple(findings)


def load_quarantine(path: str | Path, today: datetime.date) -> Quarantine:
    """Read the list. Raises `DefinitionError` naming the file, the entry and what is wrong with it."""
    tables = read_tables(path, "case", _FIELDS, "a quarantine list", SEE)
    return Quarantine(tuple(_entry(table, f"{path}: case {number}", today) for number, table in enumerate(tables, 1)))


def _entry(table: Mapping[str, Any], where: str, today: datetime.date) -> QuarantineEntry:
    match, reason, until = (
        table_text(table, "match", where),
        table_text(table, "reason", where),
        table_day(table, "until", where),
    )
    return QuarantineEntry(match, reason, until, until is not None and until < today)
