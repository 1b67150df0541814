"""`roofline predict attention`: fused attention on a chip, per format of cache and query, beside the unfused kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roofline_cli.options import (
    FormatsFileOption,
    HardwareOption,
    JsonOption,
    format_pair,
    pair_label,
    parse_size,
    register_formats,
    split_list,
)
from roofline_cli.screen import Cell, Column, show_json, show_line, show_table

if TYPE_CHECKING:
    from roofline_model.expected.predict import ExpectedPrediction
    from roofline_model.formats import NumberFormat
    from roofline_model.hardware import Device
    from roofline_model.operators import Operator
    from roofline_model.ops.operator_sequence import SequencePrediction
    from roofline_model.roofline import Prediction

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
    hw: HardwareOption = "auto",
    formats: Annotated[
        list[str] | None,
        typer.Option(
            "--formats", metavar="LIST", help="Comma-separated; CACHE.QUERY for mixed ones, e.g. BF16,FP8,NVFP4.BF16."
        ),
    ] = None,
    formats_file: FormatsFileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Predict fused attention, per format of the cache.

    softmax(Q·Kᵀ)·V as one kernel that reads Q, K and V once, beside the three kernels that it replaces.
    """
    from roofline_cli.chips import find_chip

    query_heads, new = parse_size("--heads", heads), parse_size("--q-len", q_len)
    letters = (
        ("B", parse_size("--batch", batch)), ("Hq", query_heads),
        ("Hkv", query_heads if kv_heads is None else parse_size("--kv-heads", kv_heads)),
        ("Sq", new), ("Skv", new if kv_len is None else parse_size("--kv-len", kv_len)),
        ("D", parse_size("--head-dim", head_dim)),
    )  # fmt: skip
    shape = AttentionShape(
        letters, causal,
        None if window is None else parse_size("--window", window),
        None if page_tokens is None else parse_size("--page-tokens", page_tokens),
    )  # fmt: skip
    own = register_formats(formats_file)
    chip = find_chip(hw)
    rows, left_out = attention_rows(chip, shape, split_list(formats), own)
    if as_json:
        show_json(attention_json(chip, shape, rows, left_out))
    else:
        _print(chip, hw, shape, rows, left_out)


def attention_rows(
    hardware: Device, shape: AttentionShape, formats: list[str] | None, own: Sequence[NumberFormat] = ()
) -> tuple[list[AttentionRow], tuple[tuple[str, str], ...]]:
    """Predict one shape in the formats asked for, else in the default ones and caches in the user's `own`.

    A default format that the chip cannot compute is left out with its reason; one that was asked for by name raises
    `UnsupportedError`.
    """
    from roofline_cli.prediction_rows import baseline_format, declares_all
    from roofline_model.errors import UnsupportedError
    from roofline_model.expected.predict import predict_expected, why_no_expected
    from roofline_model.formats import get_format
    from roofline_model.ops.attention_ops import attention, unfused_attention_parts
    from roofline_model.ops.operator_sequence import predict_operator, predict_sequence

    base = baseline_format(hardware)
    left_out: list[tuple[str, str]] = []
    if formats is None:
        wide = get_format(base or "FP16")
        pairs = [(wide, wide)]
        fp8 = get_format("FP8_E4M3")
        if declares_all(hardware, fp8.key):
            pairs.append((fp8, fp8))
        else:
            left_out.append(
                (fp8.key, f"{hardware.key} declares no {fp8.key} rate (an FP8 cache is widened, see below)")
            )
        pairs += [(get_format(name), wide) for name in CACHE_FORMATS] + [(fmt, wide) for fmt in own]
    else:
        pairs = [format_pair(name) for name in formats]

    letters: dict[str, Any] = dict(shape.letters)
    mask: dict[str, Any] = {"causal": shape.is_causal, "window": shape.window_size}

    def fused(cache: NumberFormat, query: NumberFormat) -> Operator:
        return attention(**letters, q=query, kv=cache, page_tokens=shape.page_size, **mask)

    base_s = None
    if base is not None:
        base_s = predict_operator(fused(get_format(base), get_format(base)), hardware).time_s
    rows: list[AttentionRow] = []
    for cache, query in pairs:
        work, label = fused(cache, query), pair_label((cache, query))
        try:
            prediction = predict_operator(work, hardware)
            unfused = predict_sequence(unfused_attention_parts(**letters, q=query, kv=cache, **mask), hardware)
        except UnsupportedError as error:
            if formats is not None:
                raise
            left_out.append((label, str(error)))
            continue
        expected = predict_expected(work, hardware)
        why = "" if expected is not None else why_no_expected(work, hardware)
        speedup = None if base_s is None else base_s / prediction.time_s
        rows.append(AttentionRow(label, work, prediction, unfused, speedup, expected, why))
    if not rows:
        raise UnsupportedError(
            f"{hardware.key} declares none of the default formats. Declared: {', '.join(sorted(hardware.paths)) or 'none'}; name some with --formats"
        )
    return rows, tuple(left_out)


