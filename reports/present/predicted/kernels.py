"""What `predict` says of one kernel or block on a chip, a row per format: the answer in a dozen lines, and every
column behind it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from reports.present.blocks import (
    CAVEAT_COUNT,
    Block,
    Column,
    Command,
    Paragraph,
    memory_cell,
    more,
    table,
)
from reports.present.predicted.words import ROW_COUNT, Asked, expected_words, ideal_words, option_words, overlap_text
from reports.present.screen import MISSING, intensity
from roofline_model.chips.hardware import doubts_of
from roofline_model.core.finding import Finding, by_severity, finding, has_code, reason_text, short_text
from roofline_model.core.units import (
    counted,
    format_speedup,
    format_time,
    in_prefix,
    interval_in_prefix,
    sentence,
    shared_prefix,
)
from roofline_model.formats.catalog import FORMATS, SIXTEEN_BIT, get_format, short_name, split_precision
from roofline_model.predictions.kernel import fastest
from roofline_model.recommend.options import takes_both_operands

if TYPE_CHECKING:
    from roofline_model.chips.hardware import Device
    from roofline_model.core.answer import Exclusion
    from roofline_model.expected.prediction import ExpectedPrediction
    from roofline_model.kernels.attention_kernels import AttentionKernel
    from roofline_model.models.step_expected import ExpectedSequence
    from roofline_model.predictions.attention import AttentionPrediction, AttentionQuestion
    from roofline_model.predictions.ffn import FfnPrediction, FfnQuestion
    from roofline_model.predictions.kernel import KernelAnswer, PredictionTable
    from roofline_model.predictions.product import ProductPrediction

    KernelRow = KernelAnswer | FfnPrediction


def product_blocks(
    predicted: PredictionTable[ProductPrediction],
    chip: Device,
    chip_name: str,
    asked: Asked = (),
    *,
    named: Sequence[str] | None,
    show_all: bool,
    has_next: bool = True,
) -> Iterator[Block]:
    """Yield what is predicted of a product.

    `chip_name`: the chip as it was typed, what `roofline hardware show` understands, too; `named`: the formats, where
    the user named them; `has_next`: whether to say what to type next.
    """
    rows = predicted.predictions
    first = rows[0]
    sizes = f"-M {first.M} -N {first.N} -K {first.K}"
    if named and any(get_format(row.weight_format).element_bits < 16 for row in rows):
        options = option_words(asked, only=("--hw", "--formats", "--formats-file"))
        next_step = Command(f"roofline compare {first.op} {sizes}{options} --no-measure", "weighs the loss")
    else:
        options = option_words(asked, only=("--hw", "--formats-file"))
        next_step = Command(f"roofline recommend {sizes}{options}", "ranks formats")
    yield from _answer_blocks(
        rows,
        f"{first.op} M={first.M} N={first.N} K={first.K}",
        chip,
        next_step if has_next else Command(""),
        are_named=bool(named),
        show_all=show_all,
        remark=_integers_alone(named or (), rows, chip),
    )
    if not show_all:
        return
    prefix = _time_prefix(rows)
    columns = (
        _FORMAT,
        *_time_columns(prefix),
        Column("AI", lambda row: intensity(row.intensity_flop_per_byte), "number", drop=4),
        Column("Critical AI", lambda row: intensity(row.critical_intensity_flop_per_byte), "number", drop=5),
        *_gain_columns(rows),
        Column("Bound", lambda row: row.bound, drop=1),
        Column("Path", lambda row: row.path, drop=3),
    )
    is_untimed = all(row.expected is None for row in rows)
    reasons = () if is_untimed else _untimed(rows)
    yield from _whole_blocks(predicted, columns, reasons, said_of_expected=SAID_OF_EXPECTED)
    source = _source_sentence(first.provenance, chip, chip_name)
    yield Paragraph(f"Ideal: {ideal_words(first.provenance)}; AI in FLOP/byte. {source}", "quiet")
    expected = ""
    if not is_untimed:
        origins = ", ".join(dict.fromkeys(row.expected.provenance for row in rows if row.expected is not None))
        kernel = "what a good kernel takes, launch included, with its 80 % interval"
        expected = f"Expected: {kernel} ({origins})."
    elif not first.is_placeholder:
        expected = reason_text(first.expected_reason)
    timed = [(row.weight_format, row.activation_format, row.expected.provenance) for row in rows if row.expected]
    yield from (Paragraph(text, "quiet") for text in (expected, reference_kernel_sentence(timed)) if text)


SAID_OF_EXPECTED = ("extrapolated", "pair-decoded", "other-result-format")
"""Findings of a product's expected time that stand beside its row."""


