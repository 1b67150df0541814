"""Narrow weights under a 16-bit product: no faster than it but for their smaller traffic, on every path alike."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from counts import sampled

from roofline_model import get_hardware, list_hardware
from roofline_model.core.errors import UnsupportedError
from roofline_model.core.finding import has_code
from roofline_model.expected.predict import expected_times, predict_expected
from roofline_model.expected.products.product import ProductModel, widening_share
from roofline_model.operators.product import gemm
from roofline_model.sweep import GemmGrid, format_pairs, sweep_gemm

CHIPS = [device.key for device in list_hardware()]
WEIGHTS = ("INT8", "INT4", "MXFP8_E4M3", "MXFP4", "NF4", "NVFP4", "FP8_E4M3")
GRID = np.array(
    list(itertools.product((1, 16, 130, 512, 1024, 4096, 16384), (1024, 4096, 14336), (1000, 4096, 14336)))
).T


def models(chip: str, weight: str) -> tuple[ProductModel, ProductModel]:
    """The model of narrow weights under BF16, and that of BF16 weights."""
    device = get_hardware(chip)
    narrow, wide = (ProductModel.of(device, weight=key, activation="BF16", output="BF16") for key in (weight, "BF16"))
    return narrow, wide


@pytest.mark.parametrize(("chip", "weight"), sampled(itertools.product(CHIPS, WEIGHTS), 40))
def test_where_arithmetic_binds_narrow_weights_save_their_traffic_and_no_more(chip, weight):
    try:
        narrow, wide = models(chip, weight)
    except UnsupportedError:
        return
    if narrow.wide is None:
        assert narrow.fitted.provenance == "fitted"  # timed on this chip: what was measured stays
        return
    share = widening_share(narrow.wide.parameters, *GRID.astype(float), computes_wide=narrow.computes_wide)
    expected, whole = narrow.expected(*GRID), wide.expected(*GRID)
    least_s = whole.time_s - whole.additive_parts()["dram"]
    assert (expected.time_s >= least_s * (1 - 1e-12))[share >= 1].all()
    assert (share[GRID[0] == 1] == 0).all()
    assert (share >= 1).any()
    assert (expected.low_s < expected.time_s).all()
    assert (expected.time_s < expected.high_s).all()


def test_memory_bound_products_are_left_as_they_are():
    narrow, _ = models("l4", "INT4")
    assert not has_code(narrow.expected(16, 4096, 4096).findings, "product-held")
    assert narrow.expected(16, 4096, 4096).parts["library"] == narrow.expected([16], 4096, 4096).parts["library"][0]
    assert has_code(narrow.expected(4096, 4096, 4096).findings, "product-held")


@pytest.mark.parametrize("cache", ["cold", "warm"])
@pytest.mark.parametrize(("chip", "weight"), [("l4", "INT4"), ("b200", "MXFP8_E4M3"), ("orin", "INT8")])
def test_one_by_one_at_once_and_in_a_sweep(chip, weight, cache):
    narrow, _ = models(chip, weight)
    shapes = [(300, 4096, 4096), (700, 4096, 4096), (4096, 4096, 4096), (8, 4096, 4096)]
    batch = narrow.expected(*(list(axis) for axis in zip(*shapes, strict=True)), cache=cache)
    single = [narrow.expected(*shape, cache=cache) for shape in shapes]
    for name in ("time_s", "low_s", "high_s"):
        assert [getattr(call, name) for call in single] == pytest.approx(getattr(batch, name).tolist(), rel=1e-12)
    assert [call.parts["library"] for call in single] == pytest.approx(batch.parts["library"].tolist(), rel=1e-6)
    axes = {"M": [shape[0] for shape in shapes], "N": (4096,), "K": (4096,)}
    pairs = format_pairs([f"{weight}.BF16"])
    swept = sweep_gemm(GemmGrid(**axes, devices=(get_hardware(chip),), pairs=pairs), cache=cache).expected_s.tolist()
    works = [gemm(*shape, a="BF16", b=weight, c="BF16") for shape in shapes]
    if weight != "INT4":  # which a sweep takes with the scales of its kernels
        predicted = [predict_expected(work, chip, cache=cache).time_s for work in works]
        assert swept == pytest.approx(predicted, rel=1e-12)
    if cache == "cold":
        times = expected_times(get_hardware(chip))
        for case in (work.case("*", cache=cache) for work in works):
            assert times.many([case, case]) == [times(case)] * 2
