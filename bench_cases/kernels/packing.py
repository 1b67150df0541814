"""Bit layouts: how codes share bytes, and how block scales are swizzled for tensor cores. Pure tensor rearrangement.

Every `pack_*` takes (rows, K) uint8 codes with K a multiple of the codes in one group and keeps rows apart.
"""

from __future__ import annotations

import torch
from torch import Tensor

SCALE_TILE_ROWS = 128
SCALE_TILE_COLUMNS = 4


def pack_nibbles_low_first(codes: Tensor) -> Tensor:
    """Pack 4-bit codes in pairs, element 0 in the low nibble (`float4_e2m1fn_x2`): (rows, K) → (rows, K/2)."""
    return codes[:, ::2] | (codes[:, 1::2] << 4)


def pack_nibbles_high_first(codes: Tensor) -> Tensor:
    """Pack 4-bit codes in pairs, element 0 in the high nibble (what `torch._convert_weight_to_int4pack` reads)."""
    return (codes[:, ::2] << 4) | codes[:, 1::2]


def unpack_nibbles_low_first(packed: Tensor) -> Tensor:
    """Undo `pack_nibbles_low_first`."""
    return torch.stack((packed & 0x0F, packed >> 4), dim=-1).flatten(1)


def pack_6bit(codes: Tensor) -> Tensor:
    """Pack four 6-bit codes into three bytes, lowest bits first: (rows, K) → (rows, 3K/4)."""
    a, b, c, d = codes.unflatten(1, (-1, 4)).unbind(dim=2)
    return torch.stack((a | (b << 6), (b >> 2) | (c << 4), (c >> 4) | (d << 2)), dim=-1).flatten(1)


def unpack_6bit(packed: Tensor) -> Tensor:
    """Undo `pack_6bit`."""
    x, y, z = packed.unflatten(1, (-1, 3)).unbind(dim=2)
    codes = (x & 0x3F, (x >> 6) | ((y & 0x0F) << 2), (y >> 4) | ((z & 0x03) << 4), z >> 2)
    return torch.stack(codes, dim=-1).flatten(1)


def pack_2bit(codes: Tensor) -> Tensor:
    """Pack four 2-bit codes into a byte, lowest bits first: (rows, K) → (rows, K/4)."""
    a, b, c, d = codes.unflatten(1, (-1, 4)).unbind(dim=2)
    return a | (b << 2) | (c << 4) | (d << 6)


def unpack_2bit(packed: Tensor) -> Tensor:
    """Undo `pack_2bit`."""
    return torch.stack((packed & 3, (packed >> 2) & 3, (packed >> 4) & 3, packed >> 6), dim=-1).flatten(1)


def swizzle_block_scales(scales: Tensor) -> Tensor:
    """Return block scales (rows, blocks) in the layout that cuBLASLt reads (`SWIZZLE_32_4_4`), flattened.

    Rows are padded to 128 and blocks to 4 with zero bytes. Tiles of 128 × 4 follow each other row by row; inside a
    tile the scale of row r, block c stands at byte (r mod 32)·16 + (r div 32)·4 + c.
    Source: cuBLAS documentation, "1D block scaling factors layout".
    """
    rows, columns = scales.shape
    data = scales.view(torch.uint8)
    tile_rows, tile_columns = -(-rows // SCALE_TILE_ROWS), -(-columns // SCALE_TILE_COLUMNS)
    padded = data.new_zeros(tile_rows * SCALE_TILE_ROWS, tile_columns * SCALE_TILE_COLUMNS)
    padded[:rows, :columns] = data
    # (tile row, r div 32, r mod 32, tile column, c) → (tile row, tile column, r mod 32, r div 32, c)
    tiles = padded.view(tile_rows, 4, 32, tile_columns, SCALE_TILE_COLUMNS).permute(0, 3, 2, 1, 4)
    return tiles.flatten().view(scales.dtype)
