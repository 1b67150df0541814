"""Writing what a user asked for with -o: never over a database, and never half a file.

Output goes to a temporary file in the same folder first and takes its name when it is complete.
"""

from __future__ import annotations

import os
import shutil
import signal
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from roofline_model.core.errors import InvalidValueError
from roofline_model.core.whole_file import held_folder

SQLITE_MAGIC = b"SQLite format 3\x00"
"""The first 16 bytes of every SQLite database (https://www.sqlite.org/fileformat2.html)."""

_SIDE_FILES = ("-wal", "-shm", "-journal")


@contextmanager
def one_line_errors(path: Path, option: str = "-o", kind: str = "file") -> Iterator[None]:
    """Turn an `OSError` on the output into `InvalidValueError` naming the path (shortened) and the option to change.

    `kind` is what the option names: a file or a folder.
    """
    try:
        yield
    except OSError as error:
        shown = str(path) if len(str(path)) <= 160 else f"{str(path)[:160]}…"
        raise InvalidValueError(
            f"{shown} cannot be written: {error.strerror or error}; name another {kind} with {option}"
        ) from None


def check_output(path: Path, database: Path | None, option: str = "-o") -> None:
    """Raise `InvalidValueError` when `path` cannot be written, or would destroy the results or any other SQLite
    database.

    Asked before the work, so that a slip in a name does not cost it. `database` is the file of the results database,
    None when it is not a file; `option` is what the user gave the path with.
    """
    with one_line_errors(path, option):
        if path.is_dir():
            raise InvalidValueError(f"{path} is a folder; name a file with {option}")
        # realpath, not the name: a link to the database is the database.
        place = os.path.realpath(path)
        for database_path in () if database is None else (str(database), os.path.realpath(database)):
            if place in {os.path.realpath(database_path + suffix) for suffix in ("", *_SIDE_FILES)}:
                raise InvalidValueError(
                    f"{path} is the results database: it is not overwritten; name another file with {option}"
                )
        base = next((place.removesuffix(suffix) for suffix in _SIDE_FILES if place.endswith(suffix)), place)
        if _is_sqlite(place) or _is_sqlite(base):
            raise InvalidValueError(
                f"{path} belongs to a SQLite database: it is not overwritten; name another file with {option}"
            )
        folder = Path(place).parent if path.is_symlink() else path.parent
        if not folder.is_dir():
            raise InvalidValueError(
                f"{path} cannot be written: there is not a folder {folder}; name another file with {option}"
            )


def is_stream(path: Path) -> bool:
    """Return whether a path is a device or a pipe such as /dev/stdout, or a link to whatever a shell opened there."""
    return path.absolute().parts[1:2] in (("dev",), ("proc",)) or (path.exists() and not path.is_file())


def is_stdout(path: Path) -> bool:
    """Return whether a path is what this process prints into (/dev/stdout): nothing else may be said there."""
    try:
        return os.path.samestat(path.stat(), os.fstat(1))
    except OSError:  # no such file yet, or no output at all
        return False


def check_is_not_input(path: Path, inputs: dict[str, Path], option: str = "-o") -> None:
    """Raise `InvalidValueError` when `path` is one of the files the command reads, by name or by link; keys say what
    they are.
    """
    with one_line_errors(path, option):
        for what, read in inputs.items():
            if path.exists() and read.exists() and path.samefile(read):
                raise InvalidValueError(f"{path} is {what}: it is not overwritten; name another file with {option}")


def write_text(path: Path, text: str, option: str = "-o") -> None:
    """Write a file, all or nothing; raises `InvalidValueError` naming the path when that is impossible.

    A device or a pipe (/dev/stdout) is written to directly: it cannot be replaced.
    """
    with written_file(path, option) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="")


@contextmanager
def written_file(path: Path, option: str = "-o") -> Iterator[Path]:
    """Give a temporary name with the ending of `path`; what is written there becomes `path`, or nothing does after an
    error.

    A device or a pipe gets the bytes at the end: it cannot be replaced. Raises `InvalidValueError` naming the path.
    """
    with one_line_errors(path, option):
        if path.exists() and not path.is_file():
            with held_folder("roofline-") as elsewhere:
                temporary = elsewhere / f"output{path.suffix}"
                yield temporary
                with temporary.open("rb") as source, path.open("wb") as target:
                    shutil.copyfileobj(source, target)
            return
        # realpath: a link stays a link, and the folder of its target is on the file system to be written.
        place = Path(os.path.realpath(path))
        with _beside(place) as folder:
            temporary = folder / f"output{path.suffix}"
            yield temporary
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
    with held_folder(".roofline-", place.parent) as folder, _stopped_by_an_exception():
        yield folder


_ENDING_SIGNALS = [
    signal_number for name in ("SIGTERM", "SIGHUP") if (signal_number := getattr(signal, name, None)) is not None
]
"""What ends a program that could still tidy up: asked to, or its terminal closed (no SIGHUP on Windows)."""


@contextmanager
def _stopped_by_an_exception() -> Iterator[None]:
    """Let SIGTERM and SIGHUP raise `SystemExit` meanwhile, so that the temporary folder goes; another's handler
    stays.
    """
    is_main = threading.current_thread() is threading.main_thread()
    ours = [
        ending_signal
        for ending_signal in _ENDING_SIGNALS
        if is_main and signal.getsignal(ending_signal) is signal.SIG_DFL
    ]
    for our in ours:
        signal.signal(our, _exit_on)
    try:
        yield
    finally:
        for our in ours:
            signal.signal(our, signal.SIG_DFL)


def _exit_on(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


def _take_name(temporary: Path, place: Path) -> None:
    """Replace `place`, keeping the permissions of the file that was there."""
    if place.exists():
        temporary.chmod(stat.S_IMODE(place.stat().st_mode))
    if temporary.stat().st_dev != place.parent.stat().st_dev:
        # A link led to another file system, where a name cannot be moved to: copied there first, then named.
        with _beside(place) as folder:
            os.replace(shutil.copy(temporary, folder / "output"), place)
        return
    os.replace(temporary, place)


def _is_sqlite(path: str) -> bool:
    if not os.path.isfile(path):
        return False
    try:
        with open(path, "rb") as file:
            return file.read(len(SQLITE_MAGIC)) == SQLITE_MAGIC
    except PermissionError:  # not ours to read: writing it will say so
        return False
