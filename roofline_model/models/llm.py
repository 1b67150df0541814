"""How fast a whole decoder model runs on a chip: one pass, kernel by kernel, and what follows from it.

The ideal time of a pass is the sum of its kernels' ideal times: a kernel starts when the one before has ended. Launch
gaps come on top and are stated apart. With a CUDA graph, kernel follows kernel after a short gap. Without, each gap is
longer, and a step is never shorter than the host needs to launch all its kernels: the host runs ahead only as long as
the device is slower.

KV cache crossover: the context from which on reading the cache costs more than reading the weights. Source: the
original document 002, "KV Cache Crossover Point", with its attention term corrected (docs/theory/math.md): weights =
layer matrices and head, no norms and no embedding table; cache = keys and values of all tokens.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from roofline_model.chips.hardware import Device
from roofline_model.core.answer import IN_PLACE, NOT_IN_JSON
from roofline_model.core.errors import InvalidValueError
from roofline_model.core.finding import Finding
from roofline_model.core.units import format_memory, format_time
from roofline_model.formats.catalog import get_format
from roofline_model.ideal.operator_sequence import predict_operator
from roofline_model.ideal.roofline import Prediction, weakest_provenance
from roofline_model.kernels.attention_kernels import find_attention_kernel
from roofline_model.models.chip_and_model import get_chip_and_model, in_wide_format
from roofline_model.models.decoder_step import StepKernel, Workload, check_context, step_kernels
from roofline_model.models.experts import visited_experts
from roofline_model.models.format_plan import (
    AS_PUBLISHED,
    EXPERTS,
    FFN,
    SHARED_EXPERTS,
    FormatPlan,
    attention_part,
    plan_from_text,
)
from roofline_model.models.hf.parameters import attention_matrices
from roofline_model.models.model_memory import ModelMemory, model_memory, plan_kv_bytes
from roofline_model.models.model_registry import get_model
from roofline_model.models.model_shapes import ModelShape
from roofline_model.models.tensor_parallel import Parallel, all_reduce_count, shard

GRAPH_GAP_S = 0.5e-6
"""A. Gray, "Getting Started with CUDA Graphs", NVIDIA technical blog, 2019-09-05 (V100): kernels of 2.9 µs take 3.4 µs
each in a graph.
"""
STREAM_GAP_S = 0.9e-6
"""The same source: 3.8 µs each when launched one after the other without waiting."""
HOST_LAUNCH_S = 5e-6
"""Host time of one launch from a compiled program: 4 to 6 µs ("pegainfer (3): From Launch Overhead to CUDA Graph",
susun-blog.com, RTX 5070 Ti, CUDA 13.0). A Python framework needs several times as much: `roofline calibrate` measures
your own.
"""


@dataclass(frozen=True, slots=True)
class LaunchCosts:
    """Seconds per kernel. `source` says whether they were measured on this machine."""

    graph_gap_s: float
    """Between two kernels of a CUDA graph, seconds."""
    stream_gap_s: float
    """Between two kernels launched one by one, seconds."""
    host_launch_s: float
    """Of the host for one launch, seconds."""
    source: str
    """Where the numbers come from."""

    def __post_init__(self) -> None:
        for name in ("graph_gap_s", "stream_gap_s", "host_launch_s"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1:
                raise InvalidValueError(f"{name} must be seconds from 0 to below 1, got {value!r}")

    def step_s(self, kernels_s: float, launch_count: int, *, has_graph: bool) -> float:
        """Return the time of a step whose kernels alone take `kernels_s`."""
        if has_graph:
            return kernels_s + launch_count * self.graph_gap_s
        return max(kernels_s + launch_count * self.stream_gap_s, launch_count * self.host_launch_s)


PUBLISHED = LaunchCosts(
    GRAPH_GAP_S,
    STREAM_GAP_S,
    HOST_LAUNCH_S,
    source="published: NVIDIA technical blog 2019 (V100); pegainfer (RTX 5070 Ti)",
)
NO_LAUNCHES = LaunchCosts(
    0.0, 0.0, 0.0, source="a CPU launches nothing: a call's own cost is part of its expected time"
)


def launch_costs(device: Device) -> LaunchCosts:
    """Return the launch costs of a device: the host's own where this machine was calibrated, else the published
    ones.
    """
    if device.kind == "cpu":
        return NO_LAUNCHES
    calibration = device.calibration
    if calibration is None or calibration.kind != "cuda" or "host-launch" not in calibration.floors:
        return PUBLISHED
    host_s = calibration.floors["host-launch"].median_value
    return LaunchCosts(
        GRAPH_GAP_S, STREAM_GAP_S, host_s, source=f"host launch measured on {calibration.subject}, gaps published"
    )


ONE_DEVICE = Parallel()


@dataclass(frozen=True, slots=True)
class KernelPrediction:
    """One kernel of the pass with its ideal prediction; amounts are of all its calls."""

    kernel: StepKernel
    prediction: Prediction

    @property
    def time_s(self) -> float:
        """Ideal time of all calls."""
        return self.kernel.calls_count * self.prediction.time_s

    @property
    def flops(self) -> float:
        """FLOPs of all calls."""
        return self.kernel.calls_count * self.prediction.flops

    @property
    def moved_bytes(self) -> float:
        """Bytes read and written by all calls."""
        return self.kernel.calls_count * (self.prediction.read_bytes + self.prediction.write_bytes)


@dataclass(frozen=True, slots=True)
class ModelPrediction:
    """One pass of a model on one chip (or on each of several)."""

    DERIVED: ClassVar = (
        "time_s",
        "bound",
        "flops",
        "moved_bytes",
        "tokens_per_s",
        "graph_time_s",
        "stream_time_s",
        "ideal_is_bound",
        "all_reduce_count",
        "expected_all_reduce_s",
        "launch_count",
        "kv_crossover_tokens",
        "provenance",
    )

    model: ModelShape = field(metadata=NOT_IN_JSON)
    hardware: str
    """Key of the chip."""
    workload: Workload = field(metadata=IN_PLACE)
    plan: FormatPlan = field(metadata=NOT_IN_JSON)
    parallel: Parallel = field(metadata=NOT_IN_JSON)
    kernels: tuple[KernelPrediction, ...] = field(metadata=NOT_IN_JSON)
    all_reduce_s: float
    """Ideal time of all all-reduces, their bytes over the link, seconds; 0 on one device."""
    launches: LaunchCosts
    """What launching a kernel costs."""
    memory: ModelMemory
    """What it takes of the memory of one device."""
    attention_kernel: str | None = None
    """Key of the attention kernel whose time is expected; null: the fitted one, by default."""

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__} {self.model.name} {self.workload.phase} on {self.hardware}: "
            f"ideal {format_time(self.time_s)}, {format_memory(self.memory.total_bytes)}>"
        )

    @property
    def time_s(self) -> float:
        """Ideal time of the pass, seconds: the kernels one after the other, and the all-reduces; no launch gaps."""
        return math.fsum(priced.time_s for priced in self.kernels) + self.all_reduce_s

    @property
    def all_reduce_count(self) -> int:
        """All-reduces of the pass, count; 0 on one device."""
        return all_reduce_count(self.model) if self.parallel.device_count > 1 else 0

    @property
    def expected_all_reduce_s(self) -> float:
        """Time of all all-reduces with the latency of each, seconds; 0 on one device."""
        return self.all_reduce_s + self.all_reduce_count * self.parallel.all_reduce_latency_s

    @property
    def launch_count(self) -> int:
        """Kernels launched in the pass, all-reduces among them, count."""
        return sum(priced.kernel.calls_count for priced in self.kernels) + self.all_reduce_count

    @property
    def are_experts_certain(self) -> bool:
        """Whether the count of experts visited is certain: of several tokens it is the mean of uniform routing."""
        experts = self.model.experts
        return experts is None or self.token_count == 1 or experts.active_count == experts.expert_count

    @property
    def ideal_is_bound(self) -> bool:
        """Whether no pass can be faster than the ideal time.

        Not so where experts are read by several tokens, which often agree more than uniform routing has it. Nor on more
        than two devices: the all-reduce counts a ring's bytes, 2·(n − 1)/n of them, and a switch that reduces moves
        each once (NVLink SHARP).
        """
        return self.are_experts_certain and self.parallel.device_count <= 2

    @property
    def kv_crossover_tokens(self) -> float | None:
        """Context from which on one device reads more cache than weights in a decode step, tokens; null: never."""
        part = shard(self.model, self.parallel.device_count)
        return kv_crossover_tokens(part, self.plan, batch=self.workload.batch_count)

    @property
    def graph_time_s(self) -> float:
        """Ideal kernels with the gaps of a CUDA graph, seconds."""
        return self.launches.step_s(self.time_s, self.launch_count, has_graph=True)

    @property
    def stream_time_s(self) -> float:
        """Ideal kernels launched one by one, seconds: longer gaps, and never faster than the host launches."""
        return self.launches.step_s(self.time_s, self.launch_count, has_graph=False)

    @property
    def flops(self) -> float:
        """Work of the pass, FLOP."""
        return math.fsum(priced.flops for priced in self.kernels)

    @property
    def moved_bytes(self) -> float:
        """Read and written by the pass, bytes."""
        return math.fsum(priced.moved_bytes for priced in self.kernels)

    @property
    def token_count(self) -> int:
        """Tokens the pass computes."""
        return self.workload.row_count

    @property
    def tokens_per_s(self) -> float:
        """Tokens per second at the ideal time: generated ones in decode, prompt tokens in prefill."""
        return self.token_count / self.time_s

    @property
    def bound(self) -> str:
        """memory, compute or link: what limits the largest part of the time."""
        seconds = {"memory": 0.0, "compute": 0.0, "link": self.all_reduce_s}
        for priced in self.kernels:
            seconds[priced.prediction.bound] += priced.time_s
        return max(seconds, key=lambda bound: seconds[bound])

    @property
    def provenance(self) -> str:
        """Status of the weakest number of the chip that was used: datasheet, measured, derived, …, placeholder."""
        return weakest_provenance(priced.prediction.provenance for priced in self.kernels)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Findings of the kernels, each once."""
        return tuple(dict.fromkeys(item for priced in self.kernels for item in priced.prediction.findings))


