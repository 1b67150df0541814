"""Elementary functions round a number as an array of it."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from roofline_model.core.elementwise import (
    ceiling,
    choose,
    cube_root,
    exponential,
    larger,
    log2,
    smaller,
    square_root,
    to_power,
)

POSITIVE = st.floats(1e-12, 1e12)


@given(POSITIVE, POSITIVE, st.sampled_from([3, 4, 10.0, 12.0, 40.0]))
def test_numbers_and_arrays_round_alike(x, limit, exponent):
    array = np.array([x])
    for of_number, of_array in (
        (ceiling(x), ceiling(array)),
        (larger(x, limit), larger(array, limit)),
        (smaller(x, limit), smaller(array, limit)),
        (to_power(x / 1e12, exponent), to_power(array / 1e12, exponent)),
        (log2(x), log2(array)),
        (exponential(x / 1e12), exponential(array / 1e12)),
        (square_root(x), square_root(array)),
        (cube_root(x), cube_root(array)),
        (choose(x > limit, x, limit), choose(array > limit, array, limit)),
    ):
        assert isinstance(of_number, float)
        assert of_number == of_array[0]
