"""The split of a measured time: hand numbers, and a sum that is exact for any input."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

import roofline_model as rm
from roofline_model.expected.gap import PARTS, explain_gap
from roofline_model.expected.predict import predict_expected
from roofline_model.expected.prediction import NORM_PARTS

TIMES = st.floats(1e-9, 1e3)


def test_a_memory_bound_kernel_by_hand():
    gap = explain_gap(
        measured_s=130e-6,
        ideal_memory_s=80e-6,
        ideal_compute_s=10e-6,
        expected_s=110e-6,
        terms_s={"dram": 95e-6, "tensor": 30e-6, "launch": 5e-6, "cast": 4e-6},
        clock_ratio=0.95,
    )
    parts = dict(gap.parts)
    assert parts["ideal"] == 80e-6
    assert parts["memory"] == pytest.approx(15e-6)
    assert "tiles" not in parts  # 30 µs hide behind 95
    assert parts["launch"] == pytest.approx(5e-6)
    assert parts["widening"] == pytest.approx(4e-6)
    assert parts["supply"] == pytest.approx(6e-6)
    # 101 µs overlap, of which the SMs bind 30⁴ / (30⁴ + 95⁴): 1 % of the 20 % that 0.95⁻⁴ adds, a quarter of it in
    # time.
    share = 30**4 / (30**4 + 95**4)
    assert parts["clock"] == pytest.approx(101e-6 * ((1 - share + share / 0.95**4) ** 0.25 - 1))
    assert parts["clock"] < 0.001 * 110e-6
    assert parts["clock"] + parts["unexplained"] == pytest.approx(20e-6)
    assert gap.largest == "unexplained"


def test_a_compute_bound_kernel_pays_for_tiles():
    gap = explain_gap(
        measured_s=100e-6,
        ideal_memory_s=20e-6,
        ideal_compute_s=60e-6,
        expected_s=100e-6,
        terms_s={"dram": 25e-6, "tensor": 85e-6, "exp": 90e-6, "launch": 2e-6},
    )
    parts = dict(gap.parts)
    assert parts["tiles"] == pytest.approx(25e-6)
    assert parts["exp"] == pytest.approx(5e-6)
    assert parts["supply"] == pytest.approx(8e-6)
    assert "memory" not in parts
    assert "unexplained" not in parts


def test_a_lower_clock_stretches_what_the_sms_bind():
    """100 µs of a product at nine tenths of its clock: 1/0.9 of the tensor pipe and its waves, none of the launch."""
    terms = {"tensor": 96e-6, "waves": 1e-6, "launch": 3e-6}
    slow = {"measured_s": 120e-6, "ideal_memory_s": 1e-6, "ideal_compute_s": 90e-6, "expected_s": 100e-6}
    parts = dict(explain_gap(**slow, terms_s=terms, clock_ratio=0.9).parts)
    assert parts["clock"] == pytest.approx(97e-6 / 9)
    assert parts["unexplained"] == pytest.approx(20e-6 - 97e-6 / 9)
    # Without an expected time the two sides of the ideal roof are all there is to stretch.
    ideal = dict(explain_gap(measured_s=120e-6, ideal_memory_s=0.0, ideal_compute_s=90e-6, clock_ratio=0.9).parts)
    assert ideal["clock"] == pytest.approx(10e-6)


@given(st.floats(1e-7, 1e-1), st.floats(0, 0.2), st.floats(0.5, 0.999), st.floats(1, 3))
def test_a_memory_bound_kernel_has_next_to_no_clock_part(dram_s, sm_ratio, clock_ratio, slower):
    """The SM's term is at most a fifth of the DRAM's: even at half the clock it stays hidden."""
    terms = {"dram": dram_s, "tensor": sm_ratio * dram_s, "l2": sm_ratio * dram_s, "launch": 2e-6}
    expected_s = 2e-6 + dram_s * (1 + 2 * sm_ratio**4) ** 0.25
    gap = explain_gap(
        measured_s=slower * expected_s,
        ideal_memory_s=0.9 * dram_s,
        ideal_compute_s=sm_ratio * dram_s,
        expected_s=expected_s,
        terms_s=terms,
        clock_ratio=clock_ratio,
    )
    assert dict(gap.parts).get("clock", 0.0) <= 0.013 * expected_s


@given(st.floats(1e-7, 1e-1), st.floats(0, 0.2), st.floats(0.5, 0.999), st.floats(1, 3))
def test_a_kernel_bound_by_its_sms_is_slower_by_its_clock(tensor_s, dram_ratio, clock_ratio, slower):
    expected_s = tensor_s * (1 + dram_ratio**4) ** 0.25
    gap = explain_gap(
        measured_s=slower * expected_s,
        ideal_memory_s=dram_ratio * tensor_s,
        ideal_compute_s=0.9 * tensor_s,
        expected_s=expected_s,
        terms_s={"dram": dram_ratio * tensor_s, "tensor": tensor_s},
        clock_ratio=clock_ratio,
    )
    whole_s = expected_s * (1 / clock_ratio - 1)
    clock_s = dict(gap.parts).get("clock", 0.0)
    rounding_s = 1e-12 * expected_s
    assert clock_s <= min(whole_s, (slower - 1) * expected_s) + rounding_s
    assert clock_s >= min(0.99 * whole_s, (slower - 1) * expected_s) - rounding_s


def test_without_an_expected_time_the_rest_is_unexplained():
    gap = explain_gap(measured_s=3e-3, ideal_memory_s=1e-3, ideal_compute_s=2e-3)
    assert dict(gap.parts) == pytest.approx({"ideal": 2e-3, "unexplained": 1e-3})


def test_a_kernel_faster_than_expected_has_a_negative_rest_and_no_clock_part():
    gap = explain_gap(
        measured_s=90e-6,
        ideal_memory_s=80e-6,
        ideal_compute_s=1e-6,
        expected_s=100e-6,
        terms_s={"dram": 95e-6, "launch": 5e-6},
        clock_ratio=0.9,
    )
    parts = dict(gap.parts)
    assert parts["unexplained"] == pytest.approx(-10e-6)
    assert "clock" not in parts


@given(
    TIMES,
    TIMES,
    TIMES,
    st.none() | TIMES,
    st.dictionaries(st.sampled_from(["dram", "tensor", "exp", "launch", "cast", "split", "waves", "l2"]), TIMES),
    st.none() | st.floats(0.01, 2),
)
def test_parts_always_add_up_to_what_was_measured(measured, memory, compute, expected, terms, clock):
    gap = explain_gap(
        measured_s=measured,
        ideal_memory_s=memory,
        ideal_compute_s=compute,
        expected_s=expected,
        terms_s=terms,
        clock_ratio=clock,
    )
    scale = max(measured, memory, compute, expected or 0, *terms.values(), 0)
    assert math.fsum(value for _, value in gap.parts) == pytest.approx(measured, abs=1e-12 * 20 * scale)
    assert [name for name, _ in gap.parts] == [name for name in PARTS if name in dict(gap.parts)]


@pytest.mark.parametrize("Sq", [1, 512])
@pytest.mark.parametrize("kv", ["BF16", "FP8_E4M3"])
@pytest.mark.parametrize("hardware", ["gb10", "a100-sxm-80gb"])
def test_widening_a_cache_overlaps_and_makes_no_part_negative(hardware, kv, Sq):
    """The cache is widened inside the kernel's loop; decoding a weight first is a pass of its own."""
    for B, Skv in ((1, 4096), (16, 32768), (64, 2048)):
        work = rm.attention(B, 32, 8, Sq, Skv, 128, kv=kv)
        ideal, expected = rm.predict_operator(work, hardware), predict_expected(work, hardware, attention_kernel="fa2")
        terms = dict(expected.terms)
        assert "dequantize" not in terms
        assert ("widen_kv" in terms) == (kv == "FP8_E4M3")
        gap = explain_gap(
            measured_s=1.2 * expected.time_s,
            ideal_memory_s=ideal.memory_time_s,
            ideal_compute_s=ideal.compute_time_s,
            expected_s=expected.time_s,
            terms_s=terms,
        )
        assert min(seconds for _, seconds in gap.parts) > -1e-12 * expected.time_s
        assert math.fsum(seconds for _, seconds in expected.parts) == pytest.approx(expected.time_s)


def test_a_part_of_a_time_overlaps_or_adds():
    assert not set(NORM_PARTS) & {"cast", "split", "waves", "dequantize", "launch", "serial", "library", "append"}
