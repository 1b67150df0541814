"""What `roofline predict model` prints: a table by operator, the totals behind it, or one line per format and batch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from reports.answers.short_answer import good_kernels_sentence, ideal_words, option_words
from reports.present.blocks import Column, memory_cell, table
from reports.present.screen import MISSING, has_room_for, intensity, show, show_line, show_more, show_next
from roofline_cli.predict.prediction_rows import print_beside_ideal, print_caveats, show_doubts
from roofline_cli.shared.group import typed_pairs
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
    from roofline_model.models.llm import KernelPrediction, ModelPrediction
    from roofline_model.models.step_expected import ExpectedStep
    from roofline_model.operators.product import Operator


_LARGEST_COUNT = 3
"""Operators with a row of their own in the answer; one row more holds the others."""
_ALL_REDUCE, _LINK_BOUND, _PASS = "all_reduce", "link", "pass"


def print_pass(prediction: ModelPrediction, chip: Device, *, show_all: bool) -> None:
    """Print what one pass takes, where its time goes, its memory, and what to type next: a dozen lines."""
    from roofline_model.models.step_expected import expected_step, why_no_step

    expected = expected_step(prediction, chip)
    show_line(_pass_sentence(prediction, expected), "bold")
    show_line(f"{_title(prediction, chip)}.", "dim")
    _show_largest(prediction, expected)
    print_beside_ideal([(prediction.plan.name, expected)])
    if prediction.all_reduce_count:
        show_line(_link_sentence(prediction), "dim")
    _print_first_token(prediction, chip)
    show_line(_short_memory_sentence(prediction))
    if expected is not None:
        show_line(good_kernels_sentence(expected.provenance), "dim")
    elif not chip.is_placeholder:
        show_line(f"Note: {reason_text(why_no_step(prediction, chip))}", "yellow")
    more = "every operator, launch gaps, notes and sources"
    _print_next([prediction], chip, more, show_all=show_all)


def _print_next(predictions: Sequence[ModelPrediction], chip: Device, more: str, *, show_all: bool) -> None:
    print_caveats(chip, [])
    show_next(*_next_step(predictions))
    show_more(f"shows {more}", is_shown=show_all)


_NOT_RECOMMENDED = frozenset({
    "--new-tokens", "--kv", "--attention-kernel", "--tensor-parallel", "--link-gb-s", "--all-reduce-us",
    "--no-group-scales",
})  # fmt: skip
"""What `recommend --model` is not asked: with one of these the next command stays a prediction."""
_OTHER_FORMATS = ("BF16", "FP8", "INT4")


def _next_step(predictions: Sequence[ModelPrediction]) -> tuple[str, str]:
    """Return what to type next and what it does: the same question, ranked, or in other formats."""
    asked = typed_pairs()
    is_wide = all(get_format(each.plan.base.weights).element_bits >= 16 for each in predictions)
    left_out = ("--formats",) if is_wide else ()  # against 16 bit alone there is nothing to rank
    effect = "ranks formats" if left_out or not _has_formats(predictions) else "weighs the loss"
    names = {option for option, _ in asked}
    if "--set" in names:
        return "", ""  # an exception is made for one plan
    if names & _NOT_RECOMMENDED:
        named = [name.strip() for option, value in asked if option == "--formats" for name in value.split(",")]
        if len(named) > 1:
            return "", ""  # they are compared already
        shape, asked_formats = predictions[0].model, {each.plan.base for each in predictions if named}
        others = [name for name in _OTHER_FORMATS if plan_from_text(name, shape).base not in asked_formats]
        formats = ",".join([*named, *others])
        rest = [pair for pair in asked if pair[0] != "--formats"]
        return f"roofline predict model{option_words([*rest, ('--formats', formats)])}", "compares formats"
    if "--batch" not in names:
        return f"roofline recommend{option_words(asked, without=left_out)}", effect
    batches = {prediction.workload.batch_count for prediction in predictions}
    effect += f" at batch {min(batches)}" if len(batches) > 1 else ""
    options = option_words(asked, without={"--batch", *left_out})
    return f"roofline recommend{options} --batch {min(batches)}", effect


def _pass_sentence(prediction: ModelPrediction, expected: ExpectedStep | None) -> str:
    is_too_large = prediction.memory.fits is False
    if expected is None:
        prefix = shared_prefix([prediction.time_s])
        took = f"ideal {in_prefix(prediction.time_s, prefix)} a pass ({ideal_words(prediction.provenance)})"
        tokens = _tokens(prediction, prediction.time_s)
    else:
        prefix = shared_prefix([expected.time_s])
        time = in_prefix(expected.time_s, prefix)
        took = f"expected {time} a pass ({interval_in_prefix(expected.low_s, expected.high_s, prefix, time)})"
        tokens = _tokens(prediction, expected.time_s)
    return f"Does not fit. If it did: {tokens}, {took}." if is_too_large else f"{tokens}: {took}."


def _show_largest(prediction: ModelPrediction, expected: ExpectedStep | None) -> None:
    """Print the operators that take longest, expected where there is such a time, then the others and the pass."""
    whole_s = prediction.time_s if expected is None else expected.time_s
    operators = _timed_operators(prediction, expected)
    rows, others = operators[:_LARGEST_COUNT], operators[_LARGEST_COUNT:]
    if others:
        rows.append(_sum_of(f"{len(others)} others", others))
    rows.append(replace(_sum_of(_PASS, operators), time_s=whole_s, bound=prediction.bound))
    prefix = shared_prefix([whole_s], [])

    def time(time_s: float) -> str:
        return in_prefix(time_s, prefix, is_sum=True)

    columns = (
        Column("Operator", lambda row: row.name, is_head=True),
        Column("Calls", lambda row: f"{row.calls_count:g}", "number", drop=1),
        Column("Expected", lambda row: MISSING if expected is None else time(row.time_s), "number"),
        Column("Share", lambda row: f"{row.time_s / whole_s * 100:.0f} %", "number"),
        Column("Ideal", lambda row: time(row.ideal_s), "number"),
        Column("Bytes", lambda row: memory_cell(row.moved_bytes), "number", drop=2),
        Column("Bound", lambda row: row.bound, drop=3),
    )
    show(table("operators", columns, rows, look_of=_look_of, says_what_is_left_out=False))


def _look_of(row: _TimedOperator | _Operator) -> str:
    return "total" if row.name == _PASS else ""


@dataclass(frozen=True, slots=True)
class _TimedOperator:
    """A row of the answer: all calls of an operator, or a sum of operators."""

    name: str
    calls_count: float
    time_s: float
    """Expected where the pass has such a time, else ideal; 0 inside the attention's own time."""
    ideal_s: float
    moved_bytes: float | None
    """Of its own memory; None: it moves over the link."""
    bound: str


