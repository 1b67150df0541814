"""`roofline export`: runs, or what a question finds in all of them, as JSON, CSV or Parquet."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reports.present.screen import show_line
from roofline_cli.screen.output_file import check_output, is_stdout, written_file
from roofline_cli.shared.database import named_runs, reading, shown_target
from roofline_cli.shared.options import DatabaseOption
from roofline_model.core.errors import InvalidValueError
from roofline_model.core.units import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from results.records.records import RunInfo
    from results.store.query import FoundRun, RecordQuery
    from results.store.store import ResultStore

COMMANDS = {
    "export": ("export_run", "Write a run or cases of many: JSON, CSV or Parquet."),
}

FORMATS = ("json", "csv", "parquet")


def export_run(
    run: Annotated[
        str | None,
        typer.Argument(
            metavar="RUN",
            help="Id prefix, label, latest or latest~1, several joined by commas; without one, search all runs.",
        ),
    ] = None,
    case: Annotated[
        str | None,
        typer.Option("--case", metavar="WORDS", help="Only cases with all of these words in operator, sizes or id."),
    ] = None,
    since: Annotated[
        str | None, typer.Option("--since", metavar="DATE", help="Only runs that started then or later (UTC).")
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", metavar="DATE", help="Only runs that started before; a day counts whole.")
    ] = None,
    file_format: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="json|csv|parquet",
            help="json is complete and can be imported again (default: by the ending of -o, else json).",
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write here instead of stdout.")
    ] = None,
    db: DatabaseOption = None,
) -> None:
    """Write a run or cases of many: JSON, CSV or Parquet.

    JSON is complete; CSV and Parquet have a row per case. Without RUN, --case, --since or --until select from all runs.
    """
    from results.store.query import RecordQuery

    words = tuple((case or "").split())
    if case is not None and not words:
        raise InvalidValueError("--case is empty: give words of a case, e.g. --case 'gemv int4'")
    if run is None and case is None and since is None and until is None:
        raise InvalidValueError(
            "name a run, e.g. `roofline export latest`, or search all with --case, --since or --until"
        )
    query = RecordQuery(words, since or "", until or "")
    if output is not None:
        check_output(output, shown_target(db)[1])
    wanted = _format(file_format, output)
    with reading(db) as store:
        runs = [] if run is None else named_runs(store, run)
        record_sets = _runs_to_export(store, query, runs)
        _write(store, record_sets, wanted, output, is_part=bool(words))
    if output is not None and not is_stdout(output):  # nothing is said into what was printed
        count = sum(len(record_set.record_pks) for record_set in record_sets)
        if len(runs) == 1 and not words:
            show_line(f"run {record_sets[0].run.run_id[:8]} written to {output}")
        else:
            show_line(f"{counted(count, 'record')} of {counted(len(record_sets), 'run')} written to {output}")


def _format(given: str | None, output: Path | None) -> str:
    ending = "" if output is None or output.is_char_device() else output.suffix.lower().removeprefix(".")
    if given is None and ending and ending not in FORMATS:
        raise InvalidValueError(
            f"the ending .{ending[:40]} of -o says no format: name a file .json, .csv or .parquet, or give --format"
        )
    wanted = given if given is not None else ending if ending in FORMATS else "json"
    if wanted not in FORMATS:
        raise InvalidValueError(f"--format must be json, csv or parquet, got {wanted[:40]!r}")
    if wanted == "parquet" and output is None:
        raise InvalidValueError("--format parquet is binary, not for a terminal: give -o FILE.parquet")
    return wanted


def _runs_to_export(store: ResultStore, query: RecordQuery, runs: Sequence[RunInfo]) -> list[FoundRun]:
    """Return what the question finds, in all runs where none are named, oldest first."""

    from results.store.query import find_records

    ordered = sorted(runs, key=lambda run: (run.started_at, run.run_id))
    queries = [replace(query, run_id=run.run_id) for run in ordered] or [query]
    record_sets = [record_set for query in queries for record_set in find_records(store, query)]
    if not record_sets:
        words = [f"--case {' '.join(query.words)[:60]!r}"] if query.words else []
        words += [
            f"{option} {text[:40]}" for option, text in (("--since", query.since), ("--until", query.until)) if text
        ]
        raise InvalidValueError(
            f"no record in {store.name} fits {' '.join(words)}; `roofline runs` lists what is stored"
        )
    return record_sets


def _write(store: ResultStore, runs: list[FoundRun], wanted: str, output: Path | None, *, is_part: bool) -> None:
    from results.exchange.exported.export import write_json, write_rows
    from results.exchange.exported.parquet import write_parquet

    if output is None:
        if wanted == "json":
            write_json(store, runs, sys.stdout, is_part=is_part)
        else:
            write_rows(store, runs, sys.stdout)
        return
    with written_file(output) as place:
        if wanted == "parquet":
            write_parquet(store, runs, place)
            return
        with place.open("w", encoding="utf-8", newline="") as stream:
            if wanted == "json":
                write_json(store, runs, stream, is_part=is_part)
            else:
                write_rows(store, runs, stream)
