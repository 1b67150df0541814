"""What an import prints: tokens/s that somebody measured beside what `predict model` says, and why where it says
nothing.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from reports.present.blocks import Column, Span, table
from reports.present.screen import MISSING, show, show_line
from reports.present.verdict_text import above_roof_text
from roofline_model.core.finding import advice_text, from_stored
from roofline_model.core.units import counted, format_percent

if TYPE_CHECKING:
    from results.exchange.to_records import ForeignRun
    from results.records.records import PredictionRecord, Record

SHOWN_ROWS = 60
SHOWN_REASONS = 8


def comparison_json(foreign: ForeignRun) -> dict[str, Any]:
    """Return what was read, each measurement beside its predictions; SI units, null where nothing is known."""
    return {
        "hardware": None if foreign.chip is None else foreign.chip.key,
        "repeated_count": foreign.repeated_count,
        "records": [_record_json(record) for record in foreign.records],
    }


def show_comparison(foreign: ForeignRun) -> None:
    """Print the measurements of models beside their predictions, a summary of anything else, and what was not
    matched.
    """
    models = [record for record in foreign.records if "model" in record.extra]
    shown = models[:SHOWN_ROWS]
    if shown:
        chip = "" if foreign.chip is None else f" on {foreign.chip.key}: {foreign.chip.name}"
        title = f"tokens/s, measured and predicted{chip}"
        show(table(title, _COLUMNS, shown, title=title))
        if len(models) > len(shown):
            show_line(f"  … and {len(models) - len(shown)} more; `roofline show {foreign.run.run_id[:8]}` lists all")
        if any(row.predictions for row in shown):
            show_line(
                "Error = (predicted − measured) / measured time, of the expected time: negative, the prediction was "
                "too fast."
            )
    others = [record for record in foreign.records if "model" not in record.extra]
    if others:
        _summarise(others)
    if foreign.repeated_count:
        show_line(
            f"{counted(foreign.repeated_count, 'row stands', 'rows stand')} in the file twice and "
            f"{'was' if foreign.repeated_count == 1 else 'were'} taken once"
        )
    _show_impossible(foreign.records)
    show_unpredicted(foreign.records)


def _show_impossible(records: Sequence[Record]) -> None:
    """Say how many measurements no kernel can reach, with the farthest of them."""
    ratios = [
        record.ideal.time_s / measured_s
        for record in records
        if _is_impossible(record) and record.ideal is not None and (measured_s := _measured_s(record))
    ]
    if ratios:
        most = "" if len(ratios) == 1 else "up to "
        show_line(f"!: {counted(len(ratios), 'measurement')} at {most}{above_roof_text(max(ratios))}", "yellow")


def _is_impossible(record: Record) -> bool:
    """Return whether a measurement is flagged as faster than its chip allows."""
    return record.measurement is not None and "above-roof" in record.measurement.flags


def _error(record: Record) -> Span:
    expected = record.expected
    if expected is None:
        return Span(MISSING)
    return Span(format_percent(expected.error_ratio, signed=True), "" if _is_inside(record, expected) else "warning")


def _ideal_error(record: Record) -> str:
    return MISSING if record.ideal is None else format_percent(record.ideal.error_ratio, signed=True)


def _test(record: Record) -> str:
    return str(record.extra["imported"].get("test") or record.case.op.partition(":")[0])


def _context(sizes: dict[str, int]) -> str:
    if sizes.get("Skv"):
        return str(sizes["Skv"])
    return str(sizes["Sin"] + sizes["Sout"]) if "Sin" in sizes and "Sout" in sizes else MISSING


_COLUMNS = (
    Column("Model", lambda record: record.case.op.partition(":")[2], "prose", is_head=True),
    Column("Test", _test, "prose"),
    Column("Batch", lambda record: str(dict(record.case.shape).get("B", MISSING)), "number", drop=2),
    Column("Context", lambda record: _context(dict(record.case.shape)), "number", drop=1),
    Column("Formats", lambda record: record.case.precision_label or MISSING, drop=3),
    Column("Measured", lambda record: _rate(record, _measured_s(record)), "number"),
    Column("!", lambda record: "!" if _is_impossible(record) else ""),
    Column("Ideal", lambda record: _rate(record, record.ideal and record.ideal.time_s), "number"),
    Column("Expected", lambda record: _rate(record, record.expected and record.expected.time_s), "number"),
    Column("Error", _error, "number"),
    Column("Ideal error", _ideal_error, "number", drop=4),
)


def _is_inside(record: Record, expected: PredictionRecord) -> bool:
    measured = _measured_s(record)
    if measured is None or expected.low_s is None or expected.high_s is None:
        return True
    return expected.low_s <= measured <= expected.high_s


def _measured_s(record: Record) -> float | None:
    return None if record.measurement is None else record.measurement.median_s


def _rate(record: Record, time_s: float | None) -> str:
    rate = _tokens_per_s(record, time_s)
    return "–" if rate is None else f"{rate:,.0f}" if rate >= 1000 else f"{rate:.4g}"


def _tokens_per_s(record: Record, time_s: float | None) -> float | None:
    tokens = record.extra.get("tokens_per_call")
    return tokens / time_s if isinstance(tokens, int) and time_s else None


def _summarise(records: list[Record]) -> None:
    """Print one line about measurements that are no models: how many, and how far the predictions are off."""
    errors = [
        record.expected.error_ratio
        for record in records
        if record.expected is not None and record.expected.error_ratio is not None
    ]
    kinds = ", ".join(sorted({record.case.op for record in records})[:6])
    text = f"{counted(len(records), 'measurement')} ({kinds})"
    if errors:
        middle = statistics.median(abs(error) for error in errors)
        text += (
            f"; {len(errors)} with an expected time, median |error| {middle * 100:.1f} % (`roofline validate` says "
            "more)"
        )
    show_line(text)


def show_unpredicted(records: Sequence[Record]) -> None:
    """Say why imported measurements stand without a prediction, each reason once with the count of its records."""
    counts: dict[str, int] = {}
    for record in records:
        if (reason := unpredicted_text(record)) is not None:
            counts[reason] = counts.get(reason, 0) + 1
    ordered = sorted(counts.items(), key=lambda item: -item[1])
    for reason, count in ordered[:SHOWN_REASONS]:
        show_line(f"not predicted ({count}): {reason}", "yellow")
    if len(ordered) > SHOWN_REASONS:
        show_line(f"… and {counted(len(ordered) - SHOWN_REASONS, 'more reason')}; --json holds that of every record")


def unpredicted_text(record: Record) -> str | None:
    """Return why an imported measurement stands without a prediction; None where it has one."""
    form = record.extra.get("unpredicted")
    return advice_text(from_stored(form)) if isinstance(form, dict) else None


def _record_json(record: Record) -> dict[str, Any]:
    measured, ideal, expected = _measured_s(record), record.ideal, record.expected
    return {
        "record_id": record.record_id,
        "case_id": record.case.id,
        "op": record.case.op,
        "shape": dict(record.case.shape),
        "formats": dict(record.case.formats),
        "test": record.test_id,
        "measured_s": measured,
        "measured_tokens_per_s": _tokens_per_s(record, measured),
        "flags": [] if record.measurement is None else list(record.measurement.flags),
        "hardware": None if ideal is None else ideal.hardware_key,
        "ideal_s": None if ideal is None else ideal.time_s,
        "ideal_tokens_per_s": None if ideal is None else _tokens_per_s(record, ideal.time_s),
        "error_ideal_ratio": None if ideal is None else ideal.error_ratio,
        "expected_s": None if expected is None else expected.time_s,
        "expected_low_s": None if expected is None else expected.low_s,
        "expected_high_s": None if expected is None else expected.high_s,
        "expected_tokens_per_s": None if expected is None else _tokens_per_s(record, expected.time_s),
        "error_expected_ratio": None if expected is None else expected.error_ratio,
        "provenance": None if expected is None else expected.provenance,
        "reason": unpredicted_text(record),
    }
