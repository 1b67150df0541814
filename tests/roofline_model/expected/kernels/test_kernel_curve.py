"""Curves through measured times: exact at their points, sensible between and beyond, and back from text unchanged."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline_model.chips.curve import (
    LOOK_SD_RATIO,
    MOST_LOOKS,
    CurvePoint,
    KernelCurve,
    TimedCall,
    WorkSize,
    curves_from_dict,
    curves_to_dict,
    kernel_curves,
    work_size,
)
from roofline_model.core.errors import DefinitionError, InvalidValueError
from roofline_model.operators.attention import attention
from roofline_model.operators.elementwise import rmsnorm
from roofline_model.operators.product import gemm

FORMATS = ("BF16", "BF16", "BF16")


def curve(points):
    regimes = {
        regime: tuple(CurvePoint(units, (seconds,)) for units, seconds in pairs) for regime, pairs in points.items()
    }
    return KernelCurve("product", "matmul", FORMATS, regimes, 0.1)


def product(rows, units):
    return WorkSize("product", FORMATS, str(rows), float(units))


def timed(seconds, M=1, N=64, K=64, kernel="matmul"):
    return TimedCall(gemm(M, N, K, a="BF16"), kernel, seconds)


@pytest.mark.parametrize(
    ("points", "times_s"),
    [
        # the geometric middle of both points
        ({"1": [(1e6, 1e-5), (4e6, 9e-5)]}, {(1, 1e6): 1e-5, (1, 4e6): 9e-5, (1, 2e6): 3e-5}),
        # between two counts of rows a power of the rows, beyond them in proportion
        ({"2": [(1e6, 1e-5)], "8": [(1e6, 4e-5)]}, {(4, 1e6): 2e-5, (32, 1e6): 16e-5, (1, 1e6): 1e-5}),
    ],
    ids=["units", "rows"],
)
def test_between_two_points_time_is_a_power_law(points, times_s):
    rising = curve(points)
    assert {size: rising.time_s(product(*size)) for size in times_s} == pytest.approx(times_s)


def test_beyond_the_last_point_time_grows_with_the_units_and_before_the_first_a_fixed_cost_stays():
    rising = curve({"1": [(1e6, 2e-5), (3e6, 4e-5)]})
    assert rising.time_s(product(1, 6e6)) == pytest.approx(8e-5)
    # The line through both points begins at 10 µs.
    assert rising.time_s(product(1, 5e5)) == pytest.approx(1e-5 + 0.5e-5)
    assert rising.time_s(product(1, 1)) == pytest.approx(1e-5, rel=1e-4)
    # A line that begins below zero: nothing is fixed.
    assert curve({"1": [(1e6, 1e-5), (2e6, 4e-5)]}).time_s(product(1, 5e5)) == pytest.approx(0.5e-5)
    assert curve({"1": [(1e6, 1e-5)]}).time_s(product(1, 3e6)) == pytest.approx(3e-5)


@given(st.floats(1e3, 1e9), st.floats(1e3, 1e9), st.integers(1, 4096))
def test_more_units_never_take_less_time_where_the_points_rise(first_count, other, rows):
    rising = curve({"1": [(1e6, 1e-5), (4e6, 3e-5)], "8": [(1e6, 2e-5), (4e6, 9e-5)]})
    low, high = sorted((first_count, other))
    assert 0 < rising.time_s(product(rows, low)) <= rising.time_s(product(rows, high)) * (1 + 1e-12)


def test_a_curve_fits_only_its_own_work_and_regimes():
    rising = curve({"1": [(1e6, 1e-5)]})
    assert rising.fits(product(5, 10))
    assert not rising.fits(replace(product(5, 10), formats=("FP16",) * 3))
    prefill = KernelCurve("attention-prefill", "sdpa", FORMATS, {"causal": (CurvePoint(1e6, (1e-5,)),)}, 0.1)
    size = WorkSize("attention-prefill", FORMATS, "full", 1e6)
    assert not prefill.fits(size)
    assert prefill.fits(replace(size, regime="causal"))


def test_works_are_sized_by_what_their_time_grows_with():
    assert work_size(gemm(8, 32, 64, a="BF16")) == WorkSize("product", FORMATS, "8", 2048.0)
    assert work_size(gemm(64, 32, 64, a="BF16")).family == "product"  # gemv and gemm are one
    decode = attention(1, 8, 2, 1, 256, 64)
    assert work_size(decode) == WorkSize("attention-decode", FORMATS, "any", decode.cost.total_flops)
    masks = [({"causal": True}, "causal"), ({}, "full"), ({"causal": True, "window": 64}, "window")]
    assert [work_size(attention(1, 8, 2, 256, 256, 64, **mask)).regime for mask, _ in masks] == [
        name for _, name in masks
    ]
    norm = rmsnorm(16, 64)
    assert (work_size(norm).regime, work_size(norm).unit_count) == ("any", norm.cost.total_bytes)


def test_curves_come_from_timed_calls_and_survive_json():
    calls = [timed(1e-5 * units, N=64 * units) for units in (1, 2, 4)] + [timed(7e-5, M=8), timed(1e-6, kernel="other")]
    curves = kernel_curves(calls)
    assert [(kernel_curve.kernel, kernel_curve.point_count) for kernel_curve in curves] == [("matmul", 4), ("other", 1)]
    assert curves[0].time_s(work_size(gemm(1, 128, 64, a="BF16"))) == pytest.approx(2e-5)
    assert curves_from_dict(json.loads(json.dumps(curves_to_dict(curves))), "x.toml") == curves


def test_the_median_of_the_last_five_looks_counts():
    curves = ()
    for seconds in (9e-5, 1e-5, 2e-5, 3e-5, 2.5e-5, 9e-4):
        curves = kernel_curves([timed(seconds)], curves)
    looks = curves[0].points["1"][0]
    assert looks.looks_s == (1e-5, 2e-5, 3e-5, 2.5e-5, 9e-4)
    assert len(looks.looks_s) == MOST_LOOKS
    assert looks.time_s == 2.5e-5
    # What was not timed this time stays.
    assert len(kernel_curves([timed(1e-5, kernel="other")], curves)) == 2


def test_the_scatter_is_the_error_at_sizes_left_out_and_that_of_another_hour():
    exact = kernel_curves([timed(1e-5 * units, N=64 * units) for units in (1, 2, 4)])[0]
    assert exact.sd_ratio == pytest.approx(LOOK_SD_RATIO * math.sqrt(2), rel=1e-4)  # this look and the next
    # The middle point lies 40 % above the power law through its neighbours.
    bent = kernel_curves([timed(1e-5), timed(2.8e-5, N=128), timed(4e-5, N=256)])[0]
    assert bent.sd_ratio == pytest.approx(math.sqrt(math.log(1.4) ** 2 + 2 * LOOK_SD_RATIO**2), rel=1e-4)
    assert bent.interval_ratio == pytest.approx(math.exp(1.2816 * bent.sd_ratio))


def test_a_machine_that_repeats_itself_narrows_the_interval_and_a_restless_one_widens_it():
    def after(looks):
        curves = ()
        for factor in looks:
            curves = kernel_curves([timed(factor * 1e-5 * n, N=64 * n) for n in range(1, 21)], curves)
        return curves[0].sd_ratio

    first = after([1.0])
    assert after([1.0, 1.0, 1.0]) < 0.6 * first
    assert after([1.0, 1.5, 0.7]) > 2 * first
    # Many looks outweigh the prior: the spread of ln(1.5), 0 and ln(0.7) is 0.38, with three looks times sqrt(4/3).
    assert after([1.0, 1.5, 0.7]) == pytest.approx(0.383 * math.sqrt(4 / 3), rel=0.15)


@pytest.mark.parametrize("seconds", [0.0, -1.0, math.nan, math.inf])
def test_a_time_that_is_none_is_refused(seconds):
    with pytest.raises(InvalidValueError, match="matmul: a measured time must be positive"):
        kernel_curves([timed(seconds)])


GOOD = {"product matmul BF16.BF16.BF16": {"sd_ratio": 0.1, "points": {"1": [[10, 1e-5], [20, 2e-5, 3e-5]]}}}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda all_: all_.update({"product matmul": {}}), "must be named"),
        (lambda all_: next(iter(all_.values())).update(extra=1), "has an unknown field 'extra'"),
        (lambda all_: next(iter(all_.values())).update(sd_ratio=-1), "sd_ratio must be a number from"),
        (lambda all_: next(iter(all_.values())).update(points={}), "at least one regime"),
        (lambda all_: next(iter(all_.values()))["points"].update(causal=[[1, 1]]), "keyed by row counts"),
        (lambda all_: next(iter(all_.values()))["points"].update({"1": [[1]]}), r"lists \[units, seconds"),
        (lambda all_: next(iter(all_.values()))["points"].update({"1": []}), "must be a list"),
        (lambda all_: next(iter(all_.values()))["points"].update({"1": [[2, 1], [1, 1]]}), "rising units"),
        (lambda all_: next(iter(all_.values())).update(sd_ratio=10**400), "sd_ratio is 1.*, not a number"),
        (lambda all_: next(iter(all_.values())).update(sd_ratio=1e6), "sd_ratio must be a number from"),
        (lambda all_: next(iter(all_.values()))["points"].update({"0001": [[1, 1]]}), "keyed by row counts"),
        (lambda all_: next(iter(all_.values()))["points"].update({"1" * 5000: [[1, 1]]}), "keyed by row counts"),
        (lambda all_: next(iter(all_.values()))["points"].update({"1": [[1e-300, 1e300]]}), "must be a number from"),
        (
            lambda all_: all_.update({"attention-decode x BF16": {"sd_ratio": 0.1, "points": {"1": [[1, 1]]}}}),
            "keyed by a word",
        ),
        (lambda all_: next(iter(all_.values()))["points"].update({"1": [[2, "x"]]}), "is 'x', not a number"),
    ],
)
def test_a_damaged_table_is_refused_by_name(change, message):
    table = json.loads(json.dumps(GOOD))
    assert len(curves_from_dict(table, "mine.toml")) == 1
    change(table)
    with pytest.raises(DefinitionError, match=rf"mine\.toml: \[calibration\.kernels\].*{message}"):
        curves_from_dict(table, "mine.toml")
