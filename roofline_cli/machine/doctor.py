"""`roofline doctor`: what this machine has, which chip it is, what is missing and how to install it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from reports.present.blocks import CAVEAT_COUNT, Block, Column, Command, Paragraph, Span, Tone, brief, more, table
from reports.present.screen import present
from roofline_cli.shared.options import AllOption, DatabaseOption, JsonOption
from roofline_model.core.units import counted

if TYPE_CHECKING:
    from roofline_cli.machine.machine_checks import Check

COMMANDS = {
    "doctor": ("doctor", "Show what this machine has, what is missing, how to install it."),
}

_LOOKS = {"ok": "good", "info": "", "warn": "warning", "error": "failed"}
_TONES: dict[str, Tone] = {"ok": "good", "info": "plain", "warn": "warning", "error": "failed"}


def doctor(
    db: DatabaseOption = None,
    timeout_s: Annotated[
        float,
        typer.Option("--timeout", metavar="SECONDS", min=1, max=600, help="Give torch this long to look for the GPU."),
    ] = 60,
    canary: Annotated[
        bool,
        typer.Option("--canary", help="Run one fixed kernel: a slow state that no sensor shows exits with 5."),
    ] = False,
    noise: Annotated[
        bool,
        typer.Option("--noise", help="Measure this machine's own noise: how far fresh processes differ, per case."),
    ] = False,
    processes: Annotated[
        int | None,
        typer.Option("--processes", metavar="N", min=2, max=100, help="With --noise: fresh processes (default 8)."),
    ] = None,
    shapes: Annotated[
        str | None,
        typer.Option("--shapes", metavar="SET", help="With --noise: as pytest's --roofline-shapes (default quick)."),
    ] = None,
    keyword: Annotated[
        str | None,
        typer.Option("-k", metavar="EXPRESSION", help="With --noise: only cases whose names match, as in pytest."),
    ] = None,
    show_all: AllOption = False,
    as_json: JsonOption = False,
) -> None:
    """Show what this machine has, what is missing, how to install it.

    Exits 1 when something is broken, 0 otherwise.
    """
    if canary:
        from roofline_cli.machine.canary import show_canary

        raise typer.Exit(show_canary(db, as_json=as_json))
    if noise:
        from roofline_cli.machine.noise import NoisePlan, measure_noise

        measure_noise(NoisePlan(db, processes or 8, shapes or "quick", keyword), as_json=as_json)
        return
    for name, given in (("--processes", processes), ("--shapes", shapes), ("-k", keyword)):
        if given is not None:
            raise typer.BadParameter(f"{name} belongs to --noise: roofline doctor --noise {name} …")
    from roofline_cli.machine.machine_checks import run_checks

    checks = run_checks(db, timeout_s)
    broken = [check for check in checks if check.status == "error"]
    present(
        lambda: {"is_ok": not broken, "checks": [check.to_dict() for check in checks]},
        lambda: _blocks(checks, show_all=show_all),
        as_json=as_json,
    )
    if broken:
        raise typer.Exit(1)


ANSWER_ROW_COUNT = 5
"""Rows of the answer's table: what is broken, then warnings, then what a measurement stands on."""
_DETAIL_LENGTH = 56
"""Characters of what a check found, in the answer's table: one line at 80 columns."""
_FIRST = ("nvidia device", "torch", "chip", "calibration", "database")
"""Checks that stand in the answer when nothing is wrong with them."""
_CHECK = (
    Column("Check", lambda check: check.name, is_head=True),
    Column("State", lambda check: Span(check.status, _LOOKS[check.status])),
)
_BRIEFLY = (*_CHECK, Column("Found", lambda check: brief(check.detail, _DETAIL_LENGTH), "prose"))
_WHOLE = (*_CHECK, Column("Found", lambda check: check.detail, "prose"))


def _blocks(checks: list[Check], *, show_all: bool) -> Iterator[Block]:
    """Yield whether this machine can measure, what is wrong, and what to type next: a dozen lines; with `show_all`
    every check and every fix.
    """
    warned = [check for check in checks if check.status == "warn"]
    broken = [check for check in checks if check.status == "error"]
    warnings = f"; {counted(len(warned), 'warning')}" if warned else ""
    state = f"{len(broken)} broken" if broken else "Nothing is broken"
    yield Paragraph(f"{state}{warnings}.", "failed" if broken else "verdict")
    first = [check for name in _FIRST for check in checks if check.name == name and check.status in ("ok", "info")]
    yield table("Checks", _BRIEFLY, [*broken, *warned, *first][:ANSWER_ROW_COUNT])
    for check in [check for check in [*broken, *warned] if check.fix][:CAVEAT_COUNT]:
        yield Paragraph(f"Fix {check.name}: {check.fix}", _TONES[check.status])
    states = {check.name: check.status for check in checks}
    if not broken and states.get("calibration") == "ok":
        yield Command("pytest bench_cases -k gemv", "measures the products of a decode step")
    elif not broken:
        waits = " --wait-until-quiet" if states.get("cpu load") == "warn" else ""
        yield Command(f"roofline calibrate{waits}", "measures this machine; then pytest bench_cases -k gemv")
    yield from more(f"lists {len(checks)} checks and every fix", is_shown=show_all)
    if not show_all:
        return
    yield Paragraph("")
    yield table("Checks", _WHOLE, checks)
    fixes = [check for check in checks if check.fix]
    if fixes:
        yield Paragraph("")
        yield Paragraph("What to do", "verdict")
    yield from (Paragraph(f"  {check.name}: {check.fix}", _TONES[check.status]) for check in fixes)
