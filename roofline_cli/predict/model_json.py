"""What `roofline predict model --json` prints: every number of one pass, or of several, with its unit in its name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from roofline_model.core.finding import findings_json, optional_json, optional_text, reason_text, short_text

if TYPE_CHECKING:
    from roofline_model.chips.hardware import Device
    from roofline_model.models.llm import KernelPrediction, ModelPrediction
    from roofline_model.models.step_expected import ExpectedStep, KernelExpectation


def prediction_json(found: ModelPrediction, chip: Device) -> dict[str, Any]:
    """Return one prediction as a JSON document; every key ends in its unit."""
    from roofline_model.chips.hardware import doubts_of
    from roofline_model.models.llm import first_token_pass
    from roofline_model.models.step_expected import expected_step, why_no_step

    expected, first = expected_step(found, chip), first_token_pass(found, chip)
    first_expected = expected_step(first, chip)
    document = _summary_json(found, expected, chip)
    document["expected_reason"] = reason_text(why_no_step(found, chip)) if expected is None else None
    document["time_to_first_token_s"] = first.time_s
    document["expected_time_to_first_token_s"] = None if first_expected is None else first_expected.time_s
    document["kv_crossover_tokens"] = found.kv_crossover_tokens
    document["launches"] = {
        "graph_gap_s": found.launches.graph_gap_s,
        "stream_gap_s": found.launches.stream_gap_s,
        "host_launch_s": found.launches.host_launch_s,
        "source": found.launches.source,
    }
    document["operators"] = [
        _kernel_json(one, None if expected is None else expected.kernels[i]) for i, one in enumerate(found.kernels)
    ]
    return {
        **_head_json(found, chip),
        **document,
        "findings": findings_json((*found.findings, *doubts_of(chip))),
    }


def comparison_json(found: Sequence[ModelPrediction], chip: Device) -> dict[str, Any]:
    """Return several predictions as one JSON document."""
    from roofline_model.chips.hardware import doubts_of
    from roofline_model.models.step_expected import expected_step

    return {
        **_head_json(found[0], chip),
        "predictions": [_summary_json(one, expected_step(one, chip), chip) for one in found],
        "findings": findings_json(doubts_of(chip)),
    }


def _head_json(found: ModelPrediction, chip: Device) -> dict[str, Any]:
    from roofline_model.models.hf.parameters import parameter_counts

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
        "attention_kernel": found.attention_kernel,
    }


def _summary_json(found: ModelPrediction, expected: ExpectedStep | None, chip: Device) -> dict[str, Any]:
    from roofline_model.kernels.known_kernels import plan_gap
    from roofline_model.models.format_plan import plan_coverage

    memory, used = found.memory, found.plan.base
    return {
        "formats": found.plan.label,
        "coverage": optional_text(plan_coverage(found.plan)),
        "weight_format": found.plan.base.weights,
        "activation_format": found.plan.base.activations,
        "kv_format": found.plan.kv,
        "kernel_gap": optional_json(plan_gap(chip, used.weights, used.activations, found.plan.kv)),
        "batch_count": found.workload.batch_count,
        "time_s": found.time_s,
        "expected": None if expected is None else _expected_json(found, expected),
        "graph_time_s": found.graph_time_s,
        "stream_time_s": found.stream_time_s,
        "ideal_is_bound": found.ideal_is_bound,
        "has_group_scales": found.plan.has_group_scales if found.plan.grouped_weights else None,
        "all_reduce_s": found.all_reduce_s,
        "all_reduce_count": found.all_reduce_count,
        "expected_all_reduce_s": found.expected_all_reduce_s,
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
            "headroom_ratio": memory.headroom_ratio,
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
        "expected_note": None if expected is None or expected.finding is None else short_text(expected.finding),
        "flops": one.flops,
        "moved_bytes": one.moved_bytes,
        "intensity_flop_per_byte": prediction.intensity_flop_per_byte,
        "bound": prediction.bound,
        "path": prediction.path,
        "compute_format": prediction.compute_format,
        "provenance": prediction.provenance,
    }
