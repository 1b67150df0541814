"""The roof of products in fixed formats is `predict` of `gemm`, to the bit."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from roofline_model.chips.hardware import create_custom_asic, get_hardware, list_hardware
from roofline_model.core.errors import UnsupportedError
from roofline_model.formats.catalog import FORMATS, get_format
from roofline_model.ideal.roofline import ProductRoof, predict, published_over_peak
from roofline_model.operators.product import MAX_DIMENSION, gemm

SIZES = st.one_of(st.integers(1, 64), st.integers(1, 200_000), st.integers(1, MAX_DIMENSION))
NAMES = st.sampled_from(sorted(FORMATS))


def supported(make):
    try:
        return make()
    except UnsupportedError:
        return None


@given(chip=st.sampled_from(list_hardware()), a=NAMES, b=NAMES, c=NAMES, m=SIZES, n=SIZES, k=SIZES)
def test_it_is_the_prediction_of_each_shape(chip, a, b, c, m, n, k):
    work = gemm(m, n, k, a=a, b=b, c=c)
    formats = {"activation": get_format(a), "weight": get_format(b), "output": get_format(c)}
    wanted, roof = supported(lambda: predict(work, chip)), supported(lambda: ProductRoof.of(chip, **formats))
    assert (wanted is None) == (roof is None)
    if wanted is None or roof is None:
        return
    times = roof.at(m, n, k)
    assert (times.memory_s, times.compute_s, times.time_s, times.bound, times.flops, times.total_bytes, roof.path) == (
        wanted.memory_time_s,
        wanted.compute_time_s,
        wanted.time_s,
        wanted.bound,
        wanted.flops,
        work.cost.total_bytes,
        wanted.path,
    )


def test_a_weight_with_group_scales_moves_them():
    plain = get_format("INT4")
    wide = get_format("FP16")
    chip = get_hardware("gb10")
    grouped, bare = (
        ProductRoof.of(chip, activation=wide, weight=fmt, output=wide).at(1, 4096, 4096).total_bytes
        for fmt in (plain.grouped(128, scale_bits=16, zero_bits=4), plain)
    )
    assert grouped - bare == 4096 * 4096 * 20 / 128 / 8


def test_a_beaten_peak_is_known():
    wide = get_format("BF16")
    chip = get_hardware("rtx-5090")
    roof = ProductRoof.of(chip, activation=wide, weight=wide, output=wide)
    assert roof.beaten_ratio == published_over_peak(chip, "BF16") > 1


def test_a_custom_chip_widens_what_it_does_not_declare():
    chip = create_custom_asic("mine", 100, {"BF16": 50})
    wide = get_format("BF16")
    assert ProductRoof.of(chip, activation=wide, weight=get_format("INT4"), output=wide).path == "dequantize"
