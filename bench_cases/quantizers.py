"""Quantisers: an FP32 matrix (rows × K) in, codes and scales out. The scales are those that a kernel reads.

Sources: OCP Microscaling Formats (MX) v1.0 §6.3 (shared exponent = floor(log2(max)) − largest element exponent);
NVIDIA's NVFP4 (block 16, E4M3 scale, FP32 tensor scale); QLoRA (NF4 table, blocks of 64).
"""

from __future__ import annotations

import torch
from torch import Tensor

from bench_cases.held import HeldMatrix
from roofline_model.codecs.elements import NF4_VALUES

E4M3_MAX = 448.0
E2M1_MAX = 6.0
_TINY = 2.0**-100
"""Keeps the scale of an all-zero block finite."""

SMALL_FLOATS = {"float4_e2m1fn": (2, 1), "float6_e3m2fn": (3, 2), "float6_e2m3fn": (2, 3)}
"""Exponent and mantissa bits of the floats that torch cannot cast to. None of them has infinities or NaN."""


def small_float_values(name: str) -> Tensor:
    """Return the value of every code of a 4- or 6-bit float, as float64; the sign is the highest bit."""
    exponent_bits, mantissa_bits = SMALL_FLOATS[name]
    bias = 2 ** (exponent_bits - 1) - 1
    code = torch.arange(2 ** (exponent_bits + mantissa_bits), dtype=torch.float64)
    exponent, mantissa = (code / 2**mantissa_bits).floor(), code % 2**mantissa_bits
    normal = (1 + mantissa / 2**mantissa_bits) * 2.0 ** (exponent - bias)
    subnormal = mantissa / 2**mantissa_bits * 2.0 ** (1 - bias)
    positive = torch.where(exponent == 0, subnormal, normal)
    return torch.cat([positive, -positive])


