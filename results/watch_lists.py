"""Lists that people keep beside the results: TOML files of tables, read with the same limits and the same errors.

Who reads one: the annotations of `history`. (The quarantine list of `diff` has a reader of its own, `diff.quarantine`.)
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from roofline_model.errors import DefinitionError

MOST_ENTRIES = 10_000
MOST_BYTES = 2**20


def read_tables(path: str | Path, name: str, known: Iterable[str], what: str, see: str) -> list[Mapping[str, Any]]:
    """Return the `[[name]]` tables of a TOML file, in order.

    `known`: the fields a table may have; `what`: what the file is, for messages; `see`: where it is explained. Raises
    `DefinitionError` naming file, entry and what is wrong with it.
    """
    place = Path(path)
    try:
        if not place.is_file():
            raise DefinitionError(f"{place} is no file: give {what}, see {see}")
        if place.stat().st_size > MOST_BYTES:
            raise DefinitionError(f"{place} is longer than 1 MiB: it is not {what}")
        document = tomllib.loads(place.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise DefinitionError(f"{place} cannot be read ({why}): give {what} in TOML, see {see}") from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise DefinitionError(f"{place} is not TOML ({str(error)[:120]}); see {see}") from None
    tables = document.get(name, [])
    if set(document) - {name} or not isinstance(tables, list) or not all(isinstance(one, dict) for one in tables):
        raise DefinitionError(f"{place} may hold [[{name}]] tables only; see {see}")
    if len(tables) > MOST_ENTRIES:
        raise DefinitionError(f"{place}: {len(tables):,} entries, more than {MOST_ENTRIES:,}; use patterns with *")
    fields = set(known)
    for number, table in enumerate(tables, 1):
        if unknown := sorted(set(table) - fields):
            raise DefinitionError(
                f"{place}: {name} {number} has a field {unknown[0][:40]!r}; known: {', '.join(sorted(fields))}"
            )
    return tables
