"""Rescue of results that the database refuses: a file that `roofline import` reads."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from roofline_model.core.errors import StoreError
from roofline_model.core.finding import Finding, finding
from roofline_model.core.whole_file import write_whole

SHOWN_DIGITS = 8
"""Of the run's id in the file's name: as many as the terminal shows."""

MAX_NAME_BYTES = 255
"""Of a file's name, on Linux and most other systems."""


def rescue(document: dict[str, Any], *, run_id: str, database: str, folder: Path, stored_count: int | None) -> Finding:
    """Write an exported run where there is room: beside the database, else in `folder`, else where temporary files go.

    `stored_count` is how many of its records the database holds, None where it cannot be read. Returns what is in the
    database, and where the file is or why there is none.
    """
    count, first_error = len(document["records"]), ""
    for path in _places(run_id, database, folder):
        try:
            write_json(path, document, is_private=True)  # the folder of temporary files is everybody's
        except StoreError as error:
            first_error = first_error or str(error)
            continue
        return finding("results-rescued", file=str(path), record_count=count, stored_count=stored_count or None)
    if stored_count == count:
        return finding("run-end-lost", record_count=count)
    lost_count = count - (stored_count or 0)
    return finding("results-lost", lost_count=lost_count, stored_count=stored_count or None, error=first_error)


def write_json(path: Path, document: dict[str, Any], *, is_private: bool = False) -> None:
    """Write a file in one step: the old one stays until the new one is whole. Raises `StoreError`, leaving no part."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps(document, indent=1, allow_nan=False) + "\n", is_private=is_private)
    except OSError as error:
        raise StoreError(f"{path} cannot be written ({error.strerror})") from None


def _places(run_id: str, database: str, folder: Path) -> Iterator[Path]:
    """Yield the files to try; the run's id tells two lost runs on one database apart."""
    is_file = "://" not in database
    ending = f"{run_id[:SHOWN_DIGITS]}.rescued.json"
    most = MAX_NAME_BYTES - len(ending) - 1
    name = f"{os.fsencode(Path(database).name)[:most].decode(errors='ignore')}.{ending}" if is_file else ending
    folders = [Path(database).parent] if is_file else []
    for target_folder in dict.fromkeys([*folders, folder, Path(tempfile.gettempdir())]):
        yield target_folder / name
