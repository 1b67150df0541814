"""One product as numbers: what an array of one is."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline_model import get_hardware, list_hardware
from roofline_model.core.errors import InvalidValueError, UnsupportedError
from roofline_model.expected.products.formula import hit_share
from roofline_model.expected.products.parameters import rotated_copies
from roofline_model.expected.products.product import ProductModel

CHIPS = [device.key for device in list_hardware()]
FORMATS = ("FP16", "BF16", "FP8_E4M3", "INT8", "NVFP4", "MXFP4", "INT4", "NF4", "FP32")
ROWS = st.one_of(st.integers(1, 20), st.sampled_from([64, 127, 128, 129, 256, 257, 2048]), st.integers(1, 100_000))
SIZES = st.one_of(st.integers(1, 600), st.integers(8, 512).map(lambda n: 64 * n), st.integers(1, 300_000))
POSITIVE = st.floats(1e-12, 1e12)


@given(
    st.sampled_from(CHIPS),
    st.sampled_from(FORMATS),
    st.sampled_from(FORMATS),
    ROWS,
    SIZES,
    SIZES,
    st.sampled_from(["cold", "warm"]),
    st.booleans(),
)
def test_one_is_an_array_of_one(chip, weight, activation, m, n, k, cache, quantizes):
    try:
        model = ProductModel.of(get_hardware(chip), weight=weight, activation=activation, output="FP16")
    except UnsupportedError:
        return
    batch = model.expected([m], n, k, cache=cache, quantizes_activations=quantizes)
    call = model.expected(m, n, k, cache=cache, quantizes_activations=quantizes)
    for name in ("time_s", "low_s", "high_s"):
        assert getattr(call, name) == pytest.approx(getattr(batch, name)[0], rel=1e-12)
    assert (call.binding, call.kernel, call.provenance) == (batch.binding, batch.kernel, batch.provenance)
    assert list(call.parts) == list(batch.parts)
    assert sum(call.additive_parts().values()) == pytest.approx(call.time_s, rel=1e-9)
    assert all(type(value) is float for value in (call.time_s, call.low_s, call.high_s, *call.parts.values()))


@pytest.mark.parametrize("size", [0, -1, 1.5, 2e9, math.inf])
@pytest.mark.parametrize("name", ["M", "N", "K"])
def test_a_size_that_is_none_is_refused_alike(name, size):
    model = ProductModel.of(get_hardware("h100"), weight="BF16", activation="BF16", output="BF16")
    sizes = {"M": 4, "N": 64, "K": 64, name: size}
    with pytest.raises(InvalidValueError, match=name) as of_one:
        model.expected(**sizes)
    with pytest.raises(InvalidValueError) as of_array:
        model.expected(**{axis: [size] for axis, size in sizes.items()})
    assert str(of_one.value) == str(of_array.value)


@given(st.one_of(POSITIVE, st.just(math.inf)), POSITIVE)
def test_what_the_cache_serves(touched, capacity):
    share = hit_share(touched, capacity, 12.0)
    assert share == hit_share(np.array([touched]), capacity, 12.0)[0]
    assert share == 0 if math.isinf(touched) else 0 < share <= 1


@given(st.sampled_from(["BF16", "NVFP4"]), SIZES, SIZES)
def test_copies_of_a_benchmark(family, n, k):
    from roofline_model.expected.chip import ChipSpec

    chip = ChipSpec.of(get_hardware("h100"), "BF16")
    assert rotated_copies(chip, family, float(n), float(k)) == rotated_copies(chip, family, [n], [k])[0]
