"""The ideal time of attention over whole tables is the scalar one, row by row."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline_model import get_hardware, predict
from roofline_model.operators.attention import attention
from roofline_model.validation.table_ideal import ideal_attention_s


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
    times_s = ideal_attention_s(
        get_hardware("h100-sxm"),
        *numbers,
        causal=np.array([float(causal)]),
        window=np.array([np.nan if window is None else float(window)]),
        activation=activation,
        kv=kv,
        output="BF16",
    )
    assert times_s[0] == pytest.approx(expected, rel=1e-12)
