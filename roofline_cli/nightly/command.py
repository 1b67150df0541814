"""`roofline nightly`: measure every case in fresh processes, compare with the baseline, look for change points."""

from __future__ import annotations

import datetime
import re
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from roofline_cli.shared.children import end_with_ctrl_c, pytest_words
from roofline_cli.shared.gate_options import (
    AnnotationsOption,
    FailOnOption,
    MaxAmbiguousOption,
    PytestOption,
    QuarantineOption,
    gate_words,
)
from roofline_cli.shared.options import DatabaseOption, JsonOption
from roofline_model.core.errors import InvalidValueError, StoreError

COMMANDS = {
    "nightly": ("nightly", "Measure all cases, compare with the baseline, and report."),
}
_RESERVED = {
    "--roofline-run": "--label names the run",
    "--roofline-db": "--db names the database",
    "--roofline-json": "the run is run.json in the folder of -o",
}


def nightly(
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FOLDER", help="Folder of the results.")] = Path(
        ".roofline/night"
    ),
    pytest: PytestOption = "bench_cases",
    label: Annotated[
        str, typer.Option("--label", metavar="LABEL", help="Name of the run (default: nightly-DATE-TIME in UTC).")
    ] = "",
    against: Annotated[
        str, typer.Option("--against", metavar="WHICH", help="Baseline, as of `roofline diff`.")
    ] = "baseline",
    fail_on: FailOnOption = "slower,gone",
    max_ambiguous: MaxAmbiguousOption = "20%",
    quarantine: QuarantineOption = None,
    annotations: AnnotationsOption = None,
    bench_minutes: Annotated[
        float, typer.Option("--bench-minutes", metavar="MINUTES", min=0.01, max=6000, help="Stop measuring after this.")
    ] = 240,
    db: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Measure all cases, compare with the baseline, and report.

    Each case is measured in three fresh processes, and at least one case has to be measured. Exit codes are those of
    `roofline diff`; 1 is also a wrong kernel or too few measured cases, 2 a step that could not do its work.
    """
    from reports.present.screen import show_json, show_line
    from roofline_cli.nightly.nightly_run import NightlyPlan, NightlyRun, empty_folder
    from roofline_cli.nightly.summary import write_summary

    now = datetime.datetime.now(datetime.UTC)
    plan = NightlyPlan(
        label=label or f"nightly-{now:%Y-%m-%d-%H%M%S}",
        pytest_words=tuple(pytest_words(pytest, _RESERVED)),
        against=against.strip(),
        gate=gate_words(fail_on, max_ambiguous),
        lists=tuple(
            word
            for name, path in (("--quarantine", quarantine), ("--annotations", annotations))
            if path is not None
            for word in (name, str(path))
        ),
        bench_minutes=bench_minutes,
        db=db,
    )
    _check_secrets(*plan.pytest_words, db or "")
    _check_lists(quarantine, annotations, now.date())
    _check_stored(plan.label, plan.against, db, now)
    empty_folder(output)
    end_with_ctrl_c()
    nightly_run = NightlyRun(output, plan)
    nightly_run.go()
    document = write_summary(nightly_run)
    if as_json:
        show_json(document)
    else:
        show_line(f"{nightly_run.verdict} · {output / 'summary.md'}")
    raise typer.Exit(nightly_run.exit_code)


def _check_secrets(*texts: str) -> None:
    """Raise for a password in any text: commands are printed, and the folder is uploaded."""
    from results.store.target import mask_passwords

    if any(mask_passwords(text) != text for text in texts):
        raise InvalidValueError(
            "an option holds a password: put the URL into ROOFLINE_DB, or the password into PGPASSFILE"
        )


def _check_lists(quarantine: Path | None, annotations: Path | None, today: datetime.date) -> None:
    """Read the lists that people keep; raises `DefinitionError` for what is wrong with one, before an hour is spent."""
    from results.watch.annotations import load_annotations
    from results.watch.quarantine import load_quarantine

    if quarantine is not None:
        load_quarantine(quarantine, today)
    if annotations is not None:
        load_annotations(annotations)


def _check_stored(label: str, against: str, db: str | None, now: datetime.datetime) -> None:
    """Raise a `RooflineError` for a label that is taken, and for a baseline that nothing stored can be."""
    from results.diff.baseline import choose_baseline, find_baseline
    from results.records.records import RunInfo
    from roofline_cli.shared.database import reading

    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", label) or label.startswith("latest"):
        raise InvalidValueError(
            f"--label {label[:80]!r} cannot name a run: letters, digits, . _ - only, not beginning with latest"
        )
    planned = [RunInfo("", now.isoformat())]
    is_word = choose_baseline(against, planned, ()) is not None
    with ExitStack() as stack:
        try:
            store = stack.enter_context(reading(db))
        except StoreError:  # there is none yet, or its server is away: what is measured is kept all the same
            if not is_word:
                raise
            return
        taken = next((run for run in store.runs() if run.label == label), None)
        if taken is not None:
            raise InvalidValueError(
                f"--label {label} is taken by run {taken.run_id[:8]} of {taken.started_at[:16]}: one label, one run"
            )
        find_baseline(against, planned, store.runs, store.resolve_run)