def _timed_operators(prediction: ModelPrediction, expected: ExpectedStep | None) -> list[_TimedOperator]:
    """Return the operators of a pass, the all-reduces among them, longest first."""
    operators = []
    for index, kernel in enumerate(prediction.kernels):
        time_s = kernel.time_s
        if expected is not None:
            of_step = expected.kernels[index]
            # what is bound by "attention" lies inside the attention's own time
            time_s = 0.0 if of_step.binding == "attention" else of_step.time_s * kernel.kernel.calls_count
        name, calls_count = kernel.kernel.name, kernel.kernel.calls_count
        operators.append(
            _TimedOperator(name, calls_count, time_s, kernel.time_s, kernel.moved_bytes, kernel.prediction.bound)
        )
    if prediction.all_reduce_count:
        time_s = prediction.all_reduce_s if expected is None else expected.all_reduce_s
        operators.append(
            _TimedOperator(_ALL_REDUCE, prediction.all_reduce_count, time_s, prediction.all_reduce_s, None, _LINK_BOUND)
        )
    return sorted(operators, key=lambda operator: -operator.time_s)


def _sum_of(name: str, operators: Sequence[_TimedOperator]) -> _TimedOperator:
    return _TimedOperator(
        name,
        sum(operator.calls_count for operator in operators),
        math.fsum(operator.time_s for operator in operators),
        math.fsum(operator.ideal_s for operator in operators),
        math.fsum(operator.moved_bytes or 0.0 for operator in operators),
        "",
    )


