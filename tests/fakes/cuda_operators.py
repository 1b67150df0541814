"""Operators of torch that exist on CUDA only, or check more there than on a CPU: the checks, and the meaning.

Sources of the checks: torch 2.13, aten/native/cuda (Blas.cpp, ScaledBlas.cpp, int4mm.cu, int8mm.cu) and
transformers/cuda/sdp_utils.cpp. Each function gets the operands on the CPU and the compute capability.
"""

from __future__ import annotations

import torch
from torch.autograd.profiler import record_function
from torch.nn.attention import SDPBackend

E2M1 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
TENSOR_WISE, ROW_WISE, BLOCK_1X16, BLOCK_1X32 = range(4)
SWIZZLE_32_4_4 = 1


def int_mm(capability, a, b):
    _require(a.shape[0] > 16, f"self.size(0) needs to be greater than 16, but got {a.shape[0]}")
    _require(a.shape[1] % 8 == 0, f"self.size(1) needs to be a multiple of 8, but got {a.shape[1]}")
    _require(b.shape[1] % 8 == 0, f"mat2.size(1) needs to be a multiple of 8, but got {b.shape[1]}")
    return torch._int_mm(a, b)


def int8pack_mm(capability, x, weight, scales):
    _require(weight.dtype == torch.int8 and weight.is_contiguous(), "expected weight to be int8 and contiguous")
    with record_function("aten::_weight_int8pack_mm"):
        return ((x.float() @ weight.float().t()) * scales.float()).to(x.dtype)


