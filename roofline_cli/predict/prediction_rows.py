"""What the tables of all `roofline predict` commands share: the formats to show, numbered notes, and the last line."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from reports.answers.short_answer import ROW_COUNT, expected_words, ideal_words
from reports.present.blocks import CAVEAT_COUNT, Column, table
from reports.present.screen import MISSING, show, show_line, show_more, show_next
from roofline_cli.shared.options import float_or_nan
from roofline_model.chips.hardware import doubts_of
from roofline_model.core.errors import InvalidValueError
from roofline_model.core.finding import (
    Finding,
    advice_text,
    by_severity,
    finding,
    finding_json,
    reason_text,
    short_text,
)
from roofline_model.core.units import format_speedup, in_prefix, interval_in_prefix, sentence, shared_prefix
from roofline_model.formats.catalog import FORMATS, SIXTEEN_BIT, short_name
from roofline_model.predictions.kernel import fastest, judge_time

if TYPE_CHECKING:
    from roofline_model.chips.hardware import Device
    from roofline_model.core.answer import Exclusion
    from roofline_model.expected.prediction import ExpectedPrediction
    from roofline_model.models.step_expected import ExpectedSequence
    from roofline_model.predictions.ffn import FfnPrediction
    from roofline_model.predictions.kernel import KernelAnswer

    KernelRow = KernelAnswer | FfnPrediction
    NamedRow = tuple[str, KernelRow]


LEAST_MEASURED_US = 1e-6
"""A shorter time is none that a clock shows."""


def print_answer(
    rows: Sequence[KernelRow],
    names: Sequence[str],
    title: str,
    chip: Device,
    next_step: tuple[str, str],
    *,
    are_named: bool,
    show_all: bool,
    remark: str = "",
) -> None:
    """Print which format is fastest, a row per format, and what to type next: a dozen lines.

    `names`: the name of each row's formats. `title`: the question, without the chip. `are_named`: the user named the
    formats, so all have a row. `remark`: of what they mean.
    """
    prefix = time_prefix(rows)
    timed = [row.expected for row in rows if row.expected is not None]
    shown = rows if are_named else _first_rows(rows)
    has_gain = any(row.format not in SIXTEEN_BIT for row in shown)  # 16 bits alone gain nothing over 16 bits
    baseline = _baseline_name(shown)
    show_line(_fastest_sentence(rows, names, prefix, baseline), "bold")
    show_line(f"{title} on {chip.key}.", "dim")
    columns = (
        Column("Format", lambda named: named[0], is_head=True),
        *time_columns(prefix),
        Column("Gain", lambda named: gain_text(named[1], is_only_ideal=not timed) if has_gain else MISSING, "number"),
        Column("Bound", lambda named: named[1].bound, drop=2),
        Column("Kernel", lambda named: "" if named[1].kernel_gap is None else "none known"),
    )
    named_rows = [(name, row) for row, name in zip(rows, names, strict=True) if row in shown]
    show(table("formats", columns, named_rows, says_what_is_left_out=False))
    print_beside_ideal((name, row.expected) for row, name in zip(rows, names, strict=True) if row in shown)
    expected = f"{expected_words(*(each.provenance for each in timed))} " if timed else ""
    over = f" Gain: over {baseline}." if baseline and has_gain else ""
    show_line(f"{expected}Ideal: {ideal_words(rows[0].provenance)}.{over}", "dim")
    if remark:
        show_line(remark, "dim")
    untimed = [reason_text(rows[0].expected_reason)] if not timed and not chip.is_placeholder else []
    print_caveats(chip, untimed)
    show_next(*next_step)
    hidden = f"all {len(rows)} formats, " if len(shown) < len(rows) else ""
    show_more(f"shows {hidden}intensities, paths, kernels, notes and sources", is_shown=show_all)


def print_beside_ideal(expected: Iterable[tuple[str, ExpectedPrediction | ExpectedSequence | None]]) -> None:
    """Print what most of the times far above their ideal ones is, or that they are below: a line for each reason, with
    the numbers of its first row. `expected`: name of the row, its expected time.
    """
    rows = list(expected)
    by_reason: dict[object, list[tuple[str, Finding]]] = {}
    for name, estimate in rows:
        if estimate is not None and (remark := estimate.beside_ideal) is not None:
            by_reason.setdefault((remark.code, remark.value("kind")), []).append((name, remark))
    for (name, remark), *others in by_reason.values():
        named = f"{name}: " if len(rows) > 1 else ""
        alike = f"; likewise {', '.join(other for other, _ in others)}" if others else ""
        show_line(f"Note: {named}{short_text(remark)}{alike}")


def _first_rows(rows: Sequence[KernelRow]) -> list[KernelRow]:
    """Return the rows of the answer: of too many, the slowest go first, those without a known kernel before all. The
    user's own formats stay.
    """
    best = fastest(rows)
    others = [
        row
        for row in rows
        if row is not best and row.format != row.baseline_format and row.format.partition(".")[0] in FORMATS
    ]
    others.sort(key=lambda row: math.inf if row.kernel_gap is not None else (row.expected or row).time_s)
    kept_count = max(0, ROW_COUNT - (len(rows) - len(others)))
    return [row for row in rows if row not in others[kept_count:]]


def judged_time(rows: Sequence[KernelAnswer], measured_us: str | None, chip: Device) -> Finding | None:
    """Return how the time of --measured-us stands to the one row it can be of; None where none was given."""
    if measured_us is None:
        return None
    own_s = float_or_nan(measured_us) * 1e-6
    if not LEAST_MEASURED_US <= own_s * 1e6 < math.inf:
        raise InvalidValueError(
            f"--measured-us must be a number of microseconds from {LEAST_MEASURED_US:g} on, got {measured_us[:40]!r}"
        )
    if len(rows) != 1:
        raise InvalidValueError("--measured-us is the time of one format: name it, e.g. --formats BF16")
    return judge_time(rows[0], own_s, chip)


def own_time_json(own_time: Finding | None) -> dict[str, Any]:
    """Return the field of a judged time; nothing where there is none."""
    return {} if own_time is None else {"own_time": finding_json(own_time)}


def print_own_time(own_time: Finding | None) -> None:
    """Print the verdict on a time of the user's own, before everything else."""
    if own_time is not None:
        show_line(sentence(advice_text(own_time)), "bold")


