"""Writing what a user asked for with -o: never over a database, and never half a file.

Output goes to a temporary file in the same folder first and takes its name when it is complete.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from roofline_model.errors import InvalidValueError

SQLITE_MAGIC = b"SQLite format 3\x00"
"""The first 16 bytes of every SQLite database (https://www.sqlite.org/fileformat2.html)."""

_SIDE_FILES = ("-wal", "-shm", "-journal")


@contextmanager
def one_line_errors(path: Path) -> Iterator[None]:
    """Turn an `OSError` on the output into `InvalidValueError` naming the path (shortened) and what to do."""
    try:
        yield
    except OSError as error:
        shown = str(path) if len(str(path)) <= 160 else f"{str(path)[:160]}…"
        raise InvalidValueError(
            f"{shown} cannot be written: {error.strerror or error}; name another file with -o"
        ) from None


def check_output(path: Path, database: Path | None) -> None:
    """Raise `InvalidValueError` when writing `path` would destroy the results database, or any other SQLite database.

    `database` is the file of the results database, None when it is not a file.
    """
    with one_line_errors(path):
        if path.is_dir():
            raise InvalidValueError(f"{path} is a folder; name a file with -o")
        # realpath, not the name: a link to the database is the database.
        place = os.path.realpath(path)
        for known in () if database is None else (str(database), os.path.realpath(database)):
            if place in {os.path.realpath(known + suffix) for suffix in ("", *_SIDE_FILES)}:
                raise InvalidValueError(
                    f"{path} is the results database: it is not overwritten; name another file with -o"
                )
        base = next((place.removesuffix(suffix) for suffix in _SIDE_FILES if place.endswith(suffix)), place)
        if _is_sqlite(place) or _is_sqlite(base):
            raise InvalidValueError(
                f"{path} belongs to a SQLite database: it is not overwritten; name another file with -o"
            )


def write_text(path: Path, text: str) -> None:
    """Write a file, all or nothing; raises `InvalidValueError` naming the path when that is impossible.

    A device or a pipe (/dev/stdout) is written to directly: it cannot be replaced.
    """
    with one_line_errors(path):
        if path.exists() and not path.is_file():
            path.write_text(text, encoding="utf-8", newline="")
            return
        place = Path(os.path.realpath(path))
        with _beside(place) as folder:
            temporary = folder / "output"
            temporary.write_text(text, encoding="utf-8", newline="")
            _take_name(temporary, place)


@contextmanager
def written_together(place: Path) -> Iterator[Path]:
    """Give a temporary folder; what was written there moves beside `place` at the end, or not at all after an error."""
    with _beside(place) as folder:
        yield folder
        for file in sorted(folder.iterdir()):
            _take_name(file, Path(os.path.realpath(place.parent / file.name)))


@contextmanager
def _beside(place: Path) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix=".roofline-", dir=place.parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _take_name(temporary: Path, place: Path) -> None:
    """Replace `place`, keeping the permissions of the file that was there."""
    if place.exists():
        temporary.chmod(stat.S_IMODE(place.stat().st_mode))
    os.replace(temporary, place)


def _is_sqlite(path: str) -> bool:
    if not os.path.isfile(path):
        return False
    try:
        with open(path, "rb") as file:
            return file.read(len(SQLITE_MAGIC)) == SQLITE_MAGIC
    except PermissionError:  # not ours to read: writing it will say so
        return False
