"""`roofline doctor`: what this machine has, which chip it is, what is missing and how to install it."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from roofline_cli.screen.tables import Cell, Column, Styled, show_json, show_line, show_table
from roofline_cli.shared.options import DatabaseOption, JsonOption

COMMANDS = {
    "doctor": ("doctor", "Show what this machine has, what is missing, how to install it."),
}

_STYLES = {"ok": "green", "info": "", "warn": "yellow", "error": "bold red"}


def doctor(
    db: DatabaseOption = None,
    timeout_s: Annotated[
        float,
        typer.Option("--timeout", metavar="SECONDS", min=1, max=600, help="Give torch this long to look for the GPU."),
    ] = 60,
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
    as_json: JsonOption = False,
) -> None:
    """Show what this machine has, what is missing, how to install it.

    Exits 1 when something is broken, 0 otherwise.
    """
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
    if as_json:
        show_json({"is_ok": not broken, "checks": [check.to_dict() for check in checks]})
    else:
        _print_checks(checks, len(broken))
    if broken:
        raise typer.Exit(1)


def _print_checks(checks: list[Any], broken_count: int) -> None:
    columns = (Column("Check"), Column("State"), Column("Found", is_prose=True))
    rows: list[list[Cell]] = [
        [check.name, Styled(check.status, _STYLES[check.status]), check.detail] for check in checks
    ]
    show_table(columns, rows)
    fixes = [check for check in checks if check.fix]
    if fixes:
        show_line()
        show_line("What to do", "bold")
    for check in fixes:
        show_line(f"  {check.name}: {check.fix}", _STYLES[check.status])
    show_line()
    if broken_count:
        show_line(f"{broken_count} broken: see above", "bold red")
    else:
        show_line("nothing is broken", "green")