def print_caveats(chip: Device, notes: Sequence[str]) -> None:
    """Print the gravest of what puts every time on a chip in doubt, after `notes`: two lines at most."""
    invented = [f"the numbers of {chip.key} are placeholders, for examples only"] if chip.is_placeholder else []
    doubts = [short_text(doubt) for doubt in by_severity(doubts_of(chip))]
    for note in [*notes, *invented, *doubts][:CAVEAT_COUNT]:
        show_line(f"Note: {note}", "yellow")


def _baseline_name(rows: Sequence[KernelRow]) -> str:
    """Return the name of the 16-bit format that gains refer to: of two that take the same time, the one with a row."""
    baseline = rows[0].baseline_format
    alike = [
        row.format
        for row in rows
        if row.format in SIXTEEN_BIT
        and all(ratio is None or math.isclose(ratio, 1) for ratio in (row.speedup_ratio, row.expected_speedup_ratio))
    ]
    if baseline is None or not alike or any(row.format == baseline for row in rows):
        return short_name(baseline or "")
    return short_name(alike[0])


def _fastest_sentence(rows: Sequence[KernelRow], names: Sequence[str], prefix: str | None, baseline: str) -> str:
    best = fastest(rows)
    index, expected = rows.index(best), best.expected
    if expected is None:
        took = f"ideal {in_prefix(best.time_s, prefix)} ({ideal_words(best.provenance)})"
    else:
        took = f"expected {in_prefix(expected.time_s, prefix)} (80 %: {_interval_text(best, prefix)})"
    ratio = best.speedup_ratio if expected is None else best.expected_speedup_ratio
    gain = f", {format_speedup(ratio)} {baseline}" if ratio and baseline else ""
    if best.format == best.baseline_format or (ratio and round(ratio, 1) == 1):
        gain = f", {best.bound}-bound"
    shown = [in_prefix(_compared_s(row, expected is None), prefix) for row in rows]
    equal = {
        name: row.format
        for name, row, time in zip(names, rows, shown, strict=True)
        if time == shown[index] and (row.kernel_gap is None) == (best.kernel_gap is None)
    }
    if len(equal) > 1:
        if baseline and ratio and round(ratio, 1) == 1 and not set(equal.values()) <= set(SIXTEEN_BIT):
            gain = f", no gain over {baseline}"
        first, *others = equal
        return f"{first} and {others[0] if len(others) == 1 else f'{len(others)} others'} tie: {took}{gain}."
    return f"{names[index]}{' is fastest' if len(rows) > 1 else ''}: {took}{gain}."


def _compared_s(row: KernelRow, is_ideal: bool) -> float | None:
    return row.time_s if is_ideal else None if row.expected is None else row.expected.time_s


def gain_text(row: KernelRow, *, is_only_ideal: bool) -> str:
    """Return the expected speed-up of a row; the ideal one where it has no other, with its name beside expected
    ones.
    """
    if row.expected_speedup_ratio is not None or row.speedup_ratio is None:
        return format_speedup(row.expected_speedup_ratio)
    return format_speedup(row.speedup_ratio) if is_only_ideal else f"{format_speedup(row.speedup_ratio)} (ideal)"


def show_doubts(doubts: Iterable[Finding]) -> None:
    """Print what a calibration on a busy machine leaves open of every time above."""
    for doubt in doubts:
        show_line(f"  note: {short_text(doubt)}")


