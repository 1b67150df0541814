"""Attention that multiplies in a narrow format: casts, what the chip does with it, and where an expected time ends."""

from __future__ import annotations

import pytest

from roofline_model.chips.hardware import get_hardware
from roofline_model.core.errors import InvalidValueError
from roofline_model.core.finding import finding, reason_text
from roofline_model.expected.predict import predict_expected
from roofline_model.ideal.roofline import predict
from roofline_model.models.format_plan import plan_from_text
from roofline_model.models.llm import KernelPrediction, ModelPrediction, predict_model
from roofline_model.models.model_registry import get_model
from roofline_model.models.step_expected import expected_step, why_no_step
from roofline_model.operators.attention import attention
from roofline_model.operators.attention_shape import visible_pairs

LLAMA, DEEPSEEK, GEMMA = (get_model(name) for name in ("llama-3-8b", "deepseek-v3", "gemma-3-27b"))
FP8 = ("attention_products=FP8", "kv=FP8")


def predicted(
    hardware: str, phase: str, *exceptions: str, model=LLAMA, context: int = 4096, base: str = "BF16"
) -> ModelPrediction:
    return predict_model(
        hardware, model, phase, context=context, formats=plan_from_text(base, model, exceptions=exceptions)
    )


def kernel(prediction: ModelPrediction, name: str) -> KernelPrediction:
    return next(kernel_row for kernel_row in prediction.kernels if kernel_row.kernel.name == name)


def test_queries_are_cast_and_both_products_run_in_fp8() -> None:
    prediction = predicted("h100", "prefill", *FP8)
    attention, cast = kernel(prediction, "attention"), kernel(prediction, "quantize_query")
    assert dict(attention.kernel.work.formats) == {"q": "FP8_E4M3", "kv": "FP8_E4M3", "o": "BF16"}
    assert (attention.prediction.compute_format, attention.prediction.path) == ("FP8_E4M3", "native")
    pairs = 32 * visible_pairs(4096, 4096, causal=True)
    assert attention.prediction.flops == 4 * pairs * 128
    assert attention.prediction.time_s == pytest.approx(4 * pairs * 128 / get_hardware("h100").path("FP8").dense.value)
    # 16 bits in, 8 out, and one FP32 scale for each token.
    assert cast.prediction.read_bytes == 4096 * 4096 * 2
    assert cast.prediction.write_bytes == 4096 * 4096 + 4 * 4096
    wide = predicted("h100", "prefill", "kv=FP8")
    assert "quantize_query" not in [kernel_row.kernel.name for kernel_row in wide.kernels]
    assert prediction.time_s < wide.time_s
    assert prediction.memory == wide.memory


def test_a_chip_without_the_unit_decodes_and_says_so() -> None:
    prediction, wide = (predicted("a100-sxm-80gb", "prefill", *more) for more in (FP8, ("kv=FP8",)))
    assert kernel(prediction, "attention").prediction.path == "dequantize"
    assert any("no FP8 unit on Ampere" in str(item.value("reason")) for item in prediction.findings)
    assert (
        kernel(prediction, "attention").prediction.compute_time_s == kernel(wide, "attention").prediction.compute_time_s
    )
    assert expected_step(prediction, "a100-sxm-80gb") is None
    assert "attention: a100-sxm-80gb has no FP8 unit for attention in FP8_E4M3" in reason_text(
        why_no_step(prediction, "a100-sxm-80gb")
    )


@pytest.mark.parametrize("phase", ["prefill", "decode"])
@pytest.mark.parametrize("chip", ["h100", "b200", "gb10"])
def test_the_expected_time_is_that_of_fp8_attention(chip: str, phase: str) -> None:
    prediction = predicted(chip, phase, *FP8)
    expected = expected_step(prediction, chip)
    assert expected is not None
    attention = next(kernel_row for kernel_row in expected.kernels if kernel_row.kernel.name == "attention")
    alone = predict_expected(attention.kernel.work, chip)
    assert alone is not None
    assert attention.time_s == alone.time_s
    is_borrowed = finding("unmeasured-attention", kind="queries", activation="FP8_E4M3") in expected.findings
    assert is_borrowed == (phase == "decode")
    assert not any(
        item.code == "unmeasured-attention" for item in expected_step(predicted(chip, phase, "kv=FP8"), chip).findings
    )