def print_passes(predictions: Sequence[ModelPrediction], chip: Device, *, show_all: bool) -> None:
    """Print the fastest plan that fits, a row for each plan and batch, and what to type next."""
    from roofline_model.models.step_expected import expected_step, why_no_step

    steps = [expected_step(prediction, chip) for prediction in predictions]
    times = [
        prediction.time_s if step is None else step.time_s for prediction, step in zip(predictions, steps, strict=True)
    ]
    show_line(_best_sentence(predictions, steps, times), "bold")
    show_line(f"{_title(predictions[0], chip, with_batch=False)}.", "dim")
    prefix = shared_prefix(times, [prediction.time_s for prediction in predictions])
    batches = {prediction.workload.batch_count for prediction in predictions}
    columns = (
        Column("Format", lambda row: row[0].plan.name, is_head=True),
        Column("Batch", lambda row: str(row[0].workload.batch_count) if len(batches) > 1 else MISSING, "number"),
        Column("Expected", lambda row: in_prefix(None if row[1] is None else row[1].time_s, prefix), "number"),
        Column("Ideal", lambda row: in_prefix(row[0].time_s, prefix), "number", drop=1),
        Column("Tokens/s", lambda row: _rate_text(*row), "number"),
        Column("Memory", lambda row: memory_cell(row[0].memory.total_bytes), "number"),
        Column("Fits", lambda row: _fits(row[0])),
    )
    show(table("passes", columns, list(zip(predictions, steps, strict=True)), says_what_is_left_out=False))
    batch_names = [f" at batch {each.workload.batch_count}" if len(batches) > 1 else "" for each in predictions]
    names = [f"{each.plan.name}{batch}" for each, batch in zip(predictions, batch_names, strict=True)]
    print_beside_ideal(zip(names, steps, strict=True))
    if any(step is not None for step in steps):
        show_line(good_kernels_sentence(*(step.provenance for step in steps if step is not None)), "dim")
    elif not chip.is_placeholder:
        show_line(f"Note: {reason_text(why_no_step(predictions[0], chip))}", "yellow")
    more = "weights, KV cache, launch gaps, notes and sources"
    _print_next(predictions, chip, more, show_all=show_all)


def _has_formats(predictions: Sequence[ModelPrediction]) -> bool:
    """Return whether plans differ, and not only batches."""
    return len({prediction.plan.name for prediction in predictions}) > 1


def _best_sentence(
    predictions: Sequence[ModelPrediction], steps: Sequence[ExpectedStep | None], times: Sequence[float]
) -> str:
    """Return the plan with the shortest pass among those that fit, at the smallest batch."""
    least = min(prediction.workload.batch_count for prediction in predictions)
    passes = [
        (time_s, step is None, prediction)
        for prediction, step, time_s in zip(predictions, steps, times, strict=True)
        if prediction.workload.batch_count == least
    ]
    fitting = [each for each in passes if each[2].memory.fits is not False]
    if not fitting:
        smallest = min(predictions, key=lambda prediction: prediction.memory.total_bytes)
        size, room = smallest.memory.total_bytes, smallest.memory.usable_bytes
        return f"Nothing fits: {smallest.plan.name} takes {format_memory(size)} of {format_memory(room)} usable."
    expected = [each for each in fitting if not each[1]] or fitting
    time_s, is_ideal, best = min(expected, key=lambda each: each[0])
    count = "the fastest that fits" if len(fitting) < len(passes) else "the fastest"
    at = f" at batch {least}" if len(passes) < len(predictions) else ""
    which = f"{best.plan.name} is {count}{at}, loss aside" if len(passes) > 1 else f"{best.plan.name}{at}"
    source = f"ideal ({ideal_words(best.provenance)})" if is_ideal else "expected"
    time = in_prefix(time_s, shared_prefix(times, [prediction.time_s for prediction in predictions]))
    return f"{which}: {source} {_tokens(best, time_s)}, {time} a pass."


