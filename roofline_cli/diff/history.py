"""`roofline history`: a case over its nights, the steps and drifts in it; `--all`: every case that has one."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from roofline_cli.shared.database import reading
from roofline_cli.shared.group import EXIT_FOUND
from roofline_cli.shared.options import DatabaseOption, JsonOption
from roofline_model.core.errors import InvalidValueError

if TYPE_CHECKING:
    from results.history.case_history import HistoryOptions

COMMANDS = {
    "history": ("history", "Show a case over its runs: steps, drifts, and why."),
}

CaseArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="CASE...", help="Pytest id, first digits of the case key, or words that select one case."),
]
_MOST_DAYS = 36_500


def history(
    case: CaseArgument = None,
    every: Annotated[bool, typer.Option("--all", help="Every case with a step or a drift, a line each.")] = False,
    metric: Annotated[
        str, typer.Option("--metric", metavar="time|energy|memory|quality|error", help="What to watch.")
    ] = "time",
    since: Annotated[
        str | None,
        typer.Option(
            "--since",
            metavar="DATE|DAYSd",
            help="Show runs from this day on: 2026-09-01, or 90d for the last 90 days; all are searched.",
        ),
    ] = None,
    branch: Annotated[
        str | None,
        typer.Option("--branch", metavar="NAME|all", help="Whose runs count; default: the branch with most runs."),
    ] = None,
    annotations: Annotated[
        Path | None,
        typer.Option("--annotations", metavar="FILE.toml", help="Expected changes, which raise no alert."),
    ] = None,
    quarantine: Annotated[
        Path | None, typer.Option("--quarantine", metavar="FILE.toml", help="Cases that raise no alert; as for diff.")
    ] = None,
    fail_on_alert: Annotated[bool, typer.Option("--fail-on-alert", help="Exit with 1 when an alert is open.")] = False,
    db: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show a case over its runs: steps, drifts, and why.

    One alert per change, not per run; it ends when the change is undone or annotated.
    """
    from roofline_cli.diff.history_view import show_all, show_case, show_cases

    words = " ".join(case or [])
    _check_choice(words, every)
    options = _options(metric, branch, _first_day(since, datetime.now(UTC).date()), annotations, quarantine)
    with reading(db) as store:
        if every:
            from results.history.case_history import case_histories

            histories = case_histories(store, options=options)
        else:
            from results.history.case_history import case_history
            from results.history.reading import SeveralCasesError

            try:
                histories = [
                    case_history(
                        store,
                        words,
                        metric=metric,
                        since=options.since,
                        branch=branch,
                        annotations=options.annotations,
                        quarantine=options.quarantine,
                    )
                ]
            except SeveralCasesError as error:
                if as_json:
                    raise
                show_cases(error.cases)
                raise InvalidValueError(
                    f"{words[:60]!r} names {len(error.cases)} cases; give the key of one: `roofline history "
                    f"{error.cases[0].case_key[:8]}`"
                ) from None
    if every:
        show_all(histories, options, as_json=as_json)
    else:
        show_case(histories[0], as_json=as_json)
    if fail_on_alert and any(history.alerts for history in histories):
        raise typer.Exit(EXIT_FOUND)


def _options(
    metric: str, branch: str | None, since: str | None, annotations: Path | None, quarantine: Path | None
) -> HistoryOptions:
    from results.history.case_history import HistoryOptions
    from results.records.metrics import get_metric
    from results.watch.annotations import load_annotations
    from results.watch.quarantine import load_quarantine

    return HistoryOptions(
        metric=get_metric(metric),
        branch=branch,
        since=since,
        annotations=() if annotations is None else load_annotations(annotations),
        quarantine=None if quarantine is None else load_quarantine(quarantine, datetime.now(UTC).date()),
    )


def _check_choice(words: str, every: bool) -> None:
    if every and words:
        raise InvalidValueError(f"--all looks at every case: leave {words[:40]!r} out, or leave --all out")
    if not every and not words:
        raise InvalidValueError("history needs a CASE (a pytest id, digits of its key, or words of its id) or --all")


def _first_day(since: str | None, today: date) -> str | None:
    """Return `--since` as an ISO date; raises `InvalidValueError` for anything else."""

    if since is None:
        return None
    text = since.strip()
    if (days := re.fullmatch(r"([0-9]{1,5})d", text)) and int(days.group(1)) <= _MOST_DAYS:
        return (today - timedelta(days=int(days.group(1)))).isoformat()
    try:
        return datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC).date().isoformat()
    except ValueError:
        raise InvalidValueError(
            f"--since must be a date such as 2026-09-01 or days such as 90d, got {since[:40]!r}"
        ) from None
