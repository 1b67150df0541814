"""What `predict model` says of passes: where the time of one goes, or a row for each plan and batch."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reports.present.blocks import Block, Column, Command, Paragraph, memory_cell, more, table
from reports.present.predicted.kernels import beside_ideal_blocks, chip_notes, doubt_blocks, gap_blocks
from reports.present.predicted.words import Asked, good_kernels_sentence, ideal_words, option_words, overlap_text
from reports.present.screen import MISSING, has_room_for, intensity
from roofline_model.chips.hardware import doubts_of
from roofline_model.chips.usable_memory import memory_shares
from roofline_model.core.finding import Finding, reason_text, short_text
from roofline_model.core.units import (
    counted,
    format_memory,
    format_rate,
    format_time,
    in_prefix,
    interval_in_prefix,
    shared_prefix,
)
from roofline_model.formats.catalog import get_format
from roofline_model.models.format_plan import plan_from_text
from roofline_model.operators.product import WEIGHT_GROUP_ELEMS, WEIGHT_SCALE_BITS

if TYPE_CHECKING:
    from roofline_model.chips.hardware import Device
    from roofline_model.models.llm import ModelPrediction
    from roofline_model.models.step_expected import ExpectedStep
    from roofline_model.predictions.kernel import KernelTimes
    from roofline_model.predictions.model import PassPrediction


_LARGEST_COUNT = 3
"""Operators with a row of their own in the answer; one row more holds the others."""
_ALL_REDUCE, _PASS = "all_reduce", "pass"


@dataclass(frozen=True, slots=True)
class _Operator:
    """A row of operators: one of the pass, its all-reduces, a sum of several, or the whole pass."""

    name: str
    calls_count: float
    ideal_s: float
    expected_s: float | None
    """Of all calls; 0 inside the attention's own time, None where the pass has no such time."""
    moved_bytes: float | None
    """Of its own memory; None: it moves over the link."""
    bound: str
    flops: float | None = None
    kernel: KernelTimes | None = None

    @property
    def time_s(self) -> float:
        """Expected, or else ideal time of all calls, seconds."""
        return self.ideal_s if self.expected_s is None else self.expected_s


def _operators(step: PassPrediction) -> list[_Operator]:
    """Return the operators of a pass in their order, then its all-reduces."""
    ideal, expected = step.ideal, step.expected
    rows = [
        _Operator(
            each.name,
            each.calls_count,
            each.time_s,
            0.0 if each.expected is not None and each.expected.binding == "attention" else each.expected_s,
            priced.moved_bytes,
            each.ideal.bound,
            priced.flops,
            each,
        )
        for each, priced in zip(step.kernels, ideal.kernels, strict=True)
    ]
    if ideal.all_reduce_count:
        expected_s = None if expected is None else expected.all_reduce_s
        rows.append(_Operator(_ALL_REDUCE, ideal.all_reduce_count, ideal.all_reduce_s, expected_s, None, "link"))
    return rows


def _whole(step: PassPrediction) -> _Operator:
    """Return the row of the whole pass."""
    ideal, expected_s = step.ideal, None if step.expected is None else step.expected.time_s
    return _Operator(_PASS, ideal.launch_count, ideal.time_s, expected_s, ideal.moved_bytes, ideal.bound, ideal.flops)


def _look_of(row: _Operator) -> str:
    return "total" if row.name == _PASS else ""


# One pass ------------------------------------------------------------------------------------------------------


