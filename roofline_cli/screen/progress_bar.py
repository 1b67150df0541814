"""A progress bar on stderr for commands that take more than a moment; nothing at all when stderr is no terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from reports.present.screen import clean_line

Advance = Callable[[str, int, int], None]
"""What is done now, steps done, all steps."""


@contextmanager
def progress_bar(title: str, *, is_quiet: bool = False) -> Iterator[Advance]:
    """Give a function that moves the bar; it vanishes at the end, and stdout stays free for tables and JSON."""
    if is_quiet or not sys.stderr.isatty():
        yield lambda what, done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(file=sys.stderr), transient=True) as bar:
        task = bar.add_task(title, total=None)

        def advance(what: str, done: int, total: int) -> None:
            bar.update(task, description=clean_line(what or title), completed=done, total=total)

        yield advance
