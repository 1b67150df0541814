"""Plans with an FP8 cache beside the usual ones, where the cache is large enough for that to matter.

Engines take the format of the cache apart from that of the weights (vLLM: `--kv-cache-dtype fp8` beside AWQ, GPTQ or NVFP4
weights; TensorRT-LLM exports NVFP4 weights with an FP8 cache), so a usual plan has a second form.
"""

from __future__ import annotations

from collections.abc import Iterable

from roofline_model.decoder.model_shapes import ModelShape
from roofline_model.errors import UnsupportedError
from roofline_model.formats import get_format
from roofline_model.hardware import Device
from roofline_model.model_choice.answer import ModelCandidate
from roofline_model.model_choice.plan_candidates import PlanCandidate, uniform_plan
from roofline_model.model_choice.plan_formats import plan_formats
from roofline_model.recommend.ranking import LEVEL_RATIO
from roofline_model.serving_kernels import cache_kernel

CACHE_FORMAT = "FP8_E4M3"
PAIRED_PLANS = (("INT4", 16), ("NVFP4", 4))
"""(weights, bits of the activations) of the usual plans that get an FP8 cache. With 8-bit weights the strategy `fp8_balanced` is
that plan, NVFP4 under 16-bit activations is as INT4 is, and MXFP4 loses more than NVFP4 of the same bits."""
LEAST_CACHE_RATIO = 2 * LEVEL_RATIO
"""Share of a plan's memory that its 16-bit cache has to take: halving less saves less than can be told apart."""


def cached_pairs(
    weighed: Iterable[ModelCandidate], device: Device, shape: ModelShape, wide: str
) -> list[PlanCandidate]:
    """Return the usual uniform plans among those weighed once more with an FP8 cache, where it is large and engines serve it.

    Served: a released attention kernel reads such a cache on the chip, and the chip converts FP8 itself. Before compute
    capability 8.9 it is decoded in software, and was slower on A100 than a 16-bit cache (vllm-project/vllm 49077, open).
    """
    if cache_kernel(device, CACHE_FORMAT) is None or not _is_native(device):
        return []
    found = []
    for one in weighed:
        pair = one.plan.base
        is_paired = (pair.weights, int(get_format(pair.activations).element_bits)) in PAIRED_PLANS
        is_large = one.memory.kv_bytes >= LEAST_CACHE_RATIO * one.memory.total_bytes
        if one.kind != "uniform" or one.plan.kv != wide or not is_paired or not is_large:
            continue
        plan = uniform_plan(f"{pair.weights}.{pair.activations}.{CACHE_FORMAT}", shape, wide)
        found.append(PlanCandidate(plan.label, "uniform", plan, plan_formats(plan, shape)))
    return found


def _is_native(device: Device) -> bool:
    try:
        return device.path(CACHE_FORMAT).kind == "native"
    except UnsupportedError:
        return False
