"""What `roofline predict model` prints: a table by operator, the totals behind it, or one line per format and batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from roofline_cli.numbers import decimal_bytes, intensity
from roofline_cli.screen import Cell, Column, Styled, show_line, show_table

if TYPE_CHECKING:
    from roofline_model.decoder.llm import KernelPrediction, ModelPrediction
    from roofline_model.decoder.step_expected import ExpectedStep, KernelExpectation
    from roofline_model.hardware import Device
    from roofline_model.operators import Operator


def print_prediction(found: ModelPrediction, chip: Device, asked: str) -> None:
    """Print one pass: its operators with what bounds each, then totals, memory and where the numbers are from."""
    from roofline_model.decoder.step_expected import expected_step, why_no_step

    expected = expected_step(found, chip)
    show_table(_COLUMNS, [*_operator_rows(found, expected), _total_row(found, expected)], title=_title(found, chip))
    for number, note in enumerate(found.notes, 1):
        show_line(f"  [{number}] {note}")
    _print_times(found)
    if expected is None:
        show_line(f"No expected time: {why_no_step(found, chip)}")
    else:
        _print_expected(found, expected)
    _print_first_token(found, chip)
    _print_memory(found)
    _print_sources(found, chip, asked)


def print_comparison(found: Sequence[ModelPrediction], chip: Device, asked: str) -> None:
    """Print one line for each format plan and batch."""
    from roofline_model.decoder.step_expected import expected_step

    columns = (
        Column("Formats"), Column("Batch", "right"), Column("Ideal", "right"), Column("Expected", "right", hide_empty=True),
        Column("Tokens/s", "right"), Column("no graph", "right", drop=3), Column("Weights", "right", drop=2),
        Column("KV cache", "right", drop=1), Column("Memory", "right"), Column("Fits"), Column("Bound", drop=4),
    )  # fmt: skip
    longest_s = max(one.time_s for one in found)
    rows: list[list[Cell]] = []
    for one in found:
        expected = expected_step(one, chip)
        rate = one.tokens_per_s if expected is None else one.token_count / expected.time_s
        unbroken_s = one.stream_time_s if expected is None else expected.stream_time_s
        rows.append(
            [
                one.plan.label, str(one.workload.batch_count), _shown_time(one.time_s, longest_s),
                _shown_time(None if expected is None else expected.time_s, longest_s), _rate(rate),
                _shown_time(unbroken_s, longest_s), decimal_bytes(one.memory.weights_bytes),
                decimal_bytes(one.memory.kv_bytes), decimal_bytes(one.memory.total_bytes), _fits(one), one.bound,
            ]
        )  # fmt: skip
    show_table(columns, rows, title=_title(found[0], chip, with_batch=False))
    show_line(
        "Tokens/s at the expected time where there is one, else at the ideal; no graph: the same with launches one by one."
    )
    _print_sources(found[0], chip, asked)


_COLUMNS = (
    Column("Operator"), Column("Shape", drop=2), Column("Formats", drop=1), Column("Calls", "right"),
    Column("Ideal", "right"), Column("Expected", "right", hide_empty=True), Column("Share", "right", drop=4),
    Column("FLOP", "right", drop=5), Column("Bytes", "right"), Column("AI", "right", drop=3), Column("Bound"),
)  # fmt: skip


def _operator_rows(found: ModelPrediction, expected: ExpectedStep | None) -> list[list[Cell]]:
    rows: list[list[Cell]] = []
    for i, one in enumerate(found.kernels):
        prediction = one.prediction
        rows.append(
            [
                one.kernel.name, shape_label(one.kernel.work), _formats_label(one.kernel.work), str(one.kernel.calls_count),
                _shown_time(one.time_s, found.time_s), _shown_expected(expected, i, found.time_s),
                f"{one.time_s / found.time_s * 100:.1f} %", _count(one.flops),
                decimal_bytes(one.moved_bytes), intensity(prediction.intensity_flop_per_byte),
                _bound(one, found.notes),
            ]
        )  # fmt: skip
    if found.all_reduce_s:
        share = f"{found.all_reduce_s / found.time_s * 100:.1f} %"
        time = _shown_time(found.all_reduce_s, found.time_s)
        rows.append(["all_reduce", "–", "–", "–", time, time if expected else "–", share, "–", "–", "–", "link"])
    return rows


def _total_row(found: ModelPrediction, expected: ExpectedStep | None) -> list[Cell]:
    expected_s = None if expected is None else expected.time_s
    cells = [
        "pass", "", "", str(found.launch_count), _shown_time(found.time_s, found.time_s),
        _shown_time(expected_s, found.time_s), "100.0 %", _count(found.flops),
        decimal_bytes(found.moved_bytes), intensity(found.flops / found.moved_bytes), found.bound,
    ]  # fmt: skip
    return [Styled(cell, "bold") for cell in cells]


def _bound(one: KernelPrediction, notes: Sequence[str]) -> str:
    own = " ".join(f"[{notes.index(note) + 1}]" for note in one.prediction.notes)
    return f"{one.prediction.bound} {own}".strip()


def _title(found: ModelPrediction, chip: Device, *, with_batch: bool = True) -> str:
    work = found.workload
    batch = f" batch={work.batch_count}" if with_batch else ""
    new = f" new={work.new_count}" if work.new_count not in (1, work.context_count) else ""
    devices = f" on {found.parallel.device_count} ×" if found.parallel.device_count > 1 else " on"
    formats = f", {found.plan.label}" if with_batch else ""
    return f"{found.model.name} {work.phase}{batch} context={work.context_count}{new}{formats}{devices} {chip.key}: {chip.name}"


def _print_times(found: ModelPrediction) -> None:
    from roofline_model.units import format_time

    word = "tokens/s generated" if found.workload.phase == "decode" else "prompt tokens/s"
    gaps = (
        f" With launch gaps: {format_time(found.graph_time_s)} in a CUDA graph, {format_time(found.stream_time_s)} without "
        f"({found.launch_count} kernels; {found.launches.source})."
    )
    has_launches = found.launches.host_launch_s > 0
    show_line(
        f"Ideal pass {format_time(found.time_s)}: {_rate(found.tokens_per_s)} {word}.{gaps if has_launches else ''}"
    )


def _print_first_token(found: ModelPrediction, chip: Device) -> None:
    from roofline_model.decoder.llm import first_token_pass
    from roofline_model.decoder.step_expected import expected_step
    from roofline_model.units import format_time

    first = first_token_pass(found, chip)
    expected = expected_step(first, chip)
    also = "" if expected is None else f", expected {format_time(expected.time_s)}"
    tokens = first.workload.new_count
    show_line(f"Time to first token: ideal {format_time(first.time_s)}{also} ({tokens:,} prompt tokens per sequence).")


def _print_expected(found: ModelPrediction, expected: ExpectedStep) -> None:
    from roofline_model.units import format_time

    has_launches = found.launches.host_launch_s > 0
    show_line(
        f"Expected pass {format_time(expected.time_s)} (80 % interval {format_time(expected.low_s)} to "
        f"{format_time(expected.high_s)}){' in a CUDA graph' if has_launches else ''}: "
        f"{_rate(found.token_count / expected.time_s)} tokens/s"
        f"{f'; {format_time(expected.stream_time_s)} without' if has_launches else ''}. Constants: {expected.provenance}."
    )


def _print_memory(found: ModelPrediction) -> None:
    from roofline_model.decoder.kv_crossover import kv_crossover_tokens

    memory = found.memory
    parts = (
        f"weights {decimal_bytes(memory.weights_bytes)} + KV cache {decimal_bytes(memory.kv_bytes)} "
        f"+ buffers about {decimal_bytes(memory.activation_bytes)} = {decimal_bytes(memory.total_bytes)}"
    )
    if memory.capacity_bytes is None:
        verdict = "the chip's file states no capacity"
    else:
        does = "fits" if memory.fits else "does NOT fit"
        verdict = f"{does} in {decimal_bytes(memory.capacity_bytes)} ({(memory.used_ratio or 0) * 100:.1f} %)"
    each = " on each device" if found.parallel.device_count > 1 else ""
    show_line(f"Memory{each}: {parts}; {verdict}.")
    crossover = kv_crossover_tokens(found.model, found.plan, batch=found.workload.batch_count)
    if crossover is not None:
        beyond = "" if crossover <= found.model.max_context_size else f", beyond its {found.model.max_context_size:,}"
        show_line(
            f"Reading the KV cache overtakes reading the weights at {crossover:,.0f} tokens per sequence{beyond}."
        )


def _print_sources(found: ModelPrediction, chip: Device, asked: str) -> None:
    experts = found.model.experts
    if experts is not None:
        show_line(
            f"Routing is taken as uniform over {experts.expert_count} experts, {experts.active_count} for each token.",
            style="dim",
        )
    weakest = "placeholders, for examples only" if chip.is_placeholder else f"{found.provenance} at the weakest"
    show_line(
        f"Shape: {found.model.source}. Numbers of {chip.key}: {weakest} (`roofline hardware show {asked}`).",
        style="dim",
    )


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


def _shown_expected(expected: ExpectedStep | None, i: int, whole_s: float) -> str:
    """Print the expected time of the i-th kernel; one that is inside the attention's own time says so."""
    if expected is None:
        return _shown_time(None, whole_s)
    one = expected.kernels[i]
    return "in attention" if one.binding == "attention" else _shown_time(one.time_s * one.kernel.calls_count, whole_s)


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


