"""`roofline predict attention`: fused attention on a chip, per format of cache and query, beside the unfused kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roofline_cli.predict.layer_table import (
    LayerTable,
    LeftOut,
    Request,
    asked_pairs,
    layer_json,
    layer_table,
    print_layer_table,
)
from roofline_cli.screen.tables import Column, show_json
from roofline_cli.shared.options import (
    FormatsFileOption,
    HardwareOption,
    JsonOption,
    PlotOption,
    check_plot,
    parse_size,
)
from roofline_model.core.finding import Finding, reason_text

if TYPE_CHECKING:
    from roofline_cli.predict.layer_table import Pair
    from roofline_model.expected.prediction import ExpectedPrediction
    from roofline_model.formats.catalog import NumberFormat
    from roofline_model.ideal.operator_sequence import SequencePrediction
    from roofline_model.ideal.roofline import Prediction
    from roofline_model.kernels.attention_kernels import AttentionKernel
    from roofline_model.operators.product import Operator

CACHE_FORMATS = ("FP8_E4M3", "INT8", "NVFP4", "INT4")
"""Caches shown by default under 16-bit queries, after the all-16-bit row and the all-FP8 one."""


@dataclass(frozen=True, slots=True)
class AttentionShape:
    """What was asked: letters as everywhere, `window` and `page_tokens` None when not given."""

    letters: tuple[tuple[str, int], ...]
    """B, Hq, Hkv, Sq, Skv, D."""
    is_causal: bool
    window_size: int | None
    page_size: int | None

    @property
    def words(self) -> str:
        """The shape as the table's title has it."""
        text = " ".join(f"{letter}={size}" for letter, size in self.letters)
        text += ", causal" if self.is_causal else ", every key visible"
        text += f", window of {self.window_size} keys" if self.window_size is not None else ""
        return text + (f", pages of {self.page_size} tokens" if self.page_size is not None else "")


@dataclass(frozen=True, slots=True)
class AttentionRow:
    """One row: cache and query format, the fused kernel, and the three kernels without fusion."""

    label: str
    work: Operator
    prediction: Prediction
    unfused: SequencePrediction
    speedup_ratio: float | None
    expected: ExpectedPrediction | None
    """What a good kernel reaches; None where no constants are known for this chip and format."""
    no_expected_reason: str
    kernel_gap: Finding | None = None
    """Why no attention kernel is known to read the cache on this chip."""
    engine_gap: Finding | None = None
    """Always empty: the kernels that read a narrow cache are the engines' own."""

    @property
    def cache_bytes(self) -> float:
        """Bytes of K and V that the fused kernel reads."""
        reads = dict(self.work.cost.read_bytes)
        return reads["K"] + reads.get("V", 0.0)


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
            help="Kernel whose time is expected: fa1, fa2, fa3, fa4, trtllm, cudnn, flashinfer (default: trtllm's, fitted).",
        ),
    ] = None,
    hw: HardwareOption = "auto",
    formats: Annotated[
        list[str] | None,
        typer.Option(
            "--formats", metavar="LIST", help="Comma-separated; CACHE.QUERY for mixed ones, e.g. BF16,FP8,NVFP4.BF16."
        ),
    ] = None,
    formats_file: FormatsFileOption = None,
    plot: PlotOption = False,
    as_json: JsonOption = False,
) -> None:
    """Predict fused attention, per format of the cache.

    softmax(Q·Kᵀ)·V as one kernel that reads Q, K and V once, beside the three kernels that it replaces.
    """
    query_heads, new = parse_size("--heads", heads), parse_size("--q-len", q_len)
    letters = (
        ("B", parse_size("--batch", batch)),
        ("Hq", query_heads),
        ("Hkv", query_heads if kv_heads is None else parse_size("--kv-heads", kv_heads)),
        ("Sq", new),
        ("Skv", new if kv_len is None else parse_size("--kv-len", kv_len)),
        ("D", parse_size("--head-dim", head_dim)),
    )
    shape = AttentionShape(
        letters,
        causal,
        None if window is None else parse_size("--window", window),
        None if page_tokens is None else parse_size("--page-tokens", page_tokens),
    )
    from roofline_model.kernels.attention_kernels import find_attention_kernel

    check_plot(plot, as_json)
    named = None if kernel is None else find_attention_kernel(kernel)
    table = attention_table(Request.read(hw, formats, formats_file), shape, named)
    if as_json:
        show_json(attention_json(shape, table, named))
        return
    _print(shape, table, named)
    if plot:
        _plot(table)


