"""Attention by a named kernel: the same operator, the model of that kernel, one form of answer."""

from __future__ import annotations

import pytest

from roofline_model import (
    ATTENTION_KERNELS,
    FlashAttentionConfig,
    FlashAttentionRoofline,
    UnknownNameError,
    UnsupportedError,
    attention,
    expected_attention,
    get_hardware,
    list_hardware,
    predict_expected,
)
from roofline_model.core.finding import has_code, reason_text
from roofline_model.expected.attention.flash.expected import CALL_RATIO
from roofline_model.expected.attention.predict import MODULE_OPS, STAND_IN_RATIO, predict_attention
from roofline_model.expected.predict import why_no_expected
from roofline_model.ideal.operator_sequence import predict_operator

SHAPES = (
    (1, 32, 8, 1, 4096, 128),
    (16, 32, 8, 1, 32768, 128),
    (1, 32, 8, 2048, 2048, 128),
    (4, 64, 8, 512, 4096, 64),
    (2, 16, 2, 4, 8192, 256),
)


def work(shape: tuple[int, ...], q: str = "BF16", kv: str | None = None, **mask: object):
    return attention(*shape, q=q, kv=kv, causal=shape[3] > 1, **mask)


@pytest.mark.parametrize("chip", ["a100", "h100", "b200", "l40s"])
@pytest.mark.parametrize("cache", ["cold", "warm"])
def test_the_default_is_the_fitted_kernel(chip: str, cache: str) -> None:
    for shape in SHAPES:
        default = predict_expected(work(shape), chip, cache=cache)
        assert default == predict_expected(work(shape), chip, cache=cache, attention_kernel="trtllm")
        assert default.covered_ops == MODULE_OPS == ("rope", "kv_write")


@pytest.mark.parametrize("chip", ["gb10", "rtx-5090", "orin"])
def test_a_lent_prefill_gives_way_to_a_published_kernel_unless_it_is_named(chip: str) -> None:
    for shape in SHAPES:
        default = predict_expected(work(shape), chip)
        named = predict_expected(work(shape), chip, attention_kernel="trtllm")
        assert named.covered_ops == MODULE_OPS
        if shape[3] <= 8:  # decode
            assert default == named
            continue
        assert default.time_s < named.time_s
        assert default.high_s == pytest.approx(named.high_s)
        assert (default.covered_ops, default.kernel) == ((), "fa2/16bit")
        assert has_code(default.findings, "constants-adjusted")


@pytest.mark.parametrize(("chip", "version"), [("gb10", "fa2"), ("h100", "fa3"), ("b200", "fa4"), ("a100", "fa1")])
def test_a_flashattention_kernel_takes_what_its_model_says(chip: str, version: str) -> None:
    for shape in SHAPES:
        if version == "fa1" and shape[5] > 128:
            continue
        B, Hq, Hkv, Sq, Skv, D = shape
        config = FlashAttentionConfig(version, qkv_precision="BF16", causal=Sq > 1)
        model = FlashAttentionRoofline(chip).predict(B, Hq, Sq, Skv, D, config, num_kv_heads=Hkv)
        answer = predict_expected(work(shape), chip, attention_kernel=version)
        assert answer.time_s == model.time_s
        assert answer.low_s <= answer.time_s < answer.high_s
        assert sum(seconds for _, seconds in answer.parts) == pytest.approx(answer.time_s)
        assert (answer.provenance, answer.model_version, answer.covered_ops) == ("derived", model.model_version, ())
        assert answer.kernel == f"{version}/{model.split_count}"
        assert dict(answer.terms)["dram"] == pytest.approx(dict(model.parts)["memory"])


def test_window_and_pages_reach_the_model() -> None:
    config = FlashAttentionConfig("fa3", qkv_precision="BF16", causal=True, window_size=512, page_size=16)
    model = FlashAttentionRoofline("h100").predict(2, 32, 2048, 8192, 128, config, num_kv_heads=8)
    answer = predict_expected(
        work((2, 32, 8, 2048, 8192, 128), window=512, page_tokens=16), "h100", attention_kernel="fa3"
    )
    assert dict(model.traffic_bytes)["page_table"] == 2 * 160 * 4  # 2,559 keys in pages of 16
    assert answer.time_s == model.time_s


def test_the_numbers_of_one_call() -> None:
    answer = predict_expected(work((1, 32, 8, 1, 8192, 128), "FP16"), "h100", attention_kernel="fa3")
    assert answer.time_s == pytest.approx(16.7287e-6, rel=1e-4)
    assert answer.high_s == pytest.approx(3.11 * answer.time_s)
    assert answer.binding == "dram"


def test_fp8_is_multiplied_where_chip_and_version_can() -> None:
    shape = (1, 32, 32, 8192, 8192, 128)
    wide, narrow = (predict_expected(work(shape, q), "h100", attention_kernel="fa3").time_s for q in ("BF16", "FP8"))
    assert narrow < 0.8 * wide
    wide, narrow = (predict_expected(work(shape, q), "h100", attention_kernel="fa2").time_s for q in ("BF16", "FP8"))
    assert narrow == pytest.approx(wide, rel=0.2)  # widened: no FP8 products in that version