def pass_blocks(step: PassPrediction, chip: Device, chip_name: str, asked: Asked, *, show_all: bool) -> Iterator[Block]:
    """Yield what one pass takes, where its time goes, its memory, and what to type next: a dozen lines; with `show_all`
    its operators with what bounds each, then totals, memory and where the numbers are from.

    `chip_name`: the chip as it was typed; `asked`: the question as it is typed.
    """
    ideal, expected = step.ideal, step.expected
    yield Paragraph(_pass_sentence(ideal, expected), "verdict")
    yield Paragraph(f"{_title(ideal, chip)}.", "quiet")
    yield _largest_table(step)
    yield from beside_ideal_blocks([(ideal.plan.name, expected)])
    if ideal.all_reduce_count:
        yield Paragraph(_link_sentence(ideal), "quiet")
    yield Paragraph(_first_token_sentence(ideal, chip))
    memory = ideal.memory
    room = "" if memory.usable_bytes is None else f" of {format_memory(memory.usable_bytes)} usable"
    parts = f"weights {format_memory(memory.weights_bytes)}, KV cache {format_memory(memory.kv_bytes)}"
    yield Paragraph(f"{_memory_name(ideal)}: {format_memory(memory.total_bytes)}{room} ({parts}).")
    yield from _basis_blocks([step], chip)
    yield from _next_blocks([step], chip, asked)
    yield from more("shows every operator, launch gaps, notes and sources", is_shown=show_all)
    if show_all:
        yield from _whole_pass(step, chip, chip_name)


def _basis_blocks(steps: Sequence[PassPrediction], chip: Device) -> Iterator[Block]:
    """Yield whose kernels the expected times are of, or why there are none."""
    timed = [step.expected.provenance for step in steps if step.expected is not None]
    if timed:
        yield Paragraph(good_kernels_sentence(*timed), "quiet")
    elif not chip.is_placeholder:
        yield Paragraph(f"Note: {reason_text(steps[0].expected_reason)}", "warning")


def _pass_sentence(ideal: ModelPrediction, expected: ExpectedStep | None) -> str:
    prefix = shared_prefix([(expected or ideal).time_s])
    time = in_prefix((expected or ideal).time_s, prefix)
    took = f"ideal {time} a pass ({ideal_words(ideal.provenance)})"
    if expected is not None:
        took = f"expected {time} a pass ({interval_in_prefix(expected.low_s, expected.high_s, prefix, time)})"
    tokens = _tokens(ideal, (expected or ideal).time_s)
    return f"Does not fit. If it did: {tokens}, {took}." if ideal.memory.fits is False else f"{tokens}: {took}."


def _largest(step: PassPrediction) -> list[_Operator]:
    """Return the operators that take longest, expected where there is such a time, then the others as one."""
    operators = sorted(_operators(step), key=lambda row: -row.time_s)
    rows, others = operators[:_LARGEST_COUNT], operators[_LARGEST_COUNT:]
    if others:
        rows.append(
            _Operator(
                f"{len(others)} others",
                sum(row.calls_count for row in others),
                math.fsum(row.ideal_s for row in others),
                None if step.expected is None else math.fsum(row.time_s for row in others),
                math.fsum(row.moved_bytes or 0.0 for row in others),
                "",
            )
        )
    return rows


def time_parts_sentence(step: PassPrediction) -> str:
    """Return where the time of a pass goes: `decode 4.88 ms: attention 38 %, gate_up_proj 24 %, 12 others 38 %`."""
    time_s = _whole(step).time_s
    prefix = shared_prefix([time_s], [])
    parts = ", ".join(f"{row.name} {row.time_s / time_s * 100:.0f} %" for row in _largest(step))
    return f"{step.ideal.workload.phase} {in_prefix(time_s, prefix)}: {parts}"


def _largest_table(step: PassPrediction) -> Block:
    """Return the operators that take longest, the others and the pass."""
    whole = _whole(step)
    prefix = shared_prefix([whole.time_s], [])

    def time(time_s: float | None) -> str:
        return MISSING if time_s is None else in_prefix(time_s, prefix, is_sum=True)

    columns = (
        Column("Operator", lambda row: row.name, is_head=True),
        Column("Calls", lambda row: f"{row.calls_count:g}", "number", drop=1),
        Column("Expected", lambda row: time(row.expected_s), "number"),
        Column("Share", lambda row: f"{row.time_s / whole.time_s * 100:.0f} %", "number"),
        Column("Ideal", lambda row: time(row.ideal_s), "number"),
        Column("Bytes", lambda row: memory_cell(row.moved_bytes), "number", drop=2),
        Column("Bound", lambda row: row.bound, drop=3),
    )
    return table("operators", columns, [*_largest(step), whole], look_of=_look_of, says_what_is_left_out=False)


