"""Facts of whole models read from records: typed where they are what they should be, None where they are not."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from results.records.model_figures import Interval, model_figures
from results.records.records import Record
from roofline_model.operators.case import Case

CASE = Case(
    "decode:m", (("B", 4), ("Sq", 1), ("Skv", 128)), (("a", "BF16"), ("b", "INT4"), ("kv", "INT8")), "torchao", "warm"
)
EXTRA = {
    "model": {"name": "m", "precision": "INT4", "phase": "decode", "method": "AWQ", "is_emulated": True},
    "tokens_per_call": 4,
    "memory": {"original_bytes": 100, "held_bytes": 30, "stated_bytes": 29, "cache_bytes": 8, "peak_bytes": None, "process_bytes": 400},
    "quality": {"source": "measured", "text": "a book", "is_language": True, "tokens_count": 1016, "kl_nats_per_token": {"value": 0.03, "low": 0.02, "high": None}},
}  # fmt: skip
RECORD = Record(
    record_id="r", run_id="u", case=CASE, status="measured", reason="", test_id="t", created_at="now", extra=EXTRA
)


def test_every_fact_is_found():
    figures = model_figures(RECORD)
    assert figures is not None
    assert (figures.model_name, figures.precision, figures.method, figures.kv_format) == ("m", "INT4", "AWQ", "INT8")
    assert (figures.batch_count, figures.context_count, figures.tokens_per_call) == (4, 128, 4)
    assert (figures.original_bytes, figures.held_bytes, figures.peak_bytes, figures.resident_bytes) == (
        100,
        30,
        None,
        38,
    )
    assert figures.kl_nats_per_token == Interval(0.03, 0.02, None)
    assert figures.perplexity_ratio is None
    assert (figures.is_emulated, figures.is_language, figures.tokens_per_s) == (True, True, None)


def test_a_record_of_a_product_has_none():
    assert model_figures(replace(RECORD, extra={})) is None
    assert model_figures(replace(RECORD, extra={"model": "m"})) is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.parametrize("key", ["memory", "quality", "tokens_per_call"])
@given(value=JSON)
def test_facts_of_another_kind_are_skipped(key, value):
    figures = model_figures(replace(RECORD, extra=EXTRA | {key: value}))
    assert figures is not None
    assert figures.tokens_per_call >= 0
    for number in (figures.held_bytes, figures.peak_bytes, figures.quality_tokens_count):
        assert number is None or number >= 0