def _plot(table: LayerTable[AttentionRow]) -> None:
    """Draw the fused kernels."""
    from roofline_cli.plot.predicted import PlottedPrediction
    from roofline_cli.plot.sources import letter_of
    from roofline_cli.plot.view import show_predicted

    show_predicted(
        [
            PlottedPrediction(
                letter_of(index), row.label, row.label, row.prediction, row.expected.time_s if row.expected else None
            )
            for index, row in enumerate(table.rows)
        ]
    )


def attention_table(
    request: Request, shape: AttentionShape, kernel: AttentionKernel | None = None
) -> LayerTable[AttentionRow]:
    """Predict one shape in the formats asked for, else in the default ones and with caches in the user's own.

    `kernel`: whose time is expected; None: the default one's.
    """
    from roofline_model.expected.predict import predict_expected, why_no_expected
    from roofline_model.ideal.operator_sequence import predict_operator, predict_sequence
    from roofline_model.kernels.known_kernels import cache_gap
    from roofline_model.operators.attention import attention, unfused_attention_parts

    hardware, kernel_key = request.hardware, None if kernel is None else kernel.key
    letters: dict[str, Any] = dict(shape.letters)
    mask: dict[str, Any] = {"causal": shape.is_causal, "window": shape.window_size}

    def fused(cache: NumberFormat, query: NumberFormat) -> Operator:
        return attention(**letters, q=query, kv=cache, page_tokens=shape.page_size, **mask)

    def ideal(cache: NumberFormat, query: NumberFormat) -> Prediction:
        return predict_operator(fused(cache, query), hardware)

    def row(label: str, pair: Pair, found: Prediction, speedup_ratio: float | None) -> AttentionRow:
        cache, query = pair
        work = fused(cache, query)
        unfused = predict_sequence(unfused_attention_parts(**letters, q=query, kv=cache, **mask), hardware)
        expected = predict_expected(work, hardware, attention_kernel=kernel_key)
        why = "" if expected is not None else reason_text(why_no_expected(work, hardware, attention_kernel=kernel_key))
        gap = cache_gap(hardware, dict(work.formats)["kv"])
        return AttentionRow(label, work, found, unfused, speedup_ratio, expected, why, gap)

    asked = asked_pairs(request, "cache", "query")
    pairs, left_out = _default_pairs(request) if asked is None else (asked, [])
    return layer_table(request, pairs, left_out, ideal, row)


def _default_pairs(request: Request) -> tuple[list[Pair], list[LeftOut]]:
    """Return 16 bits, FP8 where the chip multiplies in it, then narrower caches under 16-bit queries."""
    from roofline_cli.predict.prediction_rows import declares_all
    from roofline_model.formats.catalog import get_format

    hardware, wide, fp8 = request.hardware, request.wide, get_format("FP8_E4M3")
    pairs, left_out = [(wide, wide)], list[LeftOut]()
    if declares_all(hardware, fp8.key):
        pairs.append((fp8, fp8))
    else:
        left_out.append((fp8.key, f"{hardware.key} declares no {fp8.key} rate (an FP8 cache is widened, see below)"))
    pairs += [(get_format(name), wide) for name in CACHE_FORMATS] + [(fmt, wide) for fmt in request.own]
    return pairs, left_out


