from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from bench_cases.kernels.packing import (  # noqa: E402
    pack_2bit,
    pack_6bit,
    pack_nibbles_high_first,
    pack_nibbles_low_first,
    swizzle_block_scales,
    unpack_2bit,
    unpack_6bit,
    unpack_nibbles_low_first,
)


def codes(bits: int, rows: int = 5, columns: int = 64):
    return torch.randint(0, 2**bits, (rows, columns), dtype=torch.uint8, generator=torch.Generator().manual_seed(bits))


def bit_stream(code_rows, bits: int) -> list[list[int]]:
    """Codes as a stream of bits, lowest first, cut into bytes: the definition, written with Python integers."""
    result = []
    for row in code_rows.tolist():
        number = sum(code << (bits * index) for index, code in enumerate(row))
        result.append(list(number.to_bytes(len(row) * bits // 8, "little")))
    return result


@pytest.mark.parametrize(
    ("bits", "pack", "unpack"),
    [(4, pack_nibbles_low_first, unpack_nibbles_low_first), (6, pack_6bit, unpack_6bit), (2, pack_2bit, unpack_2bit)],
)
def test_packing_is_the_little_endian_bit_stream_and_unpacks(bits, pack, unpack):
    original = codes(bits)
    packed = pack(original)
    assert packed.dtype == torch.uint8
    assert packed.tolist() == bit_stream(original, bits)
    assert torch.equal(unpack(packed), original)


def test_fp4_pairs_match_ml_dtypes_values_nibble_by_nibble():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    original = codes(4)
    packed = pack_nibbles_low_first(original).numpy()
    low, high = packed & 15, packed >> 4
    values = np.stack([low, high], axis=-1).reshape(5, 64).view(ml_dtypes.float4_e2m1fn).astype(np.float64)
    assert np.array_equal(values, original.numpy().view(ml_dtypes.float4_e2m1fn).astype(np.float64))


def test_tinygemm_pairs_have_the_first_code_in_the_high_nibble():
    assert pack_nibbles_high_first(torch.tensor([[0x1, 0x2, 0xF, 0x0]], dtype=torch.uint8)).tolist() == [[0x12, 0xF0]]


def swizzled_by_the_book(scales: np.ndarray) -> list[int]:
    """cuBLAS documentation: tiles of 128 × 4, inside a tile offset (r % 32)·16 + (r // 32)·4 + c."""
    rows, columns = scales.shape
    tiles_down, tiles_across = -(-rows // 128), -(-columns // 4)
    out = [0] * (tiles_down * tiles_across * 512)
    for r in range(rows):
        for c in range(columns):
            tile = (r // 128) * tiles_across + c // 4
            out[tile * 512 + (r % 128 % 32) * 16 + (r % 128) // 32 * 4 + c % 4] = int(scales[r, c])
    return out


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (1, 8), (128, 4), (128, 8), (130, 5), (256, 12), (300, 3)])
def test_scale_swizzle_equals_the_documented_layout(rows, columns):
    raw = np.random.default_rng(rows).integers(1, 255, (rows, columns), dtype=np.uint8)
    swizzled = swizzle_block_scales(torch.from_numpy(raw).view(torch.float8_e8m0fnu))
    assert swizzled.dtype == torch.float8_e8m0fnu
    assert swizzled.is_contiguous()
    assert swizzled.dim() == 1
    assert swizzled.view(torch.uint8).tolist() == swizzled_by_the_book(raw)
