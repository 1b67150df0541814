"""The ideal time of whole tables is the scalar one, row by row."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofline_model import gemm, get_format, get_hardware, predict
from roofline_model.expected.tables.table_ideal import ideal_attention_s, ideal_gemm_s
from roofline_model.ops.attention_ops import attention

sizes = st.integers(1, 20_000)


@settings(max_examples=60)
@given(
    sizes,
    sizes,
    sizes,
    st.sampled_from(
        [("BF16", "BF16"), ("FP8", "FP8"), ("NVFP4", "NVFP4"), ("INT8", "BF16"), ("INT4", "BF16"), ("FP8", "BF16")]
    ),
    st.sampled_from(["h100-sxm", "gb10", "a100-sxm-80gb"]),
)
def test_products(m, n, k, pair, chip):
    weight, activation = pair
    stored = get_format(weight).grouped(128) if weight == "INT4" else weight  # weight-only kernels read group scales
    expected = predict(gemm(m, n, k, a=activation, b=stored, c="BF16"), chip).time_s
    arrays = (np.array([float(size)]) for size in (m, n, k))
    found = ideal_gemm_s(get_hardware(chip), *arrays, weight=weight, activation=activation, output="BF16")
    assert found[0] == pytest.approx(expected, rel=1e-12)


@settings(max_examples=80)
@given(
    st.integers(1, 64),
    st.integers(1, 8),
    st.integers(1, 16),
    st.integers(1, 3000),
    st.integers(-20, 5000) | st.integers(0, 10**9 - 3000),
    st.sampled_from([64, 128, 256]),
    st.booleans(),
    st.none() | st.integers(1, 4000),
    st.sampled_from([("BF16", "BF16"), ("BF16", "FP8"), ("FP8", "FP8"), ("FP8", "BF16")]),
)
def test_attention(batch, kv_heads, group, q_len, before, dim, causal, window, formats):
    activation, kv = formats
    kv_len = max(1, q_len + before)
    if q_len > kv_len:
        causal, window = False, None  # the only call that has fewer keys than queries
    work = attention(
        batch,
        kv_heads * group,
        kv_heads,
        q_len,
        kv_len,
        dim,
        q=activation,
        kv=kv,
        o="BF16",
        causal=causal,
        window=window,
    )
    expected = predict(work, "h100-sxm").time_s
    numbers = [np.array([float(size)]) for size in (batch, kv_heads * group, kv_heads, q_len, kv_len, dim)]
    found = ideal_attention_s(
        get_hardware("h100-sxm"),
        *numbers,
        causal=np.array([float(causal)]),
        window=np.array([np.nan if window is None else float(window)]),
        activation=activation,
        kv=kv,
        output="BF16",
    )
    assert found[0] == pytest.approx(expected, rel=1e-12)
