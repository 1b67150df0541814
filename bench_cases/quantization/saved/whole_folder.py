"""Writes a folder wholly or not at all: into a hidden one first, which takes its place when everything is there."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from bench_cases.quantization.failures import one_line
from roofline_model.core.errors import InvalidValueError, RooflineError


def refuse_filled_folder(folder: str | Path) -> Path:
    """Return the path of a folder that is new or empty; anything else is an `InvalidValueError`."""
    try:
        target = Path(folder)
        is_taken = target.exists() and (not target.is_dir() or any(target.iterdir()))
        leads_nowhere = target.is_symlink() and not target.exists()
    except (OSError, ValueError, TypeError, RuntimeError) as error:  # RuntimeError: a link to itself
        raise InvalidValueError(f"{str(folder)[:200]!r} cannot be a folder to write: {one_line(error)}") from None
    if is_taken:
        raise InvalidValueError(
            f"{target} exists and is not an empty folder: choose another place, nothing was written"
        )
    if leads_nowhere:
        raise InvalidValueError(f"{target} is a link that leads nowhere: choose another place, nothing was written")
    return target


@contextmanager
def whole_folder(target: Path, last: str) -> Iterator[Path]:
    """Give a folder to write into; its files become those of `target` when the block ends without an error.

    target: new or empty (`refuse_filled_folder`). An empty one may be a mount point, so that it stays and the files
    move into it, `last` as the last one: whoever finds that file finds all. On an error nothing is left, created
    parents included, and what is no `RooflineError` becomes an `InvalidValueError` of one line.
    """
    is_new = not target.exists()
    created = [folder for folder in (target, *target.parents) if not folder.exists()][1:] if is_new else []
    partial = (target.parent if is_new else target) / f".{uuid4().hex[:12]}.partial"
    moved: list[Path] = []
    try:
        partial.mkdir(parents=True)
        yield partial
        if is_new:
            partial.rename(target)
        else:
            _move_up(partial, target, last, moved)
    except BaseException as error:
        shutil.rmtree(partial, ignore_errors=True)
        for path in moved:
            _remove(path)
        _remove_empty(created)
        if isinstance(error, RooflineError) or not isinstance(error, Exception):
            raise
        raise InvalidValueError(
            f"{target} cannot be written: {one_line(error)}; nothing was left there, fix that and save again"
        ) from None


def _move_up(partial: Path, target: Path, last: str, moved: list[Path]) -> None:
    for path in sorted(partial.iterdir(), key=lambda path: (path.name == last, path.name)):
        moved.append(target / path.name)
        os.replace(path, target / path.name)
    partial.rmdir()


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _remove_empty(folders: list[Path]) -> None:
    """Remove folders, innermost first, as far as they are empty."""
    for folder in folders:
        try:
            folder.rmdir()
        except OSError:
            return
