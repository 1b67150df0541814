"""`roofline doctor`: what this machine has, which chip it is, what is missing and how to install it."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from reports.present.blocks import CAVEAT_COUNT, Column, Span, brief, table
from reports.present.screen import show, show_json, show_line, show_more, show_next
from roofline_cli.shared.options import AllOption, DatabaseOption, JsonOption
from roofline_model.core.units import counted

COMMANDS = {
    "doctor": ("doctor", "Show what this machine has, what is missing, how to install it."),
}

_STYLES = {"ok": "green", "info": "", "warn": "yellow", "error": "bold red"}
_LOOKS = {"ok": "good", "info": "", "warn": "warning", "error": "failed"}


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
    if as_json:
        show_json({"is_ok": not broken, "checks": [check.to_dict() for check in checks]})
    else:
        _print_answer(checks, len(broken), show_all=show_all)
        if show_all:
            show_line()
            _print_checks(checks)
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


def _print_answer(checks: list[Any], broken_count: int, *, show_all: bool) -> None:
    """Print whether this machine can measure, what is wrong, and what to type next: a dozen lines."""
    warned = [check for check in checks if check.status == "warn"]
    broken = [check for check in checks if check.status == "error"]
    warnings = f"; {counted(len(warned), 'warning')}" if warned else ""
    state = f"{broken_count} broken" if broken_count else "Nothing is broken"
    show_line(f"{state}{warnings}.", "bold red" if broken_count else "bold")
    first = [check for name in _FIRST for check in checks if check.name == name and check.status in ("ok", "info")]
    show(table("Checks", _BRIEFLY, [*broken, *warned, *first][:ANSWER_ROW_COUNT]))
    fixes = [check for check in [*broken, *warned] if check.fix]
    for check in fixes[:CAVEAT_COUNT]:
        show_line(f"Fix {check.name}: {check.fix}", _STYLES[check.status])
    if not broken:
        is_calibrated = any(check.name == "calibration" and check.status == "ok" for check in checks)
        if is_calibrated:
            show_next("pytest bench_cases -k gemv", "measures the products of a decode step")
        else:
            is_busy = any(check.name == "cpu load" and check.status == "warn" for check in checks)
            waits = " --wait-until-quiet" if is_busy else ""
            show_next(f"roofline calibrate{waits}", "measures this machine; then pytest bench_cases -k gemv")
    show_more(f"lists {len(checks)} checks and every fix", is_shown=show_all)


def _print_checks(checks: list[Any]) -> None:
    show(table("Checks", _WHOLE, checks))
    fixes = [check for check in checks if check.fix]
    if fixes:
        show_line()
        show_line("What to do", "bold")
    for check in fixes:
        show_line(f"  {check.name}: {check.fix}", _STYLES[check.status])