def convert_int4pack(capability, codes, inner_k_tiles):
    """Two codes a byte, the even one above; torch's tiles are kept as one run of bytes."""
    _require(codes.dtype == torch.uint8, "in is expected to be uint8")
    rows, K = codes.shape[0], 2 * codes.shape[1]
    _require(
        rows % 8 == 0 and K % (16 * inner_k_tiles) == 0, "kNTileSize 8 and innerKTiles * 16 must divide the weight"
    )
    tiles = (rows // 8, K // (16 * inner_k_tiles), 32, inner_k_tiles // 2)
    return codes.contiguous().view(torch.int32).reshape(tiles).clone()


def int4pack_mm(capability, a, packed, group, scales_and_zeros):
    _require(capability >= (8, 0), "_weight_int4pack_mm_cuda requires compute capability >= 8.0")
    _require(a.dtype == torch.bfloat16 and a.is_contiguous(), "expected A to be BF16 and contiguous")
    N = packed.shape[0] * 8
    _require(tuple(scales_and_zeros.shape) == (a.shape[1] // group, N, 2), "qScaleAndZeros has the wrong shape")
    pairs = packed.reshape(-1).view(torch.uint8).reshape(N, -1)
    codes = torch.stack((pairs >> 4, pairs & 15), dim=2).reshape(N, -1).float()
    scale, zero = (part.t().repeat_interleave(group, dim=1) for part in scales_and_zeros.float().unbind(2))
    with record_function("aten::_weight_int4pack_mm"):
        return (a.float() @ ((codes - 8) * scale + zero).t()).to(torch.bfloat16)


def scaled_mm(capability, a, b, scale_a, recipe_a, swizzle_a, scale_b, recipe_b, swizzle_b, bias, dtype, *_):
    _require(a.stride(1) == 1, "mat_a must be row_major")
    _require(b.stride(0) == 1, "mat_b must be col_major")
    _require(capability >= (8, 9), "scaled_mm is only supported on compute capability >= 8.9")
    _require(recipe_a == recipe_b, "Invalid scaling configuration")
    packs = 2 if a.dtype == torch.float4_e2m1fn_x2 else 1
    M, K, N = a.shape[0], a.shape[1] * packs, b.shape[1]
    _require(
        K % 16 == 0 and N % 16 == 0, f"trailing dimension of mat_a and mat_b must be divisible by 16, got {K}, {N}"
    )
    if recipe_a in ([TENSOR_WISE], [ROW_WISE]):
        sides = (1, 1) if recipe_a == [TENSOR_WISE] else (M, N)
        for scale, count in zip((scale_a[0], scale_b[0]), sides, strict=True):
            _require(scale.dtype == torch.float32 and scale.numel() == count, "Invalid scaling configuration")
            _require(recipe_a == [TENSOR_WISE] or scale.is_contiguous(), "scales must be contiguous")
        left = a.float() * scale_a[0].reshape(-1, 1)
        right = b.float() * scale_b[0].reshape(1, -1)
    else:
        _require(capability >= (10, 0), "block-wise scaling needs compute capability >= 10.0")
        is_nv = recipe_a == [BLOCK_1X16, TENSOR_WISE]
        _require(is_nv or recipe_a == [BLOCK_1X32], "Invalid scaling configuration")
        _require(is_nv or packs == 1 or capability[0] == 10, "MXFP4 scaling only supported in CUDA for B200/B300")
        _require(swizzle_a[0] == swizzle_b[0] == SWIZZLE_32_4_4, "scale_a must be swizzled to SWIZZLE_32_4_4 format")
        block, kind = (16, torch.float8_e4m3fn) if is_nv else (32, torch.float8_e8m0fnu)
        left = _decoded(a, M, K) * _block_scales(scale_a, kind, M, K, block)
        right = (_decoded(b.t(), N, K) * _block_scales(scale_b, kind, N, K, block)).t()
    with record_function("aten::_scaled_mm_v2"):
        return (left @ right).to(dtype or torch.bfloat16)


def _decoded(matrix, rows, K):
    if matrix.dtype != torch.float4_e2m1fn_x2:
        return matrix.float()
    pairs = matrix.view(torch.uint8)
    return E2M1[torch.stack((pairs & 15, pairs >> 4), dim=2).reshape(rows, K).long()]


def _block_scales(scales, kind, rows, K, block):
    """Return one factor per element from scales in tiles of 128 × 4 (cuBLAS: row % 32, row / 32, column)."""
    flat, wide = scales[0].reshape(-1), -(-K // block)
    tiles_down, tiles_across = -(-rows // 128), -(-wide // 4)
    _require(flat.dtype == kind, f"scale must be {kind}")
    _require(flat.numel() == 512 * tiles_down * tiles_across, "scale has the wrong number of elements")
    tiles = flat.float().reshape(tiles_down, tiles_across, 32, 4, 4)
    plain = tiles.permute(0, 3, 2, 1, 4).reshape(tiles_down * 128, tiles_across * 4)[:rows, :wide]
    return plain.repeat_interleave(block, dim=1)[:, :K] * (scales[1].float() if len(scales) > 1 else 1.0)


def fused_sdp_choice(capability, q, k, v, mask=None, dropout=0.0, is_causal=False, enable_gqa=False, **_):
    """Return torch's choice among the backends that are switched on, in its order on CUDA."""
    flags = torch.backends.cuda
    half = q.dtype in (torch.float16, torch.bfloat16)
    same_heads = q.shape[1] == k.shape[1]
    size = q.shape[-1]
    if flags.flash_sdp_enabled() and half and mask is None and size <= 256 and v.shape[-1] == size:
        return SDPBackend.FLASH_ATTENTION.value
    if flags.cudnn_sdp_enabled() and half and size <= 128 and size % 8 == 0:
        return SDPBackend.CUDNN_ATTENTION.value
    if flags.mem_efficient_sdp_enabled() and same_heads and size % (8 if half else 4) == 0:
        return SDPBackend.EFFICIENT_ATTENTION.value
    return SDPBackend.MATH.value if flags.math_sdp_enabled() else SDPBackend.ERROR.value


RECORDED = {
    SDPBackend.FLASH_ATTENTION.value: "aten::_scaled_dot_product_flash_attention",
    SDPBackend.CUDNN_ATTENTION.value: "aten::_scaled_dot_product_cudnn_attention",
    SDPBackend.EFFICIENT_ATTENTION.value: "aten::_scaled_dot_product_efficient_attention",
    SDPBackend.MATH.value: "aten::_scaled_dot_product_attention_math",
}


def attention(capability, q, k, v, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    choice = fused_sdp_choice(capability, q, k, v, attn_mask, dropout_p, is_causal, enable_gqa)
    _require(choice != SDPBackend.ERROR.value, "No available kernel. Aborting execution.")
    with (
        record_function(RECORDED[choice]),
        torch.nn.attention.sdpa_kernel([SDPBackend.MATH, SDPBackend.FLASH_ATTENTION]),
    ):
        return torch.nn.functional.scaled_dot_product_attention(
            q, k, v, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
        )


OPERATORS = {
    "_int_mm": int_mm,
    "_weight_int8pack_mm": int8pack_mm,
    "_convert_weight_to_int4pack": convert_int4pack,
    "_weight_int4pack_mm": int4pack_mm,
    "_scaled_mm_v2": scaled_mm,
    "_fused_sdp_choice": fused_sdp_choice,
    "scaled_dot_product_attention": attention,
}


def _require(condition, message):
    if not condition:
        raise RuntimeError(message)