def _print(shape: AttentionShape, table: LayerTable[AttentionRow], kernel: AttentionKernel | None) -> None:
    from roofline_cli.predict.prediction_rows import time_columns
    from roofline_cli.screen.tables import decimal_bytes, intensity

    rows, gained = table.rows, table.gains
    times = time_columns(
        [row.prediction for row in rows], [row.expected for row in rows], [row.unfused.time_s for row in rows]
    )
    cells = [
        [
            row.label,
            decimal_bytes(row.cache_bytes),
            times.ideal[index],
            times.others[index],
            times.expected[index],
            times.intervals[index],
            intensity(row.prediction.intensity_flop_per_byte),
            intensity(row.prediction.critical_intensity_flop_per_byte),
            gained.ideal[index],
            gained.values[index],
            row.prediction.bound,
            row.prediction.path,
        ]
        for index, row in enumerate(rows)
    ]
    columns = (
        Column("Format"),
        Column("K and V", "right", drop=7),
        Column("Ideal", "right"),
        Column("Unfused", "right", drop=4),
        Column("Expected", "right", hide_empty=True),
        Column("80 % within", "right", drop=2, hide_empty=True),
        Column("AI", "right", drop=1),
        Column("Critical AI", "right", drop=5),
        Column(gained.ideal_header, "right", drop=8, hide_empty=True),
        Column(gained.header, "right"),
        Column("Bound", drop=1),
        Column("Path", drop=6),
    )
    remark = (
        "Ideal is the speed of light of the fused kernel, Unfused that of the three it replaces; format: cache.query."
    )
    if any(row.expected is not None and row.expected.covered_ops for row in rows):
        remark += (
            " Expected is an engine's whole attention module, with RoPE, the append to the cache and every launch, which "
            "neither ideal has in it; the FlashAttention models (--kernel fa2) are the kernels alone."
        )
    if grown := _growth_under_a_window(shape, table, kernel):
        remark += f" {grown}"
    whose = "" if kernel is None else f", {kernel.name}"
    print_layer_table(table, f"attention {shape.words}{whose}", columns, cells, remark)


def _growth_under_a_window(
    shape: AttentionShape, table: LayerTable[AttentionRow], kernel: AttentionKernel | None
) -> str:
    """Say that a decode step grows with the context although its window does not, where the expected model has it so."""
    from roofline_model.core.units import format_time
    from roofline_model.expected.predict import predict_expected
    from roofline_model.operators.attention import attention

    letters: dict[str, Any] = dict(shape.letters)
    known = next((row for row in table.rows if row.expected is not None), None)
    if known is None or known.expected is None or shape.window_size is None:
        return ""
    if letters["Sq"] != 1 or letters["Skv"] <= shape.window_size:
        return ""
    formats = dict(known.work.formats)
    letters["Skv"] = shape.window_size
    short = predict_expected(
        attention(**letters, q=formats["q"], kv=formats["kv"], causal=shape.is_causal, window=shape.window_size),
        table.request.hardware,
        attention_kernel=None if kernel is None else kernel.key,
    )
    if short is None or known.expected.time_s < 1.02 * short.time_s:
        return ""
    return (
        f"With {shape.window_size} tokens in the cache {known.label} would take {format_time(short.time_s)}: the library that the "
        "expected times were fitted to splits the whole cache, so its steps grow with the context under a window; one that "
        "splits the window only need not."
    )


def attention_json(
    shape: AttentionShape, table: LayerTable[AttentionRow], kernel: AttentionKernel | None = None
) -> dict[str, Any]:
    """Return the rows as one JSON document; every key ends in its unit."""

    def formats(row: AttentionRow) -> dict[str, Any]:
        named = dict(row.work.formats)
        return {
            "kv_format": named["kv"],
            "activation_format": named["q"],
            "output_format": named["o"],
            "kv_read_bytes": row.cache_bytes,
        }

    def details(row: AttentionRow) -> dict[str, Any]:
        return {
            "expected_covered_ops": None if row.expected is None else list(row.expected.covered_ops),
            "unfused_time_s": row.unfused.time_s,
            "memory_level": row.prediction.memory_level,
            "model_version": row.prediction.model_version,
        }

    asked = {
        **dict(shape.letters),
        "causal": shape.is_causal,
        "window": shape.window_size,
        "page_tokens": shape.page_size,
        "kernel": None if kernel is None else kernel.key,
    }
    return layer_json(table, "attention", asked, formats, details)