def print_prediction(prediction: ModelPrediction, chip: Device, hardware: str) -> None:
    """Print one pass: its operators with what bounds each, then totals, memory and where the numbers are from."""
    from roofline_model.models.step_expected import expected_step, why_no_step

    expected = expected_step(prediction, chip)
    operators = table("operators", _operator_columns(prediction, expected), _operators(prediction), look_of=_look_of)
    show(operators)
    for number, item in enumerate(prediction.findings, 1):
        show_line(f"  [{number}] {short_text(item)}")
    if has_room_for(operators, "Shape"):
        show_line(_legend(prediction), style="dim")
    _print_times(prediction)
    if expected is None:
        show_line(no_expected_sentence(why_no_step(prediction, chip)))
    else:
        _print_expected(prediction, expected)
    _print_gaps([prediction], chip)
    show_line(_memory_sentence(prediction, chip))
    show_line(_crossover_text(prediction))
    _print_sources([prediction], chip, hardware)


def no_expected_sentence(why_not: Finding | None) -> str:
    """Return the reason as a line of its own: with its kernel's name in front it needs a beginning."""
    text = reason_text(why_not)
    return f"No expected time: {text}" if why_not is not None and why_not.subject else text


def print_comparison(predictions: Sequence[ModelPrediction], chip: Device, hardware: str) -> None:
    """Print one line for each format plan and batch."""
    from roofline_model.models.step_expected import expected_step, why_no_step

    steps = [expected_step(prediction, chip) for prediction in predictions]
    longest_s = max(prediction.time_s for prediction in predictions)
    columns = (
        Column("Formats", lambda row: row[0].plan.name, is_head=True),
        Column("Batch", lambda row: str(row[0].workload.batch_count), "number"),
        Column("Ideal", lambda row: _shown_time(row[0].time_s, longest_s), "number", drop=1),
        Column("Expected", lambda row: _shown_time(None if row[1] is None else row[1].time_s, longest_s), "number"),
        Column("Tokens/s", lambda row: _rate_text(*row), "number"),
        Column("no graph", lambda row: _shown_time((row[1] or row[0]).stream_time_s, longest_s), "number", drop=4),
        Column("Weights", lambda row: memory_cell(row[0].memory.weights_bytes), "number", drop=3),
        Column("KV cache", lambda row: memory_cell(row[0].memory.kv_bytes), "number", drop=3),
        Column("Memory", lambda row: memory_cell(row[0].memory.total_bytes), "number", drop=2),
        Column("Fits", lambda row: _fits(row[0])),
        Column("Bound", lambda row: row[0].bound, drop=5),
    )
    show(table("passes", columns, list(zip(predictions, steps, strict=True))))
    show_line(
        "Tokens/s at the expected time where there is one, else at the ideal; no graph: the same with launches one by "
        "one."
    )
    if predictions[0].workload.phase == "decode" and predictions[0].workload.new_count > 1:
        show_line(f"Tokens/s if all {predictions[0].workload.new_count} new tokens of every sequence are kept.")
    if not any(steps):
        show_line(no_expected_sentence(why_no_step(predictions[0], chip)))
    _print_gaps(predictions, chip)
    _print_sources(predictions, chip, hardware)