def _integers_alone(named: Sequence[str], rows: Sequence[ProductPrediction], chip: Device) -> str:
    """Say of an integer that was named alone that its weights were meant, where unnamed it is both operands."""
    pairs = {row.weight_format: row for row in rows if row.weight_format != row.activation_format}
    for text in named:
        weight, activation = split_precision(text)
        row = pairs.get(weight.key)
        if activation is not None or weight.kind != "int" or row is None:
            continue
        if takes_both_operands(chip, weight, get_format(row.activation_format)):
            name = short_name(weight.key)
            return f"{name} alone is its weights ({row.operands}); {name}.{name} is both operands."
    return ""


def attention_blocks(
    predicted: PredictionTable[AttentionPrediction],
    question: AttentionQuestion,
    kernel: AttentionKernel | None,
    chip: Device,
    chip_name: str,
    asked: Asked = (),
    *,
    are_named: bool,
    show_all: bool,
) -> Iterator[Block]:
    """Yield what is predicted of fused attention; `kernel`: whose expected time was asked for."""
    rows = predicted.predictions
    shape = " ".join(f"{letter}={size}" for letter, size in zip(question._fields[:6], question[:6], strict=True))
    shape += ", causal" if question.causal else ", every key visible"
    shape += f", window of {question.window} keys" if question.window is not None else ""
    shape += f", pages of {question.page_tokens} tokens" if question.page_tokens is not None else ""
    whose = "" if kernel is None else f", {kernel.name}"
    where = "this machine" if chip_name == "auto" else f"a machine with {chip.key}"
    measures = Command(
        f"pytest bench_cases -k attention{option_words(asked, only=('--hw',))}", f"measures kernels, on {where}"
    )
    yield from _answer_blocks(rows, f"attention {shape}{whose}", chip, measures, are_named=are_named, show_all=show_all)
    if not show_all:
        return
    prefix = _time_prefix(rows)
    columns = (
        _FORMAT,
        Column("K and V", lambda row: memory_cell(row.kv_read_bytes), "number", drop=7),
        *_time_columns(prefix, interval_drop=2),
        Column("Unfused", lambda row: in_prefix(row.unfused_time_s, prefix), "number", drop=4),
        Column("AI", lambda row: intensity(row.intensity_flop_per_byte), "number", drop=1),
        Column("Critical AI", lambda row: intensity(row.critical_intensity_flop_per_byte), "number", drop=5),
        *_gain_columns(rows, ideal_drop=8),
        Column("Bound", lambda row: row.bound, drop=1),
        Column("Path", lambda row: row.path, drop=6),
    )
    yield from _whole_blocks(predicted, columns, _expected_lines(rows))
    ideal = ideal_words(rows[0].provenance)
    remarks = [f"Ideal is the fused kernel {ideal}, Unfused the three that it replaces."]
    if any(row.expected is not None and row.expected.covered_ops for row in rows):
        remarks.append(
            "Expected is an engine's whole attention module, with RoPE, the append to the cache and every launch, "
            "which neither ideal has in it; the FlashAttention models (--kernel fa2) are the kernels alone."
        )
    remarks.append(_growth_under_a_window(rows, question, kernel, chip))
    remarks.append(_source_sentence(rows[0].provenance, chip, chip_name))
    yield Paragraph(" ".join(filter(None, remarks)), "quiet")


