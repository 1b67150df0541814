"""`roofline recommend --stored`: what the runs of a database together recommend, from the options to the exit code."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reports.present.screen import present
from roofline_cli.shared.database import reading
from roofline_cli.shared.group import typed_pairs
from roofline_cli.shared.options import find_chip, parse_loss_limit, parse_size
from roofline_model.core.errors import InvalidValueError

if TYPE_CHECKING:
    from results.rankings import StoredQuestion
    from results.store.store import ResultStore

StoredOption = Annotated[
    bool,
    typer.Option("--stored", help="Recommend from stored runs, with what changed since the run before."),
]
OperatorOption = Annotated[
    str | None,
    typer.Option("--op", metavar="NAME", help="With --stored: this operator only, e.g. gemv, gemm, attention."),
]
ForceOption = Annotated[
    bool,
    typer.Option("--force", help="With --stored: name a result although its times were disturbed or are implausible."),
]
StoredDatabaseOption = Annotated[
    str | None,
    typer.Option(
        "--db",
        metavar="URL|PATH",
        help="With --stored: results database (default: ROOFLINE_DB, else .roofline/results.db here).",
    ),
]


@dataclass(frozen=True, slots=True)
class StoredRequest:
    """What was typed, not yet checked; None: left out."""

    sizes: tuple[str | None, str | None, str | None]
    """M, N, K."""
    model: str | None
    hw: str | None
    phase: str | None
    op: str | None
    memory_limit_gb: float | None
    max_quality_loss: str | None
    losses: Path | None
    db: str | None
    is_forced: bool = False


def recommend_from_database(request: StoredRequest, *, as_json: bool, show_all: bool = False) -> None:
    """Answer from the database; exits 1 when nothing is left to recommend."""
    from reports.present.answers.rankings import recommendations_json
    from reports.present.stored import stored_blocks
    from results.rankings import recommend_from_store

    with reading(request.db) as store:
        recommendations = recommend_from_store(store, question_of(request, store))
    present(
        lambda: recommendations_json(recommendations),
        lambda: stored_blocks(recommendations, typed_pairs(), show_all=show_all),
        as_json=as_json,
    )
    if not any(ranking.options for ranking in recommendations.rankings):
        raise typer.Exit(1)


def question_of(request: StoredRequest, store: ResultStore) -> StoredQuestion:
    """Return the question that was typed; raises a `RooflineError` that names the option."""
    from results.rankings import StoredQuestion
    from roofline_model.recommend.search.losses_file import read_losses

    given = [text for text in request.sizes if text is not None]
    if given and len(given) < 3:
        raise InvalidValueError("a shape is -M, -N and -K together; leave all three out for every stored shape")
    if given and request.model is not None:
        raise InvalidValueError("--model asks about a whole model and -M about one shape; give one of the two")
    limit_gb = request.memory_limit_gb
    return StoredQuestion(
        hardware_key="" if request.hw is None else asked_chip(request.hw, store),
        model=request.model or "",
        phase=request.phase or "",
        op=request.op or "",
        shape=tuple(parse_size(letter, text) for letter, text in zip("MNK", given, strict=bool(given))),
        memory_limit_bytes=None if limit_gb is None else limit_gb * 1e9,
        max_loss_pct=parse_loss_limit(request.max_quality_loss),
        losses=() if request.losses is None else (read_losses(request.losses),),
        is_forced=request.is_forced,
    )


def asked_chip(name: str, store: ResultStore) -> str:
    """Return the key of the chip that `--hw` means: a stored key, an alias, `auto` for this machine; raises as
    `stored_chip`.
    """
    from results.rankings.stored_chip import stored_chip

    stored = {run.hardware_key for run in store.runs() if run.hardware_key}
    all_of_them = "Leave --hw out for all of them, or leave --stored out for what is predicted of it"
    return stored_chip(name, stored, lambda chip_name: find_chip(chip_name).key, all_of_them=all_of_them)