def predict_model(
    hardware: Device | str,
    model: ModelShape | str,
    phase: str = "decode",
    *,
    batch: int = 1,
    context: int = 4096,
    new_tokens: int | None = None,
    formats: str | FormatPlan = AS_PUBLISHED,
    kv: str | None = None,
    exceptions: Sequence[str] = (),
    parallel: Parallel = ONE_DEVICE,
    launches: LaunchCosts | None = None,
    max_context: int | None = None,
    has_group_scales: bool | None = None,
    memory_headroom_ratio: float = 0.0,
    attention_kernel: str | None = None,
) -> ModelPrediction:
    """Return the ideal prediction of one pass.

    `phase` decode: one new token for each of `batch` sequences that are `context` tokens long with it; prefill: all of
    `context`, or the last `new_tokens` of it. `formats` as in `format_plan.plan_from_text`, with `exceptions`.
    `max_context` replaces what the model declares (a checkpoint with extended positions). `has_group_scales`: as in
    `FormatPlan` (default: the plan's own, else True). `memory_headroom_ratio`: share of the memory that has to stay
    free. `attention_kernel`: name of the kernel that `expected_step` asks for attention; the ideal does not know it.
    A chip without the model's 16-bit format computes it in its own.
    Raises a `RooflineError` naming the field: unknown model or chip, context beyond the model's, contradictory formats.
    """
    device, shape = get_chip_and_model(hardware, model)
    if max_context is not None:
        shape = replace(shape, max_context_size=max_context)
    shape = in_wide_format(shape, device)
    workload = Workload.of(phase, batch, context, new_tokens)
    check_context(shape, workload)
    plan = _plan(formats, shape, kv, exceptions)
    if has_group_scales is not None:
        plan = replace(plan, has_group_scales=has_group_scales)
    parallel = parallel.linked(device)
    part = shard(shape, parallel.device_count)
    kernels = step_kernels(part, workload, plan)
    hidden_bytes = workload.row_count * shape.hidden_size * get_format(plan.wide).traffic_bytes_per_element
    return ModelPrediction(
        model=shape,
        hardware=device.key,
        workload=workload,
        plan=plan,
        parallel=parallel,
        kernels=tuple(KernelPrediction(kernel, predict_operator(kernel.work, device)) for kernel in kernels),
        all_reduce_s=all_reduce_count(shape) * parallel.all_reduce_s(hidden_bytes),
        launches=launches or launch_costs(device),
        memory=model_memory(part, workload, plan, device, headroom_ratio=memory_headroom_ratio),
        attention_kernel=None if attention_kernel is None else find_attention_kernel(attention_kernel).key,
    )