def _growth_under_a_window(
    rows: Sequence[AttentionPrediction], question: AttentionQuestion, kernel: AttentionKernel | None, chip: Device
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
        chip,
        attention_kernel=None if kernel is None else kernel.key,
    )
    if short is None or timed.expected.time_s < 1.02 * short.time_s:
        return ""
    return (
        f"With {question.window} tokens in the cache {timed.format} would take {format_time(short.time_s)}: the "
        "library that the expected times were fitted to splits the whole cache, so its steps grow with the context "
        "under a window; one that splits the window only need not."
    )


def ffn_blocks(
    predicted: PredictionTable[FfnPrediction],
    question: FfnQuestion,
    chip: Device,
    chip_name: str,
    asked: Asked = (),
    *,
    are_named: bool,
    show_all: bool,
) -> Iterator[Block]:
    """Yield what is predicted of a feed-forward block."""
    rows = predicted.predictions
    kind = "gated" if question.is_gated else "without a gate"
    tokens = counted(question.tokens_count, "token")
    title = f"ffn ({kind}) of {tokens}, {question.hidden_size} to {question.ffn_size} and back"
    first_columns = question.ffn_size * (2 if question.is_gated else 1)
    product = f"-M {question.tokens_count} -N {first_columns} -K {question.hidden_size}"
    ranks = Command(
        f"roofline recommend {product}{option_words(asked, only=('--hw', '--formats-file'))}",
        "ranks formats for its first product",
    )
    yield from _answer_blocks(rows, title, chip, ranks, are_named=are_named, show_all=show_all)
    if not show_all:
        return
    prefix = _time_prefix(rows)

    def ideal_of(kernel: str) -> Callable[[FfnPrediction], str]:
        return lambda row: in_prefix(
            next((each.ideal.time_s for each in row.kernels if each.name == kernel), None), prefix
        )

    # The row with cast kernels has all the others', in the order they run.
    kernels = max(([kernel.name for kernel in row.kernels] for row in rows), key=len)
    columns = (
        _FORMAT,
        *_time_columns(prefix),
        *(Column(kernel, ideal_of(kernel), "number", drop=5) for kernel in kernels),
        Column("AI", lambda row: intensity(row.intensity_flop_per_byte), "number", drop=2),
        *_gain_columns(rows),
        Column("Bound", lambda row: row.bound, drop=1),
        Column("Path", lambda row: row.path, drop=4),
    )
    yield from _whole_blocks(predicted, columns, _expected_lines(rows))
    ideal = ideal_words(rows[0].provenance)
    source = _source_sentence(rows[0].provenance, chip, chip_name)
    yield Paragraph(
        f"Ideal is {ideal}, of each kernel and of all one after the other; AI in FLOP/byte. {source}", "quiet"
    )


