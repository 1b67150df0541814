"""`roofline predict`: how fast a product should run on a chip, for every format asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roofline_cli.predict import prediction_rows
from roofline_cli.screen.tables import Cell, Column, show_json, show_line, show_table
from roofline_cli.shared.options import (
    ColumnsOption,
    FormatsFileOption,
    FormatsOption,
    GemvRowsOption,
    HardwareOption,
    InnerOption,
    JsonOption,
    PlotOption,
    RowsOption,
    check_plot,
    format_pair,
    operands_label,
    pair_label,
    parse_size,
    product,
    register_formats,
    split_list,
)
from roofline_model.core.finding import Finding, findings_json, reason_text

if TYPE_CHECKING:
    from roofline_model.chips.hardware import Device
    from roofline_model.expected.prediction import ExpectedPrediction
    from roofline_model.formats.catalog import NumberFormat
    from roofline_model.ideal.roofline import Prediction
    from roofline_model.operators.product import Operator

DEFAULT_FORMATS = ("FP16", "FP8_E4M3", "INT8", "NVFP4", "INT4")
"""The columns of the original documents' tables."""


@dataclass(frozen=True, slots=True)
class FormatPrediction:
    """One row: a format (pair) and what the model says of it."""

    label: str
    work: Operator
    prediction: Prediction
    speedup_ratio: float | None
    """Ideal time of the 16-bit baseline over this one's; None when the chip has no 16-bit rate."""
    expected: ExpectedPrediction | None = None
    no_expected_reason: str = ""
    expected_speedup_ratio: float | None = None
    """The same of the expected times; None where either has none."""
    kernel_gap: Finding | None = None
    """Why no kernel is known to run these operands on the chip; None where none is known to be missing."""
    engine_gap: Finding | None = None
    """Which serving engines lack a kernel for it here, where a library has one."""

    @property
    def operands(self) -> str:
        """Widths of weight and activation: `W4A16`."""
        formats = dict(self.work.formats)
        return operands_label(formats["b"], formats["a"])

    @property
    def is_weight_only(self) -> bool:
        """Whether the activation is wider than the weight."""
        weight, activation = format_pair(self.label)
        return activation.element_bits > weight.element_bits


@dataclass(frozen=True, slots=True)
class PredictionTable:
    """All rows of one shape on one chip, and what was left out with the reason."""

    hardware: Device
    asked: str
    """The chip as it was typed: what `roofline hardware show` understands, too."""
    shape: tuple[int, int, int]
    baseline: str | None
    rows: tuple[FormatPrediction, ...]
    left_out: tuple[tuple[str, str], ...]


def predict_gemv(
    N: ColumnsOption,
    K: InnerOption,
    M: GemvRowsOption = "1",
    hw: HardwareOption = "auto",
    formats: FormatsOption = None,
    formats_file: FormatsFileOption = None,
    plot: PlotOption = False,
    as_json: JsonOption = False,
) -> None:
    """Predict y = x·W of a decode step (M from 1 to 16)."""
    from roofline_model.core.errors import InvalidValueError
    from roofline_model.operators.product import GEMV_MAX_ROWS

    rows = parse_size("M", M)
    if rows > GEMV_MAX_ROWS:
        raise InvalidValueError(
            f"predict gemv takes M from 1 to {GEMV_MAX_ROWS}, got {rows}; use `roofline predict gemm`"
        )
    _predict((rows, N, K), hw, formats, formats_file, plot, as_json)


def predict_gemm(
    M: RowsOption,
    N: ColumnsOption,
    K: InnerOption,
    hw: HardwareOption = "auto",
    formats: FormatsOption = None,
    formats_file: FormatsFileOption = None,
    plot: PlotOption = False,
    as_json: JsonOption = False,
) -> None:
    """Predict C(M×N) = A(M×K)·B(K×N)."""
    _predict((parse_size("M", M), N, K), hw, formats, formats_file, plot, as_json)