def test_scores_and_values_of_two_formats_are_counted_apart() -> None:
    work = attention(2, 8, 2, 64, 128, 64, q="FP8", kv="FP8", p="BF16", o="BF16", Dv=32)
    pairs = 2 * 8 * 64 * 128
    assert dict(work.cost.flops) == {"FP8_E4M3": 2 * pairs * 64, "BF16": 2 * pairs * 32}
    assert dict(work.formats)["p"] == "BF16"
    same = attention(2, 8, 2, 64, 128, 64, q="FP8", kv="FP8", p="FP8", o="BF16")
    assert same == attention(2, 8, 2, 64, 128, 64, q="FP8", kv="FP8", o="BF16")
    both = predict(work, "h100")
    assert both.compute_format == "BF16+FP8_E4M3"
    assert both.path == "dequantize"
    with pytest.raises(InvalidValueError, match="p is a format inside the fused kernel"):
        attention(1, 1, 1, 4, 4, 8, q="FP8", p="BF16", fused=False)


def test_latent_attention_casts_the_query_and_in_prefill_the_expanded_cache() -> None:
    step, prompt = (predicted("h100", phase, *FP8, model=DEEPSEEK, context=2048) for phase in ("decode", "prefill"))
    assert kernel(step, "quantize_query").kernel.calls_count == 61
    assert dict(kernel(step, "quantize_query").kernel.work.shape) == {"rows": 1, "width": 128 * 576}
    assert dict(kernel(prompt, "quantize_kv").kernel.work.shape) == {"rows": 2048, "width": 128 * (192 + 128)}
    assert kernel(prompt, "attention").prediction.compute_format == "FP8_E4M3"
    for prediction in (step, prompt):
        assert expected_step(prediction, "h100") is not None
    # The FP8 product's rate, not that of 16 bit: far beyond the bytes at this batch.
    many = [
        predict_model(
            "h100", DEEPSEEK, batch=512, context=4096, formats=plan_from_text("BF16", DEEPSEEK, exceptions=more)
        )
        for more in (FP8, ("kv=FP8",))
    ]
    times = [
        next(
            kernel_row.time_s
            for kernel_row in expected_step(prediction, "h100").kernels
            if kernel_row.kernel.name == "attention"
        )
        for prediction in many
    ]
    assert times[0] < 0.75 * times[1]
    int8 = predicted("h100", "prefill", "attention_products=INT8", "kv=INT8", model=DEEPSEEK, context=2048)
    assert expected_step(int8, "h100") is None


@pytest.mark.parametrize(
    ("exceptions", "message"),
    [
        (["attention_products=FP8"], r"kv=BF16 is wider than qk_matmul=FP8_E4M3; .*Store the cache in FP8_E4M3"),
        (
            ["qk_matmul=FP32"],
            "qk_matmul=FP32: attention multiplies in the residual stream's BF16 or in a narrower format",
        ),
        (["sv_matmul=FP16"], "sv_matmul=FP16: attention multiplies in the residual stream's BF16"),
        (["qk_matmul=INT8", "kv=FP8"], "qk_matmul=INT8 and kv=FP8_E4M3 contradict each other"),
        (["qk_matmul=FP8.BF16"], "attention multiplies in one format, e.g. qk_matmul=FP8"),
        (["attention_products=NF4", "kv=NF4"], "a code table is a format of weights or caches"),
        (["attention_products@0-3=FP8", "kv@0-2=FP8"], "kv=BF16 is wider than qk_matmul"),
    ],
)
def test_what_no_kernel_multiplies_is_refused(exceptions: list[str], message: str) -> None:
    with pytest.raises(InvalidValueError, match=message):
        plan_from_text("BF16", LLAMA, exceptions=exceptions)


def test_latent_attention_has_one_product_format() -> None:
    with pytest.raises(InvalidValueError, match=r"qk_matmul=FP8_E4M3.*sv_matmul=BF16.*deepseek-v3's"):
        plan_from_text("BF16", DEEPSEEK, exceptions=["qk_matmul=FP8", "kv=FP8"])
