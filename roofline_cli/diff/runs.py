"""`roofline diff`: what got slower between two runs, by more than noise; the exit code is a gate."""

from __future__ import annotations

import contextlib
import datetime
import io
import json
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reports.present.screen import show_json, show_line
from roofline_cli.screen.output_file import check_is_not_input, check_output, write_text
from roofline_cli.shared.database import named_runs, reading, shown_target
from roofline_cli.shared.options import DatabaseOption, float_or_nan
from roofline_model.core.errors import InvalidValueError

if TYPE_CHECKING:
    from results.diff.case_diff import SuiteDiff
    from results.diff.gate import FailRule, GateResult
    from results.diff.rules import DiffRules
    from results.records.records import RunInfo
    from results.store.store import ResultStore

COMMANDS = {
    "diff": ("diff_runs", "Show what changed between two runs by more than noise."),
}

FORMATS = ("text", "md", "json", "junit")


def diff_runs(
    runs: Annotated[
        list[str],
        typer.Argument(metavar="RUN...", help="A B: the older and the newer run; or B alone. A,C B pools A and C."),
    ],
    against: Annotated[
        str | None,
        typer.Option(
            "--against",
            metavar="WHICH",
            help="Baseline of B: latest (default), BASELINE[:N] (the newest N, 5), branch:NAME, or a run.",
        ),
    ] = None,
    fail_on: Annotated[
        list[str] | None,
        typer.Option(
            "--fail-on",
            metavar="RULES",
            help="What exits 1: slower, gone, energy, memory, quality, error; with a size: slower:5% (default: slower).",
        ),
    ] = None,
    min_effect: Annotated[
        str, typer.Option("--min-effect", metavar="PERCENT", help="Smaller changes are never called.")
    ] = "1",
    fdr: Annotated[
        str, typer.Option("--fdr", metavar="SHARE", help="Share of the cases called SLOWER that may be wrong.")
    ] = "0.01",
    max_ambiguous: Annotated[
        str,
        typer.Option("--max-ambiguous", metavar="N|P%", help="Exit 3 with more ambiguous cases, or a larger share."),
    ] = "",
    quarantine: Annotated[
        Path | None, typer.Option("--quarantine", metavar="FILE.toml", help="Cases that are shown and fail nothing.")
    ] = None,
    annotations: Annotated[
        Path | None,
        typer.Option("--annotations", metavar="FILE.toml", help="Expected changes, which fail nothing."),
    ] = None,
    allow: Annotated[
        list[str] | None,
        typer.Option(
            "--allow",
            metavar="FACT",
            help="Compare although this fact of the environment differs, e.g. driver; repeatable.",
        ),
    ] = None,
    show_all: Annotated[bool, typer.Option("--all", help="List the cases that are the same, too.")] = False,
    file_format: Annotated[
        str, typer.Option("--format", metavar="text|md|json|junit", help="md: for a pull request; junit: for CI.")
    ] = "text",
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write here instead of stdout.")
    ] = None,
    db: DatabaseOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
) -> None:
    """Show what changed between two runs by more than noise.

    Exit codes: 0 nothing worse, 1 regression, 2 bad input, 3 too much is ambiguous, 4 not comparable, 5 machine state.
    """
    from results.diff.gate import gate, parse_fail_on, parse_max_ambiguous
    from results.diff.stored_sides import baseline_side, named_side, side_of
    from results.diff.suites import compare_suites
    from results.watch.annotations import load_annotations
    from results.watch.quarantine import load_quarantine

    form = _format(file_format, as_json)
    fails = parse_fail_on(fail_on or ["slower"])
    most_ambiguous = parse_max_ambiguous(max_ambiguous)
    rules = _rules(min_effect, fdr, fails)
    listed = load_quarantine(quarantine, datetime.datetime.now(datetime.UTC).date()) if quarantine is not None else None
    expected = load_annotations(annotations) if annotations is not None else ()
    if output is not None:
        check_output(output, shown_target(db)[1])
        inputs = {"the quarantine list": quarantine, "the list of annotations": annotations}
        check_is_not_input(output, {name: path for name, path in inputs.items() if path is not None})
    names = _two_sides(runs, against)
    with reading(db) as store:
        after_runs = named_runs(store, names[1])
        noise = store.noise_floors(after_runs[0].environment.class_hash)
        after = side_of(store, after_runs)
        before = (
            baseline_side(store, against or "latest", after, noise, rules, expected)
            if names[0] is None
            else named_side(store, named_runs(store, names[0]))
        )
        simulated_ids = _simulated(store, () if before is None else before.runs, after.runs)
    if before is None:
        _first(after_runs[0], output, form)
        return
    diff = compare_suites(before, after, noise, rules, quarantine=listed, allowed=allow or (), annotations=expected)
    result = gate(diff, fails, *most_ambiguous)
    words = (against or "latest") if names[0] is None else ""
    _deliver(_rendered(diff, result, fails, form, show_all, simulated_ids, words, is_file=output is not None), output)
    if result.exit_code:
        raise typer.Exit(result.exit_code)