def _predict(
    sizes: tuple[int, str, str],
    hw: str,
    formats: list[str] | None,
    formats_file: Path | None,
    plot: bool,
    as_json: bool,
) -> None:
    from roofline_cli.shared.options import find_chip

    rows, N, K = sizes
    shape = (rows, parse_size("N", N), parse_size("K", K))
    check_plot(plot, as_json)
    own = register_formats(formats_file)
    table = predict_table(find_chip(hw), hw, shape, split_list(formats), own)
    if as_json:
        show_json(table_json(table))
        return
    print_table(table)
    if plot:
        print_plot(table)


def predict_table(
    hardware: Device,
    asked: str,
    shape: tuple[int, int, int],
    formats: list[str] | None,
    own: Sequence[NumberFormat] = (),
) -> PredictionTable:
    """Predict one shape in the formats asked for, else in the default ones and the user's `own`.

    A user's own format is a weight format (Q4_K, …): it is shown as the weight-only product that would run. A default format the chip cannot compute is left out with its reason; one that was asked for by name raises
    `UnsupportedError`.
    """
    from roofline_model.core.errors import UnsupportedError
    from roofline_model.expected.predict import predict_expected, why_no_expected
    from roofline_model.formats.catalog import get_format
    from roofline_model.ideal.roofline import predict, with_storage
    from roofline_model.kernels.known_kernels import engine_gap, kernel_gap
    from roofline_model.operators.product import gemm
    from roofline_model.recommend.options import product_baseline

    baseline = product_baseline(hardware, shape)
    wide = None if baseline is None else gemm(*shape, a=baseline)
    baseline_s = None if wide is None else predict(wide, hardware).time_s
    baseline_expected = None if wide is None else predict_expected(wide, hardware)
    rows: list[FormatPrediction] = []
    left_out: list[tuple[str, str]] = []
    if formats is None:
        names = _default_formats(hardware, baseline)
        left_out += [(name, f"{hardware.key} declares no {name} rate") for name in names if not hardware.declares(name)]
        pairs = [format_pair(name) for name in names if hardware.declares(name)]
        pairs += [(fmt, get_format(baseline or "FP16")) for fmt in own]
    else:
        pairs = [format_pair(name) for name in formats]
    for pair in pairs:
        work = product(*shape, pair)
        try:
            prediction = with_storage(predict(work, hardware), *pair)
        except UnsupportedError as error:
            if formats is not None:
                raise
            left_out.append((pair_label(pair), str(error)))
            continue
        speedup = None if baseline_s is None else baseline_s / prediction.time_s
        expected = predict_expected(work, hardware)
        reason = "" if expected is not None else reason_text(why_no_expected(work, hardware))
        likely = prediction_rows.over_expected(baseline_expected, expected)
        operands = dict(work.formats)["b"], dict(work.formats)["a"]
        gaps = kernel_gap(hardware, *operands), engine_gap(hardware, *operands)
        rows.append(FormatPrediction(pair_label(pair), work, prediction, speedup, expected, reason, likely, *gaps))
    if not rows:
        raise prediction_rows.no_default_format(hardware)
    return PredictionTable(hardware, asked, shape, baseline, tuple(rows), tuple(left_out))


def _default_formats(hardware: Device, baseline: str | None) -> list[str]:
    """Return the default formats, with the baseline before them, or for FP16 on a chip without it."""
    if baseline is None or baseline in DEFAULT_FORMATS:
        return list(DEFAULT_FORMATS)
    return [baseline, *(name for name in DEFAULT_FORMATS if name != "FP16" or hardware.declares(name))]


