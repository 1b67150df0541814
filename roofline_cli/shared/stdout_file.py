"""`-o -` and `--card -`: what a command would write to a file goes to stdout, and what it says goes to stderr."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from roofline_model.core.errors import InvalidValueError
from roofline_model.core.whole_file import held_folder

_ENDINGS = {
    "calibrate": ".toml",
    "diff": ".txt",
    "export": ".json",
    "fit": ".toml",
    "hardware new": ".toml",
    "losses": ".json",
    "recommend": ".json",
    "report": ".html",
    "sweep": ".csv",
    "tiling": ".png",
}
"""Command → ending of the file that it writes where the user names none.

A command that writes a folder has no entry.
"""
_CARD = "--card"
"""Option of the report for a picture."""


@contextmanager
def stdout_as_file(args: Sequence[str]) -> Iterator[list[str]]:
    """Give the arguments with a temporary file in place of `-`; at the end the file is copied to stdout, after an error
    not.
    """
    typed = list(args)
    place = _place(typed)
    if place is None:
        yield typed
        return
    with held_folder("roofline-") as folder:
        file = folder / f"output{'.png' if typed[place - 1] == _CARD else _ENDINGS[_command(typed)]}"
        typed[place] = str(file)
        stdout = sys.stdout
        sys.stdout = _Messages(str(file))  # type: ignore[assignment]
        try:
            yield typed
        finally:
            sys.stdout = stdout
        if file.exists():
            with file.open("rb") as source:
                shutil.copyfileobj(source, stdout.buffer)
            stdout.flush()


def _place(typed: Sequence[str]) -> int | None:
    """Return where the `-` of `-o -` or `--card -` stands; None without one.

    Raises `InvalidValueError` for two of them: stdout holds one file.
    """
    if _command(typed) not in _ENDINGS:
        return None
    places = [at for at in range(2, len(typed)) if typed[at] == "-" and typed[at - 1] in ("-o", "--output", _CARD)]
    if len(places) > 1:
        raise InvalidValueError("stdout holds one file: give one of -o and --card another name than -")
    return places[0] if places else None


def _command(typed: Sequence[str]) -> str:
    """Return the command that was typed, of one word or two."""
    return typed[0] if typed and typed[0] in _ENDINGS else " ".join(typed[:2])


class _Messages:
    """Stderr, where the temporary file is called stdout; lines about other files beside it, which go too, are
    dropped.
    """

    def __init__(self, file: str) -> None:
        self._file = file

    def write(self, text: str) -> int:
        shown = text.replace(self._file, "stdout")
        return len(text) if str(Path(self._file).parent) in shown else sys.stderr.write(shown)

    def __getattr__(self, name: str) -> Any:
        return getattr(sys.stderr, name)
