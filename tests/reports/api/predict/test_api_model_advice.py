"""Formats ranked for a whole model and for the cache of an attention: the model's own answers, gaps marked, errors with
a field.
"""

from __future__ import annotations

import json

import pytest

from reports.api.answer_models import document_model
from reports.present.answers.caches import AttentionRecommendation
from reports.present.answers.models import ModelRecommendation, model_advice
from reports.present.answers.products import Recommendation
from reports.present.encoder import command_json
from roofline_model.chips.hardware import get_hardware
from roofline_model.expected.predict import predict_expected
from roofline_model.operators.attention import attention
from roofline_model.recommend.model import recommend_model

DECODE = {"Hq": 32, "Hkv": 8, "Sq": 1, "Skv": 8192, "D": 128}


def test_a_model_gets_what_the_command_line_says(api_client):
    body = {"phase": "decode", "context_tokens": 2048, "batch_count": 2, "memory_limit_gb": 24, "max_loss_pct": 7}
    answer = api_client.post("/api/models/llama-3.1-8b/recommend?hardware_key=h200", json=body).json()
    ranking = recommend_model(
        "h200-sxm", "llama-3.1-8b", context=2048, batch=2, memory_limit_bytes=24e9, max_loss_pct=7
    )
    asked = (
        *(("--model", "llama-3.1-8b"), ("--hw", "h200-sxm"), ("--batch", "2")),
        *(("--context", "2048"), ("--memory-limit-gb", "24"), ("--max-quality-loss", "7")),
    )
    advice = model_advice(ranking, get_hardware("h200-sxm"), asked)
    whole = json.loads(json.dumps(command_json(advice)))
    assert answer == whole
    assert answer["chosen"] == answer["candidates"][0]["plan"]
    assert {candidate["kind"] for candidate in answer["candidates"]} >= {"uniform", "strategy"}


def test_another_model_of_the_same_shape_is_not_served_for_it(api_client):
    for model, is_served in (("llama-3.3-70b", False), ("llama-3.1-70b", True)):
        answer = api_client.post(f"/api/models/{model}/recommend?hardware_key=gb10", json={}).json()
        assert answer["short_answer"]["next_command"].startswith("vllm serve") is is_served


def test_where_nothing_meets_the_limits_a_chip_is_named_on_which_something_does(api_client):
    path, body = "/api/models/llama-3.1-8b/recommend?hardware_key=", {"max_latency_s": 0.01}
    answer = api_client.post(f"{path}gb10", json=body).json()
    assert answer["chosen"] is None
    chip = answer["short_answer"]["next_command"].rpartition(" --hw ")[2].split(",")[0]
    assert api_client.post(f"{path}{chip}", json=body).json()["chosen"]


@pytest.mark.parametrize("chip", ["rtx-4090", "h100-sxm"])  # a cache of its own, a named strategy
def test_the_plan_to_take_is_predicted_with_the_numbers_of_its_place(api_client, chip):
    path, body = "/api/models/llama-3.1-8b/", {"batch_count": 32, "context_tokens": 4096}
    answer = api_client.post(f"{path}recommend?hardware_key={chip}", json=body).json()
    best, prediction = answer["candidates"][0], answer["prediction"]
    assert prediction["expected"]["time_s"] == best["time_s"]
    assert best["time_s"] == pytest.approx(sum(kernel["expected_s"] for kernel in prediction["kernels"]), rel=1e-12)
    assert (prediction["expected"]["high_s"], prediction["time_s"], prediction["bound"]) == (
        best["high_s"],
        best["ideal_s"],
        best["bound"],
    )
    assert prediction["memory"]["fits"]
    assert prediction["memory"]["total_bytes"] == best["memory"]["total_bytes"]
    assert prediction["baseline_format"] == answer["wide_format"]
    assert prediction["expected_speedup_ratio"] == pytest.approx(best["speedup_ratio"])
    wide = api_client.post(f"{path}predict?hardware_key={chip}", json={**body, "formats": answer["wide_format"]}).json()
    assert (wide["speedup_ratio"], wide["expected_speedup_ratio"], wide["baseline_format"]) == (
        1,
        1,
        answer["wide_format"],
    )


@pytest.mark.parametrize(
    ("key", "body"),
    [
        ("llama-3.1-8b", {}),
        ("deepseek-v3", {"phase": "prefill"}),
        ("llama-3.1-8b", {"max_loss_pct": 0}),
        ("llama-3.1-8b", {"formats": ["INT4.BF16"]}),
    ],
)
def test_every_answer_about_a_model_keeps_its_schema(api_client, key, body):
    answer = api_client.post(f"/api/models/{key}/recommend", json=body)
    model = document_model(ModelRecommendation).model_validate_json(answer.text)
    assert model.chosen is not None or model.candidates == []
    assert [candidate.plan for candidate in model.candidates if candidate.kernel_gap] == []


