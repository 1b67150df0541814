"""How a pipeline's progress is shown on stderr: a live line with the time left on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from reports.present.screen import clean_line

if TYPE_CHECKING:
    from bench_cases.pipeline.progress import PipelineEvent

Tell = Callable[["PipelineEvent"], None]


@contextmanager
def shown_progress() -> Iterator[Tell]:
    """Give the function that a pipeline tells its events; finished steps stay on the screen as lines."""
    if not sys.stderr.isatty():
        yield _plain
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.text import Text

    console = Console(file=sys.stderr, highlight=False, markup=False)
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=None, visible=False)

        def tell(event: PipelineEvent) -> None:
            line = step_line(event)
            if event.kind == "begin":
                bar.reset(task, description=line, visible=True)
            else:
                console.print(Text(line))
                bar.update(task, visible=False)

        yield tell


def step_line(event: PipelineEvent) -> str:
    """Return an event as one line: `[3/4] measuring INT4 (1 of 2) … (about 2 min left)`."""
    from bench_cases.pipeline.progress import STEPS

    place = f"[{event.step_index}/{len(STEPS)}]"
    if event.kind == "begin":
        return f"{place} {clean_line(event.text)} …{_left(event.remaining_s)}"
    earlier = " (from an earlier run)" if event.kind == "reused" else ""
    return f"{place} {clean_line(event.text)}{earlier}"


def _plain(event: PipelineEvent) -> None:
    sys.stderr.write(step_line(event) + "\n")
    sys.stderr.flush()


def _left(remaining_s: float | None) -> str:
    if remaining_s is None:
        return ""
    if remaining_s < 90:
        return f" (about {max(1, round(remaining_s))} s left)"
    minutes = remaining_s / 60
    return f" (about {minutes:.0f} min left)" if minutes < 90 else f" (about {minutes / 60:.1f} h left)"