def _print_gaps(predictions: Sequence[ModelPrediction], chip: Device) -> None:
    """Say of which plans the products or the cache have no known kernel on the chip."""
    from roofline_cli.predict.prediction_rows import print_gaps
    from roofline_model.kernels.known_kernels import plan_gap

    print_gaps(
        (
            prediction.plan.name,
            plan_gap(chip, prediction.plan.base.weights, prediction.plan.base.activations, prediction.plan.kv),
        )
        for prediction in predictions
    )


@dataclass(frozen=True, slots=True)
class _Operator:
    """A row of all operators: one of the pass, its all-reduces, or the whole pass. Missing is None."""

    name: str
    calls_count: int
    ideal_s: float
    kernel: KernelPrediction | None
    flops: float | None
    moved_bytes: float | None


def _operators(prediction: ModelPrediction) -> list[_Operator]:
    """Return the operators of a pass in their order, its all-reduces, and the pass."""
    rows = [
        _Operator(each.kernel.name, each.kernel.calls_count, each.time_s, each, each.flops, each.moved_bytes)
        for each in prediction.kernels
    ]
    if prediction.all_reduce_s:
        rows.append(_Operator(_ALL_REDUCE, prediction.all_reduce_count, prediction.all_reduce_s, None, None, None))
    whole = (prediction.launch_count, prediction.time_s, None, prediction.flops, prediction.moved_bytes)
    return [*rows, _Operator(_PASS, *whole)]


def _operator_columns(prediction: ModelPrediction, expected: ExpectedStep | None) -> tuple[Column, ...]:
    whole_s = prediction.time_s

    def expected_text(row: _Operator) -> str:
        if expected is None:
            return MISSING
        if row.kernel is None:
            return _shown_time(expected.time_s if row.name == _PASS else expected.all_reduce_s, whole_s)
        of_step = expected.kernels[prediction.kernels.index(row.kernel)]
        if of_step.binding == "attention":  # inside the attention's own time
            return "in attention"
        return _shown_time(of_step.time_s * row.calls_count, whole_s)

    def intensity_text(row: _Operator) -> str:
        if row.kernel is not None:
            return intensity(row.kernel.prediction.intensity_flop_per_byte)
        return MISSING if row.flops is None or not row.moved_bytes else intensity(row.flops / row.moved_bytes)

    def bound(row: _Operator) -> str:
        if row.kernel is not None:
            return _bound(row.kernel, prediction.findings)
        return prediction.bound if row.name == _PASS else _LINK_BOUND

    return (
        Column("Operator", lambda row: row.name, is_head=True),
        Column("Shape", lambda row: "" if row.kernel is None else shape_label(row.kernel.kernel.work), drop=3),
        Column("Formats", lambda row: "" if row.kernel is None else _formats_label(row.kernel.kernel.work), drop=2),
        Column("Calls", lambda row: str(row.calls_count), "number"),
        Column("Ideal", lambda row: _shown_time(row.ideal_s, whole_s), "number"),
        Column("Expected", expected_text, "number"),
        Column("Ideal share", lambda row: f"{row.ideal_s / whole_s * 100:.1f} %", "number", drop=5),
        Column("FLOP", lambda row: MISSING if row.flops is None else _count(row.flops), "number", drop=6),
        Column("Bytes", lambda row: memory_cell(row.moved_bytes), "number", drop=1),
        Column("AI", intensity_text, "number", drop=4),
        Column("Bound", bound),
    )


def _bound(kernel: KernelPrediction, findings: Sequence[Finding]) -> str:
    marks = " ".join(f"[{findings.index(item) + 1}]" for item in kernel.prediction.findings)
    return f"{kernel.prediction.bound} {marks}".strip()


def _title(prediction: ModelPrediction, chip: Device, *, with_batch: bool = True) -> str:
    work = prediction.workload
    batch = f" batch={work.batch_count}" if with_batch else ""
    new = f" new={work.new_count}" if work.new_count not in (1, work.context_count) else ""
    devices = f" on {prediction.parallel.device_count} ×" if prediction.parallel.device_count > 1 else " on"
    formats = f", {prediction.plan.name}" if with_batch else ""
    formats += f", attention by {prediction.attention_kernel}" if prediction.attention_kernel is not None else ""
    return f"{prediction.model.name} {work.phase}{batch} context={work.context_count}{new}{formats}{devices} {chip.key}"


