"""The table of attention kernels, and the cases it gives for a device, shapes, formats and cache states. No torch here.

SDPA has several implementations; each is a kernel of its own, chosen by name through `torch.nn.attention.sdpa_kernel`,
so that a case never measures whatever torch happened to pick.
"""

from __future__ import annotations

from functools import partial
from typing import Literal

from bench_cases.kernels.attention.rules import (
    equal_heads,
    equal_values,
    no_band_mask,
    one_query,
)
from bench_cases.kernels.attention.spec import AttentionKernel
from bench_cases.kernels.rules import at_most, multiple_of
from bench_cases.kernels.spec import COMPILED_PROOF, kernel_cases

_SDPA = "bench_cases.kernels.attention.sdpa:"
_FLASH, _MATH = f"{_SDPA}flash", f"{_SDPA}math"
_EFFICIENT, _CUDNN = f"{_SDPA}efficient", f"{_SDPA}cudnn"
_PADDED = f"{_SDPA}flash_padded"
_LATENT = "bench_cases.kernels.attention.latent:"
_FLEX = "bench_cases.kernels.attention.flex:flex"
_UNFUSED = "bench_cases.kernels.attention.unfused:unfused"
_WIDENED = "bench_cases.kernels.attention.widened:widened_flash"
_CHOICE = ("torch.nn.attention.sdpa_kernel",)
_COMPILED_FLEX = ("torch.nn.attention.flex_attention.flex_attention", "torch.compile", "triton")

_PROOF = {
    "flash": ("aten::_scaled_dot_product_flash_attention",),
    "math": ("aten::_scaled_dot_product_attention_math",),
    "efficient": ("aten::_scaled_dot_product_efficient_attention",),
    "cudnn": ("aten::_scaled_dot_product_cudnn_attention",),
    "unfused": ("aten::bmm", "aten::baddbmm"),
}
"""What torch dispatches for each backend of SDPA, and for attention without fusion."""

MATH_SCORE_BYTES = 16
"""Scores, mask applied, softmax in FP32, and the weights cast back: at most four of them live at once."""
UNFUSED_SCORE_BYTES = 8
"""Scores and weights, of two bytes each, and as much again for what a softmax may hold in FP32."""


_PADDED_RULES = (no_band_mask, at_most("D", 256))
_FLASH_RULES = (*_PADDED_RULES, equal_values)


def _widened(device: Literal["cpu", "cuda"], kv: str) -> AttentionKernel:
    is_cuda = device == "cuda"
    blocks = (multiple_of("D", 16),) if kv == "NVFP4" else ()
    # The cache is widened to BF16 and then attended to, both inside the timed call.
    return AttentionKernel(
        "sdpa_flash_widened_emulated",
        device,
        "BF16",
        kv,
        "BF16",
        implementation=_WIDENED,
        needs=_CHOICE,
        proof=_PROOF["flash"],
        min_capability=(8, 0) if is_cuda else None,
        rules=(*(_FLASH_RULES if is_cuda else (equal_values,)), *blocks),
        decoded="BF16",
    )


def _latent(device: Literal["cpu", "cuda"], name: str, kv: str = "BF16", wide: str = "BF16") -> AttentionKernel:
    """Return a kernel of absorbed MLA; `latent_flash` is its function `flash` in attention_latent.

    All heads' queries are queries of one head, and the values are the latent rows.
    """
    is_fused, is_widened = name != "unfused", kv != wide
    score_bytes = {"math": MATH_SCORE_BYTES, "unfused": UNFUSED_SCORE_BYTES}.get(name, 0)
    return AttentionKernel(
        f"latent_{name}{'_widened_emulated' if is_widened else ''}",
        device,
        wide,
        kv,
        wide,
        implementation=f"{_LATENT}{'widened_' if is_widened else ''}{name}",
        needs=_CHOICE if is_fused else (),
        proof=_PROOF[name],
        min_capability=(8, 0) if device == "cuda" else None,
        rules=(one_query,),
        values=("latent",),
        is_fused=is_fused,
        score_bytes_per_pair=score_bytes,
        decoded=wide if is_widened else None,
    )


_CPU = (
    *(
        AttentionKernel(
            "sdpa_flash",
            "cpu",
            key,
            key,
            key,
            implementation=_FLASH,
            needs=_CHOICE,
            proof=_PROOF["flash"],
            rules=(equal_values,),
        )
        for key in ("FP32", "BF16", "FP16")
    ),
    # Values are padded to the keys' width inside the timed call and the result is cut: the kernel has one
    # head size.
    AttentionKernel(
        "sdpa_flash_padded",
        "cpu",
        "BF16",
        "BF16",
        "BF16",
        implementation=_PADDED,
        needs=_CHOICE,
        proof=_PROOF["flash"],
        values=("narrow",),
    ),
    # Torch's reference path: scores in FP32, several kernels, counted as fused attention like every other
    # backend.
    AttentionKernel(
        "sdpa_math",
        "cpu",
        "BF16",
        "BF16",
        "BF16",
        implementation=_MATH,
        needs=_CHOICE,
        proof=_PROOF["math"],
        score_bytes_per_pair=MATH_SCORE_BYTES,
    ),
    # Product, softmax, product, with the scores in memory between them: what fusion saves.
    AttentionKernel(
        "unfused",
        "cpu",
        "BF16",
        "BF16",
        "BF16",
        implementation=_UNFUSED,
        proof=_PROOF["unfused"],
        is_fused=False,
        score_bytes_per_pair=UNFUSED_SCORE_BYTES,
    ),
    _widened("cpu", "FP8_E4M3"),
    _widened("cpu", "INT8"),
    *(_latent("cpu", name) for name in ("flash", "math", "unfused")),
    _latent("cpu", "flash", "FP8_E4M3"),
)

