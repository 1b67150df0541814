"""Is this machine quiet enough for a command that measures for minutes? Asked before it begins."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Annotated, NamedTuple, NoReturn

import typer

from reports.present.screen import clean_line
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
    look = _look()
    if not look.load.flags():
        return
    if waits:
        _wait(look)
        return
    if _taken_ratio(look.load) > BUSY_RATIO:
        stop(f"{_load_text(look)}, no result would rest on these times: stop them, or add --wait-until-quiet")
    typer.echo(f"{_load_text(look)}: results may be in doubt (--wait-until-quiet waits for a quiet machine)", err=True)


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


def _wait(look: _Look) -> None:
    typer.echo(
        f"{_load_text(look)}: waiting until they use at most 10 %, for {LIMIT_S / 60:.0f} minutes at most", err=True
    )
    began = reminded = time.monotonic()
    quiet_look_count = 0
    while quiet_look_count < _QUIET_LOOK_COUNT:
        look = _look()
        quiet_look_count = 0 if look.load.flags() else quiet_look_count + 1
        now = time.monotonic()
        if now - began > LIMIT_S:
            stop(f"after {LIMIT_S / 60:.0f} minutes {_load_text(look)} still: stop them first")
        if now - reminded > _REMINDER_S:
            reminded = now
            typer.echo(f"still waiting: {_load_text(look)}", err=True)


class _Look(NamedTuple):
    """What a look at the CPUs saw."""

    load: LoadWatch
    busiest: str
    """Name of the other process that used most of them; empty for none."""


def _look() -> _Look:
    from plugin.machine import cpu_state

    before = cpu_state.process_times()
    load = cpu_state.load_over(_LOOK_S)
    return _Look(load, cpu_state.busiest_process(before, cpu_state.process_times()))


def _taken_ratio(load: LoadWatch) -> float:
    return (load.others_ratio or 0.0) + (load.stolen_ratio or 0.0)


def _load_text(look: _Look) -> str:
    load = look.load
    busiest = f" (most of it {clean_line(look.busiest)})" if look.busiest and (load.others_ratio or 0.0) > 0 else ""
    stolen = f", other machines {format_percent(load.stolen_ratio, 0)}" if "stolen" in load.flags() else ""
    return f"other processes use {format_percent(load.others_ratio or 0.0, 0)} of the CPUs{busiest}{stolen}"
