"""Which cases a run was asked for: what its command selects by, so that a case left out on purpose is not called GONE.
Pure.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from results.records.records import FOREIGN_COMMAND, RunInfo

_VALUED = frozenset(
    {
        "-k",
        "-m",
        "--deselect",
        "--ignore",
        "--ignore-glob",
        "--roofline-shapes",
        "--roofline-formats",
        "--roofline-model",
        "--roofline-batch",
        "--roofline-context",
    }
)
"""Options of pytest, and of ours, whose value selects."""
_FLAGS = frozenset({"--lf", "--last-failed", "--sw", "--stepwise", "--sw-skip", "--stepwise-skip"})
_TAKES_A_VALUE = frozenset({"-p", "-c", "-o", "-W", "-n", "-r"})
"""Short options of pytest that a path may follow which selects nothing."""
_JOINING = frozenset({"and", "or", "not"})


@lru_cache(maxsize=256)  # asked for every case that a side lacks
def selection_words(command: str) -> tuple[str, ...]:
    """Return the selection of a stored command, quoted for a shell: `-k 'gemv and 1x1024x1024'`; empty for a whole
    suite.

    Counted are `-k`, `-m`, `--deselect`, `--ignore`, `--lf`, `--sw`, the options that name shapes, formats, models,
    batches and contexts, and paths of one file or test. A folder is no selection: the same suite is called by several
    names. Commands of runs before 2026-11-22 are stored unquoted, so the words of an expression are put together again
    at `and`, `or`, `not`.
    """
    if command.startswith(FOREIGN_COMMAND):
        return ()
    try:
        arguments = shlex.split(command)
    except ValueError:  # cut at its longest, within quotes
        arguments = [word.strip("'\"") for word in command.split()]
    start = 3 if arguments[:2] == ["python", "-m"] else 1
    return tuple(dict.fromkeys(_selecting(arguments[start:])))


def selection_text(runs: Sequence[RunInfo]) -> str:
    """Return the selections of these runs, each once; empty if any of them ran the whole suite."""
    every = [" ".join(selection_words(run.command)) for run in runs]
    return "; ".join(dict.fromkeys(every)) if all(every) else ""


def is_left_out(after: Sequence[RunInfo], holders: Iterable[RunInfo]) -> bool:
    """Return whether newer runs lack a case because they were not asked for it. `holders`: the older runs that hold it.

    Every newer run is a selection, and no older run that holds the case selected in the same way: the same words that
    once found a case and now do not have lost it.
    """
    newer = [frozenset(selection_words(run.command)) for run in after]
    older = {frozenset(selection_words(run.command)) for run in holders}
    return all(newer) and not older & set(newer)


def _selecting(arguments: Sequence[str]) -> Iterator[str]:
    index, last = 0, ""
    while index < len(arguments):
        argument = arguments[index]
        index += 1
        option, equals, value = argument.partition("=") if argument.startswith("-") else (argument, "", "")
        if option[:2] in ("-k", "-m") and len(option) > 2 and not equals:  # -kgemv
            option, equals, value = option[:2], "=", option[2:]
        if option in _VALUED:
            if not equals and index < len(arguments):
                value, index = arguments[index], index + 1
            if option in ("-k", "-m"):
                value, index = _joined(value, arguments, index)
            if value:  # `-k ''` selects everything
                yield f"{option} {shlex.quote(value)}"
        elif option in _FLAGS:
            yield option
        elif not argument.startswith("-") and not _is_value(last) and ("::" in argument or argument.endswith(".py")):
            yield shlex.quote(argument)
        last = argument if argument.startswith("-") and not equals and option not in (*_VALUED, *_FLAGS) else ""


def _joined(value: str, arguments: Sequence[str], index: int) -> tuple[str, int]:
    """Return an expression with the words behind it that belong to it, and where the rest begins."""
    parts = [value]
    while index < len(arguments) and (arguments[index] in _JOINING or parts[-1] in _JOINING):
        parts.append(arguments[index])
        index += 1
    return " ".join(parts), index


def _is_value(option: str) -> bool:
    """Return whether the word behind an option may be its value."""
    return option in _TAKES_A_VALUE or option.startswith("--")
