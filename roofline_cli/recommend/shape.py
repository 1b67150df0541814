"""`roofline recommend -M -N -K`: which format to quantize to for one shape, on one chip or several."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from reports.answers.short_answer import gain_text, product_answer, saved_text
from reports.present.blocks import Column, table
from reports.present.cases import option_memory_cell
from reports.present.screen import MISSING, show, show_json, show_line
from roofline_cli.predict.prediction_rows import print_gaps, standing_sentence
from roofline_cli.recommend.chips import chip_names, print_chips
from roofline_cli.recommend.model_view import added_by_all, print_short_answer
from roofline_cli.shared.group import typed_pairs
from roofline_cli.shared.options import (
    find_chip,
    register_formats,
    with_user_formats,
)
from roofline_model.core.finding import finding, findings_text, first_with, short_text
from roofline_model.core.units import format_speedup, in_prefix, interval_in_prefix, shared_prefix
from roofline_model.recommend.loss import loss_text
from roofline_model.recommend.options import product_name

if TYPE_CHECKING:
    from roofline_model.core.answer import Exclusion, Option, Ranking


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
    from reports.answers.shape_advice import shape_advice
    from reports.present.encoder import command_json
    from roofline_model.expected.predict import expected_times
    from roofline_model.recommend.options import default_formats
    from roofline_model.recommend.shape import recommend_quantization

    user_formats = register_formats(formats_file)
    named_chips = {name: find_chip(name) for name in chip_names(hw)}
    typed_names = {chip.key: name for name, chip in named_chips.items()}
    rankings = {
        chip.key: recommend_quantization(
            chip,
            *shape,
            phase,
            limit_gb,
            model_parameters=parameters,
            formats=with_user_formats(None, user_formats, default_formats(chip)),
            times=expected_times(chip),
            max_loss_pct=max_loss_pct,
        )
        for chip in named_chips.values()
    }
    if len(rankings) > 1:
        _show_chips(rankings, typed_names, as_json=as_json)
        return
    (ranking,) = rankings.values()
    if as_json:
        show_json(command_json(shape_advice(ranking, typed_pairs())))
    else:
        print_short_answer(product_answer(ranking, typed_pairs()), added_by_all(ranking, "format"), show_all=show_all)
        if show_all:
            print_details(ranking)
    if ranking.choice is None:
        raise typer.Exit(1)


def _show_chips(rankings: Mapping[str, Ranking], typed_names: Mapping[str, str], *, as_json: bool) -> None:
    """Show the choice on each of several chips; exits 1 when nothing fits on any. `typed_names`: of keys of chips."""
    from reports.answers.shape_advice import shape_advice
    from reports.present.encoder import SCHEMA_VERSION, answer_json

    if as_json:
        answers = [
            answer_json(shape_advice(ranking, [("--hw", typed_names[key])])) for key, ranking in rankings.items()
        ]
        show_json({"schema_version": SCHEMA_VERSION, "answers": answers})
    else:
        question = next(iter(rankings.values())).question
        sizes = " ".join(f"{name}={size}" for name, size in question.sizes)
        print_chips(f"{question.phase} {sizes}", rankings, product_name, typed_names)
    if all(ranking.choice is None for ranking in rankings.values()):
        raise typer.Exit(1)


def exclusion_text(exclusion: Exclusion) -> str:
    """Return what is not ranked and why, in a line."""

    return f"{exclusion.key}: {findings_text(exclusion.findings)}"


def print_details(ranking: Ranking) -> None:
    """Print all ranked options, what was excluded and why, the rule of the order, and why the choice is taken."""
    show_line()
    options = ranking.options
    show(table("options", _columns(ranking), options))
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


def _columns(ranking: Ranking) -> tuple[Column, ...]:
    ideals_s = [option.times.ideal_s for option in ranking.options]
    better_s = [_better_s(option) for option in ranking.options]
    prefix = shared_prefix(ideals_s, better_s)
    # Only where the ranking is by better times than the ideals has the ideal speed-up a column of its own.
    has_better = any(time_s is not None for time_s in better_s)
    ranks = {option.key: str(rank) for rank, option in enumerate(ranking.options, 1)}

    def interval(option: Option) -> str:
        low_s, high_s = option.estimate.interval_s
        if low_s is None or high_s is None:
            return MISSING
        return interval_in_prefix(low_s, high_s, prefix, in_prefix(_better_s(option), prefix))

    def ideal_gain(option: Option) -> str:
        return format_speedup(option.ideal_speedup_ratio) if has_better else MISSING

    return (
        Column("", lambda option: ranks[option.key], "number"),
        Column("Format", product_name, is_head=True),
        Column("Method", lambda option: option.method, drop=5),
        Column("Path", lambda option: option.path, drop=6),
        Column("Expected", lambda option: in_prefix(_better_s(option), prefix), "number"),
        Column("80 %", interval, "number", drop=3),
        Column("Ideal", lambda option: in_prefix(option.times.ideal_s, prefix), "number"),
        Column("Gain", lambda option: gain_text(option, ranking.baseline), "number"),
        Column("Ideal gain", ideal_gain, "number", drop=2),
        Column("From", lambda option: option.estimate.provenance or MISSING, drop=8),
        Column("Memory", option_memory_cell, "number", drop=3),
        Column("W saved", saved_text, "number", drop=1),
        Column("Bound", lambda option: option.bound, drop=4),
        Column("Quality", lambda option: loss_text(option.loss), "prose", drop=7),
    )


def _better_s(option: Option) -> float | None:
    return None if option.estimate.source == "ideal" else option.estimate.time_s


def basis_sentence(ranking: Ranking) -> str:
    """Return which kind of time the ranking goes by, and what decides between tied ones."""

    if all(option.estimate.source == "ideal" for option in ranking.options):
        return (
            f"Ranked {short_text(finding('order-of-bounds', source='ideal'))}. No expected times are known for "
            f"{ranking.question.hardware}."
        )
    rule = short_text(finding("order-of-predictions", source="expected"))
    return f"Ranked {rule}. Ideal gain: ideal time against that of 16 bit."
