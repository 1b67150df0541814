"""GEMM and GEMV counted by hand, and the laws the counts obey."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline_model import (
    FORMATS,
    InvalidValueError,
    UnknownNameError,
    batched_gemm,
    gemm,
    gemv,
    grouped_gemm,
    parse_shape,
)
from roofline_model.formats.catalog import get_format
from roofline_model.operators.product import MAX_DIMENSION, compute_format

SIZES = st.integers(min_value=1, max_value=5000)
KEYS = st.sampled_from(sorted(FORMATS))


def test_fp16_counts_by_hand() -> None:
    cost = gemm(3, 5, 7).cost
    assert cost.flops == (("FP16", 2 * 3 * 5 * 7),)
    assert dict(cost.read_bytes) == {"A": 3 * 7 * 2, "B": 7 * 5 * 2}
    assert dict(cost.write_bytes) == {"C": 3 * 5 * 2}
    assert cost.total_bytes == 42 + 70 + 30


@pytest.mark.parametrize(
    ("a", "b", "c", "bytes_abc", "computes_in"),
    [
        ("INT8", None, None, (1, 1, 2), "INT8"),  # output defaults to FP16
        ("FP32", None, None, (4, 4, 4), "FP32"),
        ("TF32", None, None, (4, 4, 4), "TF32"),  # stored in 32 bits, output FP32
        ("BF16", "INT4", None, (2, 0.5, 2), "BF16"),  # W4A16 computes in 16 bit
        ("FP8", "INT4", None, (1, 0.5, 2), "FP8_E4M3"),  # W4A8 computes in 8 bit
        ("INT8", "BF16", None, (1, 2, 2), "BF16"),  # the wider operand decides
        ("NVFP4", None, "BF16", (4.53125 / 8, 4.53125 / 8, 2), "NVFP4"),
        ("FP8_E4M3", "FP8_E5M2", "FP32", (1, 1, 4), "FP8_E4M3"),
        ("FP64", None, None, (8, 8, 8), "FP64"),
    ],
)
def test_every_operand_has_its_own_width(
    a: str, b: str | None, c: str | None, bytes_abc: tuple[float, float, float], computes_in: str
) -> None:
    operator = gemm(64, 128, 256, a=a, b=b, c=c)
    assert dict(operator.cost.read_bytes) == {"A": 64 * 256 * bytes_abc[0], "B": 256 * 128 * bytes_abc[1]}
    assert dict(operator.cost.write_bytes) == {"C": 64 * 128 * bytes_abc[2]}
    assert operator.cost.flops == ((computes_in, 2 * 64 * 128 * 256),)


@given(SIZES, SIZES, KEYS, KEYS)
def test_gemv_is_gemm_at_one_row(n: int, k: int, a: str, b: str) -> None:
    assert gemv(n, k, a=a, b=b) == gemm(1, n, k, a=a, b=b)


@given(SIZES, SIZES, SIZES, KEYS)
def test_counts_grow_with_every_dimension_and_with_the_width(m: int, n: int, k: int, key: str) -> None:
    small = gemm(m, n, k, a=key).cost
    for bigger in (gemm(m + 1, n, k, a=key).cost, gemm(m, n + 1, k, a=key).cost, gemm(m, n, k + 1, a=key).cost):
        assert bigger.total_flops > small.total_flops
        assert bigger.total_bytes > small.total_bytes
    wide = gemm(m, n, k, a="FP64").cost
    assert wide.total_flops == small.total_flops
    assert wide.total_read_bytes >= small.total_read_bytes


@given(SIZES, SIZES, SIZES)
def test_transposing_the_product_swaps_the_operands(m: int, n: int, k: int) -> None:
    assert gemm(m, n, k).cost.total_bytes == gemm(n, m, k).cost.total_bytes


def test_names_follow_the_number_of_rows() -> None:
    assert gemm(16, 64, 64).op == "gemv"
    assert gemm(17, 64, 64).op == "gemm"
    assert gemm(2, 64, 64).shape == (("M", 2), ("N", 64), ("K", 64))


def test_a_batch_is_that_many_products() -> None:
    single, many = gemm(8, 16, 32, a="INT8"), batched_gemm(5, 8, 16, 32, a="INT8")
    assert many.cost == single.cost * 5
    assert many.shape[0] == ("batch", 5)


def test_an_expert_without_tokens_costs_nothing() -> None:
    with_idle = grouped_gemm([(4, 64, 32), (0, 64, 32), (2, 64, 32)])
    assert with_idle.cost == gemm(4, 64, 32).cost + gemm(2, 64, 32).cost
    assert dict(with_idle.shape) == {"groups": 3, "M": 6, "N": 64, "K": 32}


@pytest.mark.parametrize("groups", [[], [(0, 64, 32)]])
def test_a_group_without_work_is_refused(groups: list[tuple[int, int, int]]) -> None:
    with pytest.raises(InvalidValueError):
        grouped_gemm(groups)


@pytest.mark.parametrize("wrong", [0, -1, 1.5, "8", True, None, MAX_DIMENSION + 1])
@pytest.mark.parametrize("name", ["M", "N", "K"])
def test_bad_dimensions_are_refused_by_name(name: str, wrong: object) -> None:
    sizes = {"M": 8, "N": 8, "K": 8, name: wrong}
    with pytest.raises(InvalidValueError, match=name):
        gemm(**sizes)  # type: ignore[arg-type]


def test_gemv_stops_at_sixteen_rows() -> None:
    assert gemv(64, 64, M=16).op == "gemv"
    with pytest.raises(InvalidValueError, match="use gemm"):
        gemv(64, 64, M=17)


def test_unknown_formats_name_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="INT4"):
        gemm(8, 8, 8, a="INT5")


def test_shapes_are_parsed() -> None:
    assert parse_shape("1x4096x11008") == (1, 4096, 11008)
    assert parse_shape(" 16 X 32 X 64 ") == (16, 32, 64)


@pytest.mark.parametrize(
    "text", ["", "4096", "1x2", "1x2x3x4", "ax2x3", "0x2x3", "-1x2x3", "1.5x2x3", "1x2x9999999999", "١x2x3"]
)
def test_wrong_shapes_are_refused(text: str) -> None:
    with pytest.raises(InvalidValueError):
        parse_shape(text)


@given(KEYS, KEYS)
def test_the_compute_format_is_one_of_the_operands_and_the_wider_one(a: str, b: str) -> None:
    chosen = compute_format(get_format(a), get_format(b))
    assert chosen in (a, b)
    assert get_format(chosen).element_bits == max(get_format(a).element_bits, get_format(b).element_bits)