def _first_token_sentence(ideal: ModelPrediction, chip: Device) -> str:
    from roofline_model.models.llm import first_token_pass
    from roofline_model.models.step_expected import expected_step

    batch = ideal.workload.batch_count
    times = []
    for prompts in dict.fromkeys((1, batch)):
        first = first_token_pass(ideal, chip, batch=prompts)
        expected = expected_step(first, chip)
        times.append(f"{'ideal' if expected is None else 'expected'} {format_time((expected or first).time_s)}")
    tokens = counted(first.workload.new_count, "prompt token")
    together = f"; all {batch:,} prompts in one pass: {times[-1]}" if batch > 1 else ""
    return f"First token of one request alone: {times[0]} ({tokens}){together}."


def _link_sentence(ideal: ModelPrediction) -> str:
    """Return what the times of the all-reduces are made of: the answer's other times are fitted, these are not."""
    parallel = ideal.parallel
    rate = f"{(parallel.link_bytes_per_s or 0) / 1e9:g} GB/s"
    latency = f", and {format_time(parallel.all_reduce_latency_s)} each in the expected time"
    return (
        f"all_reduce: its bytes over the link's {rate}{latency if parallel.all_reduce_latency_s else ''}; not fitted, 0.55 to "
        "2.5 times that is published."
    )


def _whole_pass(step: PassPrediction, chip: Device, chip_name: str) -> Iterator[Block]:
    ideal, expected = step.ideal, step.expected
    operators = table("operators", _operator_columns(step), [*_operators(step), _whole(step)], look_of=_look_of)
    yield Paragraph("")
    yield operators
    yield from (Paragraph(f"  [{number}] {short_text(item)}") for number, item in enumerate(ideal.findings, 1))
    if has_room_for(operators, "Shape"):
        named = dict.fromkeys(_SHAPES[each.op] for each in step.kernels if each.op in _SHAPES)
        yield Paragraph(f"Sizes under Shape: {'; '.join(named)}.", "quiet")
    has_launches = ideal.launches.host_launch_s > 0
    gaps = (
        f" With launch gaps: {format_time(ideal.graph_time_s)} in a CUDA graph, {format_time(ideal.stream_time_s)} "
        f"without ({ideal.launch_count} kernels; {ideal.launches.source})."
    )
    tokens = _tokens(ideal, ideal.time_s)
    yield Paragraph(f"Ideal pass {format_time(ideal.time_s)}: {tokens}.{gaps if has_launches else ''}")
    if expected is None:
        yield Paragraph(_no_expected_sentence(step.expected_reason))
    else:
        yield Paragraph(
            f"Expected pass {format_time(expected.time_s)} (80 % interval {format_time(expected.low_s)} to "
            f"{format_time(expected.high_s)}){' in a CUDA graph' if has_launches else ''}: "
            f"{_tokens(ideal, expected.time_s)}"
            f"{f'; {format_time(expected.stream_time_s)} without' if has_launches else ''}. Constants: "
            f"{expected.provenance}."
        )
        of_attention = (kernel.finding for kernel in expected.kernels if kernel.kernel.work.op == "attention")
        for item in dict.fromkeys(item for item in of_attention if item is not None):
            yield Paragraph(f"Expected attention: {short_text(item)}.")
        if ideal.all_reduce_count:
            yield Paragraph(_all_reduce_sentence(ideal))
    yield from gap_blocks([(ideal.plan.name, step.kernel_gap)])
    yield Paragraph(_memory_sentence(ideal, chip))
    yield Paragraph(_crossover_sentence(ideal))
    yield from _source_blocks([step], chip, chip_name)