@pytest.mark.parametrize(
    ("body", "field", "words"),
    [
        ({"formats": ["ZZ"]}, "formats", "unknown format"),
        ({"formats": []}, "formats", "got a list of 0"),
        ({"context_tokens": 10**8}, "context_tokens", "context"),
        ({"memory_limit_gb": 0}, "memory_limit_gb", "got 0"),
        ({"max_loss_pct": -1}, "max_loss_pct", "got -1"),
        ({"memory_headroom_ratio": 1}, "memory_headroom_ratio", "got 1"),
        ({"phase": "both"}, "phase", "decode"),
        ({"losses": "/etc/passwd"}, "losses", "unknown field"),
    ],
)
def test_a_wrong_limit_names_its_field(api_client, body, field, words):
    answer = api_client.post("/api/models/llama-3.1-8b/recommend", json=body)
    assert answer.status_code == 422
    (error,) = answer.json()["errors"]
    assert error["field"] == field
    assert words in error["message"]


def test_an_unknown_model_is_not_there(api_client):
    assert api_client.post("/api/models/zz/recommend", json={}).status_code == 404


def test_a_cache_is_ranked_by_the_expected_time(api_client):
    answer = api_client.post("/api/attention/recommend?hardware_key=h200", json=DECODE).json()
    model = document_model(AttentionRecommendation).model_validate(answer)
    expected = predict_expected(attention(1, 32, 8, 1, 8192, 128, q="FP16", kv="FP8_E4M3"), "h200-sxm")
    by_format = {candidate.kv_format: candidate for candidate in model.candidates}
    assert by_format["FP8_E4M3"].time_s == expected.time_s
    assert by_format["FP8_E4M3"].kv_bytes * 2 == by_format["FP16"].kv_bytes == 2 * 8 * 8192 * 128 * 2
    assert by_format["FP8_E4M3"].speedup_ratio == by_format["FP16"].time_s / expected.time_s
    assert (model.phase, model.ranked_by, model.baseline.kv_format) == ("decode", "expected", "FP16")
    runnable = [candidate for candidate in model.candidates if not candidate.kernel_gap]
    assert model.candidates[: len(runnable)] == runnable
    assert model.best == model.candidates[0]


def test_what_nothing_reads_stands_last_and_says_so(api_client):
    answer = api_client.post("/api/attention/recommend", json=DECODE).json()
    gaps = [candidate["kernel_gap"] for candidate in answer["candidates"]]
    assert "NVFP4" in [candidate["kv_format"] for candidate in answer["candidates"] if candidate["kernel_gap"]]
    assert gaps == sorted(gaps, key=bool)
    prediction = api_client.post("/api/attention", json={**DECODE, "kv_precision": "NVFP4"}).json()
    assert prediction["kernel_gap"] in gaps
    assert api_client.post("/api/attention", json=DECODE).json()["kernel_gap"] is None


def test_a_product_whose_kernel_does_not_run_is_marked_and_last(api_client):
    shape = {"M": 2048, "N": 4096, "K": 4096}
    model = document_model(Recommendation).model_validate_json(api_client.post("/api/recommend", json=shape).text)
    last = model.candidates[-1]
    assert (last.format, model.best.kernel_gap) == ("MXFP4", None)
    assert last.kernel_gap.values["capability"] == "12.1"
    analysis = api_client.post("/api/analyze", json={**shape, "precision": "MXFP4"}).json()
    assert analysis["kernel_gap"] == last.kernel_gap.model_dump()
    assert api_client.post("/api/analyze", json={**shape, "precision": "NVFP4"}).json()["kernel_gap"] is None


def test_narrow_caches_save_no_time_where_arithmetic_binds(api_client):
    body = {**DECODE, "Sq": 8192, "formats": ["FP8", "FP32", "FP16"]}
    answer = api_client.post("/api/attention/recommend?hardware_key=mi300x", json=body).json()
    assert answer["best"]["kv_format"] == "FP16"
    assert (
        answer["summary"] == "keep the cache in FP16: no narrower one that a kernel is known to read is clearly faster"
    )
    assert [exclusion["format"] for exclusion in answer["excluded"]] == ["FP32"]
    assert (answer["phase"], answer["ranked_by"], len(answer["findings"])) == ("prefill", "ideal", 1)


@pytest.mark.parametrize(
    ("change", "field"), [({"Hkv": 5}, "Hkv"), ({"formats": ["FP17"]}, "formats"), ({"precision": "FP8"}, "precision"), ({"D": 0}, "D")]
)  # fmt: skip
def test_a_wrong_attention_names_its_field(api_client, change, field):
    answer = api_client.post("/api/attention/recommend", json={**DECODE, **change})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == field


def test_a_narrow_cache_that_takes_longer_is_called_slower(api_client):
    body = {**DECODE, "Skv": 4096, "formats": ["FP8"]}
    answer = api_client.post("/api/attention/recommend?hardware_key=rtx4090", json=body).json()
    narrow = next(candidate for candidate in answer["candidates"] if candidate["kv_format"] == "FP8_E4M3")
    assert narrow["speedup_ratio"] < 0.9