def _print(
    hardware: Device, asked: str, shape: AttentionShape, rows: list[AttentionRow], left_out: tuple[tuple[str, str], ...]
) -> None:
    from roofline_cli.numbers import decimal_bytes, intensity, paired_times, speedup
    from roofline_cli.prediction_rows import (
        baseline_format,
        expected_interval,
        note_numbers,
        print_notes,
        provenance_sentence,
    )

    notes: list[str] = []
    ideal = [row.prediction.time_s for row in rows]
    fused, unfused = paired_times(ideal, [row.unfused.time_s for row in rows])
    _, expected = paired_times(ideal, [row.expected.time_s if row.expected else None for row in rows])
    lines: list[list[Cell]] = []
    for row, time, apart, reached in zip(rows, fused, unfused, expected, strict=True):
        found = row.prediction
        lines.append(
            [
                row.label,
                decimal_bytes(row.cache_bytes),
                time,
                reached,
                expected_interval(row.expected),
                apart,
                intensity(found.intensity_flop_per_byte),
                intensity(found.critical_intensity_flop_per_byte),
                speedup(row.speedup_ratio),
                found.bound,
                found.path,
                note_numbers(found.notes, notes),
            ]
        )
    columns = (
        Column("Format"), Column("K and V", "right", drop=6), Column("Ideal", "right"), Column("Expected", "right", hide_empty=True),
        Column("80 % within", "right", drop=1, hide_empty=True), Column("Unfused", "right", drop=3), Column("AI", "right"),
        Column("Critical AI", "right", drop=4), Column(f"vs {baseline_format(hardware) or '16-bit'}", "right"), Column("Bound"),
        Column("Path", drop=5), Column("Notes"),
    )  # fmt: skip
    show_table(columns, lines, title=f"attention {shape.words} on {hardware.key}: {hardware.name}")
    print_notes(notes, left_out)
    _print_expected(rows)
    show_line(
        f"Ideal is the speed of light of the fused kernel, Unfused that of the three it replaces; format: cache.query. {provenance_sentence(rows[0].prediction.provenance, hardware, asked)}",
        style="dim",
    )


def _print_expected(rows: list[AttentionRow]) -> None:
    """Say what the expected times rest on, or once why there are none."""
    known = [row.expected for row in rows if row.expected is not None]
    if known:
        origins = ", ".join(dict.fromkeys(one.provenance for one in known))
        remarks = "; ".join(dict.fromkeys(note for one in known for note in one.notes))
        show_line(f"Expected: what a good kernel of that chip reaches, constants {origins}. {remarks}".rstrip())
    for reason in dict.fromkeys(row.no_expected_reason for row in rows if row.expected is None):
        show_line(f"  {reason}")


def attention_json(
    hardware: Device, shape: AttentionShape, rows: list[AttentionRow], left_out: tuple[tuple[str, str], ...]
) -> dict[str, Any]:
    """Return the rows as one JSON document; every key ends in its unit."""
    from roofline_cli.prediction_rows import baseline_format, expected_json, timing_json

    return {
        "hardware": hardware.key,
        "hardware_name": hardware.name,
        "is_placeholder": hardware.is_placeholder,
        "op": "attention",
        **dict(shape.letters),
        "causal": shape.is_causal,
        "window": shape.window_size,
        "page_tokens": shape.page_size,
        "baseline_format": baseline_format(hardware),
        "predictions": [
            {
                "format": row.label,
                "kv_format": dict(row.work.formats)["kv"],
                "activation_format": dict(row.work.formats)["q"],
                "output_format": dict(row.work.formats)["o"],
                "kv_read_bytes": row.cache_bytes,
                **timing_json(row.prediction, row.speedup_ratio),
                **expected_json(row.expected, row.no_expected_reason),
                "unfused_time_s": row.unfused.time_s,
                "memory_level": row.prediction.memory_level,
                "model_version": row.prediction.model_version,
            }
            for row in rows
        ],
        "left_out": [{"format": label, "reason": reason} for label, reason in left_out],
    }
