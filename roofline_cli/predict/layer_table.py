"""What `predict attention` and `predict ffn` share: what was asked beside the shape, a row per pair of formats, the answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from roofline_cli.predict.format_gaps import gap_json, print_gaps
from roofline_cli.predict.prediction_rows import (
    Gains,
    baseline_format,
    expected_json,
    gains,
    no_default_format,
    note_numbers,
    over_expected,
    print_notes,
    provenance_sentence,
    show_doubts,
    timing_json,
)
from roofline_cli.screen.tables import Cell, Column, show_line, show_table
from roofline_cli.shared.options import format_pair, pair_label, register_formats, split_list
from roofline_model.core.finding import Finding, findings_json, short_text

if TYPE_CHECKING:
    from roofline_model.chips.hardware import Device
    from roofline_model.expected.prediction import ExpectedPrediction
    from roofline_model.formats.catalog import NumberFormat
    from roofline_model.ideal.operator_sequence import SequencePrediction
    from roofline_model.ideal.roofline import Prediction
    from roofline_model.models.step_expected import ExpectedSequence

    Pair = tuple[NumberFormat, NumberFormat]
    """Weight or cache, and activation."""

LeftOut = tuple[str, str]
"""Label of a pair of formats, and why it is not in the table."""


class LayerRow(Protocol):
    """One row: a pair of formats, and what is predicted for it."""

    @property
    def label(self) -> str:
        """The pair: `INT4.BF16`, or `FP8_E4M3` for both."""

    @property
    def prediction(self) -> Prediction | SequencePrediction:
        """The ideal."""

    @property
    def speedup_ratio(self) -> float | None:
        """Ideal time of the 16-bit pair over this one's; None when the chip has no 16-bit rate."""

    @property
    def expected(self) -> ExpectedPrediction | ExpectedSequence | None:
        """What a good kernel reaches; None where that is not known."""

    @property
    def no_expected_reason(self) -> str:
        """Why it is not known; empty where it is."""

    @property
    def kernel_gap(self) -> Finding | None:
        """Why no kernel is known to run the formats on the chip; None where none is known to be missing."""

    @property
    def engine_gap(self) -> Finding | None:
        """That no serving engine has a kernel for them, where a library has one; None where an engine has."""


Row = TypeVar("Row", bound=LayerRow)
Ideal = TypeVar("Ideal", bound="Prediction | SequencePrediction")


@dataclass(frozen=True, slots=True)
class Request:
    """What was asked beside the shape."""

    hardware: Device
    asked: str
    """The chip as it was typed: what `roofline hardware show` understands, too."""
    formats: list[str] | None
    """Those of --formats; None: the default ones, and the user's own."""
    own: tuple[NumberFormat, ...]
    """Formats of --formats-file."""

    @classmethod
    def read(cls, hw: str, formats: list[str] | None, formats_file: Path | None) -> Request:
        """Register the user's formats and find the chip. Raises a `RooflineError` naming the option that is wrong."""
        from roofline_cli.shared.options import find_chip

        own = register_formats(formats_file)
        return cls(find_chip(hw), hw, split_list(formats), tuple(own))

    @property
    def wide(self) -> NumberFormat:
        """The 16-bit format that speed-ups refer to, FP16 where the chip has none."""
        from roofline_model.formats.catalog import get_format

        return get_format(baseline_format(self.hardware) or "FP16")


@dataclass(frozen=True, slots=True)
class LayerTable(Generic[Row]):
    """The rows of one shape on one chip, and what was left out."""

    request: Request
    rows: list[Row]
    left_out: tuple[LeftOut, ...]
    baseline_expected: ExpectedPrediction | ExpectedSequence | None = None
    """Of the 16-bit pair; None where it has no expected time."""

    @property
    def expected_speedups(self) -> list[float | None]:
        """Expected time of the 16-bit pair over each row's; None where either is not known."""
        return [over_expected(self.baseline_expected, row.expected) for row in self.rows]

    @property
    def gains(self) -> Gains:
        """The speed-up columns."""
        name = baseline_format(self.request.hardware)
        return gains(name, [row.speedup_ratio for row in self.rows], self.expected_speedups)


