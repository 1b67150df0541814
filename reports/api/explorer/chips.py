"""Chips side by side: every chosen format on each, drawn to one scale."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from reports.api.explorer.address import Address
from reports.api.explorer.questions import ChipAnswer
from reports.api.explorer.sections import GAPS
from reports.api.explorer.words import interval_text, verdicts
from reports.present.blocks import Block, Cards, Cell, Column, Heading, Paragraph, Rich, Span, table
from reports.present.predicted.row import Row
from roofline_model.chips.hardware import Device
from roofline_model.core.units import format_bandwidth, format_memory, format_time


def chip_facts(chip: Device) -> str:
    """Return bandwidth and memory of a chip in a line, and whether they are invented."""
    capacity = "" if chip.capacity is None else format_memory(chip.capacity.value)
    invented = "invented numbers, for examples only" if chip.is_placeholder else ""
    return " · ".join(filter(None, (format_bandwidth(chip.bandwidth.value), capacity, invented)))


def unknown_chip(address: Address, name: str, nearest: Sequence[Device], *, is_compared: bool) -> Paragraph:
    """Return that a chip is not known, and those whose names come near as links to the page with them in its place."""

    def link(chip: Device) -> str:
        if not is_compared:
            return address.link(hw=chip.key)
        return address.link(compare=",".join(chip.key if each == name else each for each in address.compare.split(",")))

    meant = [part for chip in nearest for part in (" ", Span(chip.name, "button", anchor=link(chip)))]
    return Paragraph((f"No chip here is called “{name}”.", *([" Did you mean", *meant] if meant else [])), "bad")


def chips_blocks(
    address: Address, chips: Sequence[tuple[str, ChipAnswer | Paragraph]], focus: Row | None
) -> Iterator[Block]:
    """Yield the verdicts and a card for each chip, the chosen one first. A chip that nobody knows has a paragraph."""
    answers = [answer for _, answer in chips if isinstance(answer, ChipAnswer)]
    if len(chips) == 1:
        yield Paragraph("Only one chip so far: add up to three others.", "quiet")
    else:
        yield from map(Paragraph, verdicts(answers, focus))
    times = [row for answer in answers for row in answer.rows]
    scale = _Scale(times)
    yield Cards(tuple(tuple(_card(address, name, answer, scale)) for name, answer in chips))
    if times:
        yield Paragraph(
            f"Bars to one logarithmic scale from {format_time(scale.low_s)} to {format_time(scale.high_s)}; shorter is "
            "faster.",
            "quiet",
        )


class _Scale:
    """A logarithmic scale from the power of ten below the shortest time to the longest one."""

    def __init__(self, rows: Sequence[Row]) -> None:
        times_s = [row.judged_s for row in rows] or [1.0]
        self.low_s = 10.0 ** math.floor(math.log10(min(times_s) * 0.8))  # the fastest keeps a bar that can be seen
        self.high_s = max(times_s)

    def share(self, time_s: float) -> float:
        return math.log(time_s / self.low_s) / math.log(self.high_s / self.low_s)


def _card(address: Address, name: str, answer: ChipAnswer | Paragraph, scale: _Scale) -> Iterator[Block]:
    others = [each for each in address.compare.split(",") if each.strip() != name]
    is_chosen = name == ""
    remove = Span("×", "button", f"Remove {name}", address.link(compare=",".join(others)))
    if isinstance(answer, Paragraph):
        yield Heading(3, (name, " ", remove))
        yield answer
        return
    mark = Span("chosen", "quiet") if is_chosen else Span("×", "button", f"Remove {answer.name}", remove.anchor)
    yield Heading(3, (answer.name, " ", mark))
    if answer.chip is not None:
        yield Paragraph(chip_facts(answer.chip), "quiet")
    if answer.misfit:
        yield Paragraph(f"Nothing is recommended: {answer.misfit}", "quiet")
    elif answer.problem is not None and not answer.rows:
        yield Paragraph(str(answer.problem), "bad")
    columns = [
        Column("Format", lambda row: row.label, is_head=True),
        Column("Time", lambda row: _time(row, scale), "number"),
        Column("", lambda row: _source(row, answer), "name"),
    ]
    yield table(f"Times on {answer.name}", columns, answer.rows, look="parts")
    if answer.refused:
        yield Paragraph(f"Cannot compute {', '.join(label for label, _ in answer.refused)}.", "quiet")


def _time(row: Row, scale: _Scale) -> Cell:
    expected, look = row.expected, "bar ideal"
    title = f"ideal {format_time(row.ideal.time_s)}, {row.ideal.bound}-bound"
    if expected is None:
        title += "; no expected time"
    else:
        look = "bar"
        title = f"expected {format_time(expected.time_s)} ({interval_text(expected.low_s, expected.high_s)}), {title}"
    return Cell(format_time(row.judged_s), row.judged_s, title, look, bar_ratio=scale.share(row.judged_s))


def _source(row: Row, answer: ChipAnswer) -> Rich:
    if row is answer.best:
        return Span("take", "role")
    return GAPS[row.gap] or ("too big" if row.fits is False else "ideal" if row.expected is None else "")
