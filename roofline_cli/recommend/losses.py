"""`roofline losses`: what each layer of a model loses in each format, measured, as the file that `recommend --losses`
reads.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reports.present import blocks
from reports.present.blocks import Column
from reports.present.screen import present
from roofline_cli.screen.output_file import check_is_not_input, check_output
from roofline_cli.screen.progress_bar import progress_bar
from roofline_cli.shared import completions
from roofline_cli.shared.measuring import check_can_measure
from roofline_cli.shared.options import JsonOption, split_list
from roofline_model.core.errors import InvalidValueError
from roofline_model.formats.catalog import get_format

if TYPE_CHECKING:
    from roofline_model.recommend.search.losses_file import MeasuredLosses

COMMANDS = {
    "losses": ("losses", "Measure the loss of every group of layers × format on a text."),
}

DEFAULT_FORMATS = ("INT8", "FP8.BF16", "FP8", "NVFP4.BF16", "INT4")
"""Weights alone in 8 and 4 bits, and the commonest pair of both operands."""


def losses(
    model: Annotated[
        str,
        typer.Option(
            "--model",
            autocompletion=completions.models,
            metavar="ID|PATH",
            help="Model to load: a seeded name, a folder as save_pretrained writes it, or a hub id.",
        ),
    ],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE.json", help="File to write the losses to.")],
    formats: Annotated[
        list[str] | None,
        typer.Option(
            "--formats",
            autocompletion=completions.formats,
            metavar="LIST",
            help=f"WEIGHT or WEIGHT.ACTIVATION as in `apply_plan` (default: {','.join(DEFAULT_FORMATS)}).",
        ),
    ] = None,
    kv: Annotated[
        list[str] | None,
        typer.Option("--kv", metavar="LIST", help="KV-cache formats to measure layer by layer, too: INT8, FP8, NVFP4."),
    ] = None,
    text: Annotated[
        Path | None,
        typer.Option(
            "--text", metavar="FILE.txt", help="Text to measure on (default: help texts that ship with Python)."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Measure the loss of every group of layers × format on a text.

    One run of the text per group and format: KL of the next token against the 16-bit model, with that group alone
    narrow. Read the file with `roofline recommend --model … --losses FILE.json`.
    """
    from roofline_model.recommend.search.losses_file import write_losses

    check_output(output, None)
    check_is_not_input(output, {} if text is None else {"the text": text})
    measured = _measured(
        model, split_list(formats) or list(DEFAULT_FORMATS), split_list(kv) or [], text, is_quiet=as_json
    )
    write_losses(measured, output)
    rows = _summary(measured)
    present(
        lambda: {
            "file": str(output),
            "source": measured.source,
            "formats": [row | {"format": name} for name, row in rows.items()],
        },
        lambda: _blocks(measured, rows, model, output),
        as_json=as_json,
    )


def _measured(model: str, formats: list[str], kv: list[str], text: Path | None, *, is_quiet: bool) -> MeasuredLosses:
    """Load the model and measure format by format; raises a `RooflineError` before the first run for what cannot be
    measured.
    """
    from roofline_model.recommend.search.losses_file import MeasuredLosses

    check_can_measure()
    from bench_cases.models.model_step import vocabulary_size
    from bench_cases.models.reference import find_model
    from bench_cases.models.sources import load_model
    from bench_cases.models.step_quality import quality_text
    from bench_cases.quality.layer_formats import narrow_layer_formats
    from bench_cases.quality.part_losses import measured_losses
    from bench_cases.quantization.target import read_target

    narrow_layer_formats(formats)
    _check_caches(kv)
    device, reference = read_target("auto").device, find_model(model)
    with progress_bar("losses", is_quiet=is_quiet) as advance:
        advance("loading", 0, len(formats) + 1)
        loaded = load_model(reference.text, device=device)
        quality = quality_text(loaded, vocabulary_size(loaded.model), device, text)
        values: dict[tuple[str, str], float] = {}
        for done, label in enumerate(formats, 1):
            advance(label, done, len(formats) + 1)
            table = measured_losses(loaded.model, quality.windows, [label], kv_formats=kv if done == 1 else ())
            values |= dict(table.values)
    note = "" if quality.is_language else "random tokens: they rank layers and say nothing about language"
    return MeasuredLosses(
        values,
        reference.name,
        "kl",
        text=quality.source if quality.is_language else "",
        tokens_count=quality.windows.scored_count,
        note=note,
    )


def _check_caches(formats: list[str]) -> None:
    """Raise a `RooflineError` for a cache format that nobody knows, or that no cache here has."""
    from bench_cases.models.model_cases import KV_FORMATS

    wrong = [key for key in formats if get_format(key).key not in KV_FORMATS]
    if wrong:
        raise InvalidValueError(f"--kv takes {', '.join(KV_FORMATS)}; got {wrong[0]}")


def _summary(measured: MeasuredLosses) -> dict[str, dict[str, Any]]:
    """Return format → how many groups, their losses added up, and the group that loses most."""
    summary: dict[str, dict[str, Any]] = {}
    for (name, label), value in measured.values.items():
        key = f"cache {label}" if name.endswith(".kv") else label
        row = summary.setdefault(key, {"groups_count": 0, "sum_nats": 0.0, "worst_group": name, "worst_nats": value})
        row["groups_count"] += 1
        row["sum_nats"] += value
        if value > row["worst_nats"]:
            row |= {"worst_group": name, "worst_nats": value}
    return summary


_LOSSES = (
    Column("Format", lambda item: item[0], is_head=True),
    Column("Groups", lambda item: str(item[1]["groups_count"]), "number"),
    Column("All, added up", lambda item: f"{item[1]['sum_nats']:.3g}", "number"),
    Column("Worst", lambda item: f"{item[1]['worst_nats']:.3g}", "number"),
    Column("in", lambda item: item[1]["worst_group"]),
)


def _blocks(
    measured: MeasuredLosses, rows: dict[str, dict[str, Any]], model: str, output: Path
) -> Iterator[blocks.Block]:
    title = f"KL in nats per token with one group narrow, {measured.model}"
    text = f"tokens of {measured.text}" if measured.text else measured.note
    yield blocks.table(title, _LOSSES, rows.items(), title=title)
    yield blocks.Paragraph(f"on {measured.tokens_count:,} {text}", "quiet")
    yield blocks.Paragraph(f"written to {output}")
    yield blocks.Command(f"roofline recommend --model {shlex.quote(model)} --losses {shlex.quote(str(output))}")
