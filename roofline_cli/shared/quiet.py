"""Is this machine quiet enough for a command that measures for minutes? Asked before it begins."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from roofline_model.core.units import format_percent

if TYPE_CHECKING:
    from plugin.machine.cpu_state import LoadWatch

BUSY_RATIO = 0.5
"""Share of the CPUs that others use from which nothing is measured: no result would rest on it."""
LIMIT_S = 1800.0
"""How long `--wait-until-quiet` waits at most."""
_LOOK_S = 1.0
_QUIET_LOOK_COUNT = 3
"""Quiet looks in a row that make a quiet machine: a build pauses between two files."""
_REMINDER_S = 60.0

WaitOption = Annotated[
    bool,
    typer.Option(
        "--wait-until-quiet",
        help="First wait until other processes use at most 10 % of the CPUs (30 minutes at most).",
    ),
]


def begin_when_quiet(*, waits: bool) -> None:
    """Return when the CPUs are free enough to measure on; else end the command with exit code 5. `waits`: wait for it.

    Between the share that flags a time and `BUSY_RATIO` it only says what the results are worth.
    """
    load = _load()
    if not load.flags():
        return
    if waits:
        _wait(load)
        return
    if _taken_ratio(load) > BUSY_RATIO:
        stop(f"{_load_text(load)}, no result would rest on these times: stop them, or add --wait-until-quiet")
    typer.echo(f"{_load_text(load)}: results may be in doubt (--wait-until-quiet waits for a quiet machine)", err=True)


def begin_model_when_quiet(*, waits: bool) -> None:
    """Do the same for a model, where it would run on the CPUs."""
    from plugin.machine.facts import find_machine

    if find_machine().kind == "cpu":
        begin_when_quiet(waits=waits)


def stop(message: str) -> NoReturn:
    """End the command in one line with exit code 5: the state of the machine does not allow it."""
    from results.diff.gate import EXIT_MACHINE

    sys.stderr.write(f"error: {message}\n")
    raise typer.Exit(EXIT_MACHINE)


def _wait(load: LoadWatch) -> None:
    typer.echo(
        f"{_load_text(load)}: waiting until they use at most 10 %, for {LIMIT_S / 60:.0f} minutes at most", err=True
    )
    began = reminded = time.monotonic()
    quiet_look_count = 0
    while quiet_look_count < _QUIET_LOOK_COUNT:
        load = _load()
        quiet_look_count = 0 if load.flags() else quiet_look_count + 1
        now = time.monotonic()
        if now - began > LIMIT_S:
            stop(
                f"after {LIMIT_S / 60:.0f} minutes {_load_text(load)} still: stop them first (`top -o %CPU` names them)"
            )
        if now - reminded > _REMINDER_S:
            reminded = now
            typer.echo(f"still waiting: {_load_text(load)}", err=True)


def _load() -> LoadWatch:
    from plugin.machine import cpu_state

    return cpu_state.load_over(_LOOK_S)


def _taken_ratio(load: LoadWatch) -> float:
    return (load.others_ratio or 0.0) + (load.stolen_ratio or 0.0)


def _load_text(load: LoadWatch) -> str:
    stolen = f", other machines {format_percent(load.stolen_ratio, 0)}" if "stolen" in load.flags() else ""
    return f"other processes use {format_percent(load.others_ratio or 0.0, 0)} of the CPUs{stolen}"
