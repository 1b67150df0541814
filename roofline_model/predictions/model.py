"""One pass of a whole model on one chip, kernel by kernel: ideal and expected time, memory, and the gain over 16 bit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial

from roofline_model.chips.hardware import Device, doubts_of
from roofline_model.core.errors import UnsupportedError
from roofline_model.core.finding import Finding
from roofline_model.core.memo import Memo
from roofline_model.kernels.known_kernels import plan_gap
from roofline_model.models.decoder_step import Workload
from roofline_model.models.format_plan import plan_coverage
from roofline_model.models.hf.parameters import parameter_counts
from roofline_model.models.llm import LaunchCosts, ModelPrediction, predict_model
from roofline_model.models.model_memory import ModelMemory
from roofline_model.models.model_shapes import ModelShape
from roofline_model.models.step_expected import ExpectedStep, expected_step, why_no_step
from roofline_model.models.tensor_parallel import Parallel
from roofline_model.predictions.kernel import Baseline, KernelTimes, ratio
from roofline_model.recommend.plans import wide_format

KEPT_BASELINES = 512


@dataclass(frozen=True, slots=True)
class PassPrediction:
    """The ideal and the expected time of one pass of a model; bytes and memory are those of one device."""

    hardware: str
    """Key of the chip."""
    hardware_name: str
    """Name of the chip."""
    is_placeholder: bool
    """Whether the chip's numbers are invented, for examples only."""
    model: str
    """Name of the model."""
    parameter_count: float
    """Parameters, count."""
    active_parameter_count: float
    """Parameters that one token uses, count."""
    phase: str
    """decode or prefill."""
    batch_count: int
    """Sequences, count."""
    context_count: int
    """Tokens of a sequence after the pass, count."""
    new_count: int
    """New tokens of a sequence, count."""
    device_count: int
    """Devices that share the work, count."""
    formats: str
    """Formats of weights and activations, as a label; checkpoint: as published."""
    coverage: Finding | None
    """Which matrices have that format; null for a 16-bit plan."""
    weight_format: str
    """Format key of the weights in the matrices of the layers."""
    activation_format: str
    """Format key of the activations in the matrices of the layers."""
    kv_format: str
    """Format key of keys and values."""
    has_group_scales: bool | None
    """Whether weights narrower than a byte are counted with the scales of their groups; null where there are none."""
    attention_kernel: str | None
    """Attention kernel whose time is expected; null: the fitted one, by default."""
    time_s: float
    """Ideal time, the speed of light, seconds."""
    bound: str
    """memory or compute: what limits the kernels that take most of the time."""
    flops: float
    """Work, FLOP."""
    moved_bytes: float
    """Read and written, bytes."""
    tokens_per_s: float
    """At the ideal time, tokens per second."""
    graph_time_s: float
    """Ideal kernels with the gaps of a CUDA graph, seconds."""
    stream_time_s: float
    """Ideal kernels launched one by one, seconds."""
    ideal_is_bound: bool
    """Whether no pass can be faster than the ideal time: not so where several tokens share experts."""
    all_reduce_s: float
    """Ideal time of the exchange between devices, seconds; 0 on one."""
    all_reduce_count: int
    """Exchanges of the pass, count; 0 on one device."""
    expected_all_reduce_s: float
    """Exchange between devices with the latency of each, seconds; 0 on one."""
    launch_count: float
    """Kernels launched, exchanges among them, count."""
    launches: LaunchCosts
    """What launching a kernel costs."""
    kv_crossover_tokens: float | None
    """Context from which on a decode step reads more cache than weights, tokens; null: never."""
    provenance: str
    """Status of the weakest number of the chip that was used: datasheet, measured, derived, …, placeholder."""
    expected: ExpectedStep | None
    """What good kernels take in a CUDA graph; null where one of them has no expected time."""
    expected_reason: Finding | None
    """Which kernel has no expected time, and why; null where all have."""
    expected_tokens_per_s: float | None
    """At the expected time, tokens per second."""
    baseline_format: str | None
    """16-bit format that the speed-ups refer to, the one of recommendations; null where the chip has none."""
    speedup_ratio: float | None
    """Ideal time of the baseline over time_s; null without a baseline."""
    expected_speedup_ratio: float | None
    """Expected time of the baseline over that of `expected`; null where either is not known."""
    kernel_gap: Finding | None
    """Why no kernel of a serving engine is known for these formats on this chip; null where none is known to be missing."""
    memory: ModelMemory
    """What it takes of the chip's memory."""
    kernels: tuple[KernelTimes, ...]
    """The kernels of the pass, in its order."""
    findings: tuple[Finding, ...]
    """What to know about it, may be empty."""