def _rate(tokens_per_s: float) -> str:
    return f"{tokens_per_s:,.0f}" if tokens_per_s >= 1000 else f"{tokens_per_s:.4g}"


def _fits(found: ModelPrediction) -> str:
    if found.memory.fits is None:
        return "–"
    return "yes" if found.memory.fits else "no"


def prediction_json(found: ModelPrediction, chip: Device) -> dict[str, Any]:
    """Return one prediction as a JSON document; every key ends in its unit."""
    from roofline_model.decoder.kv_crossover import kv_crossover_tokens
    from roofline_model.decoder.llm import first_token_pass
    from roofline_model.decoder.step_expected import expected_step, why_no_step

    expected, first = expected_step(found, chip), first_token_pass(found, chip)
    first_expected = expected_step(first, chip)
    document = _summary_json(found, expected)
    document["expected_reason"] = why_no_step(found, chip) if expected is None else None
    document["time_to_first_token_s"] = first.time_s
    document["expected_time_to_first_token_s"] = None if first_expected is None else first_expected.time_s
    document["kv_crossover_tokens"] = kv_crossover_tokens(found.model, found.plan, batch=found.workload.batch_count)
    document["launches"] = {
        "graph_gap_s": found.launches.graph_gap_s, "stream_gap_s": found.launches.stream_gap_s,
        "host_launch_s": found.launches.host_launch_s, "source": found.launches.source,
    }  # fmt: skip
    document["operators"] = [
        _kernel_json(one, None if expected is None else expected.kernels[i]) for i, one in enumerate(found.kernels)
    ]
    return {**_head_json(found, chip), **document, "notes": list(found.notes)}


