"""What a strategy gains over the FP16 baseline on one chip: computed, beside what its document claims."""

from __future__ import annotations

from dataclasses import dataclass

from roofline_model.chips.hardware import Device, get_hardware
from roofline_model.models.llm import ModelPrediction, predict_model
from roofline_model.models.model_memory import layer_weights_bytes
from roofline_model.models.step_expected import expected_step
from roofline_model.models.strategies.model_plan import strategy_plan
from roofline_model.models.strategies.strategies import create_fp16_baseline
from roofline_model.models.tensor_parallel import shard


@dataclass(frozen=True, slots=True)
class StrategyGain:
    """A pass with a strategy against the same pass in FP16."""

    speedup: float
    """Ratio of the ideal times."""
    expected_speedup: float | None
    """Ratio of the expected times; None where the chip has none."""
    memory_saved_ratio: float
    """Share of weights and KV cache saved, embeddings and head included."""
    weights_saved_ratio: float
    """Share of all weights saved."""
    layer_weights_saved_ratio: float
    """Share saved of the layers' matrices alone: what document 004 counts as memory savings."""
    kv_saved_ratio: float
    baseline_s: float
    """Ideal time of the FP16 pass."""


def strategy_gain(prediction: ModelPrediction, hardware: Device | str) -> StrategyGain:
    """Return what the plan of a predicted pass gains over `fp16_baseline`, same model, chip and workload."""
    device, work = get_hardware(hardware), prediction.workload
    plan = strategy_plan(create_fp16_baseline(), prediction.model)
    base = predict_model(
        device,
        prediction.model,
        work.phase,
        batch=work.batch_count,
        context=work.context_count,
        new_tokens=work.new_count,
        formats=plan,
        parallel=prediction.parallel,
        launches=prediction.launches,
        attention_kernel=prediction.attention_kernel,
    )
    expected, base_expected = expected_step(prediction, device), expected_step(base, device)
    ours, theirs = prediction.memory, base.memory
    return StrategyGain(
        speedup=base.time_s / prediction.time_s,
        expected_speedup=None if expected is None or base_expected is None else base_expected.time_s / expected.time_s,
        memory_saved_ratio=1 - (ours.weights_bytes + ours.kv_bytes) / (theirs.weights_bytes + theirs.kv_bytes),
        weights_saved_ratio=1 - ours.weights_bytes / theirs.weights_bytes,
        layer_weights_saved_ratio=1 - _layer_bytes(prediction) / _layer_bytes(base),
        kv_saved_ratio=1 - ours.kv_bytes / theirs.kv_bytes,
        baseline_s=base.time_s,
    )


def _layer_bytes(prediction: ModelPrediction) -> float:
    """Return the bytes of one device's matrices inside the layers: everything but embedding, head and norms."""
    return layer_weights_bytes(shard(prediction.model, prediction.parallel.device_count), prediction.plan)
