"""Files to import, and a store to import them into."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from results.store.store import ResultStore, open_store


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, Any], Path]:
    """Write a file: text as it is, anything else as JSON."""

    def made(name: str, content: Any) -> Path:
        path = tmp_path / name
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
        return path

    return made


@pytest.fixture
def empty_store(sqlite_with_tables: Path, tmp_path: Path) -> Iterator[ResultStore]:
    path = tmp_path / "here.db"
    shutil.copy(sqlite_with_tables, path)
    with open_store(path) as opened:
        yield opened