def _print_times(prediction: ModelPrediction) -> None:
    gaps = (
        f" With launch gaps: {format_time(prediction.graph_time_s)} in a CUDA graph, "
        f"{format_time(prediction.stream_time_s)} without "
        f"({prediction.launch_count} kernels; {prediction.launches.source})."
    )
    has_launches = prediction.launches.host_launch_s > 0
    show_line(
        f"Ideal pass {format_time(prediction.time_s)}: "
        f"{_tokens(prediction, prediction.time_s)}.{gaps if has_launches else ''}"
    )


def _tokens(prediction: ModelPrediction, time_s: float) -> str:
    """Return the tokens per second of a pass in words; of several new tokens, what keeping them all or one each
    gives.
    """
    work, tokens_per_s = prediction.workload, format_rate(prediction.token_count / time_s)
    if work.phase == "prefill":
        return f"{tokens_per_s} prompt tokens/s"
    if work.new_count == 1:
        return f"{tokens_per_s} tokens/s"
    request_rate = format_rate(work.batch_count / time_s)
    return (
        f"{tokens_per_s} tokens/s if all {work.new_count} new tokens of a sequence are kept, {request_rate} if one is"
    )


def _print_first_token(prediction: ModelPrediction, chip: Device) -> None:
    from roofline_model.models.llm import first_token_pass
    from roofline_model.models.step_expected import expected_step

    batch = prediction.workload.batch_count
    times = []
    for prompts in dict.fromkeys((1, batch)):
        first = first_token_pass(prediction, chip, batch=prompts)
        expected = expected_step(first, chip)
        time_s = first.time_s if expected is None else expected.time_s
        times.append(f"{'ideal' if expected is None else 'expected'} {format_time(time_s)}")
    tokens = counted(first.workload.new_count, "prompt token")
    together = f"; all {batch:,} prompts in one pass: {times[-1]}" if batch > 1 else ""
    show_line(f"First token of one request alone: {times[0]} ({tokens}){together}.")


def _print_expected(prediction: ModelPrediction, expected: ExpectedStep) -> None:
    has_launches = prediction.launches.host_launch_s > 0
    show_line(
        f"Expected pass {format_time(expected.time_s)} (80 % interval {format_time(expected.low_s)} to "
        f"{format_time(expected.high_s)}){' in a CUDA graph' if has_launches else ''}: "
        f"{_tokens(prediction, expected.time_s)}"
        f"{f'; {format_time(expected.stream_time_s)} without' if has_launches else ''}. Constants: "
        f"{expected.provenance}."
    )
    of_attention = (kernel.finding for kernel in expected.kernels if kernel.kernel.work.op == "attention")
    for item in dict.fromkeys(item for item in of_attention if item is not None):
        show_line(f"Expected attention: {short_text(item)}.")
    if prediction.all_reduce_count:
        show_line(_all_reduce_text(prediction))


def _all_reduce_text(prediction: ModelPrediction) -> str:
    from roofline_model.models.tensor_parallel import ALL_REDUCE_LATENCY_S, ALL_REDUCE_LATENCY_SOURCE

    latency_s = prediction.parallel.all_reduce_latency_s
    count = f"{prediction.all_reduce_count} all-reduces"
    if latency_s == 0:
        return f"The latency of the {count} is left out (--all-reduce-us 0)."
    default = latency_s == ALL_REDUCE_LATENCY_S
    source = f"published: {ALL_REDUCE_LATENCY_SOURCE}; --all-reduce-us sets yours" if default else "as given"
    return f"The expected time has {format_time(latency_s)} of latency for each of {count} ({source}), the ideal none."


