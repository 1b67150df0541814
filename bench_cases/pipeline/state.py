"""The folder of a pipeline: what is finished survives any end of the process, and nothing is ever half-written.

`pipeline.json` holds the settings and every finished step; each change replaces the file as a whole. A lock keeps a
second pipeline out while the first one lives, and goes with the process that holds it.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, TypeVar

from bench_cases.pipeline.settings import differences, settings_hash
from roofline_model.core.errors import DefinitionError, InvalidValueError
from roofline_model.core.whole_file import write_whole

STATE_FILE = "pipeline.json"
LOCK_FILE = ".pipeline.lock"
RUNS_FOLDER = "runs"
MODEL_FOLDER = "model"
PARTIAL_FOLDER = ".model-partial"
REPORT_FILES = ("report.md", "report.json", "report.html", "roofline.png", "roofline.svg")
STATE_VERSION = 2

_OWN = (STATE_FILE, LOCK_FILE, RUNS_FOLDER, MODEL_FOLDER, PARTIAL_FOLDER, *REPORT_FILES)
"""Everything a pipeline writes: what `fresh` may remove, and nothing else."""


Answer = TypeVar("Answer")


class PipelineState:
    """The finished steps of one folder."""

    def __init__(self, folder: Path, settings: Mapping[str, Any], steps: dict[str, Any]) -> None:
        self.folder = folder
        self._settings = dict(settings)
        self._steps = steps

    @property
    def key(self) -> str:
        """Twelve digits of the settings."""
        return settings_hash(self._settings)

    def is_finished(self, step: str) -> bool:
        """Return whether a step was finished, in this run or an earlier one."""
        return step in self._steps

    def answer(self, step: str, kind: type[Answer]) -> tuple[Answer, float]:
        """Return what a finished step found, and the seconds it took.

        Raises `DefinitionError` for one that another release wrote, or a person changed.
        """
        try:
            stored = self._steps[step]
            return _adapter(kind).validate_python(stored["answer"]), float(stored["took_s"])
        except (KeyError, TypeError, ValueError) as error:
            raise DefinitionError(
                f"{self.folder / STATE_FILE} holds a step of another form ({_first_line(error)}): start again with "
                "--fresh"
            ) from None

    def finish(self, step: str, answer: object, took_s: float) -> None:
        """Store what a step found (a value of dataclasses) and its seconds."""
        self._steps[step] = {"answer": _adapter(type(answer)).dump_python(answer, mode="json"), "took_s": took_s}
        self.write()

    def forget(self, step: str) -> None:
        """Let a step be done again: what it made is gone."""
        self._steps.pop(step, None)

    def write(self) -> None:
        """Replace the state file. Raises `InvalidValueError` when the folder cannot be written."""
        document = {
            "format": "roofline-bench pipeline",
            "version": STATE_VERSION,
            "settings_hash": self.key,
            "settings": self._settings,
            "steps": self._steps,
        }
        with one_line_os_errors(self.folder):
            write_whole(self.folder / STATE_FILE, json.dumps(document, indent=2, allow_nan=False) + "\n")


def _adapter(kind: type[Any]) -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


def _first_line(error: Exception) -> str:
    return " ".join(str(error).splitlines()[:3])[:160]


@contextmanager
def opened_state(folder: Path, settings: Mapping[str, Any], *, is_fresh: bool = False) -> Iterator[PipelineState]:
    """Open a folder for a pipeline: new, empty, or begun by one with the same settings. Held for this process alone.

    is_fresh: forget what a pipeline left there. Raises `InvalidValueError` for a folder of something else, of other
    settings, or in use; `DefinitionError` for a damaged state file.
    """
    with one_line_os_errors(folder):
        _check_place(folder)
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / LOCK_FILE).open("a", encoding="utf-8")
    with lock:
        with one_line_os_errors(folder):
            if not _takes_lock(lock):
                raise InvalidValueError(
                    f"another pipeline works in {folder}: wait for it, or name another folder with -o"
                )
            if is_fresh:
                _forget(folder)
            state = PipelineState(folder, settings, _read_steps(folder, settings))
            shutil.rmtree(folder / PARTIAL_FOLDER, ignore_errors=True)
            (folder / RUNS_FOLDER).mkdir(exist_ok=True)
        state.write()
        yield state


@contextmanager
def one_line_os_errors(folder: Path) -> Iterator[None]:
    """Turn an `OSError` about the folder (full disk, no permission) into one line that names the folder."""
    try:
        yield
    except OSError as error:
        raise InvalidValueError(
            f"{folder} cannot be written: {error.strerror or error}; free space or name another folder with -o, then "
            "give the same command again"
        ) from None


def _check_place(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise InvalidValueError(f"{folder} is a file: name a folder with -o")
    if folder.is_dir() and not (folder / STATE_FILE).is_file():
        foreign = sorted(entry.name for entry in folder.iterdir() if not _is_ours(entry.name))
        if foreign:
            raise InvalidValueError(
                f"{folder} holds {foreign[0][:60]} and no {STATE_FILE}: it is not a pipeline's folder; name a new one "
                "with -o"
            )


def _is_ours(name: str) -> bool:
    # A write that was killed leaves its temporary file or folder.
    return name in _OWN or name.startswith(
        (".roofline-", *(f".{own_name}-" for own_name in (STATE_FILE, *REPORT_FILES)))
    )


def _takes_lock(file: IO[str]) -> bool:
    try:
        import fcntl
    except ImportError:  # not a POSIX system: two pipelines in one folder are then the user's to avoid
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _forget(folder: Path) -> None:
    """Remove what a pipeline wrote; other files stay. The state goes first, so that a half-done removal is never
    trusted.
    """
    for name in _OWN:
        target = folder / name
        if name == LOCK_FILE:
            continue
        if target.is_dir() and not target.is_symlink():
            shutil.rmtree(target)
        else:
            target.unlink(missing_ok=True)


def _read_steps(folder: Path, settings: Mapping[str, Any]) -> dict[str, Any]:
    path = folder / STATE_FILE
    if not path.is_file():
        return {}
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        version, stored, steps = document["version"], document["settings"], document["steps"]
        if not isinstance(stored, dict) or not isinstance(steps, dict):
            raise TypeError("settings or steps are no objects")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DefinitionError(f"{path} is damaged ({str(error)[:80]}): start again with --fresh") from None
    if version != STATE_VERSION:
        raise DefinitionError(
            f"{path} was written by another release (version {version!r}, this one reads {STATE_VERSION}): start again "
            "with --fresh"
        )
    changed = differences(json.loads(json.dumps(settings)), stored)
    if changed and steps:  # a slip in the first command costs nothing
        raise InvalidValueError(
            f"{folder} was begun with other settings ({', '.join(changed[:6])}): give those again, name another folder "
            "with -o, or start again with --fresh"
        )
    return steps