def _operator_columns(step: PassPrediction) -> tuple[Column, ...]:
    whole_s, findings = step.ideal.time_s, step.ideal.findings

    def expected(row: _Operator) -> str:
        return "in attention" if row.expected_s == 0 else _shown_time(row.expected_s, whole_s)

    def row_intensity(row: _Operator) -> str:
        if row.kernel is not None:
            return intensity(row.kernel.ideal.intensity_flop_per_byte)
        return MISSING if row.flops is None or not row.moved_bytes else intensity(row.flops / row.moved_bytes)

    def bound(row: _Operator) -> str:
        said = () if row.kernel is None else row.kernel.ideal.findings
        return " ".join([row.bound, *(f"[{findings.index(item) + 1}]" for item in said)])

    return (
        Column("Operator", lambda row: row.name, is_head=True),
        Column("Shape", lambda row: "" if row.kernel is None else _shape_label(row.kernel), drop=3),
        Column("Formats", lambda row: "" if row.kernel is None else _formats_label(row.kernel), drop=2),
        Column("Calls", lambda row: str(row.calls_count), "number"),
        Column("Ideal", lambda row: _shown_time(row.ideal_s, whole_s), "number"),
        Column("Expected", expected, "number"),
        Column("Ideal share", lambda row: f"{row.ideal_s / whole_s * 100:.1f} %", "number", drop=5),
        Column("FLOP", lambda row: MISSING if row.flops is None else _count(row.flops), "number", drop=6),
        Column("Bytes", lambda row: memory_cell(row.moved_bytes), "number", drop=1),
        Column("AI", row_intensity, "number", drop=4),
        Column("Bound", bound),
    )


_SHAPES = {
    "gemv": "products MxNxK",
    "gemm": "products MxNxK",
    "grouped_gemm": "experts visited x tokens x N x K",
    "batched_gemm": "products per head heads x M x N x K",
    "attention": "attention batch x query heads x KV heads x new x context x head size",
}
"""Operator → what the numbers of its shape are, where its name does not say it."""


def _shape_label(kernel: KernelTimes) -> str:
    """Return the sizes of an operator, joined by x; masks and windows left out."""
    return "x".join(str(size) for name, size in kernel.shape if name not in ("causal", "window"))


def _formats_label(kernel: KernelTimes) -> str:
    formats = dict(kernel.formats)
    if "a" in formats and "b" in formats:
        return formats["b"] if formats["a"] == formats["b"] else f"{formats['b']}.{formats['a']}"
    if "kv" in formats:
        other = formats.get("q") or formats.get("source") or ""
        sign = "→" if kernel.op == "kv_write" else "×"
        return formats["kv"] if other == formats["kv"] else f"{other}{sign}{formats['kv']}"
    first, last = next(iter(formats.values())), formats.get("o", "")
    return first if not last or first == last else f"{first}→{last}"


def _all_reduce_sentence(ideal: ModelPrediction) -> str:
    from roofline_model.models.tensor_parallel import ALL_REDUCE_LATENCY_S, ALL_REDUCE_LATENCY_SOURCE

    latency_s = ideal.parallel.all_reduce_latency_s
    count = f"{ideal.all_reduce_count} all-reduces"
    if latency_s == 0:
        return f"The latency of the {count} is left out (--all-reduce-us 0)."
    default = latency_s == ALL_REDUCE_LATENCY_S
    source = f"published: {ALL_REDUCE_LATENCY_SOURCE}; --all-reduce-us sets yours" if default else "as given"
    return f"The expected time has {format_time(latency_s)} of latency for each of {count} ({source}), the ideal none."


def _memory_name(ideal: ModelPrediction) -> str:
    return "Memory on each device" if ideal.parallel.device_count > 1 else "Memory"


def _memory_sentence(ideal: ModelPrediction, chip: Device) -> str:
    memory = ideal.memory
    parts = (
        f"weights {format_memory(memory.weights_bytes)} + KV cache {format_memory(memory.kv_bytes)} "
        f"+ buffers about {format_memory(memory.activation_bytes)} = {format_memory(memory.total_bytes)}"
    )
    if memory.usable_bytes is None:
        return f"{_memory_name(ideal)}: {parts}; the chip's file states no capacity."
    does = "fits" if memory.fits else "does NOT fit"
    headroom = f" with {memory.headroom_ratio * 100:g} % kept free" if memory.headroom_ratio else ""
    taken = "".join(
        f"{', ' if at else '; '}{share.name} {format_memory(share.size_bytes)}"
        for at, share in enumerate(memory_shares(chip))
    )
    return (
        f"{_memory_name(ideal)}: {parts}; {does} in {format_memory(memory.usable_bytes)} usable of "
        f"{format_memory(memory.capacity_bytes)} ({(memory.used_ratio or 0) * 100:.1f} %{taken}){headroom}."
    )


