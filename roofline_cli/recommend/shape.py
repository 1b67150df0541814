"""`roofline recommend -M -N -K`: which format to quantize to for one shape, on one chip or several."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from reports.present.screen import present
from roofline_cli.recommend.chips import chip_names, show_chips
from roofline_cli.shared.group import typed_pairs
from roofline_cli.shared.options import find_chip, register_formats, with_user_formats

if TYPE_CHECKING:
    from reports.present.blocks import Block
    from roofline_model.chips.hardware import Device
    from roofline_model.core.answer import Ranking


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
    from reports.present.answers.products import shape_advice
    from reports.present.encoder import command_json
    from reports.present.predicted.advice import added_by_all, product_answer, short_answer_blocks
    from reports.present.predicted.details import product_details
    from roofline_model.expected.predict import expected_times
    from roofline_model.recommend.options import default_formats, product_name
    from roofline_model.recommend.shape import recommend_quantization

    user_formats = register_formats(formats_file)

    def ranking_on(chip: Device) -> Ranking:
        return recommend_quantization(
            chip,
            *shape,
            phase,
            limit_gb,
            model_parameters=parameters,
            formats=with_user_formats(None, user_formats, default_formats(chip)),
            times=expected_times(chip),
            max_loss_pct=max_loss_pct,
        )

    def subject(ranking: Ranking) -> str:
        sizes = " ".join(f"{name}={size}" for name, size in ranking.question.sizes)
        return f"{ranking.question.phase} {sizes}"

    names = chip_names(hw)
    if len(names) > 1:
        show_chips(
            names,
            ranking_on,
            lambda ranking, chip, asked: shape_advice(ranking, [pair for pair in asked if pair[0] == "--hw"]),
            subject,
            product_name,
            as_json=as_json,
        )
        return
    ranking = ranking_on(find_chip(hw))

    def blocks() -> Iterator[Block]:
        answer = product_answer(ranking, typed_pairs())
        yield from short_answer_blocks(answer, added_by_all(ranking, "format"), show_all=show_all)
        yield from product_details(ranking) if show_all else ()

    present(lambda: command_json(shape_advice(ranking, typed_pairs())), blocks, as_json=as_json)
    if ranking.choice is None:
        raise typer.Exit(1)
