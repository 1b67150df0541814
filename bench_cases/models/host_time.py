"""Time of the framework in one pass of a model on a CPU, measured on twins with its layers and tiny sizes.

A transformers model runs dozens of small operations per layer from Python, and torchao's Linears more. What that takes
does not depend on how wide the model is. So two narrow models of the same class, with few layers and otherwise the same
configuration, are quantised alike and timed: the difference of their times is that of the layers between them. What the
twins' own kernels take is subtracted. A GPU needs none of this: its time is the device's, and the host's is measured as
the calls are issued (`CudaEventTimer.last_issue_s`).
"""

from __future__ import annotations

import copy
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import torch
from torch import nn

from bench_cases.models.model_cases import ModelCase
from bench_cases.models.model_step import make_step, step_ids
from bench_cases.models.reference import ModelReference
from bench_cases.quantization.apply import apply_quantization
from roofline_model.chips.hardware import Device
from roofline_model.core.errors import RooflineError
from roofline_model.models.decoder_step import Workload
from roofline_model.models.format_plan import FormatPlan
from roofline_model.models.hf.config import shape_from_config
from roofline_model.models.model_pass import MAPPED_BYTES, HostTime, ModelPass

TWIN_LAYERS = (2, 6)
TWIN_TOKENS = 8
"""Context of the twins: attention over it is nothing."""
WARMUP_CALLS = 3
TIMED_CALLS = 21
_NARROW = {"hidden_size": 128, "intermediate_size": 256, "vocab_size": 256}
"""Sizes that every 4-bit kernel takes."""
_HEADS = 4


@dataclass(frozen=True, slots=True)
class _Twin:
    """A narrow model's step, and the seconds that its own kernels are expected to take."""

    layers_count: int
    step: Callable[[], Any]
    own_s: float


def host_time(model: nn.Module, case: ModelCase, work: ModelPass, chip: Device) -> HostTime | None:
    """Return the framework's time in one pass of the case's model; None on a GPU, and where no twin of its class can be
    made.

    Takes about a second. The 16-bit model is read for its class and configuration alone.
    """
    if chip.kind != "cpu":
        return None
    try:
        few, many = (_twin(_narrow(model, layers), case, work, chip) for layers in TWIN_LAYERS)
        few_times_s, many_times_s = _timed((few, many))
    except (RooflineError, RuntimeError, ValueError, TypeError, AttributeError, KeyError):
        return None  # a class with demands of its own on sizes: its expected time says that the host is left out
    layers, span = work.shape.layer_count - few.layers_count, many.layers_count - few.layers_count
    quartile_s, fastest_s, upper_s = (
        max(0.0, first_s + layers * (second_s - first_s) / span)
        for first_s, second_s in zip(few_times_s, many_times_s, strict=True)
    )
    return HostTime(
        time_s=quartile_s,
        low_s=min(fastest_s, quartile_s),
        high_s=max(upper_s, quartile_s),
        source=(
            f"the framework's own time: measured here on narrow models of {few.layers_count} and {many.layers_count} "
            f"layers of the same class, {torch.get_num_threads()} threads"
        ),
        page_s_per_byte=_page_s_per_byte(),
    )


@lru_cache(maxsize=1)
def _page_s_per_byte() -> float:
    """Return the seconds that the first touch of a byte of fresh memory takes beyond writing it: the same fill,
    twice.
    """
    size = 2 * MAPPED_BYTES
    fresh_s, kept_s = [], []
    for _ in range(5):
        begin = time.perf_counter()
        buffer = torch.empty(size, dtype=torch.uint8).fill_(1)
        middle = time.perf_counter()
        buffer.fill_(2)
        kept_s.append(time.perf_counter() - middle)
        fresh_s.append(middle - begin)
        del buffer
    return max(0.0, statistics.median(fresh_s) - statistics.median(kept_s)) / size


