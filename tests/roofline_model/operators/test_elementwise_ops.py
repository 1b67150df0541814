"""Elementwise operators counted by hand."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline_model import InvalidValueError, Operator, get_hardware, list_hardware, predict
from roofline_model.operators.elementwise import gelu, residual_add, residual_rmsnorm, rmsnorm, rope, silu_mul, softmax

ALL: dict[str, Callable[..., Operator]] = {
    "softmax": softmax,
    "rmsnorm": rmsnorm,
    "residual_add": residual_add,
    "residual_rmsnorm": residual_rmsnorm,
    "rope": rope,
    "silu_mul": silu_mul,
    "gelu": gelu,
}


@pytest.mark.parametrize(
    ("name", "flops", "reads", "writes"),
    [
        ("softmax", 5, {"X": 1}, {"Y": 1}),
        ("rmsnorm", 5, {"X": 1}, {"Y": 1}),
        ("residual_add", 1, {"X": 1, "residual": 1}, {"Y": 1}),
        ("residual_rmsnorm", 6, {"X": 1, "residual": 1}, {"Y": 1, "sum": 1}),
        ("rope", 6, {"X": 1}, {"Y": 1}),
        ("silu_mul", 3, {"gate": 1, "up": 1}, {"Y": 1}),
        ("gelu", 9, {"X": 1}, {"Y": 1}),
    ],
)
def test_counts_by_hand(name: str, flops: int, reads: dict[str, int], writes: dict[str, int]) -> None:
    operator = ALL[name](7, 96, a="BF16")
    size = 7 * 96 * 2
    assert operator.op == name
    assert operator.shape == (("rows", 7), ("width", 96))
    assert operator.cost.flops == (("FP32", flops * 7 * 96),)
    assert dict(operator.cost.read_bytes) == {key: count * size for key, count in reads.items()}
    assert dict(operator.cost.write_bytes) == {key: count * size for key, count in writes.items()}


@pytest.mark.parametrize("name", ["softmax", "rmsnorm", "residual_rmsnorm", "silu_mul", "gelu"])
def test_a_fused_cast_narrows_what_is_written(name: str) -> None:
    operator = ALL[name](4, 64, a="BF16", o="FP8")
    assert dict(operator.cost.write_bytes)["Y"] == 4 * 64
    assert operator.formats == (("x", "BF16"), ("o", "FP8_E4M3"))
    assert operator.cost.read_bytes == ALL[name](4, 64, a="BF16").cost.read_bytes


def test_the_gain_is_read_once_for_all_rows() -> None:
    for norm in (rmsnorm, residual_rmsnorm):
        with_gain = norm(100, 4096, gain="FP32")
        assert dict(with_gain.cost.read_bytes)["gain"] == 4096 * 4
        assert dict(with_gain.formats)["gain"] == "FP32"
        assert with_gain.cost.total_bytes - norm(100, 4096).cost.total_bytes == 4096 * 4


@given(st.integers(min_value=1, max_value=10**4), st.integers(min_value=1, max_value=10**4))
def test_fusing_residual_and_norm_saves_one_read(rows: int, width: int) -> None:
    apart = residual_add(rows, width).cost + rmsnorm(rows, width).cost
    fused = residual_rmsnorm(rows, width).cost
    assert fused.total_flops == apart.total_flops
    assert apart.total_bytes - fused.total_bytes == rows * width * 2


@pytest.mark.parametrize("name", sorted(ALL))
@given(st.integers(min_value=1, max_value=2000), st.integers(min_value=1, max_value=2000))
def test_rows_and_width_are_interchangeable_and_additive(name: str, rows: int, width: int) -> None:
    operator = ALL[name]
    assert operator(rows, width).cost == operator(width, rows).cost
    assert operator(rows, width).cost + operator(rows, width).cost == operator(2 * rows, width).cost


def test_double_precision_computes_in_double_precision() -> None:
    assert [name for name, _ in rmsnorm(4, 64, a="FP64").cost.flops] == ["FP64"]
    assert [name for name, _ in rmsnorm(4, 64, a="FP8", o="BF16").cost.flops] == ["FP32"]


@pytest.mark.parametrize("key", [chip.key for chip in list_hardware()])
def test_memory_bounds_them_on_every_shipped_chip(key: str) -> None:
    device = get_hardware(key)
    for operator in ALL.values():
        assert predict(operator(4096, 4096, a="BF16"), device).bound == "memory"


@pytest.mark.parametrize("name", sorted(ALL))
def test_wrong_sizes_and_formats_are_refused(name: str) -> None:
    for rows, width, field in ((0, 4, "rows"), (4, 0, "width"), (1.5, 4, "rows"), (4, None, "width")):
        with pytest.raises(InvalidValueError, match=field):
            ALL[name](rows, width)
    with pytest.raises(InvalidValueError, match="a=NF4"):
        ALL[name](4, 4, a="NF4")
