"""`roofline pipeline`: a model in, a decision and a quantised model out, measured on this machine."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reports.present.blocks import Paragraph
from reports.present.screen import present
from roofline_cli.screen.output_file import written_together
from roofline_cli.shared import completions
from roofline_cli.shared.database import reading
from roofline_cli.shared.measuring import check_can_measure
from roofline_cli.shared.options import (
    DatabaseOption,
    HardwareOption,
    JsonOption,
    checked_phase,
    parse_amount,
    parse_number,
    parse_size,
    split_list,
)
from roofline_cli.shared.quiet import WaitOption, begin_model_when_quiet
from roofline_model.core.errors import InvalidValueError, RooflineError

if TYPE_CHECKING:
    from bench_cases.pipeline.result import PipelineResult

COMMANDS = {
    "pipeline": ("pipeline", "Choose a model's format by measuring it, and save the winner."),
}

MAX_COUNT = 99
REPORT_FILE = "report.json"
"""Written when a pipeline has ended."""
PrecisionsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--formats",
        autocompletion=completions.formats,
        metavar="LIST",
        help="Precisions to rank (default: all that this machine runs), e.g. INT4,INT8.INT8.",
    ),
]
TextOption = Annotated[
    Path | None,
    typer.Option(
        "--text", metavar="FILE.txt", help="Text to measure quality on (default: help texts that ship with Python)."
    ),
]


def pipeline(
    model: Annotated[
        str,
        typer.Option(
            "--model",
            autocompletion=completions.models,
            metavar="ID|PATH",
            help="A seeded model (seeded-llama-156m), a folder as save_pretrained writes it, or a hub id.",
        ),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "-o",
            "--output",
            metavar="FOLDER",
            help="Folder for model, report and state; the same command resumes there.",
        ),
    ],
    hw: HardwareOption = "auto",
    phase: Annotated[
        str, typer.Option("--phase", metavar="decode|prefill", help="The pass that has to be fast.")
    ] = "decode",
    batch: Annotated[str, typer.Option("--batch", metavar="INT", help="Sequences in a pass.")] = "1",
    context: Annotated[
        str | None,
        typer.Option("--context", metavar="TOKENS", help="Tokens of a sequence (default: 128 on a CPU, 512 on a GPU)."),
    ] = None,
    memory_limit_gb: Annotated[
        str | None,
        typer.Option("--memory-limit-gb", metavar="GB", help="Most decimal gigabytes for weights and cache together."),
    ] = None,
    max_latency_ms: Annotated[
        str | None, typer.Option("--max-latency-ms", metavar="MS", help="Longest time of a pass.")
    ] = None,
    max_quality_loss: Annotated[
        str | None,
        typer.Option(
            "--max-quality-loss",
            metavar="PERCENT",
            help="Most that perplexity may rise (default: 3; untrained models have no limit).",
        ),
    ] = None,
    candidates: Annotated[
        str, typer.Option("--candidates", metavar="N", help="How many precisions are measured, the best by prediction.")
    ] = "3",
    formats: PrecisionsOption = None,
    method: Annotated[
        str,
        typer.Option(
            "--method", metavar="METHOD", help="How codes are chosen: round-to-nearest, HQQ, or AWQ (INT4 and INT8)."
        ),
    ] = "round-to-nearest",
    text: TextOption = None,
    processes: Annotated[
        str,
        typer.Option("--processes", metavar="N", help="Fresh processes per candidate; one can find none faster."),
    ] = "3",
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Forget what the folder holds of an earlier pipeline.")
    ] = False,
    waits: WaitOption = False,
    db: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Choose a model's format by measuring it, and save the winner.

    Loads, recommends, quantises, benchmarks and judges; writes a report.

    Exits 1 when no model keeps the limits, and 5 before it begins where other processes use more than half of the CPUs.
    After an interruption the same command resumes.
    """
    from bench_cases.pipeline.report import result_blocks
    from roofline_cli.recommend.pipeline_progress import shown_progress

    wanted = {
        "hw": hw,
        "phase": checked_phase(phase) or "decode",
        "batch": parse_size("--batch", batch),
        "context": None if context is None else parse_size("--context", context),
        "memory_limit_gb": parse_amount("--memory-limit-gb", memory_limit_gb, "gigabytes such as 24"),
        "max_latency_ms": parse_amount("--max-latency-ms", max_latency_ms, "milliseconds such as 30"),
        "max_quality_loss": None
        if max_quality_loss is None
        else parse_number("--max-quality-loss", max_quality_loss, "percent", below=1e6),
        "candidates": _count("--candidates", candidates),
        "formats": split_list(formats),
        "method": method,
        "text": text,
        "processes": _count("--processes", processes),
        "db": db,
        "fresh": fresh,
    }
    check_can_measure()
    begin = None
    if fresh or not (output / REPORT_FILE).is_file():  # else all may be there already
        begin = partial(_begin, processes=int(processes), waits=waits)
    with shown_progress() as tell:
        result = _run(model, output, wanted | {"progress": tell, "begin": begin})
    notes = [] if not result.run_ids else _html_report(result, db)
    present(
        lambda: result.plain() | {"folder": str(result.folder), "notes": notes},
        lambda: (
            *result_blocks(result),
            *(Paragraph(text) for text in (*notes, f"report: {result.folder / 'report.md'}")),
        ),
        as_json=as_json,
    )
    if not result.is_within_limits:
        raise typer.Exit(1)


def _begin(*, processes: int, waits: bool) -> None:
    """Say before the minutes of measuring what they cannot find, and end the command where they would find nothing."""
    if processes == 1:
        typer.echo(
            "--processes 1: one process says nothing about the next, so no candidate can be found faster; 3 can (the "
            "default)",
            err=True,
        )
    begin_model_when_quiet(waits=waits)


def _run(model: str, output: Path, wanted: dict[str, object]) -> PipelineResult:
    from bench_cases.quantization import run_pipeline

    result: PipelineResult = run_pipeline(model, output, **wanted)
    return result


def _count(option: str, text: str) -> int:
    typed = text.strip()
    if not (typed.isdecimal() and typed.isascii() and len(typed) < 4 and 1 <= int(typed) <= MAX_COUNT):
        raise InvalidValueError(f"{option} must be a whole number from 1 to {MAX_COUNT}, got {text[:40]!r}")
    return int(typed)


def _html_report(result: PipelineResult, db: str | None) -> list[str]:
    """Write the HTML page of the run that decided; a report that fails is a note, never the end of a finished
    pipeline.
    """
    from reports.page.html import write_report

    winner = result.verdict.winner
    runs = dict(result.run_ids)
    run = runs.get(winner.option.key if winner is not None else "") or next(iter(runs.values()))
    place = result.folder / "report.html"
    try:
        with reading(db) as store, written_together(place) as folder:
            write_report(store, store.resolve_run(run), folder / place.name)
    except (RooflineError, OSError) as error:
        return [f"no HTML report: {error}"]
    return []
