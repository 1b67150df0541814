"""What a run says in the terminal: the table of cases and a verdict per shape. Text only; `hooks.py` writes it."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from results.flags import DOUBTFUL_FLAGS, FLAGS
from results.records import Record
from results.verdict import GroupKey, groups, shape_verdicts
from roofline_model.units import format_achieved, format_percent, format_time

MAX_WIDTH = 100
GOOD_ROOF_RATIO = 0.7
POOR_ROOF_RATIO = 0.3

_STATUS_COLOURS = {"failed": "red", "skipped": "yellow"}


@dataclass(frozen=True, slots=True)
class Line:
    """One line to print, with the colour it gets on a terminal."""

    text: str
    colour: str = ""


def summary_lines(records: Sequence[Record], failed_reasons: bool = True) -> list[Line]:
    """Return the whole summary: one block per shape, then the reasons of what was not measured."""
    verdicts = {verdict.key: verdict for verdict in shape_verdicts(records)}
    lines: list[Line] = []
    for key, members in groups(records).items():
        shown = [
            record
            for record in members
            if record.status in ("measured", "predicted") and (record.ideal or record.measurement)
        ]
        if shown:
            lines += _block(key, shown)
            if key in verdicts:
                lines.append(Line(f"  → {verdicts[key].sentence}", "bold"))
            lines.append(Line(""))
    if failed_reasons:
        lines += _reasons(records)
    return lines


def count_line(records: Iterable[Record]) -> str:
    """Return the counts by status, e.g. `12 measured (3 in doubt), 1 skipped`; `nothing measured` for none."""
    known = list(records)
    counts = Counter(record.status for record in known)
    doubtful = sum(bool(one.measurement and DOUBTFUL_FLAGS.intersection(one.measurement.flags)) for one in known)
    parts = []
    for status in ("measured", "predicted", "skipped", "failed"):
        if counts[status]:
            doubt = f" ({doubtful} in doubt)" if status == "measured" and doubtful else ""
            parts.append(f"{counts[status]} {status}{doubt}")
    return ", ".join(parts) or "nothing measured"


_HEADERS = ("weight.act", "kernel", "median", "±", "ideal", "error", "rate", "roof", "bound")


def _block(key: GroupKey, members: Sequence[Record]) -> list[Line]:
    op, _, cache, mode = key
    where = {
        "cold": "operands from memory",
        "flushed": "caches flushed before each call",
        "warm": "operands may stay in cache",
        "none": "",
    }[cache]
    title = (
        f"{op} {members[0].case.shape_label}".rstrip()
        + (f" · {cache}" if cache != "none" else "")
        + (f" · {mode}" if mode != "eager" else "")
    )
    has_power = any(record.measurement and record.measurement.power_w is not None for record in members)
    rows = [_row(record, has_power) for record in members]
    headers = (*_HEADERS, "W") if has_power else _HEADERS
    widths = [max(len(row[i]) for row in (headers, *rows)) for i in range(len(headers))]
    widths = _fitted(widths)
    lines = [
        Line(f"{title}  ({where})" if where else title, "bold"),
        Line("  " + _join(headers, widths), "light"),
    ]
    for record, row in zip(members, rows, strict=True):
        lines.append(Line("  " + _join(row, widths), _colour(record)))
    return lines


def _row(record: Record, has_power: bool) -> tuple[str, ...]:
    measured, ideal = record.measurement, record.ideal
    width = measured.ci_half_width_ratio if measured else None
    cells = (
        record.case.format_label or "–",
        record.case.kernel,
        format_time(measured.median_s if measured else None),
        "–" if width is None else f"{width * 100:.1f} %",
        format_time(ideal.time_s if ideal else None),
        format_percent(ideal.error_ratio if ideal else None, 0, signed=True),
        _rate(record),
        format_percent(ideal.time_s / measured.median_s if ideal and measured else None, 0),
        (ideal.bound if ideal else "–") + (" !" if measured and DOUBTFUL_FLAGS.intersection(measured.flags) else ""),
    )
    return (
        (*cells, "–" if not measured or measured.power_w is None else f"{measured.power_w:.0f}") if has_power else cells
    )


def _rate(record: Record) -> str:
    """Return the rate the bound is about: GB/s of compulsory traffic, or TFLOP/s."""
    ideal = record.ideal
    if ideal is None:
        return "–"
    time_s = record.measurement.median_s if record.measurement else ideal.time_s
    return format_achieved(ideal.bound, ideal.total_bytes / time_s, ideal.flops / time_s)


def _fitted(widths: list[int]) -> list[int]:
    """Shorten the two text columns until the table fits into `MAX_WIDTH`."""
    fitted = list(widths)
    for column in (1, 0):
        excess = sum(fitted) + 2 * len(fitted) - MAX_WIDTH
        if excess > 0:
            fitted[column] = max(10, fitted[column] - excess)
    return fitted


def _join(cells: Sequence[str], widths: Sequence[int]) -> str:
    texts = []
    for i, (cell, width) in enumerate(zip(cells, widths, strict=True)):
        text = cell if len(cell) <= width else cell[: width - 1] + "…"
        texts.append(text.ljust(width) if i in (0, 1, 8) else text.rjust(width))
    return "  ".join(texts).rstrip()


def _colour(record: Record) -> str:
    if record.measurement is None or record.ideal is None:
        return ""
    share = record.ideal.time_s / record.measurement.median_s
    return "green" if share >= GOOD_ROOF_RATIO else "red" if share < POOR_ROOF_RATIO else ""


def _reasons(records: Sequence[Record]) -> list[Line]:
    """Return why cases were not measured, each reason once with its count."""
    counts: Counter[tuple[str, str]] = Counter()
    example: dict[tuple[str, str], str] = {}
    for record in records:
        if record.status != "measured":
            key = (record.status, record.reason)
            counts[key] += 1
            example.setdefault(key, f"{record.case.op} {record.case.id}")
    lines = []
    for (status, reason), count in counts.items():
        what = example[status, reason] if count == 1 else f"{count} cases"
        lines += _wrapped(f"{status}: {what}: {reason}", _STATUS_COLOURS.get(status, ""))
    return lines


def flag_lines(records: Sequence[Record]) -> list[Line]:
    """Return one line per warning flag that occurred, with how many cases carry it."""
    counts = Counter(flag for record in records if record.measurement for flag in record.measurement.flags)
    lines: list[Line] = []
    beaten = sum(_beats_measured_roof(record) for record in records)
    if beaten:
        lines += _wrapped(
            f"above the roof: {beaten} case{'s' if beaten > 1 else ''} ran more than 5 % faster than the ceilings measured on this "
            "machine: run `roofline calibrate` while it is quiet",
            "yellow",
        )
    for flag in FLAGS.values():
        if count := counts[flag.key]:
            mark = " (!)" if flag.is_doubtful else ""
            lines += _wrapped(f"{flag.key}{mark}: {count} case{'s' if count > 1 else ''}: {flag.meaning}", "yellow")
    return lines


def _beats_measured_roof(record: Record) -> bool:
    """A cold case above a datasheet roof is a wrong measurement; above a roof measured here the ceiling was too low."""
    ideal, measured = record.ideal, record.measurement
    return bool(ideal and measured and ideal.provenance == "measured-here" and ideal.time_s > 1.05 * measured.median_s)


def _wrapped(text: str, colour: str) -> list[Line]:
    return [
        Line(part, colour) for part in textwrap.wrap(text, MAX_WIDTH, subsequent_indent="  ", break_on_hyphens=False)
    ]
