"""Answers that are made without their models are still what the models say."""

from __future__ import annotations

import gc
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

import reports.api.http.app as app_module
from reports.api.answer_models import answer_bytes, document_model
from reports.api.predict.product import recommendation
from reports.present.answers.products import Recommendation
from roofline_model import gemm, get_hardware, list_hardware, predict_expected
from roofline_model.formats.catalog import get_format
from roofline_model.predictions.product import ProductPrediction, predict_product

CHIPS = [device.key for device in list_hardware()]
SIZES = st.integers(1, 20_000)


@given(
    st.sampled_from(CHIPS),
    SIZES,
    SIZES,
    SIZES,
    st.sampled_from([None, 1e-6, 0.01, 80.0]),
    st.sampled_from([None, 7e10]),
    st.sampled_from([None, ("INT8", "INT2", "FP32"), ("BF16",)]),
)
def test_a_recommendation_is_one_of_its_model(chip, m, n, k, limit_gb, parameters, formats):
    text = answer_bytes(recommendation(chip, (m, n, k), None, limit_gb, parameters, formats))
    model: Any = document_model(Recommendation)
    assert model.model_validate_json(text, strict=True).model_dump_json().encode() == text


@given(st.sampled_from(CHIPS), SIZES, SIZES, SIZES, st.sampled_from(["cold", "warm"]))
def test_the_speedup_of_an_analysis_is_of_whole_predictions(chip, m, n, k, cache):
    pair = get_format("INT8"), get_format("FP16")
    answer = answer_bytes(predict_product(get_hardware(chip), (m, n, k), pair, cache=cache))
    model: Any = document_model(ProductPrediction).model_validate_json(answer, strict=True)
    narrow, wide = (predict_expected(gemm(m, n, k, a="FP16", b=b), chip, cache=cache) for b in ("INT8", "FP16"))
    if narrow is None or wide is None:
        assert model.expected_speedup_ratio is None
    else:
        assert model.expected_speedup_ratio == wide.time_s / narrow.time_s
        assert model.expected is not None
        assert model.expected.time_s == narrow.time_s


def test_what_was_imported_is_left_out_of_collections_while_the_server_runs(monkeypatch):
    monkeypatch.setattr(app_module, "WARM_UP_AFTER_S", 0.0)
    gc.unfreeze()
    with TestClient(app_module.create_app()) as client:
        warm = [thread for thread in app_module.threading.enumerate() if thread.name == "roofline-warm-up"]
        for thread in warm:
            thread.join(30)
        assert client.get("/api/health").status_code == 200
        assert gc.get_freeze_count() > 10_000
    assert gc.get_freeze_count() == 0
