"""Lists that people keep beside the results: TOML files of tables, read with the same limits and the same errors.

Two files are such lists: the quarantine list of `diff` (`diff.quarantine`) and the annotations of `history`.
"""

from __future__ import annotations

import datetime
import fnmatch
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from roofline_model.core.definition_text import parse_definition
from roofline_model.core.errors import DefinitionError

MOST_ENTRIES = 10_000
MOST_BYTES = 2**20


def name_matches(pattern: str, name: str) -> bool:
    """Return whether a pattern of a list is about a name: `*` and `?` stand for any, everything else for itself.

    Names of parametrised tests have brackets, which would be a class of characters otherwise.
    """
    return fnmatch.fnmatchcase(name, pattern.replace("[", "[[]"))


def read_tables(
    path: str | Path, name: str, field_names: Iterable[str], what: str, see: str
) -> list[Mapping[str, Any]]:
    """Return the `[[name]]` tables of a TOML file, in order.

    `field_names`: the fields a table may have; `what`: what the file is, for messages; `see`: where it is explained.
    Raises `DefinitionError` naming file, entry and what is wrong with it.
    """
    file = Path(path)
    try:
        if not file.is_file():
            raise DefinitionError(f"{file} is not a file: give {what}, see {see}")
        if file.stat().st_size > MOST_BYTES:
            raise DefinitionError(f"{file} is longer than 1 MiB: it is not {what}")
        document = parse_definition(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise DefinitionError(f"{file} cannot be read ({why}): give {what} in TOML, see {see}") from None
    except ValueError as error:
        raise DefinitionError(f"{file} is not TOML ({str(error)[:120]}); see {see}") from None
    tables = document.get(name, [])
    if set(document) - {name} or not isinstance(tables, list) or not all(isinstance(entry, dict) for entry in tables):
        raise DefinitionError(f"{file}: {what} holds [[{name}]] tables only; see {see}")
    if len(tables) > MOST_ENTRIES:
        raise DefinitionError(f"{file}: {len(tables):,} entries, more than {MOST_ENTRIES:,}; use patterns with *")
    fields = set(field_names)
    for number, table in enumerate(tables, 1):
        if unknown := sorted(set(table) - fields):
            raise DefinitionError(
                f"{file}: {name} {number} has a field {unknown[0][:40]!r}; known: {', '.join(sorted(fields))}"
            )
    return tables


def table_text(table: Mapping[str, Any], name: str, where: str) -> str:
    """Return a text that every entry must have, stripped. Raises `DefinitionError`, where it is missing, blank or no
    text.
    """
    value = table.get(name)
    if not isinstance(value, str) or not value.strip():
        raise DefinitionError(f"{where} has no {name}: write {name} as text, for the next reader")
    return value.strip()


def table_day(table: Mapping[str, Any], name: str, where: str) -> datetime.date | None:
    """Return a day that an entry may have, or None.

    Raises `DefinitionError` for anything else, a time of day included.
    """
    value = table.get(name)
    if value is not None and (not isinstance(value, datetime.date) or isinstance(value, datetime.datetime)):
        raise DefinitionError(
            f"{where}: {name} must be a date such as 2026-12-31 (without quotes), got {str(value)[:40]!r}"
        )
    return value
