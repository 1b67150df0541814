"""More work is not less time: over fine grids of every chip and format no time falls by more than a fifth as a size
grows, unless measured rows show it.

Three things that measured rows show are left out: the serial loops that 16-bit libraries of sm89 and sm120 leave in
short products; the kernel for few rows of a weight-only library, which gives way at a fixed number of rows (L40S, INT8
weights, 128 × 10240: 17.4 µs at two rows, 12.3 at four); and the library surfaces, smooth fits through what rows leave
over (RTX PRO 6000, NVFP4, 16384 × 7168: 84.6 µs at one row, 51.5 at 64).
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from roofline_model import list_hardware
from roofline_model.chips.hardware import Device
from roofline_model.core.errors import UnsupportedError
from roofline_model.expected.products.parameters import may_split
from roofline_model.expected.products.product import ProductModel
from roofline_model.kernels.known_kernels import why_no_product_kernel
from roofline_model.operators.product import gemm

LEAST_RATIO = 0.8
LEAST_AFTER_GEMV_RATIO = 0.65
"""The same behind the last row of a weight-only library's kernel for few rows; 0.71 was measured."""
LEAST_OF_DECODED_RATIO = 0.7
"""The same of pairs that are decoded to 16 bit: their limit is of the tile that the 16-bit product takes."""
LEAST_OF_SLICES_RATIO = 0.79
"""The same of FP64 and FP32 where arithmetic is all of the time: k is cut into 16, 24 or 32 slices and nothing between
(B300, FP64, 17 × 32 × 256, whose FP64 rate is 1/64 of FP32's)."""
PAIRS = (
    "FP64", "FP32", "TF32", "BF16", "FP16", "FP8_E4M3", "MXFP8_E4M3", "NVFP4", "MXFP4", "INT8", "INT4.BF16", "INT8.BF16",
    "FP8_E4M3.BF16", "NVFP4.BF16", "NF4.BF16",
)  # fmt: skip
ROWS = np.unique(np.round(np.concatenate([np.arange(1, 33), 2 ** np.arange(5, 13, 0.25)])).astype(int))
SIZES = np.unique((np.round(2 ** np.arange(5, 15, 0.25) / 8) * 8).astype(int))


def model_of(chip: Device, pair: str) -> ProductModel | None:
    """Return the model of a pair without library surfaces, or None where the chip has none."""
    weight, _, activation = pair.partition(".")
    activation = activation or weight
    output = activation if activation in ("FP64", "FP32", "TF32") else "BF16"
    if why_no_product_kernel(gemm(1, 1, 1, a=activation, b=weight), chip) is not None:
        return None
    try:
        model = ProductModel.of(chip, weight=weight, activation=activation, output=output)
    except UnsupportedError:
        return None
    return bare(model)


def bare(model: ProductModel) -> ProductModel:
    """Return the model without what is learnt of single shapes."""
    wide = None if model.wide is None else bare(model.wide)
    return replace(model, parameters=replace(model.parameters, surface=None), wide=wide)


def falls(model: ProductModel, axes: tuple[np.ndarray, np.ndarray, np.ndarray]) -> list[tuple]:
    """Return (axis, larger product, its time over that of a smaller one) where a time falls too far."""
    mesh = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)
    shape = mesh.shape[:3]
    m, n, k = (mesh[..., axis].ravel().astype(float) for axis in range(3))
    time_s = model.expected(m, n, k).time_s
    p = model.parameters
    is_whole = np.broadcast_to(may_split(p.gpu_family, p.is_sixteen_bit, m, n, k), m.shape)
    is_gemv = np.broadcast_to(p.is_weight_only & (m <= p.gemv_rows_count), m.shape)
    least = (
        LEAST_OF_DECODED_RATIO if model.computes_wide else LEAST_RATIO if p.is_tile_padded else LEAST_OF_SLICES_RATIO
    )
    reference_s = time_s * np.where(is_gemv, LEAST_AFTER_GEMV_RATIO, least) * is_whole
    drops = []
    for axis, name in enumerate("MNK"):
        best = np.maximum.accumulate(reference_s.reshape(shape), axis=axis)
        too_short = np.argwhere(time_s.reshape(shape) < best * (1 - 1e-9))
        drops += [
            (name, tuple(mesh[tuple(at)].tolist()), round(float(time_s.reshape(shape)[tuple(at)] / best[tuple(at)]), 2))
            for at in too_short[:3]
        ]
    return drops


def all_falls(chips: list[Device], pairs: tuple[str, ...], axes: tuple[np.ndarray, np.ndarray, np.ndarray]) -> list:
    return [
        (chip.key, pair, *fall)
        for chip, pair in product(chips, pairs)
        if (model := model_of(chip, pair)) is not None
        for fall in falls(model, axes)
    ]


def test_no_time_falls_by_more_than_a_fifth_on_a_sample():
    chips = [chip for chip in list_hardware() if chip.key in ("gb10", "l40s", "h100-sxm", "b300", "rtx-5090")]
    assert not all_falls(chips, ("FP64", "BF16", "NVFP4", "INT4.BF16"), (ROWS[::5], SIZES[::6], SIZES[::4]))


@pytest.mark.full
def test_no_time_falls_by_more_than_a_fifth():
    axes = ((ROWS, SIZES[::4], SIZES[::4]), (ROWS[::8], SIZES, SIZES[::4]), (ROWS[::8], SIZES[::4], SIZES))
    assert not [fall for grid in axes for fall in all_falls(list_hardware(), PAIRS, grid)]


@pytest.mark.parametrize("key", ["l40s", "rtx-pro-6000", "gb10", "rtx-4090"])
def test_slow_kernels_begin_by_the_product_of_the_sizes(key):
    model = ProductModel.of(chip_of(key), weight="BF16", activation="BF16", output="BF16")

    def time_us(m, n, k):
        return float(model.expected(m, n, k).time_s) * 1e6

    # The last slow product and the first fast one that were measured, and their neighbours in another order of sizes.
    assert time_us(8, 32, 7168) > 2 * time_us(32, 32, 2048)
    assert time_us(13, 32, 2048) > 1.3 * time_us(33, 32, 2048)
    assert time_us(8, 64, 4096) == pytest.approx(time_us(8, 72, 4096), rel=0.1)  # 2^21 and a little more


def chip_of(key: str) -> Device:
    return next(chip for chip in list_hardware() if chip.key == key)


@pytest.mark.parametrize("key", ["gb10", "rtx-4090", "l4"])
@pytest.mark.parametrize("wide", ["FP64", "FP32", "TF32"])
def test_a_slow_16_bit_kernel_is_no_other_formats(key, wide):
    model = ProductModel.of(chip_of(key), weight=wide, activation=wide, output=wide)
    for n, k in ((64, 4000), (128, 2048), (4096, 4096)):
        single, double = (float(model.expected(m, n, k).time_s) for m in (1, 2))
        assert double < 4 * single