_CUDA = (
    AttentionKernel(
        "sdpa_flash",
        "cuda",
        "BF16",
        "BF16",
        "BF16",
        implementation=_FLASH,
        needs=_CHOICE,
        proof=_PROOF["flash"],
        min_capability=(8, 0),
        rules=_FLASH_RULES,
    ),
    AttentionKernel(
        "sdpa_flash",
        "cuda",
        "FP16",
        "FP16",
        "FP16",
        implementation=_FLASH,
        needs=_CHOICE,
        proof=_PROOF["flash"],
        min_capability=(8, 0),
        rules=_FLASH_RULES,
    ),
    AttentionKernel(
        "sdpa_cudnn",
        "cuda",
        "BF16",
        "BF16",
        "BF16",
        implementation=_CUDNN,
        needs=(*_CHOICE, "torch.nn.attention.SDPBackend.CUDNN_ATTENTION"),
        proof=_PROOF["cudnn"],
        min_capability=(8, 0),
        rules=_FLASH_RULES,
    ),
    *(
        AttentionKernel(
            "sdpa_efficient",
            "cuda",
            key,
            key,
            key,
            implementation=_EFFICIENT,
            needs=_CHOICE,
            proof=_PROOF["efficient"],
            min_capability=(8, 0) if key == "BF16" else (5, 0),
            rules=(equal_heads,),
        )
        for key in ("FP32", "BF16", "FP16")
    ),
    AttentionKernel(
        "sdpa_math",
        "cuda",
        "BF16",
        "BF16",
        "BF16",
        implementation=_MATH,
        needs=_CHOICE,
        proof=_PROOF["math"],
        min_capability=(8, 0),
        score_bytes_per_pair=MATH_SCORE_BYTES,
    ),
    AttentionKernel(
        "sdpa_flash_padded",
        "cuda",
        "BF16",
        "BF16",
        "BF16",
        implementation=_PADDED,
        needs=_CHOICE,
        proof=_PROOF["flash"],
        min_capability=(8, 0),
        rules=_PADDED_RULES,
        values=("narrow",),
    ),
    # Compiled by torch.compile in the first call; the block mask is made beforehand.
    AttentionKernel(
        "flex",
        "cuda",
        "BF16",
        "BF16",
        "BF16",
        implementation=_FLEX,
        needs=_COMPILED_FLEX,
        proof=COMPILED_PROOF,
        min_capability=(8, 0),
    ),
    # The kernel widens an FP8 cache of scale 1 itself.
    AttentionKernel(
        "flex",
        "cuda",
        "BF16",
        "FP8_E4M3",
        "BF16",
        implementation=_FLEX,
        needs=_COMPILED_FLEX,
        proof=COMPILED_PROOF,
        min_capability=(8, 9),
    ),
    # FP8 products, one scale per tensor, and an FP8 result in the values' scale.
    AttentionKernel(
        "flex",
        "cuda",
        "FP8_E4M3",
        "FP8_E4M3",
        "FP8_E4M3",
        implementation=_FLEX,
        needs=_COMPILED_FLEX,
        proof=COMPILED_PROOF,
        min_capability=(8, 9),
    ),
    # FlashAttention-3 through torch, one scale per key/value head.
    AttentionKernel(
        "fa3_fp8",
        "cuda",
        "FP8_E4M3",
        "FP8_E4M3",
        "BF16",
        implementation="bench_cases.kernels.attention.fp8:fa3_fp8",
        needs=(
            "torch.ops.aten._scaled_dot_product_flash_attention.quantized",
            "torch.nn.attention.activate_flash_attention_impl",
            "flash_attn_interface",
        ),
        proof=_PROOF["flash"],
        min_capability=(9, 0),
        max_capability=(9, 9),
        rules=_FLASH_RULES,
    ),
    AttentionKernel(
        "unfused",
        "cuda",
        "BF16",
        "BF16",
        "BF16",
        implementation=_UNFUSED,
        proof=_PROOF["unfused"],
        min_capability=(8, 0),
        is_fused=False,
        score_bytes_per_pair=UNFUSED_SCORE_BYTES,
    ),
    _widened("cuda", "FP8_E4M3"),
    _widened("cuda", "INT8"),
    _widened("cuda", "NVFP4"),
    *(_latent("cuda", name) for name in ("efficient", "math", "unfused")),
    _latent("cuda", "efficient", "FP8_E4M3"),
)

ATTENTION_KERNELS: tuple[AttentionKernel, ...] = (*_CPU, *_CUDA)

attention_cases = partial(kernel_cases, ATTENTION_KERNELS)
"""(device, shapes, formats, cache, modes) → the cases of every shape with every kernel that takes it and whose cache
format is among `formats` (None: all). Ids are unique within an operator.
"""