def comparison_json(found: Sequence[ModelPrediction], chip: Device) -> dict[str, Any]:
    """Return several predictions as one JSON document."""
    from roofline_model.decoder.step_expected import expected_step

    return {
        **_head_json(found[0], chip),
        "predictions": [_summary_json(one, expected_step(one, chip)) for one in found],
    }


def _head_json(found: ModelPrediction, chip: Device) -> dict[str, Any]:
    from roofline_model.decoder.model_parameters import parameter_counts

    counts = parameter_counts(found.model)
    return {
        "hardware": chip.key,
        "hardware_name": chip.name,
        "is_placeholder": chip.is_placeholder,
        "model": found.model.name,
        "model_shape": found.model.to_dict(),
        "parameter_count": counts.total_count,
        "active_parameter_count": counts.active_count,
        "phase": found.workload.phase,
        "context_count": found.workload.context_count,
        "new_count": found.workload.new_count,
        "device_count": found.parallel.device_count,
    }


def _summary_json(found: ModelPrediction, expected: ExpectedStep | None) -> dict[str, Any]:
    memory = found.memory
    return {
        "formats": found.plan.label,
        "weight_format": found.plan.base.weights,
        "activation_format": found.plan.base.activations,
        "kv_format": found.plan.kv,
        "batch_count": found.workload.batch_count,
        "time_s": found.time_s,
        "expected": None if expected is None else _expected_json(found, expected),
        "graph_time_s": found.graph_time_s,
        "stream_time_s": found.stream_time_s,
        "all_reduce_s": found.all_reduce_s,
        "launch_count": found.launch_count,
        "tokens_per_s": found.tokens_per_s,
        "flops": found.flops,
        "moved_bytes": found.moved_bytes,
        "bound": found.bound,
        "provenance": found.provenance,
        "memory": {
            "weights_bytes": memory.weights_bytes,
            "kv_bytes": memory.kv_bytes,
            "activation_bytes": memory.activation_bytes,
            "total_bytes": memory.total_bytes,
            "capacity_bytes": memory.capacity_bytes,
            "fits": memory.fits,
        },
    }


def _expected_json(found: ModelPrediction, expected: ExpectedStep) -> dict[str, Any]:
    return {
        "time_s": expected.time_s,
        "low_s": expected.low_s,
        "high_s": expected.high_s,
        "stream_time_s": expected.stream_time_s,
        "tokens_per_s": found.token_count / expected.time_s,
        "provenance": expected.provenance,
    }


def _kernel_json(one: KernelPrediction, expected: KernelExpectation | None) -> dict[str, Any]:
    prediction = one.prediction
    return {
        "name": one.kernel.name,
        "op": one.kernel.work.op,
        "shape": dict(one.kernel.work.shape),
        "formats": dict(one.kernel.work.formats),
        "calls_count": one.kernel.calls_count,
        "time_s": one.time_s,
        "call_time_s": prediction.time_s,
        "expected_call_s": None if expected is None else expected.time_s,
        "expected_low_s": None if expected is None else expected.low_s,
        "expected_high_s": None if expected is None else expected.high_s,
        "expected_binding": None if expected is None else expected.binding,
        "expected_provenance": None if expected is None else expected.provenance,
        "flops": one.flops,
        "moved_bytes": one.moved_bytes,
        "intensity_flop_per_byte": prediction.intensity_flop_per_byte,
        "bound": prediction.bound,
        "path": prediction.path,
        "compute_format": prediction.compute_format,
        "provenance": prediction.provenance,
    }
