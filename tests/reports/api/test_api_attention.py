"""POST /api/attention: the numbers of the model, errors that name their field."""

from __future__ import annotations

import pytest

from roofline_model import expected_step, predict_model
from roofline_model.expected.predict import predict_expected
from roofline_model.ideal.operator_sequence import predict_operator
from roofline_model.operators.attention import attention

SHAPE = {"B": 2, "Hq": 32, "Hkv": 8, "Sq": 1, "Skv": 4096, "D": 128}


def test_the_answer_has_the_numbers_of_the_model(api_client):
    body = {**SHAPE, "precision": "BF16", "kv_precision": "FP8"}
    answer = api_client.post("/api/attention?hardware_key=h200", json=body).json()
    work = attention(**SHAPE, q="BF16", kv="FP8_E4M3")
    ideal, expected = predict_operator(work, "h200-sxm"), predict_expected(work, "h200-sxm")
    assert (answer["time_s"], answer["bound"], answer["path"]) == (ideal.time_s, ideal.bound, ideal.path)
    assert (answer["expected"]["time_s"], answer["expected"]["low_s"]) == (expected.time_s, expected.low_s)
    # K and V of two sequences, 8 heads, 4096 tokens, 128 elements, one byte each
    assert answer["kv_read_bytes"] == 2 * 2 * 8 * 4096 * 128
    wide = predict_expected(attention(**SHAPE, q="FP16"), "h200-sxm")
    assert answer["expected_speedup_ratio"] == wide.time_s / expected.time_s
    assert answer["unfused_time_s"] > answer["time_s"]


def test_what_is_left_out_has_its_default(api_client):
    answer = api_client.post("/api/attention", json={"Hq": 16, "Sq": 128, "D": 64}).json()
    assert (answer["hardware"], answer["B"], answer["Hkv"], answer["Skv"]) == ("gb10", 1, 16, 128)
    assert (answer["causal"], answer["window"], answer["kv_format"]) == (False, None, "FP16")


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"Hkv": 5}, "Hkv"), ({"Sq": 9, "Skv": 4, "causal": True}, "Skv"), ({"precision": "FP17"}, "precision"),
        ({"kv_precision": "FP17"}, "kv_precision"), ({"kernel": "fa5"}, "kernel"), ({"kernel": ""}, "kernel"), ({"D": 0}, "D"), ({"window": 0}, "window"), ({"causal": "yes"}, "causal"),
    ],
)  # fmt: skip
def test_an_error_names_its_field(api_client, change, field):
    answer = api_client.post("/api/attention", json={**SHAPE, **change})
    assert answer.status_code == 422
    assert [error["field"] for error in answer.json()["errors"]] == [field]


def test_a_window_saves_the_keys_that_nobody_sees(api_client):
    full = api_client.post("/api/attention", json=SHAPE).json()
    short = api_client.post("/api/attention", json={**SHAPE, "window": 1024}).json()
    assert short["kv_read_bytes"] * 4 == full["kv_read_bytes"]
    assert short["expected"] is None or short["expected"]["time_s"] <= full["expected"]["time_s"]


@pytest.mark.parametrize(("kernel", "covered"), [("FA3", []), ("trtllm", ["rope", "kv_write"]), ("cudnn", [])])
def test_a_named_kernel_answers_with_its_model(api_client, kernel, covered):
    body = {**SHAPE, "precision": "BF16", "kv_precision": "FP8", "kernel": kernel}
    answer = api_client.post("/api/attention?hardware_key=h100", json=body).json()
    expected, wide = (
        predict_expected(attention(**SHAPE, q=q, kv=kv), "h100", attention_kernel=kernel)
        for q, kv in (("BF16", "FP8_E4M3"), ("FP16", "FP16"))
    )
    kernel_expected = answer["expected"]
    assert (kernel_expected["time_s"], kernel_expected["low_s"], kernel_expected["high_s"]) == (
        expected.time_s,
        expected.low_s,
        expected.high_s,
    )
    assert (kernel_expected["provenance"], kernel_expected["kernel"]) == (expected.provenance, expected.kernel)
    assert (answer["kernel"], kernel_expected["covered_ops"]) == (kernel.lower(), covered)
    assert answer["expected_speedup_ratio"] == wide.time_s / expected.time_s


def test_a_kernel_that_does_not_run_on_the_chip_leaves_the_ideal(api_client):
    plain = api_client.post("/api/attention", json=SHAPE).json()
    answer = api_client.post("/api/attention", json={**SHAPE, "kernel": "fa4"}).json()
    assert (answer["expected"], answer["expected_speedup_ratio"]) == (None, None)
    assert answer["expected_reason"]["code"]
    assert (answer["time_s"], plain["kernel"]) == (plain["time_s"], None)
    assert plain["expected"] is not None


def test_a_model_takes_an_attention_kernel(api_client):
    url = "/api/models/llama-3-8b/predict?hardware_key=h100"
    plain, named = (api_client.post(url, json=body).json() for body in ({}, {"attention_kernel": "FA3"}))
    step = expected_step(predict_model("h100", "llama-3-8b", attention_kernel="fa3"), "h100")
    assert (plain["attention_kernel"], named["attention_kernel"]) == (None, "fa3")
    assert (named["expected"]["time_s"], named["time_s"]) == (step.time_s, plain["time_s"])
    assert named["expected"]["time_s"] != plain["expected"]["time_s"]
    assert named["expected_speedup_ratio"] == 1.0  # published in 16 bit: its own baseline
    wrong = api_client.post(url, json={"attention_kernel": "fa5"})
    assert wrong.status_code == 422
    assert [error["field"] for error in wrong.json()["errors"]] == ["attention_kernel"]