def encode_small_float(values: Tensor, name: str) -> Tensor:
    """Return the uint8 codes of the nearest representable values: ties to even, too large values saturate."""
    table = small_float_values(name)
    positive = table[: len(table) // 2].to(values.device, values.dtype)
    middles = (positive[1:] + positive[:-1]) / 2
    magnitude = values.abs().contiguous()
    below = torch.bucketize(magnitude, middles, right=False, out_int32=True)
    above = torch.bucketize(magnitude, middles, right=True, out_int32=True)
    # Magnitude codes ascend with the value, so the even code of a tie is the one with an even mantissa.
    code = torch.where((below & 1).bool(), above, below).to(torch.uint8)
    return code + values.signbit().to(torch.uint8) * len(positive)


def int8_rows(matrix: Tensor, scale_dtype: torch.dtype = torch.bfloat16) -> HeldMatrix:
    """Quantise to symmetric INT8 with one scale per row."""
    scales = (matrix.abs().amax(dim=1, keepdim=True).clamp_min(_TINY) / 127).to(scale_dtype)
    codes = (matrix / scales.float()).round_().clamp_(-127, 127).to(torch.int8)
    return HeldMatrix(codes, scales)


def affine_groups(matrix: Tensor, bits: int, group: int, *, centred: bool) -> HeldMatrix:
    """Quantise to `bits`-bit unsigned codes with a BF16 scale and offset per `group` elements (smallest to largest).

    centred: the offset belongs to the middle code (tinygemm's convention: weight = (code − 8)·scale + offset for
    INT4); otherwise to code 0.
    """
    rows, columns = matrix.shape
    blocks = matrix.view(rows, columns // group, group)
    low, high = blocks.amin(dim=2), blocks.amax(dim=2)
    scales = ((high - low).clamp_min(_TINY) / (2**bits - 1)).to(torch.bfloat16)
    code_zero = 2 ** (bits - 1) if centred else 0
    offsets = (low + code_zero * scales.float()).to(torch.bfloat16)
    shifted = (blocks - offsets.float().unsqueeze(2)) / scales.float().unsqueeze(2) + code_zero
    codes = shifted.round_().clamp_(0, 2**bits - 1).to(torch.uint8).view(rows, columns)
    return HeldMatrix(codes, scales, offsets, code_zero=float(code_zero))


def fp8_tensor(matrix: Tensor) -> HeldMatrix:
    """Quantise to E4M3 with one FP32 scale for the whole matrix (kept in `scales`, shape (rows, 1))."""
    scale = (matrix.abs().amax().clamp_min(_TINY) / E4M3_MAX).float()
    return HeldMatrix((matrix / scale).to(torch.float8_e4m3fn), scale.reshape(1, 1).expand(matrix.shape[0], 1))


def fp8_rows(matrix: Tensor) -> HeldMatrix:
    """Quantise to E4M3 with one FP32 scale per row."""
    scales = (matrix.abs().amax(dim=1, keepdim=True).clamp_min(_TINY) / E4M3_MAX).float()
    return HeldMatrix((matrix / scales).to(torch.float8_e4m3fn), scales)


def mx_blocks(matrix: Tensor, element: str) -> HeldMatrix:
    """Quantise to a microscaling format: blocks of 32 share a power of two (E8M0). `element` is the ml_dtypes name."""
    largest_exponent = {"float8_e4m3fn": 8, "float6_e3m2fn": 4, "float6_e2m3fn": 2, "float4_e2m1fn": 2}[element]
    rows, columns = matrix.shape
    blocks = matrix.view(rows, columns // 32, 32)
    _, exponent = torch.frexp(blocks.abs().amax(dim=2).clamp_min(_TINY))  # max = m · 2^e with 0.5 ≤ m < 1
    shared = (exponent - 1 - largest_exponent).clamp(-127, 127)
    scaled = torch.ldexp(blocks, -shared.unsqueeze(2)).view(rows, columns)
    # E8M0 stores the biased exponent; building it from bits is exact on every device.
    scales = (shared + 127).to(torch.uint8).view(torch.float8_e8m0fnu)
    if element == "float8_e4m3fn":
        return HeldMatrix(scaled.clamp_(-E4M3_MAX, E4M3_MAX).to(torch.float8_e4m3fn), scales)
    return HeldMatrix(encode_small_float(scaled, element), scales, table=small_float_values(element))


def nvfp4_blocks(matrix: Tensor) -> HeldMatrix:
    """Quantise to NVFP4: E2M1 elements, one E4M3 scale per 16, one FP32 scale for the matrix."""
    rows, columns = matrix.shape
    blocks = matrix.view(rows, columns // 16, 16)
    tensor_scale = float((matrix.abs().amax().clamp_min(_TINY) / (E4M3_MAX * E2M1_MAX)).float())
    wanted = blocks.abs().amax(dim=2) / (E2M1_MAX * tensor_scale)
    scales = wanted.clamp(2.0**-9, E4M3_MAX).to(torch.float8_e4m3fn)  # 2^-9 is E4M3's smallest positive value
    scaled = blocks / (scales.float().unsqueeze(2) * tensor_scale)
    codes = encode_small_float(scaled.view(rows, columns), "float4_e2m1fn")
    return HeldMatrix(codes, scales, table=small_float_values("float4_e2m1fn"), tensor_scale=tensor_scale)


def nf4_blocks(matrix: Tensor) -> HeldMatrix:
    """Quantise to NF4: the nearest of 16 table values, one FP16 absmax per 64 elements."""
    rows, columns = matrix.shape
    blocks = matrix.view(rows, columns // 64, 64)
    scales = blocks.abs().amax(dim=2).clamp_min(2.0**-14).to(torch.float16)
    table = torch.tensor(NF4_VALUES, dtype=torch.float64)
    middles = ((table[1:] + table[:-1]) / 2).to(matrix.device, matrix.dtype)
    scaled = (blocks / scales.float().unsqueeze(2)).view(rows, columns)
    codes = torch.bucketize(scaled.contiguous(), middles, out_int32=True).to(torch.uint8)
    return HeldMatrix(codes, scales, table=table)
