from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench_cases.kernels.attention.spec import mask_kind, stored_keys, visible_keys
from bench_cases.selection import products_only
from bench_cases.shapes.attention import (
    FULL_DECODE,
    FULL_PREFILL,
    LATENT_MODELS,
    STANDARD_DECODE,
    STANDARD_PREFILL,
    WINDOWED_MODELS,
    attention_shapes,
)
from bench_cases.shapes.operators import operator_shapes
from bench_cases.shapes.products import STANDARD_MODELS, models
from roofline_model.core.errors import UnknownNameError
from roofline_model.core.finding import finding
from roofline_model.operators.attention_shape import visible_pairs


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("name", ["quick", "STANDARD", "full", "llm:gemma-3-1b"])
def test_sets_hold_each_size_once_with_an_origin_and_both_phases(name, device):
    shapes = attention_shapes(name, device)
    assert len({shape.size for shape in shapes}) == len(shapes) > 0
    assert all(shape.origin for shape in shapes)
    assert {shape.query_count == 1 for shape in shapes} == {True, False}
    assert {shape.causal for shape in shapes if shape.query_count > 1} == {True, False}
    operators = operator_shapes(name, device)
    assert len({(shape.op, shape.sizes) for shape in operators}) == len(operators) > 0
    assert {"softmax", "rmsnorm", "residual_add", "rope", "quantize", "dequantize"} <= {s.op for s in operators}


def test_full_holds_standard():
    assert {s.size for s in attention_shapes("standard")} <= {s.size for s in attention_shapes("full")}
    assert set(STANDARD_PREFILL) <= set(FULL_PREFILL)
    assert set(STANDARD_DECODE) <= set(FULL_DECODE)
    assert {s.origin.split()[0] for s in attention_shapes("standard")} >= {"llama-3-8b", "llama-3-70b", "phi-2"}
    assert {s.origin.split()[0] for s in attention_shapes("standard")} <= {
        *STANDARD_MODELS,
        *WINDOWED_MODELS,
        *LATENT_MODELS,
    }
    assert {s.window_size for s in attention_shapes("standard")} == {None, 128}


def test_heads_and_windows_are_the_models():
    gemma = models()["gemma-3-1b"]
    shapes = attention_shapes("llm:gemma-3-1b")
    assert {(s.query_heads, s.kv_heads, s.head_dim) for s in shapes} == {
        (gemma.query_heads, gemma.kv_heads, gemma.head_dim)
    }
    # Its layers have a window of 512 or none: beyond 512 keys both are run, up to 512 they are the same attention.
    assert {s.window_size for s in shapes if s.kv_count > 512} == {None, 512}
    assert {s.window_size for s in shapes if s.kv_count <= 512} == {None}
    phi = [s for s in attention_shapes("llm:phi-3-mini-4k") if s.kv_count > 2047 and s.causal]
    assert {s.window_size for s in phi} == {2047}  # every layer has it


def test_no_shape_is_longer_than_the_context():
    short = attention_shapes("llm:phi-2")
    assert max(s.kv_count for s in short) <= models()["phi-2"].max_context_size == 2048


def test_latent_attention_has_a_form_for_each_phase_and_operators():
    forms = {(s.query_count == 1, s.values) for s in attention_shapes("llm:deepseek-v3")}
    assert forms == {(True, "latent"), (False, "narrow")}
    assert {s.values for s in attention_shapes("llm:llama-3-8b")} == {"equal"}
    assert "rope" not in {s.op for s in operator_shapes("llm:deepseek-v3")}
    assert "ffn" in {s.op for s in operator_shapes("llm:deepseek-v3")}


def test_only_swiglu_models_have_a_swiglu_block():
    assert "ffn" not in {s.op for s in operator_shapes("llm:phi-2")}  # plain GELU, layernorm
    assert "rmsnorm" not in {s.op for s in operator_shapes("llm:phi-2")}
    assert "ffn" not in {s.op for s in operator_shapes("llm:gemma-3-1b")}  # GeGLU


@pytest.mark.parametrize("text", ["1x4096x4096", "1x2x3,4x5x6", "my.csv", "-1x2x3"])
def test_sizes_of_products_select_products_and_say_so(text):
    assert attention_shapes(text) == ()
    assert operator_shapes(text) == ()
    assert products_only(text) == finding("shapes-of-products", shapes=text)


def test_sets_say_nothing_and_unknown_models_are_refused():
    assert products_only("quick") is None
    assert products_only("llm:microsoft/phi-2.csv") is None
    with pytest.raises(UnknownNameError, match="phi-2"):
        attention_shapes("llm:phi-222")


def test_quick_stays_small():
    from bench_cases.kernels.attention.catalog import attention_cases
    from bench_cases.kernels.operators.catalog import operator_cases

    assert len(attention_cases("cpu", attention_shapes("quick"))) <= 12
    assert len(operator_cases("cpu", operator_shapes("quick"))) <= 10


@given(
    Sq=st.integers(1, 40),
    before=st.integers(0, 40),
    causal=st.booleans(),
    window=st.one_of(st.none(), st.integers(1, 50)),
)
def test_the_keys_of_each_query_add_up_to_the_visible_pairs(Sq, before, causal, window):
    sizes = {"Sq": Sq, "Skv": Sq + before, "causal": int(causal), "window": window or 0}
    spans = [visible_keys(sizes, query) for query in range(Sq)]
    assert all(0 <= first < last <= stored_keys(sizes) for first, last in spans)
    assert sum(last - first for first, last in spans) == visible_pairs(Sq, Sq + before, causal=causal, window=window)
    sees_all = all(span == (0, stored_keys(sizes)) for span in spans)
    assert sees_all or mask_kind(sizes) != "none"
    if mask_kind(sizes) == "causal":
        assert spans == [(0, query + 1) for query in range(Sq)]