def _answer_blocks(
    rows: Sequence[KernelRow],
    title: str,
    chip: Device,
    next_step: Command,
    *,
    are_named: bool,
    show_all: bool,
    remark: str = "",
) -> Iterator[Block]:
    """Yield which format is fastest, a row per format, and what to type next: a dozen lines.

    `title`: the question, without the chip. `are_named`: the user named the formats, so all have a row. `remark`: of
    what they mean.
    """
    prefix = _time_prefix(rows)
    timed = [row.expected for row in rows if row.expected is not None]
    shown = rows if are_named else _first_rows(rows)
    has_gain = any(row.format not in SIXTEEN_BIT for row in shown)  # 16 bits alone gain nothing over 16 bits
    baseline = _baseline_name(shown)
    yield Paragraph(_fastest_sentence(rows, prefix, baseline), "verdict")
    yield Paragraph(f"{title} on {chip.key}.", "quiet")
    columns = (
        _FORMAT,
        *_time_columns(prefix),
        Column("Gain", lambda row: _gain_text(row, is_only_ideal=not timed) if has_gain else MISSING, "number"),
        Column("Bound", lambda row: row.bound, drop=2),
        Column("Kernel", lambda row: "" if row.kernel_gap is None else "none known"),
    )
    yield table("formats", columns, shown, says_what_is_left_out=False)
    yield from beside_ideal_blocks((row.formats_name, row.expected) for row in shown)
    expected = f"{expected_words(*(each.provenance for each in timed))} " if timed else ""
    over = f" Gain: over {baseline}." if baseline and has_gain else ""
    yield Paragraph(f"{expected}Ideal: {ideal_words(rows[0].provenance)}.{over}", "quiet")
    if remark:
        yield Paragraph(remark, "quiet")
    yield from chip_notes(chip, [] if timed or chip.is_placeholder else [reason_text(rows[0].expected_reason)])
    yield next_step
    hidden = f"all {len(rows)} formats, " if len(shown) < len(rows) else ""
    yield from more(f"shows {hidden}intensities, paths, kernels, notes and sources", is_shown=show_all)


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
    left_out = others[max(0, ROW_COUNT - (len(rows) - len(others))) :]
    return [row for row in rows if row not in left_out]


def _baseline_name(rows: Sequence[KernelRow]) -> str:
    """Return the name of the 16-bit format that gains refer to: of two that take the same time, the one with a row."""
    baseline = rows[0].baseline_format
    if baseline is None or any(row.format == baseline for row in rows):
        return short_name(baseline or "")
    alike = (
        row.format
        for row in rows
        if row.format in SIXTEEN_BIT
        and all(ratio is None or math.isclose(ratio, 1) for ratio in (row.speedup_ratio, row.expected_speedup_ratio))
    )
    return short_name(next(alike, baseline))


def _fastest_sentence(rows: Sequence[KernelRow], prefix: str | None, baseline: str) -> str:
    best = fastest(rows)
    is_ideal = best.expected is None

    def shown_time(row: KernelRow) -> str:
        return in_prefix(row.time_s if is_ideal else None if row.expected is None else row.expected.time_s, prefix)

    took = f"ideal {shown_time(best)} ({ideal_words(best.provenance)})"
    if not is_ideal:
        took = f"expected {shown_time(best)} (80 %: {_interval_text(best, prefix)})"
    ratio = best.speedup_ratio if is_ideal else best.expected_speedup_ratio
    is_level = bool(ratio) and round(ratio or 0.0, 1) == 1
    gain = f", {format_speedup(ratio)} {baseline}" if ratio and baseline else ""
    if best.format == best.baseline_format or is_level:
        gain = f", {best.bound}-bound"
    equal = {
        row.formats_name: row.format
        for row in rows
        if shown_time(row) == shown_time(best) and (row.kernel_gap is None) == (best.kernel_gap is None)
    }
    if len(equal) == 1:
        level = [row for row in rows if row is not best and (row.kernel_gap is None) == (best.kernel_gap is None)]
        apart = overlap_text(best.expected, [(row.formats_name, row.expected) for row in level])
        return f"{best.formats_name}{' is fastest' if len(rows) > 1 else ''}: {took}{gain}{apart}."
    if baseline and is_level and not set(equal.values()) <= set(SIXTEEN_BIT):
        gain = f", no gain over {baseline}"
    first, *others = equal
    return f"{first} and {others[0] if len(others) == 1 else f'{len(others)} others'} tie: {took}{gain}."