def _crossover_sentence(ideal: ModelPrediction) -> str:
    crossover, model = ideal.kv_crossover_tokens, ideal.model
    if crossover is None:
        is_windowed = model.windowed_count == model.layer_count
        why = f": every layer keeps {model.window_size:,} tokens only" if is_windowed else ""
        return f"Reading the KV cache never overtakes reading the weights{why}."
    beyond = "" if crossover <= model.max_context_size else f", beyond its {model.max_context_size:,}"
    return f"Reading the KV cache overtakes reading the weights at {crossover:,.0f} tokens per sequence{beyond}."


# Several passes ------------------------------------------------------------------------------------------------


def passes_blocks(
    steps: Sequence[PassPrediction], chip: Device, chip_name: str, asked: Asked, *, show_all: bool
) -> Iterator[Block]:
    """Yield the fastest plan that fits, a row for each plan and batch, and what to type next; with `show_all` their
    memory, launches and sources, too.
    """
    times = [(step.expected or step.ideal).time_s for step in steps]
    prefix = shared_prefix(times, [step.ideal.time_s for step in steps])
    has_batches = len({step.ideal.workload.batch_count for step in steps}) > 1

    def batch(step: PassPrediction) -> int:
        return step.ideal.workload.batch_count

    yield Paragraph(_best_sentence(steps, prefix), "verdict")
    yield Paragraph(f"{_title(steps[0].ideal, chip, with_batch=False)}.", "quiet")
    columns = (
        Column("Format", lambda step: step.ideal.plan.name, is_head=True),
        Column("Batch", lambda step: str(batch(step)) if has_batches else MISSING, "number"),
        Column("Expected", lambda step: in_prefix(step.expected and step.expected.time_s, prefix), "number"),
        Column("Ideal", lambda step: in_prefix(step.ideal.time_s, prefix), "number", drop=1),
        _RATE,
        Column("Memory", lambda step: memory_cell(step.ideal.memory.total_bytes), "number"),
        _FITS,
    )
    yield table("passes", columns, steps, says_what_is_left_out=False)
    yield from beside_ideal_blocks(
        (f"{step.ideal.plan.name}{f' at batch {batch(step)}' if has_batches else ''}", step.expected) for step in steps
    )
    yield from _basis_blocks(steps, chip)
    yield from _next_blocks(steps, chip, asked)
    yield from more("shows weights, KV cache, launch gaps, notes and sources", is_shown=show_all)
    if show_all:
        yield from _compared_passes(steps, chip, chip_name)


def _best_sentence(steps: Sequence[PassPrediction], prefix: str | None) -> str:
    """Return the plan with the shortest pass among those that fit, at the smallest batch."""
    least = min(step.ideal.workload.batch_count for step in steps)
    passes = [step for step in steps if step.ideal.workload.batch_count == least]
    fitting = [step for step in passes if step.ideal.memory.fits is not False]
    if not fitting:
        smallest = min((step.ideal for step in steps), key=lambda ideal: ideal.memory.total_bytes)
        size, room = smallest.memory.total_bytes, smallest.memory.usable_bytes
        return f"Nothing fits: {smallest.plan.name} takes {format_memory(size)} of {format_memory(room)} usable."
    expected = [step for step in fitting if step.expected is not None] or fitting
    best = min(expected, key=lambda step: (step.expected or step.ideal).time_s)
    name, time_s = best.ideal.plan.name, (best.expected or best.ideal).time_s
    count = "the fastest that fits" if len(fitting) < len(passes) else "the fastest"
    at = f" at batch {least}" if len(passes) < len(steps) else ""
    which = f"{name} is {count}{at}, loss aside" if len(passes) > 1 else f"{name}{at}"
    source = f"ideal ({ideal_words(best.ideal.provenance)})" if best.expected is None else "expected"
    apart = overlap_text(best.expected, [(step.ideal.plan.name, step.expected) for step in fitting if step is not best])
    return f"{which}: {source} {_tokens(best.ideal, time_s)}, {in_prefix(time_s, prefix)} a pass{apart}."


