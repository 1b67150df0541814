"""`roofline recommend`: which format to quantize to for one shape, or for a whole model, on one chip."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reports.formats.short_answer import gain_text, product_answer, saved_text
from roofline_cli.predict.prediction_rows import print_gaps, standing_sentence
from roofline_cli.recommend.chips import chip_names, print_chips
from roofline_cli.recommend.model import LossOption, ModelOption, ModelOptions, ModelQuestion, recommend_for_model
from roofline_cli.recommend.model_view import added_by_all, print_short_answer
from roofline_cli.recommend.stored import (
    ForceOption,
    OperatorOption,
    StoredDatabaseOption,
    StoredOption,
    StoredRequest,
    recommend_from_database,
)
from roofline_cli.screen.tables import (
    MISSING,
    Column,
    decimal_bytes,
    show_json,
    show_line,
    show_table,
)
from roofline_cli.shared import completions
from roofline_cli.shared.option_blocks import given_options, takes_blocks
from roofline_cli.shared.options import (
    FormatsFileOption,
    JsonOption,
    checked_phase,
    find_chip,
    parse_amount,
    parse_loss_limit,
    parse_size,
    register_formats,
    with_user_formats,
)
from roofline_model.core.errors import InvalidValueError
from roofline_model.core.finding import finding, findings_text, first_with, short_text
from roofline_model.core.units import format_speedup, in_prefix, interval_in_prefix, shared_prefix
from roofline_model.recommend.loss import loss_text
from roofline_model.recommend.options import product_name

if TYPE_CHECKING:
    from roofline_model.core.answer import Exclusion, Ranking

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


def recommend_for_shape(
    shape: tuple[int, int, int],
    hw: str,
    phase: str | None,
    limit_gb: float | None,
    parameters: float | None,
    max_loss_pct: float | None,
    formats_file: Path | None,
    *,
    as_json: bool,
    show_all: bool = False,
) -> None:
    """Rank the formats for one product, with every one where `show_all`; exits 1 when nothing fits the memory limit."""
    from reports.formats.answer_json import command_json
    from reports.formats.shape_advice import shape_advice
    from roofline_model.expected.predict import expected_times
    from roofline_model.recommend.options import DEFAULT_FORMATS
    from roofline_model.recommend.shape import recommend_quantization

    names = with_user_formats(None, register_formats(formats_file), DEFAULT_FORMATS)
    rankings = {
        chip.key: recommend_quantization(
            chip,
            *shape,
            phase,
            limit_gb,
            model_parameters=parameters,
            formats=names,
            times=expected_times(chip),
            max_loss_pct=max_loss_pct,
        )
        for chip in map(find_chip, chip_names(hw))
    }
    if len(rankings) > 1:
        _show_chips(rankings, as_json=as_json)
        return
    (ranking,) = rankings.values()
    if as_json:
        show_json(command_json(shape_advice(ranking)))
    else:
        print_short_answer(product_answer(ranking), added_by_all(ranking, "format"), show_all=show_all)
        if show_all:
            print_details(ranking)
    if ranking.choice is None:
        raise typer.Exit(1)


def _show_chips(rankings: Mapping[str, Ranking], *, as_json: bool) -> None:
    """Show the choice on each of several chips; exits 1 when nothing fits on any."""
    from reports.formats.answer_json import SCHEMA_VERSION, answer_json
    from reports.formats.shape_advice import shape_advice

    if as_json:
        answers = [answer_json(shape_advice(ranking)) for ranking in rankings.values()]
        show_json({"schema_version": SCHEMA_VERSION, "answers": answers})
    else:
        question = next(iter(rankings.values())).question
        sizes = " ".join(f"{name}={size}" for name, size in question.sizes)
        arguments = " ".join(f"-{name} {size}" for name, size in question.sizes)
        print_chips(f"{question.phase} {sizes}", rankings, product_name, arguments)
    if all(ranking.choice is None for ranking in rankings.values()):
        raise typer.Exit(1)


def exclusion_text(exclusion: Exclusion) -> str:
    """Return what is not ranked and why, in a line."""

    return f"{exclusion.key}: {findings_text(exclusion.findings)}"


def print_details(ranking: Ranking) -> None:
    """Print all ranked options, what was excluded and why, the rule of the order, and why the choice is taken."""
    show_line()
    options = ranking.options
    ideals_s = [None if option.times.ideal is None else option.times.ideal.time_s for option in options]
    better_s = [None if option.estimate.source == "ideal" else option.estimate.time_s for option in options]
    prefix = shared_prefix(ideals_s, better_s)
    # Only where the ranking is by better times than the ideals has the ideal speed-up a column of its own.
    has_better = any(time_s is not None for time_s in better_s)
    columns = (
        Column("", "right"),
        Column("Format"),
        Column("Method", drop=5),
        Column("Path", drop=6),
        Column("Expected", "right", hide_empty=True),
        Column("80 %", "right", drop=3, hide_empty=True),
        Column("Ideal", "right"),
        Column("Gain", "right"),
        Column("Ideal gain", "right", drop=2, hide_empty=True),
        Column("From", drop=8, hide_empty=True),
        Column("Memory", "right", drop=3),
        Column("W saved", "right", drop=1),
        Column("Bound", drop=4),
        Column("Quality", is_prose=True, drop=7),
    )
    rows = []
    for rank, (option, ideal_s, time_s) in enumerate(zip(options, ideals_s, better_s, strict=True), 1):
        estimate, memory = option.estimate, option.memory
        time = in_prefix(time_s, prefix)
        interval = MISSING
        if estimate.low_s is not None and estimate.high_s is not None:
            interval = interval_in_prefix(estimate.low_s, estimate.high_s, prefix, time)
        rows.append(
            [
                str(rank),
                product_name(option),
                option.method,
                option.path,
                time,
                interval,
                in_prefix(ideal_s, prefix),
                gain_text(option, ranking.baseline),
                format_speedup(option.ideal_speedup_ratio) if has_better else MISSING,
                estimate.provenance or MISSING,
                MISSING if memory is None else decimal_bytes(memory.total_bytes),
                saved_text(option),
                option.bound,
                loss_text(option.loss),
            ]
        )
    show_table(columns, rows)
    for exclusion in ranking.excluded:
        show_line(f"  excluded: {exclusion_text(exclusion)}")
    gaps = (
        (product_name(each), first_with(each.findings, "kernel-gap") or first_with(each.findings, "engine-gap"))
        for each in options
    )
    print_gaps(gaps, rank=" last")
    for item in ranking.findings:
        show_line(f"  note: {short_text(item)}")
    show_line(basis_sentence(ranking), "dim")
    timed = [(dict(option.formats), option.estimate) for option in options]
    expected = [(each["b"], each["a"], time.provenance) for each, time in timed if time.source == "expected"]
    if text := standing_sentence(expected):
        show_line(text, "dim")
    if ranking.choice is not None:
        show_line(f"Why {product_name(ranking.choice)}: {ranking.reason}.")


def basis_sentence(ranking: Ranking) -> str:
    """Return which kind of time the ranking goes by, and what decides between tied ones."""

    if all(option.estimate.source == "ideal" for option in ranking.options):
        return (
            f"Ranked {short_text(finding('order-of-bounds', source='ideal'))}. No expected times are known for "
            f"{ranking.question.hardware}."
        )
    rule = short_text(finding("order-of-predictions", source="expected"))
    return f"Ranked {rule}. Ideal gain: ideal time against that of 16 bit."
