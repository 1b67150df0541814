"""`roofline predict attention`: fused attention on a chip, per format of cache and query, beside the unfused
kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from reports.answers.short_answer import ideal_words
from reports.present.blocks import Column, memory_cell
from reports.present.screen import intensity, show_json, show_line
from roofline_cli.predict.layer_table import print_layer_table
from roofline_cli.predict.prediction_rows import (
    gain_columns,
    judged_time,
    own_time_json,
    print_answer,
    print_own_time,
    time_columns,
    time_prefix,
)
from roofline_cli.shared.group import typed
from roofline_cli.shared.option_blocks import PredictOptions, Request, takes_blocks
from roofline_cli.shared.options import MeasuredTimeOption, parse_size
from roofline_model.core.units import format_time, in_prefix
from roofline_model.formats.catalog import attention_name

if TYPE_CHECKING:
    from roofline_model.kernels.attention_kernels import AttentionKernel
    from roofline_model.predictions.attention import AttentionPrediction, AttentionQuestion
    from roofline_model.predictions.kernel import PredictionTable

COMMANDS = {
    "predict attention": ("predict_attention", "Predict fused attention, per format of the cache."),
}


@dataclass(frozen=True, slots=True)
class AttentionOptions(PredictOptions):
    """The same, with formats of the cache and the query."""

    formats: Annotated[
        list[str] | None,
        typer.Option(
            "--formats", metavar="LIST", help="Comma-separated; CACHE.QUERY for mixed ones, e.g. BF16,FP8,NVFP4.BF16."
        ),
    ] = None


@takes_blocks
def predict_attention(
    heads: Annotated[str, typer.Option("--heads", metavar="INT", help="Query heads (Hq).")],
    head_dim: Annotated[str, typer.Option("--head-dim", metavar="INT", help="Elements of one head (D).")],
    q_len: Annotated[
        str, typer.Option("--q-len", metavar="INT", help="New tokens of a sequence (Sq); 1: decode.")
    ] = "1",
    kv_len: Annotated[
        str | None,
        typer.Option("--kv-len", metavar="INT", help="Tokens in the cache, new ones included (Skv; default: --q-len)."),
    ] = None,
    kv_heads: Annotated[
        str | None, typer.Option("--kv-heads", metavar="INT", help="Key/value heads (Hkv; default: --heads).")
    ] = None,
    batch: Annotated[str, typer.Option("--batch", metavar="INT", help="Sequences (B).")] = "1",
    causal: Annotated[bool, typer.Option("--causal", help="Mask the keys behind each query.")] = False,
    window: Annotated[
        str | None, typer.Option("--window", metavar="INT", help="Keys a query sees, itself among them (default: all).")
    ] = None,
    page_tokens: Annotated[
        str | None, typer.Option("--page-tokens", metavar="INT", help="Tokens of a page, where the cache is paged.")
    ] = None,
    kernel: Annotated[
        str | None,
        typer.Option(
            "--kernel",
            metavar="NAME",
            help=(
                "Kernel whose time is expected: fa1, fa2, fa3, fa4, trtllm, cudnn, flashinfer (default: trtllm's, "
                "fitted)."
            ),
        ),
    ] = None,
    measured_us: MeasuredTimeOption = None,
    *,
    options: AttentionOptions,
) -> None:
    """Predict fused attention, per format of the cache.

    softmax(Q·Kᵀ)·V as one kernel that reads Q, K and V once, beside the three kernels that it replaces.
    """
    from reports.present.encoder import command_json
    from roofline_model.kernels.attention_kernels import find_attention_kernel
    from roofline_model.predictions.attention import AttentionQuestion, predict_attentions

    query_heads, new = parse_size("--heads", heads), parse_size("--q-len", q_len)
    question = AttentionQuestion(
        B=parse_size("--batch", batch),
        Hq=query_heads,
        Hkv=query_heads if kv_heads is None else parse_size("--kv-heads", kv_heads),
        Sq=new,
        Skv=new if kv_len is None else parse_size("--kv-len", kv_len),
        D=parse_size("--head-dim", head_dim),
        causal=causal,
        window=None if window is None else parse_size("--window", window),
        page_tokens=None if page_tokens is None else parse_size("--page-tokens", page_tokens),
    )
    named = None if kernel is None else find_attention_kernel(kernel)
    request = Request.read(options)
    table = predict_attentions(
        request.hardware,
        question,
        request.pairs("cache", "query"),
        request.user_formats,
        kernel=None if named is None else named.key,
    )
    own_time = judged_time(table.predictions, measured_us, request.hardware)
    if options.as_json:
        show_json({**command_json(table), **own_time_json(own_time)})
        return
    print_own_time(own_time)
    _print_answer(request, question, table, named, show_all=options.show_all)
    if options.show_all:
        show_line()
        _print_all(request, question, table, named)
    if options.plot:
        _plot(table)


def _plot(table: PredictionTable[AttentionPrediction]) -> None:
    """Draw the predicted kernels under the roof."""
    from roofline_cli.plot.predicted import plotted_rows
    from roofline_cli.plot.view import show_predicted

    names = [attention_name(row.kv_format, row.activation_format) for row in table.predictions]
    show_predicted(plotted_rows(table.predictions, names))


def _shape_words(question: AttentionQuestion) -> str:
    """Return the shape as the table's title has it."""
    text = " ".join(f"{letter}={size}" for letter, size in zip(question._fields[:6], question[:6], strict=True))
    text += ", causal" if question.causal else ", every key visible"
    text += f", window of {question.window} keys" if question.window is not None else ""
    return text + (f", pages of {question.page_tokens} tokens" if question.page_tokens is not None else "")