def _compared_passes(steps: Sequence[PassPrediction], chip: Device, chip_name: str) -> Iterator[Block]:
    longest_s, work = max(step.ideal.time_s for step in steps), steps[0].ideal.workload
    columns = (
        Column("Formats", lambda step: step.ideal.plan.name, is_head=True),
        Column("Batch", lambda step: str(step.ideal.workload.batch_count), "number"),
        Column("Ideal", lambda step: _shown_time(step.ideal.time_s, longest_s), "number", drop=1),
        Column("Expected", lambda step: _shown_time(step.expected and step.expected.time_s, longest_s), "number"),
        _RATE,
        Column(
            "no graph",
            lambda step: _shown_time((step.expected or step.ideal).stream_time_s, longest_s),
            "number",
            drop=4,
        ),
        Column("Weights", lambda step: memory_cell(step.ideal.memory.weights_bytes), "number", drop=3),
        Column("KV cache", lambda step: memory_cell(step.ideal.memory.kv_bytes), "number", drop=3),
        Column("Memory", lambda step: memory_cell(step.ideal.memory.total_bytes), "number", drop=2),
        _FITS,
        Column("Bound", lambda step: step.ideal.bound, drop=5),
    )
    yield Paragraph("")
    yield table("passes", columns, steps)
    yield Paragraph(
        "Tokens/s at the expected time where there is one, else at the ideal; no graph: the same with launches one by "
        "one."
    )
    if work.phase == "decode" and work.new_count > 1:
        yield Paragraph(f"Tokens/s if all {work.new_count} new tokens of every sequence are kept.")
    if not any(step.expected for step in steps):
        yield Paragraph(_no_expected_sentence(steps[0].expected_reason))
    yield from gap_blocks((step.ideal.plan.name, step.kernel_gap) for step in steps)
    yield from _source_blocks(steps, chip, chip_name)


def _rate_text(step: PassPrediction) -> str:
    """Return the tokens per second at the expected time, at the ideal one where there is none."""
    rate = format_rate(step.ideal.token_count / (step.expected or step.ideal).time_s)
    return f"{rate} (ideal)" if step.expected is None else rate


_RATE = Column("Tokens/s", _rate_text, "number")
_FITS = Column("Fits", lambda step: {None: MISSING, True: "yes", False: "no"}[step.ideal.memory.fits])


# What both have ------------------------------------------------------------------------------------------------


def _title(ideal: ModelPrediction, chip: Device, *, with_batch: bool = True) -> str:
    work = ideal.workload
    batch = f" batch={work.batch_count}" if with_batch else ""
    new = f" new={work.new_count}" if work.new_count not in (1, work.context_count) else ""
    devices = f" on {ideal.parallel.device_count} ×" if ideal.parallel.device_count > 1 else " on"
    formats = f", {ideal.plan.name}" if with_batch else ""
    formats += f", attention by {ideal.attention_kernel}" if ideal.attention_kernel is not None else ""
    return f"{ideal.model.name} {work.phase}{batch} context={work.context_count}{new}{formats}{devices} {chip.key}"


def _tokens(ideal: ModelPrediction, time_s: float) -> str:
    """Return the tokens per second of a pass in words; of several new tokens, what keeping them all or one each
    gives.
    """
    work, tokens_per_s = ideal.workload, format_rate(ideal.token_count / time_s)
    if work.phase == "prefill":
        return f"{tokens_per_s} prompt tokens/s"
    if work.new_count == 1:
        return f"{tokens_per_s} tokens/s"
    request_rate = format_rate(work.batch_count / time_s)
    return (
        f"{tokens_per_s} tokens/s if all {work.new_count} new tokens of a sequence are kept, {request_rate} if one is"
    )


def _no_expected_sentence(why_not: Finding | None) -> str:
    """Return the reason as a line of its own: with its kernel's name in front it needs a beginning."""
    text = reason_text(why_not)
    return f"No expected time: {text}" if why_not is not None and why_not.subject else text


_NOT_RECOMMENDED = frozenset({"--new-tokens", "--kv", "--attention-kernel", "--all-reduce-us", "--no-group-scales"})
"""What `recommend --model` is not asked: with one of these the next command stays a prediction."""
_OTHER_FORMATS = ("BF16", "FP8", "INT4")


