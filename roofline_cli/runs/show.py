"""`roofline show`: one stored run, or everything about some of its cases."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reports.present.screen import PIPED_WIDTH, present, screen_width
from roofline_cli.shared.database import reading
from roofline_cli.shared.group import typed
from roofline_cli.shared.options import AllOption, DatabaseOption, JsonOption, PlotOption, check_plot
from roofline_model.core.errors import InvalidValueError
from roofline_model.core.units import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reports.present.blocks import Block
    from reports.view.run_state import RunState
    from results.cases.case_result import CaseResult
    from results.cases.run import RunAnswer

COMMANDS = {
    "show": ("show_run", "Show one run: measured, predicted, error, bound, rate."),
}

RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="Id prefix, label, latest or latest~1.")]
CasesArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="CASE...",
        help="Words of a case's operator, sizes or id, as any table names it: show everything about it.",
    ),
]


def show_run(
    run: RunArgument,
    cases: CasesArgument = None,
    show_all: AllOption = False,
    plot: PlotOption = False,
    db: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show one run: measured, predicted, error, bound, rate.

    CASE is words of a case in any order, as in `roofline show latest gemv 4096 int4`: shows everything about the cases
    that have all of them. Where none has, each CASE names cases of its own.
    """
    from reports.document.run_blocks import run_blocks
    from reports.present.imported import unpredicted_blocks
    from reports.view.run_state import run_state
    from results.cases.run import read_run
    from roofline_cli.plot.view import plotted_chips, show_run_plots

    words = cases or []
    check_plot(plot, as_json)
    with reading(db) as store:
        answer = read_run(store, run, with_samples=bool(words))
    chosen = _chosen(answer, words)
    if words:
        present(lambda: _cases_json(answer, chosen), lambda: _case_blocks(answer, chosen), as_json=as_json)
    else:
        state = run_state(answer.run, answer.cases, answer.records, answer.canaries)
        present(
            lambda: _run_json(answer, state),
            lambda: (
                *run_blocks(answer, state, db_option=typed("--db"), show_all=show_all),
                *unpredicted_blocks(answer.records),
            ),
            as_json=as_json,
        )
    if plot:
        keys = {case.case_key for case in chosen} if words else None
        show_run_plots(plotted_chips(answer.run, answer.records, answer.profiles, answer.floors, keys))


def _chosen(answer: RunAnswer, words: Sequence[str]) -> list[CaseResult]:
    """Return the cases that have all the words; where none has, those that each of them names."""
    cases, short = answer.cases, answer.run.run_id[:8]
    whole = [case for case in cases if case.is_meant(" ".join(words))] if words else []
    if whole:
        return whole
    for part in words:
        if not any(case.is_meant(part) for case in cases):
            names = ", ".join(case.case.id for case in cases[:2])
            held = f"it has {counted(len(cases), 'case')}, such as {names}" if cases else "it has no cases"
            raise InvalidValueError(
                f"no case of run {short} has {part[:60]!r} in its operator, sizes or id; {held}; "
                f"`roofline show {short}` lists them"
            )
    return [case for case in cases if any(case.is_meant(part) for part in words)]


def _case_blocks(answer: RunAnswer, cases: Sequence[CaseResult]) -> Iterator[Block]:
    from reports.document.case_facts import case_blocks
    from reports.document.run_blocks import about_run

    yield from about_run(answer.run, f"{len(cases)} of {counted(len(answer.cases), 'case')}")
    width = (screen_width() or PIPED_WIDTH) - 2
    for case in cases:
        yield from case_blocks(case, answer.run, width)


def _run_json(answer: RunAnswer, state: RunState) -> dict[str, Any]:
    from reports.present.answers.runs import RunDetail
    from reports.present.cases import profile_doubts
    from reports.present.display_text import stored_text
    from reports.present.encoder import answer_json, command_json
    from reports.present.words.model_json import model_json
    from results.cases.model_results import model_results

    return {
        **command_json(RunDetail(answer.run, answer.cases, state.canary_sentence if answer.canaries else "")),
        "cases": [answer_json(case, stored_text) for case in answer.cases],
        "models": [model_json(model) for model in model_results(answer.cases)],
        "canaries": [asdict(canary) for canary in answer.canaries],
        "worker_ends": list(state.restarts),
        "calibration_doubts": profile_doubts(answer.profiles.values()),
    }


def _cases_json(answer: RunAnswer, cases: Sequence[CaseResult]) -> dict[str, Any]:
    from reports.present.answers.runs import case_detail_json
    from reports.present.encoder import SCHEMA_VERSION, answer_json

    environment = answer.run.environment
    return {
        "schema_version": SCHEMA_VERSION,
        "run": answer_json(answer.run),
        "environment": dict(environment.facts),
        "environment_class": {"class_hash": environment.class_hash, "class_facts": dict(environment.class_facts)},
        "cases": [case_detail_json(case) for case in cases],
    }
