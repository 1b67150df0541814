"""OpCost: exact sums, scaling, and refusal of anything that is not a count."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline_model import InvalidValueError, OpCost, total_cost

COUNTS = st.integers(min_value=0, max_value=10**12)
COSTS = st.builds(
    OpCost,
    st.dictionaries(st.sampled_from(["BF16", "INT8", "FP32"]), COUNTS, max_size=3),
    st.dictionaries(st.sampled_from(["A", "B"]), COUNTS, max_size=2),
    st.dictionaries(st.sampled_from(["C", "D"]), COUNTS, max_size=2),
)


def test_plain_numbers_make_a_complete_cost() -> None:
    cost = OpCost(flops=2e9, read_bytes=1e6, write_bytes=1e3)
    assert (cost.total_flops, cost.total_read_bytes, cost.total_write_bytes) == (2e9, 1e6, 1e3)
    assert cost.total_bytes == 1_001_000
    assert cost.intensity_flop_per_byte == 2e9 / 1_001_000


def test_mappings_are_stored_sorted_so_that_equal_costs_are_equal() -> None:
    assert OpCost({"INT8": 2, "BF16": 1}) == OpCost({"BF16": 1, "INT8": 2})
    assert hash(OpCost({"INT8": 2, "BF16": 1})) == hash(OpCost({"BF16": 1, "INT8": 2}))


def test_adding_sums_by_name() -> None:
    both = OpCost({"BF16": 1}, {"A": 10}, {"C": 5}) + OpCost({"BF16": 2, "INT8": 3}, {"B": 20}, {"C": 7})
    assert both == OpCost({"BF16": 3, "INT8": 3}, {"A": 10, "B": 20}, {"C": 12})


@given(COSTS, COSTS, COSTS)
def test_addition_is_commutative_and_associative(a: OpCost, b: OpCost, c: OpCost) -> None:
    assert a + b == b + a
    assert (a + b) + c == a + (b + c)
    assert (a + b).total_flops == a.total_flops + b.total_flops
    assert (a + b).total_bytes == a.total_bytes + b.total_bytes


@given(COSTS, st.integers(min_value=1, max_value=7))
def test_times_n_is_n_additions_and_keeps_the_intensity(cost: OpCost, n: int) -> None:
    assert cost * n == total_cost([cost] * n) == n * cost
    assert (cost * n).intensity_flop_per_byte == pytest.approx(cost.intensity_flop_per_byte)


def test_the_empty_sum_is_the_zero_cost() -> None:
    assert total_cost([]) == OpCost()
    assert OpCost().total_bytes == 0
    assert OpCost() + OpCost(1, 2, 3) == OpCost(1, 2, 3)


def test_limits_of_the_intensity() -> None:
    assert OpCost(flops=5).intensity_flop_per_byte == math.inf
    assert OpCost(read_bytes=5).intensity_flop_per_byte == 0
    assert OpCost().intensity_flop_per_byte == 0


@pytest.mark.parametrize("wrong", [-1, math.nan, math.inf, "5", True, None])
@pytest.mark.parametrize("field", ["flops", "read_bytes", "write_bytes"])
def test_wrong_amounts_are_refused_by_name(field: str, wrong: object) -> None:
    with pytest.raises(InvalidValueError, match=field):
        OpCost(**{field: {"x": wrong}})  # type: ignore[arg-type]


def test_adding_something_else_is_a_type_error() -> None:
    with pytest.raises(TypeError):
        OpCost() + 1  # type: ignore[operator]