def _print_answer(
    request: Request,
    question: AttentionQuestion,
    table: PredictionTable[AttentionPrediction],
    kernel: AttentionKernel | None,
    *,
    show_all: bool,
) -> None:
    whose = "" if kernel is None else f", {kernel.name}"
    names = [attention_name(row.kv_format, row.activation_format) for row in table.predictions]
    title = f"attention {_shape_words(question)}{whose}"
    where = "this machine" if request.hardware_name == "auto" else f"a machine with {request.hardware.key}"
    next_step = (f"pytest bench_cases -k attention{typed('--hw')}", f"measures kernels, on {where}")
    print_answer(
        table.predictions,
        names,
        title,
        request.hardware,
        next_step,
        are_named=request.formats is not None,
        show_all=show_all,
    )


def _print_all(
    request: Request,
    question: AttentionQuestion,
    table: PredictionTable[AttentionPrediction],
    kernel: AttentionKernel | None,
) -> None:
    rows, prefix = table.predictions, time_prefix(table.predictions)
    names = [attention_name(row.kv_format, row.activation_format) for row in rows]
    columns = (
        Column("Format", lambda named: named[0], is_head=True),
        Column("K and V", lambda named: memory_cell(named[1].kv_read_bytes), "number", drop=7),
        *time_columns(prefix, interval_drop=2),
        Column("Unfused", lambda named: in_prefix(named[1].unfused_time_s, prefix), "number", drop=4),
        Column("AI", lambda named: intensity(named[1].intensity_flop_per_byte), "number", drop=1),
        Column("Critical AI", lambda named: intensity(named[1].critical_intensity_flop_per_byte), "number", drop=5),
        *gain_columns(rows, ideal_drop=8),
        Column("Bound", lambda named: named[1].bound, drop=1),
        Column("Path", lambda named: named[1].path, drop=6),
    )
    remark = f"Ideal is the fused kernel {ideal_words(rows[0].provenance)}, Unfused the three that it replaces."
    if any(row.expected is not None and row.expected.covered_ops for row in rows):
        remark += (
            " Expected is an engine's whole attention module, with RoPE, the append to the cache and every launch, "
            "which "
            "neither ideal has in it; the FlashAttention models (--kernel fa2) are the kernels alone."
        )
    if grown := _growth_under_a_window(request, question, rows, kernel):
        remark += f" {grown}"
    print_layer_table(request, table, names, columns, remark)


def _growth_under_a_window(
    request: Request,
    question: AttentionQuestion,
    rows: Sequence[AttentionPrediction],
    kernel: AttentionKernel | None,
) -> str:
    """Say that a decode step grows with the context although its window does not, where the expected model has it
    so.
    """
    from roofline_model.expected.predict import predict_expected

    timed = next((row for row in rows if row.expected is not None), None)
    if timed is None or timed.expected is None or question.window is None:
        return ""
    if question.Sq != 1 or question.Skv <= question.window:
        return ""
    in_window = question._replace(Skv=question.window, page_tokens=None)
    short = predict_expected(
        in_window.work(timed.kv_format, timed.activation_format),
        request.hardware,
        attention_kernel=None if kernel is None else kernel.key,
    )
    if short is None or timed.expected.time_s < 1.02 * short.time_s:
        return ""
    return (
        f"With {question.window} tokens in the cache {timed.format} would take {format_time(short.time_s)}: the "
        "library that the "
        "expected times were fitted to splits the whole cache, so its steps grow with the context under a window; one "
        "that "
        "splits the window only need not."
    )
