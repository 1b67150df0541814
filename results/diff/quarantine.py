"""Cases that are known to be unreliable: judged and shown, but they fail no gate. Read from a TOML file; pure once read.

[[case]]
match = "gemm 512x*-int8pack-*"   # operator and id as the diff shows them, * and ? stand for any; or a case key
reason = "two code paths, chosen by the allocator; issue 41"
until = 2026-12-31                # optional: not applied after that day
"""

from __future__ import annotations

import datetime
import fnmatch
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from roofline_model.errors import DefinitionError

MOST_ENTRIES = 10_000
MOST_BYTES = 2**20
_KEYS = ("match", "reason", "until")


@dataclass(frozen=True, slots=True)
class QuarantineEntry:
    """One line of the list."""

    match: str
    reason: str
    until: datetime.date | None = None
    has_expired: bool = False

    def covers(self, name: str, case_key: str) -> bool:
        """Return whether the entry applies to a case, by its name or by its key."""
        return not self.has_expired and (self.match == case_key or fnmatch.fnmatchcase(name, self.match))


@dataclass(frozen=True, slots=True)
class Quarantine:
    """The whole list."""

    entries: tuple[QuarantineEntry, ...]

    def reason_of(self, name: str, case_key: str) -> str:
        """Return why a case is quarantined; empty where it is not. The first entry that covers it counts."""
        return next((one.reason for one in self.entries if one.covers(name, case_key)), "")

    def unused(self, cases: Iterable[tuple[str, str]]) -> tuple[str, ...]:
        """Return the entries that cover none of these (name, case key), and those that have expired, in words."""
        known = list(cases)
        found = []
        for one in self.entries:
            if one.has_expired:
                found.append(f"{one.match} (expired {one.until})")
            elif not any(one.covers(*case) for case in known):
                found.append(f"{one.match} (matches no case)")
        return tuple(found)


def load_quarantine(path: str | Path, today: datetime.date) -> Quarantine:
    """Read the list. Raises `DefinitionError` naming the file, the entry and what is wrong with it."""
    place = Path(path)
    try:
        if not place.is_file():
            raise DefinitionError(f"{place} is no file: give a quarantine list, see docs/diff.md#quarantine")
        if place.stat().st_size > MOST_BYTES:
            raise DefinitionError(f"{place} is longer than 1 MiB: no list of cases is")
        text = place.read_text(encoding="utf-8")
        return parse_quarantine(tomllib.loads(text), str(place), today)
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise DefinitionError(f"{place} cannot be read ({why}): give a quarantine list in TOML") from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise DefinitionError(f"{place} is not TOML ({str(error)[:120]}); see docs/diff.md#quarantine") from None


def parse_quarantine(document: dict[str, Any], where: str, today: datetime.date) -> Quarantine:
    """Return the list of a parsed file; raises `DefinitionError` as `load_quarantine` does."""
    entries = document.get("case", [])
    if set(document) - {"case"} or not isinstance(entries, list) or not all(isinstance(one, dict) for one in entries):
        raise DefinitionError(f"{where}: a quarantine list holds [[case]] tables with match, reason and until only")
    if len(entries) > MOST_ENTRIES:
        raise DefinitionError(f"{where}: {len(entries):,} entries, more than {MOST_ENTRIES:,}; use patterns with *")
    return Quarantine(tuple(_entry(one, f"{where}: case {number}", today) for number, one in enumerate(entries, 1)))


def _entry(table: dict[str, Any], where: str, today: datetime.date) -> QuarantineEntry:
    if unknown := sorted(set(table) - set(_KEYS)):
        raise DefinitionError(f"{where} has a field {unknown[0][:40]!r}; known: {', '.join(_KEYS)}")
    for name in ("match", "reason"):
        value = table.get(name)
        if not isinstance(value, str) or not value.strip():
            raise DefinitionError(f"{where} has no {name}: write {name} as text, so that the next reader knows")
    until = table.get("until")
    if until is not None and (not isinstance(until, datetime.date) or isinstance(until, datetime.datetime)):
        raise DefinitionError(
            f"{where}: until must be a date such as 2026-12-31 (without quotes), got {str(until)[:40]!r}"
        )
    return QuarantineEntry(table["match"].strip(), table["reason"].strip(), until, until is not None and until < today)