def test_nothing_is_faster_than_the_ideal() -> None:
    for device in list_hardware():
        for key in ATTENTION_KERNELS:
            for shape in SHAPES:
                answer = predict_expected(work(shape), device, attention_kernel=key)
                if answer is not None:
                    assert answer.low_s >= predict_operator(work(shape), device).time_s * (1 - 1e-12), (device.key, key)
                    assert answer.low_s <= answer.time_s <= answer.high_s


@pytest.mark.parametrize(
    ("chip", "kernel"), [("gb10", "fa3"), ("gb10", "fa4"), ("h100", "fa4"), ("mi300x", "cudnn"), ("mi300x", "trtllm")]
)
def test_a_kernel_that_does_not_run_there_has_no_time_and_a_reason(chip: str, kernel: str) -> None:
    question = work(SHAPES[0])
    assert predict_expected(question, chip, attention_kernel=kernel) is None
    reason = reason_text(why_no_expected(question, chip, attention_kernel=kernel))
    assert chip in reason
    with pytest.raises(UnsupportedError) as caught:
        predict_attention(question, get_hardware(chip), kernel=kernel)
    assert str(caught.value) == reason


@pytest.mark.parametrize(
    ("q", "kv", "D"), [("FP32", "FP32", 128), ("INT8", "INT8", 128), ("BF16", "FP16", 128), ("BF16", "BF16", 512)]
)
def test_formats_and_heads_that_no_version_takes(q: str, kv: str, D: int) -> None:
    assert predict_expected(attention(1, 8, 8, 1, 128, D, q=q, kv=kv), "h100", attention_kernel="fa3") is None


def test_values_of_another_width_or_format_have_no_kernel() -> None:
    for question in (
        attention(1, 8, 8, 128, 128, 192, Dv=128),
        attention(1, 8, 8, 128, 128, 128, q="INT8", p="FP16"),
    ):
        assert predict_expected(question, "h100", attention_kernel="fa3") is None


def test_an_unknown_kernel_is_an_error_and_not_a_missing_time() -> None:
    with pytest.raises(UnknownNameError) as caught:
        predict_expected(work(SHAPES[0]), "h100", attention_kernel="fa5")
    assert caught.value.slug == "unknown-attention-kernel"


@pytest.mark.parametrize(("chip", "model"), [("a100", "fa2"), ("h100", "fa3"), ("b200", "fa4"), ("gb10", "fa2")])
def test_cudnn_has_the_time_of_the_model_that_stands_in_and_the_widest_interval(chip: str, model: str) -> None:
    shape = SHAPES[0]
    stand_in, fitted = (predict_expected(work(shape), chip, attention_kernel=key) for key in ("cudnn", model))
    assert (stand_in.time_s, stand_in.provenance) == (fitted.time_s, "derived")
    assert stand_in.low_s <= fitted.low_s
    assert stand_in.high_s >= fitted.high_s
    assert stand_in.kernel.startswith("cudnn/")
    assert ("cudnn", model) not in CALL_RATIO


def test_flashinfer_on_data_centre_blackwell_is_the_fitted_kernel_with_a_wider_interval() -> None:
    shape = SHAPES[1]
    stand_in, fitted = (
        predict_expected(work(shape), "b200", attention_kernel=key, cache="warm") for key in ("flashinfer", "trtllm")
    )
    low, high = STAND_IN_RATIO["decode"]
    assert (stand_in.time_s, stand_in.provenance) == (fitted.time_s, fitted.provenance)
    assert (stand_in.low_s, stand_in.high_s) == (low * fitted.low_s, high * fitted.high_s)
    assert stand_in.covered_ops == MODULE_OPS


def test_a_decode_that_does_not_split_a_narrow_cache_is_marked() -> None:
    answers = {kv: predict_expected(work(SHAPES[0], kv=kv), "l40s") for kv in ("BF16", "FP8")}
    assert [answer.is_cache_unsplit for answer in answers.values()] == [False, True]
    assert not predict_expected(work(SHAPES[0], kv="FP8"), "h100").is_cache_unsplit
    # A100 reads an FP8 cache with the kernels of 16-bit ones: per head, or split where it is long.
    rows = expected_attention("a100", [1024, 64, 1], 32, 4, 1, [100, 65536, 100], 128, causal=False, kv_format="FP8")
    assert rows.is_unsplit == [kernel == "mma/1" for kernel in rows.kernel] == [True, False, False]


def test_what_was_not_measured_is_a_field() -> None:
    measured = predict_expected(work(SHAPES[0], kv="FP8"), "h100")
    borrowed = predict_expected(work(SHAPES[0], kv="NVFP4"), "h100")
    queries = predict_expected(work(SHAPES[0], "FP8", "FP8"), "h100")
    for answer, kind in ((measured, None), (borrowed, "cache"), (queries, "queries")):
        kinds = [item.value("kind") for item in answer.findings if item.code == "unmeasured-attention"]
        assert kinds == ([] if kind is None else [kind])