def _narrow(model: nn.Module, layers: int) -> nn.Module:
    """Return a narrow model of the same class with seeded weights, in the same dtype and place."""
    config: Any = copy.deepcopy(model.config)
    for name, size in _NARROW.items():
        if hasattr(config, name):
            setattr(config, name, size)
    kv_heads = int(getattr(config, "num_key_value_heads", 0) or 0)
    heads = int(config.num_attention_heads)
    config.num_attention_heads = _HEADS
    if kv_heads:
        config.num_key_value_heads = _HEADS if kv_heads == heads else _HEADS // 2
    if hasattr(config, "head_dim"):
        config.head_dim = _NARROW["hidden_size"] // _HEADS
    layer_types = getattr(config, "layer_types", None)
    if layer_types:
        config.layer_types = list(layer_types)[:layers]
    config.num_hidden_layers = layers
    for name in ("bos_token_id", "eos_token_id", "pad_token_id"):
        setattr(config, name, None)
    parameter = next(model.parameters())
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        twin: nn.Module = type(model)(config)
    for weight in twin.parameters():
        weight.data = weight.data.to(parameter.dtype)
    return twin.to(parameter.device).eval()


def _twin(twin: nn.Module, case: ModelCase, work: ModelPass, chip: Device) -> _Twin:
    """Quantise a twin as the case does; return its step, and what its own kernels are expected to take."""
    layers = int(twin.config.num_hidden_layers)  # type: ignore[union-attr,arg-type]
    workload = Workload.of(case.phase, case.batch_count, TWIN_TOKENS)
    shape = shape_from_config(_described(twin, case.model.wide), name="twin")
    if not case.is_plain:  # of a plan what most of it is: which layer has which precision costs the framework nothing
        apply_quantization(twin, case.main_precision)
    step = make_step(twin, step_ids(case.batch_count, TWIN_TOKENS, _NARROW["vocab_size"], "cpu"), workload, case.kv)
    plan = _within(work.plan, layers)
    kernels = ModelPass(shape, workload, plan, work.paths).expected(chip)
    return _Twin(layers, step.fn, 0.0 if kernels is None else kernels.time_s)


def _within(plan: FormatPlan, layers: int) -> FormatPlan:
    """Return a plan without what it says of layers that a twin does not have."""
    exceptions = [
        exception
        for exception in plan.exceptions
        if exception.first_layer_index is None or exception.first_layer_index < layers
    ]
    cut = (
        exception
        if exception.last_layer_index is None
        else replace(exception, last_layer_index=min(exception.last_layer_index, layers - 1))
        for exception in exceptions
    )
    return replace(plan, exceptions=tuple(cut))


def _timed(twins: Sequence[_Twin]) -> list[tuple[float, float, float]]:
    """Return the lower quartile, the fastest and the upper quartile of each twin's calls, seconds without its own
    kernels.

    Twins are timed in turn, so that what disturbs one disturbs the other. Other work on the machine only ever adds: the
    fastest quarter is the framework's own time.
    """
    for _ in range(WARMUP_CALLS):
        for twin in twins:
            twin.step()
    samples: list[list[float]] = [[] for _ in twins]
    for _ in range(TIMED_CALLS):
        for twin, times_s in zip(twins, samples, strict=True):
            begin = time.perf_counter()
            twin.step()
            times_s.append(time.perf_counter() - begin)
    timed = []
    for twin, times_s in zip(twins, samples, strict=True):
        low, _, high = statistics.quantiles(times_s, n=4)
        quartile_s, fastest_s, upper_s = (max(0.0, time_s - twin.own_s) for time_s in (low, min(times_s), high))
        timed.append((quartile_s, fastest_s, upper_s))
    return timed


def _described(model: nn.Module, wide: str) -> dict[str, Any]:
    """Return a model's configuration as its config.json would have it."""
    names = {"BF16": "bfloat16", "FP16": "float16", "FP32": "float32"}
    config: Any = model.config
    data: dict[str, Any] = config.to_dict()
    return data | {"architectures": [type(model).__name__], "dtype": names.get(wide, "bfloat16")}


def loaded_reference(reference: ModelReference, model: nn.Module) -> ModelReference:
    """Return a reference with the shape of the loaded model, where it was not known before (an id that was
    downloaded).
    """
    if reference.shape is not None:
        return reference
    try:
        return replace(reference, shape=shape_from_config(_described(model, _wide(model)), name=reference.name))
    except RooflineError:
        return reference


def _wide(model: nn.Module) -> str:
    dtype = next(model.parameters()).dtype
    return {torch.float16: "FP16", torch.float32: "FP32"}.get(dtype, "BF16")