def _simulated(store: ResultStore, *sides: Sequence[RunInfo]) -> frozenset[str]:
    """Return the ids of the runs of which no kernel ran."""
    from results.operations.run_contents import run_contents

    contents = run_contents(store, [run.run_id for runs in sides for run in runs])
    return frozenset(run_id for run_id, holds in contents.items() if holds.is_simulated)


def _two_sides(runs: Sequence[str], against: str | None) -> tuple[str | None, str]:
    if len(runs) > 2:
        raise InvalidValueError(
            f"diff takes two runs, A and B, got {len(runs)}; several runs of one side are joined by commas"
        )
    if len(runs) == 2 and against is not None:
        raise InvalidValueError("give either two runs or --against, not both")
    return (runs[0], runs[1]) if len(runs) == 2 else (None, runs[0])


def _rules(min_effect: str, fdr: str, fails: Sequence[FailRule]) -> DiffRules:
    from results.diff.gate import rules_for
    from results.diff.rules import DiffRules

    percent, share = float_or_nan(min_effect.strip().removesuffix("%").strip()), float_or_nan(fdr)
    if not 0 < percent < 100:
        raise InvalidValueError(f"--min-effect must be a percentage above 0 and below 100, got {min_effect[:40]!r}")
    if not 0 < share < 1:
        raise InvalidValueError(f"--fdr must be a share above 0 and below 1, such as 0.05, got {fdr[:40]!r}")
    return rules_for(fails, DiffRules(percent / 100, share))


def _format(file_format: str, as_json: bool) -> str:
    if file_format not in FORMATS:
        raise InvalidValueError(f"--format must be {', '.join(FORMATS)}, got {file_format[:40]!r}")
    if as_json and file_format not in ("text", "json"):
        raise InvalidValueError(f"--json and --format {file_format} exclude each other")
    return "json" if as_json else file_format


def _rendered(
    diff: SuiteDiff,
    result: GateResult,
    fails: Sequence[FailRule],
    form: str,
    show_all: bool,
    simulated_ids: Collection[str],
    against: str,
    *,
    is_file: bool,
) -> str:
    """Return the diff in the form that was asked for. A file gets plain text, whatever screen it is made on."""
    from reports.present.answers.diff import DiffAnswer
    from reports.present.encoder import command_json

    if form == "md":
        from reports.formats.diff_markdown import diff_markdown

        return diff_markdown(diff, result)
    if form == "junit":
        from reports.formats.junit import diff_junit

        return diff_junit(diff, result)
    stream = io.StringIO()
    with contextlib.redirect_stdout(stream) if is_file or form == "json" else contextlib.nullcontext():
        if form == "json":
            show_json(command_json(DiffAnswer(diff, result, fails)))
        else:
            from roofline_cli.diff.view import show_diff

            show_diff(diff, result, simulated_ids, against=against, show_all=show_all)
    return stream.getvalue()


def _first(run: RunInfo, output: Path | None, form: str) -> None:
    """Say that there is nothing to compare with yet: no fault of the first night."""
    text = (
        f"nothing to compare with yet: no complete run with a time is older than {run.run_id[:8]} here; it can be the "
        "first baseline"
    )
    if form == "json":
        from reports.present.encoder import SCHEMA_VERSION

        answer = {"schema_version": SCHEMA_VERSION, "verdict": text, "exit_code": 0, "cases": []}
        text = json.dumps(answer, indent=2)
    elif form == "junit":
        from reports.formats.junit import empty_junit

        text = empty_junit(text)
    if output is None and form == "text":
        show_line(text)
        return
    _deliver(text.rstrip() + "\n", output)


def _deliver(text: str, output: Path | None) -> None:
    if output is None:
        sys.stdout.write(text)
    else:
        write_text(output, text)
