"""What other programs measured, as it was imported: beside what `predict model` says, and why where it says nothing."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from reports.present.blocks import Block, Column, Paragraph, Span, reason_blocks, table
from reports.present.screen import MISSING
from reports.present.words.verdict_text import above_roof_text
from roofline_model.core.finding import advice_text, from_stored
from roofline_model.core.units import counted, format_percent

if TYPE_CHECKING:
    from results.exchange.foreign import ReadFile
    from results.records.records import Record

SHOWN_ROWS = 60


def comparison_json(foreign: ReadFile) -> dict[str, Any]:
    """Return what was read, each measurement beside its predictions; SI units, null where nothing is known."""
    return {
        "hardware": None if foreign.chip is None else foreign.chip.key,
        "repeated_count": foreign.repeated_count,
        "records": [_record_json(record) for record in foreign.records],
    }


def comparison_blocks(foreign: ReadFile) -> Iterator[Block]:
    """Yield the measurements of models beside their predictions, a summary of anything else, and what was not
    matched.
    """
    models = [record for record in foreign.records if "model" in record.extra]
    others = [record for record in foreign.records if "model" not in record.extra]
    shown = models[:SHOWN_ROWS]
    if shown:
        chip = "" if foreign.chip is None else f" on {foreign.chip.key}: {foreign.chip.name}"
        title = f"tokens/s, measured and predicted{chip}"
        yield table(title, _COLUMNS, shown, title=title)
        if len(models) > len(shown):
            lists = f"`roofline show {foreign.runs[0].run.run_id[:8]}` lists all"
            yield Paragraph(f"  … and {len(models) - len(shown)} more; {lists}")
        if any(row.predictions for row in shown):
            yield Paragraph(
                "Error = (predicted − measured) / measured time, of the expected time: negative, the prediction was "
                "too fast."
            )
    if others:
        yield Paragraph(_summary(others))
    if foreign.repeated_count:
        stand = counted(foreign.repeated_count, "row stands", "rows stand")
        yield Paragraph(f"{stand} in the file twice and {'was' if foreign.repeated_count == 1 else 'were'} taken once")
    ratios = [
        record.ideal.time_s / measured_s
        for record in foreign.records
        if _is_impossible(record) and record.ideal is not None and (measured_s := _measured_s(record))
    ]
    if ratios:
        most = "" if len(ratios) == 1 else "up to "
        text = f"!: {counted(len(ratios), 'measurement')} at {most}{above_roof_text(max(ratios))}"
        yield Paragraph(text, "warning")
    yield from unpredicted_blocks(foreign.records)


def unpredicted_blocks(records: Sequence[Record]) -> Iterator[Paragraph]:
    """Yield why imported measurements stand without a prediction, each reason once with the count of its records."""
    counts = Counter(filter(None, map(_unpredicted_text, records)))
    texts = [f"not predicted ({count}): {reason}" for reason, count in counts.most_common()]
    yield from reason_blocks(texts, "--json holds that of every record")


def _unpredicted_text(record: Record) -> str | None:
    """Return why an imported measurement stands without a prediction; None where it has one."""
    form = record.extra.get("unpredicted")
    return advice_text(from_stored(form)) if isinstance(form, dict) else None


def _is_impossible(record: Record) -> bool:
    """Return whether a measurement is flagged as faster than its chip allows."""
    return record.measurement is not None and "above-roof" in record.measurement.flags


def _measured_s(record: Record) -> float | None:
    return None if record.measurement is None else record.measurement.median_s


def _tokens_per_s(record: Record, time_s: float | None) -> float | None:
    tokens = record.extra.get("tokens_per_call")
    return tokens / time_s if isinstance(tokens, int) and time_s else None


def _rate(record: Record, time_s: float | None) -> str:
    rate = _tokens_per_s(record, time_s)
    return MISSING if rate is None else f"{rate:,.0f}" if rate >= 1000 else f"{rate:.4g}"


def _context(record: Record) -> str:
    sizes = dict(record.case.shape)
    if not sizes.get("Skv") and {"Sin", "Sout"} <= sizes.keys():
        return str(sizes["Sin"] + sizes["Sout"])
    return str(sizes.get("Skv") or MISSING)


def _error(record: Record) -> Span:
    expected, measured_s = record.expected, _measured_s(record)
    if expected is None:
        return Span(MISSING)
    is_known = measured_s is not None and expected.low_s is not None and expected.high_s is not None
    is_outside = is_known and not expected.low_s <= measured_s <= expected.high_s  # type: ignore[operator]
    return Span(format_percent(expected.error_ratio, signed=True), "warning" if is_outside else "")


_COLUMNS = (
    Column("Model", lambda record: record.case.op.partition(":")[2], "prose", is_head=True),
    Column(
        "Test",
        lambda record: str(record.extra["imported"].get("test") or record.case.op.partition(":")[0]),
        "prose",
    ),
    Column("Batch", lambda record: str(dict(record.case.shape).get("B", MISSING)), "number", drop=2),
    Column("Context", _context, "number", drop=1),
    Column("Formats", lambda record: record.case.precision_label or MISSING, drop=3),
    Column("Measured", lambda record: _rate(record, _measured_s(record)), "number"),
    Column("!", lambda record: "!" if _is_impossible(record) else ""),
    Column("Ideal", lambda record: _rate(record, record.ideal and record.ideal.time_s), "number"),
    Column("Expected", lambda record: _rate(record, record.expected and record.expected.time_s), "number"),
    Column("Error", _error, "number"),
    Column(
        "Ideal error",
        lambda record: format_percent(record.ideal and record.ideal.error_ratio, signed=True),
        "number",
        drop=4,
    ),
)


def _summary(records: Sequence[Record]) -> str:
    """Return a line about measurements that are no models: how many, and how far the predictions are off."""
    expected = (record.expected for record in records if record.expected is not None)
    errors = [each.error_ratio for each in expected if each.error_ratio is not None]
    kinds = ", ".join(sorted({record.case.op for record in records})[:6])
    text = f"{counted(len(records), 'measurement')} ({kinds})"
    if not errors:
        return text
    middle = statistics.median(abs(error) for error in errors)
    return (
        f"{text}; {len(errors)} with an expected time, median |error| {middle * 100:.1f} % (`roofline validate` says "
        "more)"
    )


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
        "hardware": ideal and ideal.hardware_key,
        "ideal_s": ideal and ideal.time_s,
        "ideal_tokens_per_s": ideal and _tokens_per_s(record, ideal.time_s),
        "error_ideal_ratio": ideal and ideal.error_ratio,
        "expected_s": expected and expected.time_s,
        "expected_low_s": expected and expected.low_s,
        "expected_high_s": expected and expected.high_s,
        "expected_tokens_per_s": expected and _tokens_per_s(record, expected.time_s),
        "error_expected_ratio": expected and expected.error_ratio,
        "provenance": expected and expected.provenance,
        "reason": _unpredicted_text(record),
    }
