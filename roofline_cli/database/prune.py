"""`roofline prune`: drop the raw samples of old runs, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reports.present.blocks import Block, Column, Paragraph, table
from reports.present.screen import present
from roofline_cli.screen.progress_bar import progress_bar
from roofline_cli.shared.database import reading, shown_target, writing
from roofline_cli.shared.options import DatabaseOption, JsonOption
from roofline_model.core.errors import InvalidValueError
from roofline_model.core.finding import Finding, finding, short_text
from roofline_model.core.units import counted, format_memory

if TYPE_CHECKING:
    from results.operations.retention import PruneReport
    from results.store.store import ResultStore

COMMANDS = {
    "prune": ("prune", "Drop raw samples of old runs, keep every statistic."),
}

_SHOWN = 20
_SHOWN_KEPT = 3
"""Runs named of each reason to keep some: the runs that lose samples are what a reader looks for."""


def prune(
    older_than: Annotated[
        str, typer.Option("--older-than", metavar="AGE", help="Prune runs older than this: 90d, 12w, 6m or 2y.")
    ],
    keep_latest: Annotated[
        int,
        typer.Option(
            "--keep-latest",
            metavar="INT",
            min=0,
            max=1_000_000,
            help="Newest complete runs of each machine, chip and branch that keep everything.",
        ),
    ] = 10,
    keep: Annotated[
        list[str] | None,
        typer.Option("--keep", metavar="RUN", help="A run that keeps everything; may be given several times."),
    ] = None,
    protect: Annotated[
        list[Path] | None,
        typer.Option(
            "--protect", metavar="FILE", help="Runs named in this file, e.g. a list of baselines, keep everything."
        ),
    ] = None,
    ignore_label: Annotated[
        list[str] | None,
        typer.Option(
            "--ignore-label",
            metavar="PATTERN",
            help="Labels that keep nothing, such as 'nightly *'; labels with a date in them never do.",
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be dropped.")] = False,
    db: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Drop raw samples of old runs, keep every statistic.

    Sensor readings go with them.
    Kept whole: the newest complete runs of each machine, chip and branch, and the newest run of each label without a
    date. So are runs named with --keep or in a --protect file.
    """
    import datetime

    from results.operations import retention

    age = retention.parse_age(older_than)
    shown, _ = shown_target(db)
    opened = reading(db) if dry_run else writing(db, create=False)
    with opened as store, progress_bar("pruning", is_quiet=as_json) as advance:
        protected = _protected_runs(store, keep or [], protect or [])
        report = retention.prune(
            store,
            age,
            now=datetime.datetime.now(datetime.UTC),
            named_reasons=protected,
            kept_newest=keep_latest,
            ignored_labels=ignore_label or (),
            is_dry=dry_run,
            progress=advance,
        )
    present(lambda: _document(shown, report, dry_run), lambda: _blocks(shown, report, is_dry=dry_run), as_json=as_json)


def _protected_runs(store: ResultStore, names: list[str], files: list[Path]) -> dict[str, Finding]:
    """Return the runs that keep everything, with the reason."""
    from results.operations.retention import named_runs

    protected = {
        store.resolve_run(name).run_id: finding("run-protected", kind="named", place="--keep") for name in names
    }
    runs = store.runs() if files else []
    for file in files:
        try:
            text = file.read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or "it is not UTF-8 text"
            raise InvalidValueError(
                f"{file} cannot be read ({why}): it may name runs to keep; nothing was pruned"
            ) from None
        protected.update(
            {run.run_id: finding("run-protected", kind="named", place=str(file)) for run in named_runs(text, runs)}
        )
    return protected


def _document(shown: str, report: PruneReport, dry_run: bool) -> dict[str, object]:
    return {
        "database": shown,
        "dry_run": dry_run,
        "before": report.before,
        "measurement_count": report.measurement_count,
        "sample_bytes": report.sample_bytes,
        "telemetry_row_count": report.reading_count,
        "runs": [
            {
                "run_id": drop.run.run_id,
                "started_at": drop.run.started_at,
                "measurement_count": drop.measurement_count,
                "sample_bytes": drop.sample_bytes,
                "telemetry_row_count": drop.reading_count,
            }
            for drop in report.drops
        ],
        "kept": [
            {"run_id": protected.run.run_id, "reason": short_text(protected.reason)} for protected in report.protected
        ],
    }


def _blocks(shown: str, report: PruneReport, *, is_dry: bool) -> Iterator[Block]:
    drops, day = report.drops, report.before[:10]
    kept = f"kept whole: {counted(len(report.protected), 'run')}"
    if not drops:
        what = f"no run before {day} has samples or sensor readings that may go"
        yield Paragraph(f"{shown}: nothing to drop: {what}; {kept}")
    else:
        yield table("Runs", _DROPS, drops[:_SHOWN])
        if len(drops) > _SHOWN:
            yield Paragraph(f"… and {counted(len(drops) - _SHOWN, 'more run')} (--json lists all)")
        yield Paragraph(
            f"{shown}: {'would drop' if is_dry else 'dropped'} {format_memory(report.sample_bytes)} of samples of "
            f"{counted(report.measurement_count, 'measurement')} and "
            f"{counted(report.reading_count, 'sensor reading')} of {counted(len(drops), 'run')} before {day}; "
            f"every statistic stays; {kept}"
        )
    by_reason: dict[str, list[str]] = {}
    for protected in report.protected:
        run, is_label = protected.run, protected.reason.value("kind") == "label"
        reason = "the newest run of its label" if is_label else short_text(protected.reason)
        label = f" ({run.label[:40]})" if is_label and run.label else ""
        by_reason.setdefault(reason, []).append(f"{run.run_id[:8]} of {run.started_at[:10]}{label}")
    for reason, names in by_reason.items():
        others = f" and {len(names) - _SHOWN_KEPT} more (--json lists all)" if len(names) > _SHOWN_KEPT else ""
        yield Paragraph(f"kept whole, {reason}: {', '.join(names[:_SHOWN_KEPT])}{others}")
    if drops and not is_dry:
        yield Paragraph("the room is used for new results")


_DROPS = (
    Column("Run", lambda drop: drop.run.run_id[:8], is_head=True),
    Column("Started", lambda drop: drop.run.started_at[:10]),
    Column("Measurements", lambda drop: f"{drop.measurement_count:,}", "number"),
    Column("Samples", lambda drop: format_memory(drop.sample_bytes), "number"),
    Column("Sensor readings", lambda drop: f"{drop.reading_count:,}", "number"),
    Column("Label", lambda drop: drop.run.label or "–", "prose", drop=1),
)