def note_numbers(findings: Iterable[Finding], notes: list[str]) -> str:
    """Return the numbers of a row's findings, `[1] [3]`, appending the lines that `notes` does not hold yet."""
    texts = list(map(short_text, findings))
    notes += [text for text in dict.fromkeys(texts) if text not in notes]
    return " ".join(f"[{notes.index(text) + 1}]" for text in texts)


def print_notes(notes: list[str], excluded: Sequence[Exclusion]) -> None:
    """Print the numbered notes, then what was excluded: a line for each, one for all that the chip does not declare."""
    for number, note in enumerate(notes, 1):
        show_line(f"  [{number}] {note}")
    undeclared = [each for each in excluded if each.finding.code == "rate-undeclared"]
    if undeclared:
        chip = undeclared[0].finding.value("hardware")
        keys = ", ".join(each.key for each in undeclared)
        show_line(f"  left out: {keys}: {chip} declares no such rate (--formats predicts what can be widened)")
    for each in excluded:
        if each not in undeclared:
            show_line(f"  left out: {each.key}: {short_text(each.finding)}")


def print_gaps(rows: Iterable[tuple[str, Finding | None]], *, rank: str = "") -> None:
    """Print why no kernel is known for formats; `rows`: name, and its `kernel-gap` or `engine-gap`.

    `rank`: where a format without any kernel stands because of it, for a ranking.
    """
    names_by_gap: dict[Finding, list[str]] = {}
    for name, gap in rows:
        if gap is not None:
            names = names_by_gap.setdefault(replace(gap, subject=""), [])
            names += [name] if name not in names else []
    for gap, names in sorted(names_by_gap.items(), key=lambda pair: pair[0].code == "engine-gap"):
        place = rank if gap.code == "kernel-gap" else ""
        show_line(f"  {', '.join(names)}{place}: {short_text(gap)}", "yellow")


def provenance_sentence(weakest: str, hardware: Device, typed_name: str) -> str:
    """Say where the chip's numbers come from, in words a reader can act on."""
    if weakest == "placeholder":
        return f"The numbers of {hardware.key} are placeholders, for examples only."
    return f"The weakest number used is {weakest}: `roofline hardware show {typed_name}` lists every source."


def time_prefix(rows: Sequence[KernelRow]) -> str | None:
    """Return the unit that ideal and expected times of a table share, so that they read side by side."""
    timed = [row.expected for row in rows if row.expected is not None]
    return shared_prefix(
        [row.time_s for row in rows], [time_s for each in timed for time_s in (each.time_s, each.low_s, each.high_s)]
    )


def time_columns(prefix: str | None, *, interval_drop: int = 1) -> tuple[Column, ...]:
    """Return the columns of expected time, its interval and ideal time of named rows."""

    def expected(named: NamedRow) -> str:
        return MISSING if named[1].expected is None else in_prefix(named[1].expected.time_s, prefix)

    return (
        Column("Expected", expected, "number"),
        Column("80 %", lambda named: _interval_text(named[1], prefix), "number", drop=interval_drop),
        Column("Ideal", lambda named: in_prefix(named[1].time_s, prefix), "number"),
    )


def _interval_text(row: KernelRow, prefix: str | None) -> str:
    """Return `55.10–70.20`, in the unit of the expected time beside it; `–` where there is none."""
    time = row.expected
    return (
        MISSING if time is None else interval_in_prefix(time.low_s, time.high_s, prefix, in_prefix(time.time_s, prefix))
    )


def gain_columns(rows: Sequence[KernelRow], *, ideal_drop: int = 6) -> tuple[Column, ...]:
    """Return the columns of speed-ups over the 16-bit baseline: ideal ones beside expected ones, and expected against
    expected, or ideal where a row has no other.
    """
    name = rows[0].baseline_format or "16-bit"
    if all(row.expected_speedup_ratio is None for row in rows):
        return (Column(f"ideal vs {name}", lambda named: format_speedup(named[1].speedup_ratio), "number"),)
    return (
        Column(f"ideal vs {name}", lambda named: format_speedup(named[1].speedup_ratio), "number", drop=ideal_drop),
        Column(f"exp. vs {name}", lambda named: gain_text(named[1], is_only_ideal=False), "number"),
    )


def standing_sentence(rows: Sequence[tuple[str, str, str]]) -> str:
    """Say which kernel the expected times of weight-only formats are of; `rows`: weight, activation, provenance of the
    time.
    """
    from roofline_model.expected.products.parameters import reference_kernel

    kernel = next(filter(None, (reference_kernel(*row) for row in rows)), "")
    options = tuple(
        dict.fromkeys(
            short_name(weight) for weight, activation, origin in rows if reference_kernel(weight, activation, origin)
        )
    )
    line = short_text(finding("reference-kernel-of-options", options=options, kernel=kernel))
    return sentence(line) if kernel else ""