def _next_blocks(steps: Sequence[PassPrediction], chip: Device, asked: Asked) -> Iterator[Block]:
    """Yield what puts the times in doubt, and what to type next: the same question, ranked, or in other formats."""
    yield from chip_notes(chip)
    names = {option for option, _ in asked}
    if "--set" in names:
        return  # an exception is made for one plan
    if names & _NOT_RECOMMENDED:
        named = [name.strip() for option, value in asked if option == "--formats" for name in value.split(",")]
        if len(named) > 1:
            return  # they are compared already
        shape, asked_formats = steps[0].ideal.model, {step.ideal.plan.base for step in steps if named}
        others = [name for name in _OTHER_FORMATS if plan_from_text(name, shape).base not in asked_formats]
        rest = [pair for pair in asked if pair[0] != "--formats"]
        options = option_words([*rest, ("--formats", ",".join([*named, *others]))])
        yield Command(f"roofline predict model{options}", "compares formats")
        return
    # Against 16 bit alone there is nothing to rank.
    is_wide = all(get_format(step.weight_format).element_bits >= 16 for step in steps)
    has_formats = len({step.ideal.plan.name for step in steps}) > 1
    effect = "ranks formats" if is_wide or not has_formats else "weighs the loss"
    options = option_words(asked, without=("--batch", *(("--formats",) if is_wide else ())))
    if "--batch" in names:
        # `recommend` takes one batch, at the end of the command.
        batches = {step.ideal.workload.batch_count for step in steps}
        options += f" --batch {min(batches)}"
        effect += f" at batch {min(batches)}" if len(batches) > 1 else ""
    yield Command(f"roofline recommend{options}", effect)


def _source_blocks(steps: Sequence[PassPrediction], chip: Device, chip_name: str) -> Iterator[Block]:
    ideal = steps[0].ideal
    experts = ideal.model.experts
    texts = []
    if experts is not None:
        fewer = (
            " Tokens that agree visit fewer, so with several at once a measured pass can be faster than the ideal one."
        )
        texts.append(
            f"Routing is taken as uniform over {experts.expert_count} experts, {experts.active_count} for each "
            f"token.{'' if all(step.ideal.are_experts_certain for step in steps) else fewer}"
        )
    coverages = dict.fromkeys(step.coverage for step in steps)
    texts += ["; ".join(short_text(each) for each in coverages if each is not None), _group_scales_text(steps)]
    weakest = "placeholders, for examples only" if chip.is_placeholder else f"{ideal.provenance} at the weakest"
    texts.append(
        f"Shape: {ideal.model.source}. Numbers of {chip.key}: {weakest} (`roofline hardware show {chip_name}`)."
    )
    yield from doubt_blocks(doubts_of(chip))
    yield from (Paragraph(text, "quiet") for text in texts if text)


def _group_scales_text(steps: Sequence[PassPrediction]) -> str:
    """Return how INT4 and INT2 weights are counted; empty where no plan has them."""
    grouped = [step.ideal.plan for step in steps if step.ideal.plan.grouped_weights]
    if not grouped:
        return ""
    keys = " and ".join(dict.fromkeys(key for plan in grouped for key in plan.grouped_weights))
    scale = f"a {WEIGHT_SCALE_BITS}-bit scale per {WEIGHT_GROUP_ELEMS} elements"
    if grouped[0].has_group_scales:
        return f"{keys} weights carry {scale}, in memory, ideal and expected time; zero points are not counted."
    return (
        f"{keys} weights are counted without scales in memory and ideal time, as the original documents do; the "
        f"expected time reads {scale}."
    )


def _shown_time(time_s: float | None, whole_s: float) -> str:
    """Print a part of a pass in the pass's unit; missing → `–`."""
    if time_s is None:
        return MISSING
    units = ((1.0, "s", 10.0), (1e-3, "ms", 1e-3), (1e-6, "µs", 0.0))
    scale, unit = next((scale, unit) for scale, unit, least_s in units if whole_s >= least_s)
    return f"<0.001 {unit}" if 0 < time_s < 0.0005 * scale else f"{time_s / scale:.3f} {unit}"


def _count(flops: float) -> str:
    for scale, prefix in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if flops >= scale:
            return f"{flops / scale:.3g} {prefix}"
    return f"{flops:.3g}"
