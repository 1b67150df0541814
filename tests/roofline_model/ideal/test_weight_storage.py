"""One account of weight-only INT4: every way to ask for a pair moves the same bytes, and the expected time moves with
them.
"""

from __future__ import annotations

import pytest

from roofline_model import gemm, get_format, get_hardware, predict, predict_gemm, predict_gemv
from roofline_model.expected.predict import expected_times, predict_expected
from roofline_model.expected.products.parameters import kernel_bytes_per_element
from roofline_model.ideal.roofline import with_storage
from roofline_model.models.format_plan import FormatPlan
from roofline_model.operators.product import product_of_pair, stored_weight, weight_counting
from roofline_model.recommend.shape import recommend_quantization
from roofline_model.sweep import GemmGrid, format_pairs, sweep_gemm

SHAPE = (1, 4096, 4096)
GB10, INT4, BF16 = get_hardware("gb10"), get_format("INT4"), get_format("BF16")


def test_a_pair_has_one_size_wherever_it_is_asked_for():
    work = product_of_pair(*SHAPE, weight="INT4", activation="FP16")
    assert work.cost.total_bytes == 4096 * 4096 * 4.125 / 8 + 2 * 4096 * 2
    ranked = recommend_quantization(GB10, *SHAPE, times=expected_times("gb10"))
    best = ranked.option("INT4")
    (row,) = sweep_gemm(GemmGrid(*((size,) for size in SHAPE), (GB10,), format_pairs(["INT4.FP16"]))).to_dict("records")
    ideal, expected = predict(work, GB10).time_s, predict_expected(work, GB10).time_s
    assert (
        predict_gemm(GB10, *SHAPE, "INT4.FP16").time_s == predict_gemv("gb10", 4096, 4096, "int4.fp16").time_s == ideal
    )
    assert best.memory.total_bytes == row["bytes"] == work.cost.total_bytes
    assert best.times.ideal.time_s == pytest.approx(row["ideal_s"]) == pytest.approx(ideal)
    assert best.estimate.time_s == pytest.approx(row["expected_s"]) == pytest.approx(expected)
    # What the fitted kernels read, and what a whole model counts, is the same layout.
    assert stored_weight(INT4, BF16).traffic_bytes_per_element == kernel_bytes_per_element(INT4)
    assert FormatPlan.stored.__get__(_Scaled())("INT4") == stored_weight(INT4, BF16)


class _Scaled:
    """What `FormatPlan.stored` reads of a plan."""

    has_group_scales = True


def test_only_narrow_integers_beside_a_wider_activation_gain_scales():
    assert stored_weight(INT4, INT4) == INT4
    assert stored_weight(get_format("INT8"), BF16) == get_format("INT8")
    assert stored_weight(get_format("NVFP4"), BF16) == get_format("NVFP4")
    grouped = INT4.grouped(32, zero_bits=4)
    assert stored_weight(grouped, BF16) == grouped
    assert stored_weight(INT4, get_format("FP8")).nominal_bits == 4.125
    assert stored_weight(get_format("INT2"), BF16).nominal_bits == 2.125


def test_the_note_says_which_account_it_is():
    assert weight_counting(INT4, BF16).value("bits") == 4.125
    assert weight_counting(INT4, INT4).value("kind") == "none"
    assert weight_counting(get_format("NVFP4"), BF16) is weight_counting(BF16, BF16) is None
    emulated, native = (predict(gemm(*SHAPE, a="INT4"), chip) for chip in ("h100", "b10"))
    assert with_storage(emulated, "INT4", "INT4").findings[-1] == weight_counting(INT4, INT4)
    assert with_storage(native, "INT4", "INT4") == native  # the table of the original documents


@pytest.mark.parametrize("chip", ["gb10", "h100", "a100"])
def test_the_expected_time_moves_with_the_layout(chip):
    # The expected time is of memory at a large decode product: more bits, more time, about in proportion.
    layouts = [
        INT4.grouped(128),
        INT4.grouped(128, zero_bits=16),
        INT4.grouped(32, zero_bits=16),
        INT4.grouped(16, zero_bits=16),
    ]
    times = [predict_expected(gemm(1, 8192, 8192, a="BF16", b=layout), chip).time_s for layout in layouts]
    assert times == sorted(times)
    assert len(set(times)) == len(times)
    bare = predict_expected(gemm(1, 8192, 8192, a="BF16", b="INT4"), chip)
    assert bare.time_s == times[0]  # no layout told: that of the fitted kernels