def first_token_pass(prediction: ModelPrediction, hardware: Device | str, *, batch: int = 1) -> ModelPrediction:
    """Return the pass whose last token's logits give the first new token: prefill of the tokens before the new ones.

    It is that of one request alone, whatever the batch of `prediction`; `batch` prompts in one pass where it is given.
    Of a prefill it is the pass itself, for so many sequences; so it is of a decode step without a prompt.
    """
    workload = prediction.workload
    prompt = workload.context_count - workload.new_count
    is_pass_itself = workload.phase == "prefill" or prompt < 1
    if is_pass_itself and workload.batch_count == batch:
        return prediction
    return predict_model(
        hardware,
        prediction.model,
        workload.phase if is_pass_itself else "prefill",
        batch=batch,
        context=workload.context_count if is_pass_itself else prompt,
        new_tokens=workload.new_count if is_pass_itself else None,
        formats=prediction.plan,
        parallel=prediction.parallel,
        launches=prediction.launches,
        memory_headroom_ratio=prediction.memory.headroom_ratio,
        attention_kernel=prediction.attention_kernel,
    )


def time_to_first_token_s(prediction: ModelPrediction, hardware: Device | str) -> float:
    """Return the ideal time of `first_token_pass`: of one request alone."""
    return first_token_pass(prediction, hardware).time_s


