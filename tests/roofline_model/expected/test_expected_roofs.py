"""No part of an expected time is negative or past its unit's roof: every chip, every format, decode, prefill and odd
sizes.
"""

from __future__ import annotations

from math import fsum

import pytest
from counts import sampled

from roofline_model import get_hardware, list_hardware
from roofline_model.expected.predict import predict_expected
from roofline_model.expected.prediction import with_library
from roofline_model.formats.catalog import FORMATS
from roofline_model.ideal.roofline import predict, published_over_peak
from roofline_model.operators.attention import attention
from roofline_model.operators.product import gemm
from roofline_model.tiling.waves import gemm_tiling

CHIPS = [device.key for device in list_hardware()]
PAIRS = [
    *((key, key) for key in FORMATS),
    *(("BF16", key) for key in FORMATS if key != "BF16"),
    ("FP8_E4M3", "INT4"),
    ("FP32", "INT8"),
]
"""(activation, weight)"""
SHAPES = (
    (1, 4096, 4096), (1, 1, 1), (7, 129, 777), (16, 4096, 14336), (300, 5000, 3001), (512, 4096, 4096), (4096, 14336, 4096),
    (8192, 8192, 8192), (8192, 128, 2048), (128, 128, 128), (1, 128, 65536),
)  # fmt: skip
LEAST = 1 - 1e-9


def check(work, device, cache: str = "cold", casts: bool = False) -> None:
    """Every law that one prediction has to keep; nothing where the chip has no expected time."""
    prediction = predict_expected(work, device, cache=cache, dynamic_activation_quantization=casts)
    if prediction is None:
        return
    what = f"{device.key} {work.shape} {work.formats} {cache}: {prediction}"
    parts, terms, ideal = dict(prediction.parts), dict(prediction.terms), predict(work, device, cache=cache)
    assert min(parts.values()) > 0, what
    assert fsum(parts.values()) == pytest.approx(prediction.time_s, rel=1e-9), what
    assert 0 < prediction.low_s <= prediction.time_s * (1 + 1e-12) <= prediction.high_s * (1 + 2e-12), what
    # The one exception: a chip whose real clock was published to beat its rated one (RTX 5090).
    beaten = max((published_over_peak(device, key) for key, count in work.cost.flops if count), default=1.0)
    compute_s, memory_s = ideal.compute_time_s / beaten, ideal.memory_time_s
    if cache == "cold":
        assert prediction.low_s >= max(compute_s, memory_s) * LEAST, what
        assert terms["dram"] >= memory_s * LEAST, what
    if cache == "cold" or compute_s > memory_s:
        # Each as if alone; the longer roof's part of the shared time, too. What overlaps it is hidden behind it.
        assert terms["tensor"] >= compute_s * LEAST, what
        side = "tensor" if compute_s > memory_s else "dram"
        assert parts[side] >= max(compute_s, memory_s) * LEAST, what


@pytest.mark.parametrize("chip", CHIPS)
def test_products_keep_to_the_roofs(chip):
    device = get_hardware(chip)
    for activation, weight in sampled(PAIRS, 5):
        for place, shape in enumerate(SHAPES):
            # Warm operands and casts take the same way: every other shape of them will do.
            check(gemm(*shape, a=activation, b=weight), device, "warm" if place % 3 == 2 else "cold")
            if shape == (1, 1, 1):  # all launch
                check(gemm(*shape, a=activation, b=weight), device, "warm")
            if place % 3 == 0:
                check(gemm(*shape, a=activation, b=weight), device, casts=True)


@pytest.mark.parametrize("chip", CHIPS)
def test_attention_keeps_to_the_roofs(chip):
    device = get_hardware(chip)
    for kv in ("BF16", "FP8_E4M3", "NVFP4"):
        for batch, new, context in ((1, 1, 512), (16, 1, 8192), (1, 2048, 2048), (4, 300, 300)):
            check(attention(batch, 32, 8, new, context, 128, q="BF16", kv=kv, causal=new > 1), device)


def test_a_kernel_that_decodes_its_weight_first_shares_the_bytes_with_that_pass():
    from bench_cases.kernels.products.catalog import KERNELS
    from bench_cases.shapes.products import Shape

    kernel = next(
        candidate for candidate in KERNELS if candidate.name == "dequant_emulated" and candidate.weight == "NVFP4"
    )
    work = kernel.work(Shape(1, 4096, 4096, ""))
    for chip in ("gb10", "l4"):
        expected, ideal = predict_expected(work, chip), predict(work, chip)
        parts = dict(expected.parts)
        assert fsum(parts.values()) == pytest.approx(expected.time_s)
        assert parts["dram"] + parts["dequantize"] >= ideal.memory_time_s * LEAST


def test_what_a_library_saves_is_taken_from_what_follows_the_launch():
    formula = {"launch": 3.0, "tensor": 8.0, "waves": 2.0}
    saved = with_library(formula, 13.0, 8.0, {"tensor": 5.0})
    assert saved == {"launch": 3.0, "tensor": 5.0, "waves": 1.0, "library": 0.0}
    assert with_library(formula, 13.0, 2.0, {"tensor": 5.0})["launch"] == 2.0  # shorter than its launch
    assert with_library(formula, 13.0, 15.0, {}) == {**formula, "library": 2.0}


def test_a_faster_library_is_no_negative_part():
    """RTX 4090 in INT8: 1.37 ms of tensor pipe (801 TFLOP/s, above the peak), and -0.19 ms of library before
    2026-11-22.
    """
    prediction = predict_expected(gemm(8192, 8192, 8192, a="INT8"), "rtx-4090")
    parts = dict(prediction.parts)
    assert parts["tensor"] == pytest.approx(2 * 8192**3 / get_hardware("rtx-4090").peak_flops_per_s("INT8"))
    assert "library" not in parts
    # What overlaps gives way, not the launch.
    assert parts["launch"] == pytest.approx(dict(prediction.terms)["launch"])


@pytest.mark.parametrize(("chip", "key"), [("rtx-4090", "INT8"), ("gb10", "NVFP4"), ("l4", "INT4")])
def test_a_tiling_tells_the_same_time_and_parts(chip, key):
    work = gemm(8192, 8192 if key != "NVFP4" else 128, 2048, a="BF16" if key == "INT4" else key, b=key)
    tiling, expected = gemm_tiling(work, get_hardware(chip)), predict_expected(work, chip)
    assert (tiling.expected_s, tiling.parts_s, tiling.bound) == (
        expected.time_s,
        dict(expected.parts),
        expected.binding,
    )