def beside_ideal_blocks(
    expected: Iterable[tuple[str, ExpectedPrediction | ExpectedSequence | None]],
) -> Iterator[Paragraph]:
    """Yield what most of the times far above their ideal ones is, or that they are below: a line for each reason, with
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
        yield Paragraph(f"Note: {named}{short_text(remark)}{alike}")


def chip_notes(chip: Device, notes: Sequence[str] = ()) -> Iterator[Paragraph]:
    """Yield the gravest of what puts every time on a chip in doubt, after `notes`: two lines at most."""
    invented = [f"the numbers of {chip.key} are placeholders, for examples only"] if chip.is_placeholder else []
    doubts = [short_text(doubt) for doubt in by_severity(doubts_of(chip))]
    return (Paragraph(f"Note: {note}", "warning") for note in [*notes, *invented, *doubts][:CAVEAT_COUNT])


def doubt_blocks(doubts: Iterable[Finding]) -> Iterator[Paragraph]:
    """Yield what a calibration on a busy machine leaves open of every time above."""
    return (Paragraph(f"  note: {short_text(doubt)}") for doubt in doubts)


def gap_blocks(rows: Iterable[tuple[str, Finding | None]], *, rank: str = "") -> Iterator[Paragraph]:
    """Yield why no kernel is known for formats; `rows`: name, and its `kernel-gap` or `engine-gap`.

    `rank`: where a format without any kernel stands because of it, for a ranking.
    """
    names_by_gap: dict[Finding, dict[str, None]] = {}
    for name, gap in rows:
        if gap is not None:
            names_by_gap.setdefault(replace(gap, subject=""), {})[name] = None
    for gap, names in sorted(names_by_gap.items(), key=lambda pair: pair[0].code == "engine-gap"):
        place = rank if gap.code == "kernel-gap" else ""
        yield Paragraph(f"  {', '.join(names)}{place}: {short_text(gap)}", "warning")


def reference_kernel_sentence(rows: Sequence[tuple[str, str, str]]) -> str:
    """Say which kernel the expected times of weight-only formats are of; `rows`: weight, activation, provenance of the
    time.
    """
    from roofline_model.expected.products.parameters import reference_kernel

    kernels = {weight: kernel for weight, *rest in rows if (kernel := reference_kernel(weight, *rest))}
    if not kernels:
        return ""
    options, kernel = tuple(dict.fromkeys(map(short_name, kernels))), next(iter(kernels.values()))
    return sentence(short_text(finding("reference-kernel", kind="options", options=options, kernel=kernel)))


def _whole_blocks(
    predicted: PredictionTable[Any],
    columns: Sequence[Column],
    expected_lines: Iterable[str],
    *,
    said_of_expected: Sequence[str] = (),
) -> Iterator[Block]:
    """Yield every row and column, the notes that rows refer to, what was excluded, and what the times rest on.

    `said_of_expected`: codes of findings of an expected time that stand beside its row, too.
    """
    notes: list[str] = []

    def numbers(row: KernelRow) -> str:
        of_expected = () if row.expected is None else row.expected.findings
        said = [item for item in row.findings if item not in predicted.findings]
        texts = [short_text(item) for item in (*said, *(each for each in of_expected if each.code in said_of_expected))]
        notes.extend(text for text in dict.fromkeys(texts) if text not in notes)
        return " ".join(f"[{notes.index(text) + 1}]" for text in texts)

    yield Paragraph("")
    yield table("formats", [*columns, Column("Notes", numbers)], predicted.predictions)
    yield from (Paragraph(f"  [{number}] {note}") for number, note in enumerate(notes, 1))
    yield from _excluded_blocks(predicted.excluded)
    yield from gap_blocks((row.formats_name, row.kernel_gap or row.engine_gap) for row in predicted.predictions)
    yield from map(Paragraph, expected_lines)
    yield from doubt_blocks(predicted.findings)


def _excluded_blocks(excluded: Sequence[Exclusion]) -> Iterator[Paragraph]:
    """Yield what was excluded: a line for each, one for all that the chip does not declare."""
    undeclared = [each for each in excluded if has_code(each.findings[:1], "rate-not-declared", "format")]
    if undeclared:
        keys, chip = ", ".join(each.key for each in undeclared), undeclared[0].finding.value("hardware")
        yield Paragraph(f"  left out: {keys}: {chip} declares no such rate (--formats predicts what can be widened)")
    for each in excluded:
        if each not in undeclared:
            yield Paragraph(f"  left out: {each.key}: {short_text(each.finding)}")


def _untimed(rows: Sequence[KernelRow]) -> list[str]:
    """Return why rows have no expected time, each reason once."""
    reasons = (reason_text(row.expected_reason) for row in rows if row.expected is None)
    return [f"  {reason}" for reason in dict.fromkeys(reasons)]


def _expected_lines(rows: Sequence[AttentionPrediction] | Sequence[FfnPrediction]) -> Iterator[str]:
    """Yield what the expected times rest on, and once why there are none."""
    timed = [row.expected for row in rows if row.expected is not None]
    if timed:
        origins = ", ".join(dict.fromkeys(each.provenance for each in timed))
        remarks = "; ".join(dict.fromkeys(short_text(item) for each in timed for item in each.findings))
        behind = f"; {remarks}" if remarks else ""
        yield f"Expected: what a good kernel of that chip reaches, constants {origins}{behind}."
    yield from _untimed(rows)


def _source_sentence(weakest: str, chip: Device, chip_name: str) -> str:
    """Say where the chip's numbers come from, in words a reader can act on."""
    if weakest == "placeholder":
        return f"The numbers of {chip.key} are placeholders, for examples only."
    return f"The weakest number used is {weakest}: `roofline hardware show {chip_name}` lists every source."


