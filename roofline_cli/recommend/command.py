"""`roofline recommend`: the command, its options, and whether these ask about a shape, a model or stored runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import typer

from roofline_cli.recommend.model import LossOption, ModelOption, ModelOptions, ModelQuestion, recommend_for_model
from roofline_cli.recommend.shape import recommend_for_shape
from roofline_cli.recommend.stored import (
    ForceOption,
    OperatorOption,
    StoredDatabaseOption,
    StoredOption,
    StoredRequest,
    recommend_from_database,
)
from roofline_cli.shared import completions
from roofline_cli.shared.option_blocks import given_options, takes_blocks
from roofline_cli.shared.options import (
    FormatsFileOption,
    JsonOption,
    checked_phase,
    parse_amount,
    parse_loss_limit,
    parse_size,
)
from roofline_model.core.errors import InvalidValueError

COMMANDS = {
    "recommend": ("recommend", "Rank formats for a shape, a model, or by stored runs."),
}

_RowsOption = Annotated[str | None, typer.Option("-M", metavar="INT", help="Rows of A and C: tokens in flight.")]
_ColumnsOption = Annotated[str | None, typer.Option("-N", metavar="INT", help="Columns of B and C: output features.")]
_InnerOption = Annotated[str | None, typer.Option("-K", metavar="INT", help="Columns of A, rows of B: input features.")]
_ChipOption = Annotated[
    str | None,
    typer.Option(
        "--hw",
        autocompletion=completions.chips,
        metavar="NAME|FILE|auto",
        help=(
            "Chip: key, alias, path of a TOML file, or auto, this machine (default; with --stored: every stored chip); "
            "several to compare, as gb10,h100."
        ),
    ),
]
_PhaseOption = Annotated[
    str | None, typer.Option("--phase", metavar="decode|prefill", help="Default: decode (of a shape: up to M = 16).")
]
_LimitOption = Annotated[
    str | None,
    typer.Option(
        "--memory-limit-gb",
        metavar="GB",
        help="Exclude options that need more decimal gigabytes (with --model, default: the chip's).",
    ),
]
_ParametersOption = Annotated[
    str | None,
    typer.Option(
        "--model-parameters",
        metavar="COUNT",
        help="Of a shape: parameters of the whole model, e.g. 8.03e9, for the limit.",
    ),
]


@takes_blocks
def recommend(
    M: _RowsOption = None,
    N: _ColumnsOption = None,
    K: _InnerOption = None,
    model: ModelOption = None,
    hw: _ChipOption = None,
    phase: _PhaseOption = None,
    memory_limit_gb: _LimitOption = None,
    model_parameters: _ParametersOption = None,
    max_quality_loss: LossOption = None,
    *,
    of_model: ModelOptions,
    formats_file: FormatsFileOption = None,
    stored: StoredOption = False,
    op: OperatorOption = None,
    db: StoredDatabaseOption = None,
    force: ForceOption = False,
    show_all: Annotated[bool, typer.Option("--all", help="List every option, what was excluded, and why.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Rank formats for a shape, a model, or by stored runs.

    Give a shape (-M -N -K), a whole model (--model), or --stored for what the runs of a database measured. Options are
    ranked by expected time where the chip has one, else by ideal time. A loss is a published figure until you measure
    it. Exits 1 when nothing keeps the limits.
    """
    shape = {"-M": M, "-N": N, "-K": K}
    phase = checked_phase(phase)
    limit_gb = parse_amount("--memory-limit-gb", memory_limit_gb, "gigabytes such as 24")
    if stored:
        of_prediction = {
            "--model-parameters": model_parameters,
            "--formats-file": formats_file,
        }
        check_stored_form({**given_options(of_model), **of_prediction})
        request = StoredRequest((M, N, K), model, hw, phase, op, limit_gb, max_quality_loss, of_model.losses, db, force)
        recommend_from_database(request, as_json=as_json, show_all=show_all)
        return
    check_form(
        {**shape, "--model-parameters": model_parameters},
        model,
        given_options(of_model),
        {"--op": op, "--db": db, "--force": force or None},
    )
    hw = hw or "auto"
    if model is not None:
        question = ModelQuestion(model, phase, limit_gb, max_quality_loss, formats_file, of_model)
        recommend_for_model(question, hw, as_json=as_json, show_all=show_all)
        return
    sizes = parse_size("M", M or ""), parse_size("N", N or ""), parse_size("K", K or "")
    parameters = parse_amount("--model-parameters", model_parameters, "parameters such as 8.03e9")
    max_loss_pct = parse_loss_limit(max_quality_loss)
    recommend_for_shape(
        sizes, hw, phase, limit_gb, parameters, max_loss_pct, formats_file, as_json=as_json, show_all=show_all
    )


_OF_STORED = frozenset({"--losses"})
"""Options of a model that narrow what is stored, too."""


def check_stored_form(others: Mapping[str, object]) -> None:
    """Raise `InvalidValueError` for an option that stored runs do not answer to."""
    astray = [option for option, value in others.items() if value is not None and option not in _OF_STORED]
    if astray:
        raise InvalidValueError(
            f"{astray[0]} does not go with --stored, which ranks what was run: leave it out, or leave --stored out"
        )


def check_form(
    shape: Mapping[str, str | None], model: str | None, of_model: Mapping[str, object], of_stored: Mapping[str, object]
) -> None:
    """Raise `InvalidValueError` unless the options are those of one shape or those of one model."""
    stray = [option for option, value in of_stored.items() if value is not None]
    if stray:
        raise InvalidValueError(f"{stray[0]} is about stored runs: add --stored")
    given = [option for option, value in shape.items() if value is not None]
    if model is not None and given:
        raise InvalidValueError(
            f"--model asks about a whole model and {given[0]} about one shape; give either --model or -M -N -K"
        )
    if model is not None:
        return
    missing = [option for option, value in shape.items() if value is None and len(option) == 2]
    if len(missing) == 3:
        raise InvalidValueError(
            "give a shape, -M -N -K, or a whole model, --model NAME; see `roofline recommend --help`"
        )
    if missing:
        raise InvalidValueError(
            f"Missing option '{missing[0]}'; a shape is -M, -N and -K; see `roofline recommend --help`"
        )
    astray = [option for option, value in of_model.items() if value is not None]
    if astray:
        raise InvalidValueError(f"{astray[0]} is about a whole model: give --model NAME in place of -M -N -K")