def _link_sentence(prediction: ModelPrediction) -> str:
    """Return what the times of the all-reduces are made of: the answer's other times are fitted, these are not."""
    parallel = prediction.parallel
    rate = f"{(parallel.link_bytes_per_s or 0) / 1e9:g} GB/s"
    latency = f", and {format_time(parallel.all_reduce_latency_s)} each in the expected time"
    return (
        f"all_reduce: its bytes over the link's {rate}{latency if parallel.all_reduce_latency_s else ''}; not fitted, 0.55 to "
        "2.5 times that is published."
    )


def _short_memory_sentence(prediction: ModelPrediction) -> str:
    memory = prediction.memory
    room = "" if memory.usable_bytes is None else f" of {format_memory(memory.usable_bytes)} usable"
    parts = f"weights {format_memory(memory.weights_bytes)}, KV cache {format_memory(memory.kv_bytes)}"
    each = " on each device" if prediction.parallel.device_count > 1 else ""
    return f"Memory{each}: {format_memory(memory.total_bytes)}{room} ({parts})."


def _memory_sentence(prediction: ModelPrediction, chip: Device) -> str:
    memory = prediction.memory
    parts = (
        f"weights {format_memory(memory.weights_bytes)} + KV cache {format_memory(memory.kv_bytes)} "
        f"+ buffers about {format_memory(memory.activation_bytes)} = {format_memory(memory.total_bytes)}"
    )
    if memory.usable_bytes is None:
        verdict = "the chip's file states no capacity"
    else:
        does = "fits" if memory.fits else "does NOT fit"
        headroom = f" with {memory.headroom_ratio * 100:g} % kept free" if memory.headroom_ratio else ""
        taken = ", ".join(f"{share.name} {format_memory(share.size_bytes)}" for share in memory_shares(chip))
        verdict = (
            f"{does} in {format_memory(memory.usable_bytes)} usable of {format_memory(memory.capacity_bytes)} "
            f"({(memory.used_ratio or 0) * 100:.1f} %{f'; {taken}' if taken else ''}){headroom}"
        )
    each = " on each device" if prediction.parallel.device_count > 1 else ""
    return f"Memory{each}: {parts}; {verdict}."


def _crossover_text(prediction: ModelPrediction) -> str:
    crossover, model = prediction.kv_crossover_tokens, prediction.model
    if crossover is None:
        why = (
            f": every layer keeps {model.window_size:,} tokens only"
            if model.windowed_count == model.layer_count
            else ""
        )
        return f"Reading the KV cache never overtakes reading the weights{why}."
    beyond = "" if crossover <= model.max_context_size else f", beyond its {model.max_context_size:,}"
    return f"Reading the KV cache overtakes reading the weights at {crossover:,.0f} tokens per sequence{beyond}."


def _print_sources(passes: Sequence[ModelPrediction], chip: Device, hardware: str) -> None:
    show_doubts(doubts_of(chip))
    prediction = passes[0]
    experts = prediction.model.experts
    if experts is not None:
        bound = (
            ""
            if all(prediction.are_experts_certain for prediction in passes)
            else (
                " Tokens that agree visit fewer, so with several at once a measured pass can be faster than the ideal "
                "one."
            )
        )
        show_line(
            f"Routing is taken as uniform over {experts.expert_count} experts, {experts.active_count} for each "
            f"token.{bound}",
            style="dim",
        )
    for text in (_coverage_text(passes), _group_scales_text(passes)):
        if text:
            show_line(text, style="dim")
    weakest = "placeholders, for examples only" if chip.is_placeholder else f"{prediction.provenance} at the weakest"
    show_line(
        f"Shape: {prediction.model.source}. Numbers of {chip.key}: {weakest} (`roofline hardware show {hardware}`).",
        style="dim",
    )


