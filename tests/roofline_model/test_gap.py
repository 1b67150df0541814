"""The split of a measured time: hand numbers, and a sum that is exact for any input."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline_model.gap import LABELS, explain_gap

TIMES = st.floats(1e-9, 1e3)


def test_a_memory_bound_kernel_by_hand():
    found = explain_gap(
        measured_s=130e-6, ideal_memory_s=80e-6, ideal_compute_s=10e-6, expected_s=110e-6,
        terms_s={"dram": 95e-6, "tensor": 30e-6, "launch": 5e-6, "cast": 4e-6}, clock_ratio=0.95,
    )  # fmt: skip
    parts = dict(found.parts)
    assert parts["ideal"] == 80e-6
    assert parts["memory"] == pytest.approx(15e-6)
    assert "tiles" not in parts  # 30 µs hide behind 95
    assert parts["launch"] == pytest.approx(5e-6)
    assert parts["widening"] == pytest.approx(4e-6)
    assert parts["supply"] == pytest.approx(6e-6)
    assert parts["clock"] == pytest.approx(6.5e-6)
    assert parts["unexplained"] == pytest.approx(13.5e-6)
    assert found.largest == "memory"


def test_a_compute_bound_kernel_pays_for_tiles():
    found = explain_gap(
        measured_s=100e-6, ideal_memory_s=20e-6, ideal_compute_s=60e-6, expected_s=100e-6,
        terms_s={"dram": 25e-6, "tensor": 85e-6, "exp": 90e-6, "launch": 2e-6},
    )  # fmt: skip
    parts = dict(found.parts)
    assert parts["tiles"] == pytest.approx(25e-6)
    assert parts["exp"] == pytest.approx(5e-6)
    assert parts["supply"] == pytest.approx(8e-6)
    assert "memory" not in parts
    assert "unexplained" not in parts


def test_without_an_expected_time_the_rest_is_unexplained():
    found = explain_gap(measured_s=3e-3, ideal_memory_s=1e-3, ideal_compute_s=2e-3)
    assert dict(found.parts) == pytest.approx({"ideal": 2e-3, "unexplained": 1e-3})


def test_a_kernel_faster_than_expected_has_a_negative_rest_and_no_clock_part():
    found = explain_gap(
        measured_s=90e-6, ideal_memory_s=80e-6, ideal_compute_s=1e-6, expected_s=100e-6,
        terms_s={"dram": 95e-6, "launch": 5e-6}, clock_ratio=0.9,
    )  # fmt: skip
    parts = dict(found.parts)
    assert parts["unexplained"] == pytest.approx(-10e-6)
    assert "clock" not in parts


@given(
    TIMES, TIMES, TIMES, st.none() | TIMES,
    st.dictionaries(st.sampled_from(["dram", "tensor", "exp", "launch", "cast", "split", "waves", "l2"]), TIMES),
    st.none() | st.floats(0.01, 2),
)  # fmt: skip
def test_parts_always_add_up_to_what_was_measured(measured, memory, compute, expected, terms, clock):
    found = explain_gap(
        measured_s=measured, ideal_memory_s=memory, ideal_compute_s=compute, expected_s=expected, terms_s=terms, clock_ratio=clock
    )  # fmt: skip
    scale = max(measured, memory, compute, expected or 0, *terms.values(), 0)
    assert math.fsum(value for _, value in found.parts) == pytest.approx(measured, abs=1e-12 * 20 * scale)
    assert [name for name, _ in found.parts] == [name for name in LABELS if name in dict(found.parts)]