def pass_prediction(ideal: ModelPrediction, chip: Device) -> PassPrediction:
    """Return a predicted pass as an answer, with the expected time beside it."""
    expected = expected_step(ideal, chip)
    baseline = _baseline(ideal, chip)
    counts, workload, plan = parameter_counts(ideal.model), ideal.workload, ideal.plan
    calls = [None] * len(ideal.kernels) if expected is None else expected.kernels
    expected_s = None if expected is None else expected.time_s
    return PassPrediction(
        hardware=chip.key,
        hardware_name=chip.name,
        is_placeholder=chip.is_placeholder,
        model=ideal.model.name,
        parameter_count=counts.total_count,
        active_parameter_count=counts.active_count,
        phase=workload.phase,
        batch_count=workload.batch_count,
        context_count=workload.context_count,
        new_count=workload.new_count,
        device_count=ideal.parallel.device_count,
        formats=plan.label,
        coverage=plan_coverage(plan),
        weight_format=plan.base.weights,
        activation_format=plan.base.activations,
        kv_format=plan.kv,
        has_group_scales=plan.has_group_scales if plan.grouped_weights else None,
        attention_kernel=ideal.attention_kernel,
        time_s=ideal.time_s,
        bound=ideal.bound,
        flops=ideal.flops,
        moved_bytes=ideal.moved_bytes,
        tokens_per_s=ideal.tokens_per_s,
        graph_time_s=ideal.graph_time_s,
        stream_time_s=ideal.stream_time_s,
        ideal_is_bound=ideal.ideal_is_bound,
        all_reduce_s=ideal.all_reduce_s,
        all_reduce_count=ideal.all_reduce_count,
        expected_all_reduce_s=ideal.expected_all_reduce_s,
        launch_count=ideal.launch_count,
        launches=ideal.launches,
        kv_crossover_tokens=ideal.kv_crossover_tokens,
        provenance=ideal.provenance,
        expected=expected,
        expected_reason=None if expected is not None else why_no_step(ideal, chip),
        expected_tokens_per_s=None if expected_s is None else ideal.token_count / expected_s,
        baseline_format=baseline.format,
        speedup_ratio=ratio(baseline.time_s, ideal.time_s),
        expected_speedup_ratio=ratio(baseline.expected_s, expected_s),
        kernel_gap=plan_gap(chip, plan.base.weights, plan.base.activations, plan.kv),
        memory=ideal.memory,
        kernels=tuple(
            KernelTimes.of(each.kernel, each.prediction, call) for each, call in zip(ideal.kernels, calls, strict=True)
        ),
        findings=(*ideal.findings, *doubts_of(chip)),
    )


_BASELINES: Memo[Callable[[Workload, Parallel, str | None], Baseline]] = Memo(64)
"""By chip and model: every format of a page or a table is held against the same pass."""


def _baseline(ideal: ModelPrediction, chip: Device) -> Baseline:
    of_model = _BASELINES.of(
        (chip, ideal.model), lambda: lru_cache(KEPT_BASELINES)(partial(_sixteen_bit_pass, chip, ideal.model))
    )
    return of_model(ideal.workload, ideal.parallel, ideal.attention_kernel)


def _sixteen_bit_pass(
    chip: Device, shape: ModelShape, workload: Workload, parallel: Parallel, attention_kernel: str | None
) -> Baseline:
    """Return the same pass in the 16-bit format of recommendations."""
    try:
        wide = wide_format(shape, chip)
    except UnsupportedError:
        return Baseline(None)
    ideal = predict_model(
        chip,
        shape,
        workload.phase,
        batch=workload.batch_count,
        context=workload.context_count,
        new_tokens=workload.new_count,
        formats=wide,
        parallel=parallel,
        attention_kernel=attention_kernel,
    )
    expected = expected_step(ideal, chip)
    return Baseline(wide, ideal.time_s, None if expected is None else expected.time_s)