def _coverage_text(passes: Sequence[ModelPrediction]) -> str:
    """Return which matrices have the narrow formats; empty where every plan is wide."""
    from roofline_model.models.format_plan import plan_coverage

    coverages = dict.fromkeys(plan_coverage(prediction.plan) for prediction in passes)
    return "; ".join(short_text(each) for each in coverages if each is not None)


def _group_scales_text(passes: Sequence[ModelPrediction]) -> str:
    """Return how INT4 and INT2 weights are counted; empty where no plan has them."""

    keys = list(dict.fromkeys(key for prediction in passes for key in prediction.plan.grouped_weights))
    if not keys:
        return ""
    grouped = next(prediction for prediction in passes if prediction.plan.grouped_weights)
    scale = f"a {WEIGHT_SCALE_BITS}-bit scale per {WEIGHT_GROUP_ELEMS} elements"
    if grouped.plan.has_group_scales:
        return (
            f"{' and '.join(keys)} weights carry {scale}, in memory, ideal and expected time; zero points are not "
            "counted."
        )
    return (
        f"{' and '.join(keys)} weights are counted without scales in memory and ideal time, as the original documents "
        "do; "
        f"the expected time reads {scale}."
    )


_SHAPES = {
    "gemv": "products MxNxK",
    "gemm": "products MxNxK",
    "grouped_gemm": "experts visited x tokens x N x K",
    "batched_gemm": "products per head heads x M x N x K",
    "attention": "attention batch x query heads x KV heads x new x context x head size",
}


def _legend(prediction: ModelPrediction) -> str:
    """Return what the numbers of the shapes are, for the operators of the pass whose names do not say it."""
    named = dict.fromkeys(
        _SHAPES[kernel.kernel.work.op] for kernel in prediction.kernels if kernel.kernel.work.op in _SHAPES
    )
    return f"Sizes under Shape: {'; '.join(named)}."


def shape_label(work: Operator) -> str:
    """Return the sizes of an operator, joined by x; masks and windows left out."""
    return "x".join(str(size) for name, size in work.shape if name not in ("causal", "window"))


def _formats_label(work: Operator) -> str:
    formats = dict(work.formats)
    if "a" in formats and "b" in formats:
        return formats["b"] if formats["a"] == formats["b"] else f"{formats['b']}.{formats['a']}"
    if "kv" in formats:
        other = formats.get("q") or formats.get("source") or ""
        return (
            formats["kv"]
            if other == formats["kv"]
            else f"{other}→{formats['kv']}"
            if work.op == "kv_write"
            else f"{other}×{formats['kv']}"
        )
    first, last = next(iter(formats.values())), formats.get("o", "")
    return first if not last or first == last else f"{first}→{last}"


def _rate_text(prediction: ModelPrediction, step: ExpectedStep | None) -> str:
    """Return the tokens per second at the expected time, at the ideal one where there is none."""
    if step is None:
        return f"{format_rate(prediction.token_count / prediction.time_s)} (ideal)"
    return format_rate(prediction.token_count / step.time_s)


def _shown_time(time_s: float | None, whole_s: float) -> str:
    """Print a part of a pass in the pass's unit; missing → `–`."""
    if time_s is None:
        return "–"
    scale, unit = _time_unit(whole_s)
    return f"<0.001 {unit}" if 0 < time_s < 0.0005 * scale else f"{time_s / scale:.3f} {unit}"


def _time_unit(longest_s: float) -> tuple[float, str]:
    for scale, unit in ((1.0, "s"), (1e-3, "ms")):
        if longest_s >= 10 * scale:
            return scale, unit
    return (1e-3, "ms") if longest_s >= 1e-3 else (1e-6, "µs")


def _count(flops: float) -> str:
    for scale, prefix in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if flops >= scale:
            return f"{flops / scale:.3g} {prefix}"
    return f"{flops:.3g}"


def _fits(prediction: ModelPrediction) -> str:
    if prediction.memory.fits is None:
        return "–"
    return "yes" if prediction.memory.fits else "no"