def layer_table(
    request: Request,
    pairs: Sequence[Pair],
    left_out: Sequence[LeftOut],
    ideal: Callable[[NumberFormat, NumberFormat], Ideal],
    row: Callable[[str, Pair, Ideal, float | None], Row],
) -> LayerTable[Row]:
    """Predict every pair: `ideal` of it, then its `row` (label, pair, ideal, speed-up over 16 bits).

    A default pair that the chip cannot compute joins what is `left_out`, with its reason; one that was asked for by name
    raises `UnsupportedError`, and so does a table without rows.
    """
    from roofline_model.core.errors import InvalidValueError, UnsupportedError

    hardware = request.hardware
    base = None if baseline_format(hardware) is None else ideal(request.wide, request.wide)
    base_s = None if base is None else base.time_s
    rows: list[Row] = []
    missing = list(left_out)
    for pair in pairs:
        label = pair_label(pair)
        try:
            found = ideal(*pair)
            rows.append(row(label, pair, found, None if base_s is None else base_s / found.time_s))
        except UnsupportedError as error:
            if request.formats is not None:
                raise
            missing.append((label, str(error)))
        except InvalidValueError as error:
            if request.formats is None:
                raise
            raise InvalidValueError(f"--formats {label}: {error}") from None
    if not rows:
        raise no_default_format(hardware)
    wide = None if base is None else row("", (request.wide, request.wide), base, 1.0)
    return LayerTable(request, rows, tuple(missing), None if wide is None else wide.expected)


def asked_pairs(request: Request, stored: str, activation: str) -> list[Pair] | None:
    """Return the pairs of --formats, or None when it was not given.

    Raises `InvalidValueError` where what is `stored` (weight, cache) is wider than the `activation` it meets: kernels widen
    what is stored narrower and narrow nothing. Most often the two were written in the other order.
    """
    from roofline_model.core.errors import InvalidValueError

    if request.formats is None:
        return None
    pairs = [format_pair(name) for name in request.formats]
    for pair in pairs:
        wide, narrow = pair
        if wide.element_bits > narrow.element_bits:
            raise InvalidValueError(
                f"--formats {pair_label(pair)}: a {stored} in {wide.key} is wider than its {activation} in {narrow.key}, which "
                f"no kernel computes; write {stored.upper()}.{activation.upper()}, e.g. {narrow.key}.{wide.key}, or one format for both"
            )
    return pairs


def print_layer_table(
    table: LayerTable[Row], title: str, columns: Sequence[Column], cells: Sequence[Sequence[Cell]], remark: str
) -> None:
    """Print the rows with numbered notes, what was left out, what the expected times rest on, and the `remark`."""
    request, notes = table.request, list[str]()
    lines = [[*own, note_numbers(row.prediction.findings, notes)] for row, own in zip(table.rows, cells, strict=True)]
    show_table(
        [*columns, Column("Notes")],
        lines,
        title=f"{title} on {request.hardware.key}: {request.hardware.name}",
    )
    print_notes(notes, table.left_out)
    print_gaps((row.label, row.kernel_gap or row.engine_gap) for row in table.rows)
    _print_expected(table.rows)
    show_doubts(request.hardware)
    weakest = table.rows[0].prediction.provenance
    show_line(f"{remark} {provenance_sentence(weakest, request.hardware, request.asked)}", style="dim")


def _print_expected(rows: Sequence[LayerRow]) -> None:
    """Say what the expected times rest on, or once why there are none."""
    known = [row.expected for row in rows if row.expected is not None]
    if known:
        origins = ", ".join(dict.fromkeys(one.provenance for one in known))
        remarks = "; ".join(dict.fromkeys(short_text(item) for one in known for item in one.findings))
        behind = f"; {remarks}" if remarks else ""
        show_line(f"Expected: what a good kernel of that chip reaches, constants {origins}{behind}.")
    for reason in dict.fromkeys(row.no_expected_reason for row in rows if row.expected is None):
        show_line(f"  {reason}")


def layer_json(
    table: LayerTable[Row],
    op: str,
    shape: dict[str, Any],
    formats: Callable[[Row], dict[str, Any]],
    details: Callable[[Row], dict[str, Any]],
) -> dict[str, Any]:
    """Return the table as one JSON document; every key ends in its unit. `formats` and `details` are a row's own keys."""
    from roofline_model.chips.hardware import doubts_of

    hardware = table.request.hardware
    return {
        "hardware": hardware.key,
        "hardware_name": hardware.name,
        "is_placeholder": hardware.is_placeholder,
        "op": op,
        **shape,
        "baseline_format": baseline_format(hardware),
        "predictions": [
            {
                "format": row.label,
                **formats(row),
                **timing_json(row.prediction, row.speedup_ratio, likely),
                **expected_json(row.expected, row.no_expected_reason),
                **gap_json(row.kernel_gap, row.engine_gap),
                **details(row),
            }
            for row, likely in zip(table.rows, table.expected_speedups, strict=True)
        ],
        "left_out": [{"format": label, "reason": reason} for label, reason in table.left_out],
        "findings": findings_json(doubts_of(hardware)),
    }