def _plan(formats: str | FormatPlan, shape: ModelShape, kv: str | None, exceptions: Sequence[str]) -> FormatPlan:
    if isinstance(formats, FormatPlan):
        if kv is not None or exceptions:
            raise InvalidValueError(
                "formats is a finished plan: give kv and exceptions when it is made (plan_from_text)"
            )
        return formats
    return plan_from_text(formats, shape, kv=kv, exceptions=exceptions)


MAX_CROSSOVER = 10**12
"""Contexts beyond this are reported as none: the cache never catches up."""


def read_weight_bytes(shape: ModelShape, plan: FormatPlan, batch: int = 1) -> float:
    """Return the weight bytes that a decode step of `batch` sequences reads: visited experts only, no embedding
    table.
    """
    total = shape.vocab_size * shape.hidden_size * plan.weight_bytes_per_element(plan.of("lm_head").weights)
    counted: dict[tuple[object, ...], list[float]] = {}
    for layer, formats in enumerate(plan.layer_keys(shape.layer_count)):
        kind = (shape.has_experts(layer), formats)
        if kind not in counted:
            counted[kind] = list(_layer_bytes(shape, plan, layer, batch))
        for size in counted[kind]:
            total += size
    return total


def _layer_bytes(shape: ModelShape, plan: FormatPlan, layer: int, batch: int) -> Iterator[float]:
    """Yield the weight bytes that a decode step reads in one layer, matrix by matrix."""
    hidden, experts, width = shape.hidden_size, shape.experts, plan.weight_bytes_per_element
    for name, (rows, columns) in attention_matrices(shape).items():
        yield rows * columns * width(plan.of(attention_part(name), layer).weights)
    if experts is None or not shape.has_experts(layer):
        for parts, formats in plan.agreeing(FFN if shape.ffn == "gated" else FFN[1:], layer):
            yield len(parts) * hidden * shape.ffn_size * width(formats.weights)
        return
    visited = visited_experts(batch, experts)
    yield hidden * experts.expert_count * width(plan.of("router", layer).weights)
    for parts, formats in plan.agreeing(EXPERTS, layer):
        yield visited * len(parts) * hidden * experts.ffn_size * width(formats.weights)
    for parts, formats in plan.agreeing(SHARED_EXPERTS, layer):
        yield len(parts) * hidden * experts.shared_ffn_size * width(formats.weights)


def kv_crossover_tokens(
    model: ModelShape | str, formats: str | FormatPlan = "FP16", *, kv: str | None = None, batch: int = 1
) -> float | None:
    """Return the context from which on a decode step reads more cache than weights; None when it never does.

    In tokens; it may lie beyond the model's own maximum. Llama-3 8B: 114,512 tokens with weights and cache of the same
    width, 202,173 with every matrix in FP8 and an NVFP4 cache. It falls as 1/batch in a dense model.
    """
    if isinstance(batch, bool) or not isinstance(batch, int) or batch < 1:
        raise InvalidValueError(f"batch must be a whole number of at least 1, got {batch!r}")
    shape = get_model(model)
    plan = formats if isinstance(formats, FormatPlan) else plan_from_text(formats, shape, kv=kv)
    weights = read_weight_bytes(shape, plan, batch)
    # The cache grows in two straight lines: with every layer up to the window, with the full layers alone beyond it.
    corner = shape.window_size if shape.windowed_count and shape.window_size else 0
    below = plan_kv_bytes(shape, plan, corner, batch) if corner else 0.0
    if corner and below >= weights:
        return corner * weights / below
    slope = plan_kv_bytes(shape, plan, corner + 1, batch) - below
    if slope <= 0:
        return None
    crossing = corner + (weights - below) / slope
    return crossing if math.isfinite(crossing) and crossing <= MAX_CROSSOVER else None