def print_table(table: PredictionTable) -> None:
    """Print the rows, the notes they refer to, and how far the chip's numbers can be trusted."""
    from roofline_cli.predict.format_gaps import print_gaps
    from roofline_cli.screen.tables import intensity

    m, n, k = table.shape
    op = table.rows[0].work.op
    notes: list[str] = []
    times = prediction_rows.time_columns([row.prediction for row in table.rows], [row.expected for row in table.rows])
    gained = prediction_rows.gains(
        table.baseline, [row.speedup_ratio for row in table.rows], [row.expected_speedup_ratio for row in table.rows]
    )
    lines: list[list[Cell]] = []
    for index, row in enumerate(table.rows):
        prediction = row.prediction
        lines.append(
            [
                row.label,
                row.operands,
                times.ideal[index],
                times.expected[index],
                times.intervals[index],
                intensity(prediction.intensity_flop_per_byte),
                intensity(prediction.critical_intensity_flop_per_byte),
                gained.ideal[index],
                gained.values[index],
                prediction.bound,
                prediction.path,
                prediction_rows.note_numbers((*prediction.findings, *_said_of_expected(row.expected)), notes),
            ]
        )
    columns = (
        Column("Format"),
        Column("Operands", drop=2),
        Column("Ideal", "right"),
        Column("Expected", "right", hide_empty=True),
        Column("80 %", "right", drop=1, hide_empty=True),
        Column("AI", "right", drop=4),
        Column("Critical AI", "right", drop=5),
        Column(gained.ideal_header, "right", drop=6, hide_empty=True),
        Column(gained.header, "right"),
        Column("Bound", drop=1),
        Column("Path", drop=3),
        Column("Notes"),
    )
    show_table(columns, lines, title=f"{op} M={m} N={n} K={k} on {table.hardware.key}: {table.hardware.name}")
    for number, note in enumerate(notes, 1):
        show_line(f"  [{number}] {note}")
    _print_left_out(table)
    print_gaps((row.label, row.kernel_gap or row.engine_gap) for row in table.rows)
    _print_untimed(table)
    prediction_rows.show_doubts(table.hardware)
    show_line(f"Ideal: the speed of light; AI in FLOP/byte. {provenance_sentence(table)}", style="dim")
    rows = [(dict(row.work.formats), row.expected) for row in table.rows]
    standing = [(formats["b"], formats["a"], one.provenance) for formats, one in rows if one is not None]
    for sentence in filter(None, (_expected_sentence(table), prediction_rows.standing_sentence(standing))):
        show_line(sentence, style="dim")


def print_plot(table: PredictionTable) -> None:
    """Draw the rows on their roofs, with the expected roof of the row that is expected to be fastest.

    Both operands narrow on a chip without a unit for them is no kernel of its own: its row has no roof if another has one.
    """
    from roofline_cli.plot.predicted import PlottedPrediction, expected_roof
    from roofline_cli.plot.sources import letter_of
    from roofline_cli.plot.view import show_predicted

    known = [row for row in table.rows if row.expected is not None]
    native = [row for row in known if row.prediction.path == "native" or row.is_weight_only]
    best = min(native or known, key=lambda row: row.expected.time_s if row.expected else 0.0, default=None)
    _, n, k = table.shape
    roof = () if best is None else expected_roof(n, k, format_pair(best.label), table.hardware)
    swept = "" if best is None else f"{best.label} at this N and K, M from 1 to 16,384"
    items = [
        PlottedPrediction(
            letter_of(index), row.label, row.label, row.prediction, row.expected.time_s if row.expected else None
        )
        for index, row in enumerate(table.rows)
    ]
    show_predicted(items, roof, swept)


def _expected_sentence(table: PredictionTable) -> str:
    """Say what the expected times are and where they come from, or why there are none."""
    known = list(dict.fromkeys(row.expected.provenance for row in table.rows if row.expected is not None))
    if not known:
        return "" if table.hardware.is_placeholder else table.rows[0].no_expected_reason
    return f"Expected: what a good kernel takes, launch included, with the interval that holds four times in five ({', '.join(known)})."