_FORMAT = Column("Format", lambda row: row.formats_name, is_head=True)


def _time_prefix(rows: Sequence[KernelRow]) -> str | None:
    """Return the unit that ideal and expected times of a table share, so that they read side by side."""
    timed = [row.expected for row in rows if row.expected is not None]
    return shared_prefix(
        [row.time_s for row in rows], [time_s for each in timed for time_s in (each.time_s, each.low_s, each.high_s)]
    )


def _time_columns(prefix: str | None, *, interval_drop: int = 1) -> tuple[Column, ...]:
    """Return the columns of a row's expected time, its interval and ideal time."""
    return (
        Column("Expected", lambda row: in_prefix(row.expected and row.expected.time_s, prefix), "number"),
        Column("80 %", lambda row: _interval_text(row, prefix), "number", drop=interval_drop),
        Column("Ideal", lambda row: in_prefix(row.time_s, prefix), "number"),
    )


def _interval_text(row: KernelRow, prefix: str | None) -> str:
    """Return `55.10–70.20`, in the unit of the expected time beside it; `–` where there is none."""
    time = row.expected
    return (
        MISSING if time is None else interval_in_prefix(time.low_s, time.high_s, prefix, in_prefix(time.time_s, prefix))
    )


def _gain_text(row: KernelRow, *, is_only_ideal: bool) -> str:
    """Return the expected speed-up of a row; the ideal one where it has no other, with its name beside expected
    ones.
    """
    if row.expected_speedup_ratio is not None or row.speedup_ratio is None:
        return format_speedup(row.expected_speedup_ratio)
    return format_speedup(row.speedup_ratio) if is_only_ideal else f"{format_speedup(row.speedup_ratio)} (ideal)"


def _gain_columns(rows: Sequence[KernelRow], *, ideal_drop: int = 6) -> tuple[Column, ...]:
    """Return the columns of speed-ups over the 16-bit baseline: ideal ones beside expected ones, and expected against
    expected, or ideal where a row has no other.
    """
    name = rows[0].baseline_format or "16-bit"
    has_expected = any(row.expected_speedup_ratio is not None for row in rows)
    ideal = Column(
        f"ideal vs {name}",
        lambda row: format_speedup(row.speedup_ratio),
        "number",
        drop=ideal_drop if has_expected else 0,
    )
    expected = Column(f"exp. vs {name}", lambda row: _gain_text(row, is_only_ideal=False), "number")
    return (ideal, expected) if has_expected else (ideal,)
