"""Read and write the text of a definition file (chip, format, strategy, losses) that a user names, and nothing that is
not one.

A path may come from a command line or an environment variable, so it may be a FIFO that never answers, a device that
never ends, or a file of any size and depth. Everything refused here is refused in one line.
"""

from __future__ import annotations

import json
import os
import re
import stat
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from roofline_model.core.errors import DefinitionError, InvalidValueError, RooflineError
from roofline_model.core.units import format_bytes
from roofline_model.core.whole_file import write_whole

MAX_FILE_BYTES = 1024**2
"""Longest definition file that is read. The longest of the registry is a hundred times shorter."""


def read_definition_text(path: Path, what: str, fix: str, *, most_bytes: int = MAX_FILE_BYTES) -> str:
    """Return the text of a UTF-8 file, with or without a byte-order mark.

    `what` (chip file, format file) and `fix` (what to give instead) go into the message. Raises
    `DefinitionError` when `path` is absent, no regular file, longer than `most_bytes` or not UTF-8.
    """
    shown = shortened(str(path))
    try:
        # Looked at before it is opened: opening a FIFO waits for a writer, and reading a device may never end.
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode):
            kind = "a folder" if stat.S_ISDIR(mode) else "not a regular file"
            raise DefinitionError(f"{what} {shown} is {kind}: it cannot be read; {fix}")
        with path.open("rb") as stream:
            content = stream.read(most_bytes + 1)
        if len(content) > most_bytes:
            raise DefinitionError(f"{what} {shown} is longer than {format_bytes(most_bytes)}: no definition is")
        return content.decode("utf-8-sig")
    except DefinitionError:  # a ValueError too, and not to be wrapped again
        raise
    except FileNotFoundError:
        raise DefinitionError(f"{what} {shown} does not exist; {fix}") from None
    except (OSError, ValueError) as error:  # ValueError: not UTF-8, or a NUL in the path
        reason = getattr(error, "strerror", None) or error
        raise DefinitionError(f"{what} {shown} cannot be read: {reason}") from None


MAX_KEY_PARTS = 32
"""Parts of a dotted TOML key. The parser stores every prefix of a key: one of 20,000 parts would take 1.6 GB."""
_KEY_PART = r"""(?:[A-Za-z0-9_-]++|"[^"\n]*+"|'[^'\n]*+')"""
# Looks from the start of a key only, and never twice at a part: linear in the text.
_DEEP_KEY = re.compile(rf"""(?<![A-Za-z0-9_."'-]){_KEY_PART}(?:[ \t]*+\.[ \t]*+{_KEY_PART}){{{MAX_KEY_PARTS},}}+""")


MAX_DIGITS = 4_300
"""Of a whole number: Python's own limit, which can be switched off. Beyond it the time grows with the square."""
_LONG_NUMBER = re.compile(rf"[=,\[]\s*+[+-]?[0-9_]{{{MAX_DIGITS},}}")


def whole_number(text: str) -> int:
    """Return a whole number of JSON; raises `ValueError` for one of very many digits, before it is worked out."""
    if len(text) > MAX_DIGITS:
        raise ValueError(f"a whole number of {len(text):,} digits, more than {MAX_DIGITS:,}")
    return int(text)


def parse_definition(text: str) -> dict[str, Any]:
    """Parse TOML; raises `ValueError` with one reason for anything that is not, deep nesting included."""
    if _DEEP_KEY.search(text):
        raise ValueError(f"nested too deeply: a key has more than {MAX_KEY_PARTS} parts")
    if (match := _LONG_NUMBER.search(text)) is not None:
        raise ValueError(
            f"a whole number of more than {MAX_DIGITS:,} digits, line {text.count(chr(10), 0, match.start()) + 1}"
        )
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def parse_json_definition(text: str, what: str) -> Any:
    """Parse JSON; raises `ValueError` with one reason, also for a field given twice, NaN and deep nesting.

    `what` is what the text defines (a strategy).
    """

    def no_number(name: str) -> Any:
        raise ValueError(f"{name} is not a number of {what}")

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        table = dict(pairs)
        if len(table) < len(pairs):
            seen: set[str] = set()
            twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
            raise ValueError(f"{shown(twice)} is given twice")
        return table

    try:
        return json.loads(text, object_pairs_hook=unique, parse_constant=no_number, parse_int=whole_number)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def json_document(text: str, where: str, what: str, schema: int, known_names: Iterable[str]) -> dict[str, Any]:
    """Return the fields of a JSON file of this schema; raises `DefinitionError` beginning with `where`."""
    try:
        data = parse_json_definition(text, what)
    except ValueError as error:
        raise DefinitionError(f"{where}: not valid JSON: {error}") from None
    if not isinstance(data, dict):
        raise DefinitionError(f"{where}: expected an object of fields, got {shown(data)}")
    given = data.get("schema")
    if given != schema or isinstance(given, bool):
        raise DefinitionError(
            f"{where}: schema must be {schema}, got {shown(given)} (a newer file needs a newer roofline-bench)"
        )
    only_known_fields(where, "the top level", data, known_names)
    return data


def write_definition_text(file: Path, text: str, what: str) -> Path:
    """Write a definition file beside and move it into place, so that a failure leaves an older one as it was.

    A link stays a link; a device or a pipe (/dev/stdout) is written to directly: nothing may take its place.
    Returns the path; raises `DefinitionError` when it cannot be written.
    """
    try:
        if file.exists() and not file.is_file():
            file.write_text(text, encoding="utf-8")
        else:
            write_whole(Path(os.path.realpath(file)), text)
    except OSError as error:
        raise DefinitionError(f"{what} {file} cannot be written: {error.strerror or error}") from None
    return file


@contextmanager
def reading_fields(where: str) -> Iterator[None]:
    """Turn what a field of an unforeseen kind raises into one line that begins with `where`, a `DefinitionError`.

    For files of others, whose fields are too many to check each: a text where a list is expected, an expression that
    is none.
    """
    try:
        yield
    except RooflineError:
        raise
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError, re.error) as error:
        raise DefinitionError(f"{where} has a field that no known file has: {shortened(str(error))}") from None


def only_known_fields(where: str, place: str, table: Mapping[str, Any], known_names: Iterable[str]) -> None:
    """Raise `DefinitionError` for a field that nobody reads, naming it and those that are known."""
    for name in table:
        if name not in known_names:
            raise DefinitionError(
                f"{where}: {place}: unknown field {shown(name)}. Known: {', '.join(sorted(known_names))}."
            )


def shown(value: object) -> str:
    """Print a refused value on one short line."""
    try:
        text = repr(value)
    except ValueError:  # an int beyond the digit limit of str()
        text = "a huge number"
    except RecursionError:  # dotted keys nest without limit
        text = "a nested table"
    return text if len(text) <= 60 else f"{text[:57]}…"


_SHOWN_CHARS = 200


def user_path(text: str | Path) -> Path:
    """Return the path with a leading `~` or `~name` expanded; `InvalidValueError` when nobody here is called so."""
    try:
        return Path(text).expanduser()
    except RuntimeError:
        raise InvalidValueError(
            f"{shortened(str(text))!r} begins with a home folder that is not known here: write the whole path"
        ) from None


def shortened(text: str, most: int = _SHOWN_CHARS) -> str:
    """Return the text, cut where it is longer than a message can bear."""
    return text if len(text) <= most else f"{text[:most]}…"
