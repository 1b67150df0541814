"""The table of attention kernels, and the cases it gives for a device, shapes, formats and cache states. No torch here.

SDPA has several implementations; each is a kernel of its own, chosen by name through `torch.nn.attention.sdpa_kernel`,
so that a case never measures whatever torch happened to pick.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from bench_cases.attention_shapes import AttentionShape
from bench_cases.kernels.attention_rules import equal_heads, head_multiple_of, head_up_to, no_band_mask
from bench_cases.kernels.attention_spec import AttentionKernel
from bench_cases.kernels.catalog import chosen_kernels
from bench_cases.kernels.spec import CaseSpec, specs_of

_SDPA = "bench_cases.kernels.attention_sdpa:"
_FLASH, _MATH = f"{_SDPA}flash", f"{_SDPA}math"
_EFFICIENT, _CUDNN = f"{_SDPA}efficient", f"{_SDPA}cudnn"
_UNFUSED = "bench_cases.kernels.attention_unfused:unfused"
_WIDENED = "bench_cases.kernels.attention_widened:widened_flash"
_CHOICE = ("torch.nn.attention.sdpa_kernel",)

_MATH_NOTE = (
    "torch's reference path: scores in FP32, several kernels, counted as fused attention like every other backend"
)
_UNFUSED_NOTE = "product, softmax, product, with the scores in memory between them: what fusion saves"
_WIDENED_NOTE = "the cache is widened to BF16 and then attended to, both inside the timed call"
MATH_SCORE_BYTES = 16
"""Scores, mask applied, softmax in FP32, and the weights cast back: at most four of them live at once."""
UNFUSED_SCORE_BYTES = 8
"""Scores and weights, of two bytes each, and as much again for what a softmax may hold in FP32."""


_FLASH_RULES = (no_band_mask, head_up_to(256))


def _widened(device: Literal["cpu", "cuda"], kv: str) -> AttentionKernel:
    is_cuda = device == "cuda"
    blocks = (head_multiple_of(16),) if kv == "NVFP4" else ()
    return AttentionKernel(
        "sdpa_flash_widened_emulated", device, "BF16", kv, "BF16", _WIDENED, _CHOICE,
        min_capability=(8, 0) if is_cuda else None, rules=(*(_FLASH_RULES if is_cuda else ()), *blocks), decoded="BF16",
        note=_WIDENED_NOTE,
    )  # fmt: skip


_CPU = (
    *(AttentionKernel("sdpa_flash", "cpu", key, key, key, _FLASH, _CHOICE) for key in ("FP32", "BF16", "FP16")),
    AttentionKernel("sdpa_math", "cpu", "BF16", "BF16", "BF16", _MATH, _CHOICE, score_bytes_per_pair=MATH_SCORE_BYTES, note=_MATH_NOTE),
    AttentionKernel("unfused", "cpu", "BF16", "BF16", "BF16", _UNFUSED, is_fused=False, score_bytes_per_pair=UNFUSED_SCORE_BYTES,
                    note=_UNFUSED_NOTE),
    _widened("cpu", "FP8_E4M3"),
    _widened("cpu", "INT8"),
)  # fmt: skip

_CUDA = (
    AttentionKernel("sdpa_flash", "cuda", "BF16", "BF16", "BF16", _FLASH, _CHOICE, min_capability=(8, 0), rules=_FLASH_RULES),
    AttentionKernel("sdpa_flash", "cuda", "FP16", "FP16", "FP16", _FLASH, _CHOICE, min_capability=(8, 0), rules=_FLASH_RULES),
    AttentionKernel("sdpa_cudnn", "cuda", "BF16", "BF16", "BF16", _CUDNN, (*_CHOICE, "torch.nn.attention.SDPBackend.CUDNN_ATTENTION"),
                    min_capability=(8, 0), rules=_FLASH_RULES),
    *(AttentionKernel("sdpa_efficient", "cuda", key, key, key, _EFFICIENT, _CHOICE, min_capability=(8, 0) if key == "BF16" else (5, 0),
                      rules=(equal_heads,)) for key in ("FP32", "BF16", "FP16")),
    AttentionKernel("sdpa_math", "cuda", "BF16", "BF16", "BF16", _MATH, _CHOICE, min_capability=(8, 0),
                    score_bytes_per_pair=MATH_SCORE_BYTES, note=_MATH_NOTE),
    AttentionKernel("flex", "cuda", "BF16", "BF16", "BF16", "bench_cases.kernels.attention_flex:flex",
                    ("torch.nn.attention.flex_attention.flex_attention", "torch.compile", "triton"), min_capability=(8, 0),
                    note="compiled by torch.compile in the first call; the block mask is made beforehand"),
    AttentionKernel("fa3_fp8", "cuda", "FP8_E4M3", "FP8_E4M3", "BF16", "bench_cases.kernels.attention_fp8:fa3_fp8",
                    ("torch.ops.aten._scaled_dot_product_flash_attention.quantized", "torch.nn.attention.activate_flash_attention_impl",
                     "flash_attn_interface"), min_capability=(9, 0), max_capability=(9, 9), rules=_FLASH_RULES,
                    note="FlashAttention-3 through torch, one scale per key/value head"),
    AttentionKernel("unfused", "cuda", "BF16", "BF16", "BF16", _UNFUSED, min_capability=(8, 0), is_fused=False,
                    score_bytes_per_pair=UNFUSED_SCORE_BYTES, note=_UNFUSED_NOTE),
    _widened("cuda", "FP8_E4M3"),
    _widened("cuda", "INT8"),
    _widened("cuda", "NVFP4"),
)  # fmt: skip

ATTENTION_KERNELS: tuple[AttentionKernel, ...] = (*_CPU, *_CUDA)


def attention_cases(
    device: str,
    shapes: Iterable[AttentionShape],
    formats: Sequence[str] | None = None,
    cache: str = "cold",
    modes: Sequence[str] = ("eager",),
) -> list[CaseSpec]:
    """Return the cases of every shape with every kernel of `device` whose cache format is among `formats` (None: all).

    Other arguments as in `catalog.cases_for`. Ids are unique within an operator.
    """
    chosen = chosen_kernels(ATTENTION_KERNELS, device, formats)
    cases: list[CaseSpec] = []
    for shape in shapes:
        for kernel in chosen:
            if shape.formats is None or kernel.kv in shape.formats:
                cases += specs_of(kernel.work(shape), kernel, shape.origin, cache, modes)
    return cases