SAID_OF_EXPECTED = ("extrapolated", "pair-decoded", "other-result-format")
"""Findings of an expected time that stand beside a row of the table."""


def _said_of_expected(expected: ExpectedPrediction | None) -> list[Finding]:
    """Return what a reader must know of an expected time: that no fitted product was as large, whose kernel it is of."""
    return [] if expected is None else [item for item in expected.findings if item.code in SAID_OF_EXPECTED]


def _print_untimed(table: PredictionTable) -> None:
    """Say why rows have no expected time where others have one, in one line per reason."""
    if all(row.expected is None for row in table.rows):
        return  # `_expected_sentence` says it
    for row in table.rows:
        if row.expected is None and row.no_expected_reason:
            show_line(f"  {row.no_expected_reason}")


def _print_left_out(table: PredictionTable) -> None:
    """Name what was left out, in one line per reason; what the chip does not declare shares one."""
    undeclared = [label for label, _ in table.left_out if not _declares(table.hardware, label)]
    if undeclared:
        show_line(
            f"  left out: {', '.join(undeclared)}: {table.hardware.key} declares no such rate (--formats predicts what can be widened)"
        )
    for label, reason in table.left_out:
        if label not in undeclared:
            show_line(f"  left out: {label}: {reason}")


def _declares(hardware: Device, label: str) -> bool:
    return all(hardware.declares(fmt.key) for fmt in format_pair(label))


def provenance_sentence(table: PredictionTable) -> str:
    """Say where the chip's numbers come from, in words a reader can act on."""
    return prediction_rows.provenance_sentence(table.rows[0].prediction.provenance, table.hardware, table.asked)


def table_json(table: PredictionTable) -> dict[str, Any]:
    """Return the rows as one JSON document; every key ends in its unit."""
    from roofline_model.chips.hardware import doubts_of

    m, n, k = table.shape
    return {
        "hardware": table.hardware.key,
        "hardware_name": table.hardware.name,
        "is_placeholder": table.hardware.is_placeholder,
        "op": table.rows[0].work.op,
        "M": m,
        "N": n,
        "K": k,
        "baseline_format": table.baseline,
        "predictions": [_row_json(row) for row in table.rows],
        "left_out": [{"format": label, "reason": reason} for label, reason in table.left_out],
        "findings": findings_json(doubts_of(table.hardware)),
    }


def _row_json(row: FormatPrediction) -> dict[str, Any]:
    from roofline_cli.predict.format_gaps import gap_json

    prediction, formats = row.prediction, dict(row.work.formats)
    return {
        "format": row.label,
        "weight_format": formats["b"],
        "activation_format": formats["a"],
        "output_format": formats["c"],
        "operands": row.operands,
        "time_s": prediction.time_s,
        "memory_time_s": prediction.memory_time_s,
        "compute_time_s": prediction.compute_time_s,
        "intensity_flop_per_byte": prediction.intensity_flop_per_byte,
        "critical_intensity_flop_per_byte": prediction.critical_intensity_flop_per_byte,
        "speedup_ratio": row.speedup_ratio,
        "expected_speedup_ratio": row.expected_speedup_ratio,
        "bound": prediction.bound,
        "path": prediction.path,
        "compute_format": prediction.compute_format,
        "flops": prediction.flops,
        "rate_flops_per_s": prediction.rate_flops_per_s,
        "peak_flops_per_s": prediction.peak_flops_per_s,
        "read_bytes": prediction.read_bytes,
        "write_bytes": prediction.write_bytes,
        "bandwidth_bytes_per_s": prediction.bandwidth_bytes_per_s,
        "memory_level": prediction.memory_level,
        "provenance": prediction.provenance,
        "model_version": prediction.model_version,
        "findings": findings_json(prediction.findings),
        **prediction_rows.expected_json(row.expected, row.no_expected_reason),
        **gap_json(row.kernel_gap, row.engine_gap),
    }
