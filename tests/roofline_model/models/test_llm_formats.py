"""Format plans: what each part and layer gets, and what contradicts itself."""

from __future__ import annotations

from dataclasses import replace

import pytest

from roofline_model.core.errors import InvalidValueError, RooflineError
from roofline_model.models.format_plan import FormatPlan, plan_from_text
from roofline_model.models.hf.parameters import parameter_counts
from roofline_model.models.llm import predict_model
from roofline_model.models.model_memory import weights_bytes
from roofline_model.models.model_registry import get_model

LLAMA, MIXTRAL, GPT, DEEPSEEK = (
    get_model(name) for name in ("llama-3-8b", "mixtral-8x7b", "gpt-oss-20b", "deepseek-v3")
)


def plan(text: str, *exceptions: str, kv: str | None = None) -> FormatPlan:
    return plan_from_text(text, LLAMA, kv=kv, exceptions=exceptions)


@pytest.mark.parametrize(
    ("text", "weights", "activations", "kv", "wide"),
    [
        ("BF16", "BF16", "BF16", "BF16", "BF16"),
        ("fp16", "FP16", "FP16", "FP16", "FP16"),
        ("FP8", "FP8_E4M3", "FP8_E4M3", "BF16", "BF16"),
        ("INT4.BF16", "INT4", "BF16", "BF16", "BF16"),
        ("INT4.FP16", "INT4", "FP16", "FP16", "FP16"),
        ("NVFP4.NVFP4.FP8", "NVFP4", "NVFP4", "FP8_E4M3", "BF16"),
        ("FP32", "FP32", "FP32", "FP32", "FP32"),
    ],
)
def test_one_two_or_three_names(text: str, weights: str, activations: str, kv: str, wide: str) -> None:
    parsed = plan(text)
    assert (parsed.base.weights, parsed.base.activations, parsed.kv, parsed.wide) == (weights, activations, kv, wide)
    wide_parts = {parsed.of(part).label for part in ("lm_head", "embedding")}  # as published checkpoints have them
    assert wide_parts == {wide}


def test_exceptions_a_part_beats_a_group_and_layers_beat_all() -> None:
    parsed = plan("INT4.BF16", "attention=FP8", "o_proj=BF16", "o_proj@0-1=NVFP4", "kv=FP8", "kv@31=BF16")
    assert parsed.of("qkv_proj", 5).label == "FP8_E4M3"
    assert parsed.of("o_proj", 5).label == "BF16"
    assert parsed.of("o_proj", 1).label == "NVFP4"
    assert parsed.of("ffn", 0).label == "INT4.BF16"
    assert (parsed.kv_of(0), parsed.kv_of(31)) == ("FP8_E4M3", "BF16")


def test_every_layer_is_predicted_in_its_own_format() -> None:
    prediction = predict_model("gb10", LLAMA, formats="NVFP4.BF16", exceptions=("ffn@0-3=BF16", "lm_head=BF16"))
    calls = {
        (kernel.kernel.name, dict(kernel.kernel.work.formats)["b"]): kernel.kernel.calls_count
        for kernel in prediction.kernels
        if "b" in dict(kernel.kernel.work.formats)
    }
    assert calls[("gate_up_proj", "BF16")] == 4
    assert calls[("gate_up_proj", "NVFP4")] == 28
    assert calls[("lm_head", "BF16")] == 1
    assert calls[("qkv_proj", "NVFP4")] == 32


def test_quantised_activations_are_cast_where_they_are_written() -> None:
    prediction = predict_model("gb10", LLAMA, formats="FP8")
    kernels = {kernel.kernel.name: kernel.kernel for kernel in prediction.kernels}
    assert dict(kernels["input_norm"].work.formats)["o"] == "FP8_E4M3"
    assert dict(kernels["silu_mul"].work.formats)["o"] == "FP8_E4M3"
    assert kernels["quantize"].calls_count == 32  # before the output projection
    assert dict(kernels["qkv_proj"].work.formats)["c"] == "BF16"
    # Readers that disagree: the norm writes 16 bit, the cast is a kernel of its own.
    mixed = predict_model("gb10", DEEPSEEK)
    widths = {dict(kernel.kernel.work.shape)["width"] for kernel in mixed.kernels if kernel.kernel.name == "quantize"}
    assert widths == {16384, 7168}


def test_checkpoints_are_predicted_as_they_are_published() -> None:
    assert plan_from_text("checkpoint", LLAMA).base.label == "BF16"
    gpt = plan_from_text("checkpoint", GPT)
    assert (gpt.of("experts", 0).label, gpt.of("router", 0).label, gpt.of("qkv_proj", 0).label) == (
        "MXFP4.BF16",
        "BF16",
        "BF16",
    )
    deepseek = plan_from_text("checkpoint", DEEPSEEK)
    assert (deepseek.of("ffn", 0).label, deepseek.of("lm_head").label, deepseek.kv) == ("FP8_E4M3", "BF16", "BF16")
    counts = parameter_counts(DEEPSEEK)
    wide = counts.embedding_count + counts.head_count + counts.router_count + counts.small_count
    assert weights_bytes(DEEPSEEK, deepseek) == counts.total_count + wide
    awq = plan_from_text("checkpoint", replace(LLAMA, weight_format="INT4"))
    assert (awq.base.label, awq.of("lm_head").label) == ("INT4.BF16", "BF16")


def test_a_user_exception_replaces_what_the_checkpoint_says() -> None:
    parsed = plan_from_text("checkpoint", GPT, exceptions=("experts=BF16", "lm_head=FP8"))
    assert (parsed.of("experts", 0).label, parsed.of("lm_head").label) == ("BF16", "FP8_E4M3")
    half = plan_from_text("checkpoint", GPT, exceptions=("experts@0-3=BF16",))
    assert (half.of("experts", 3).label, half.of("experts", 4).label) == ("BF16", "MXFP4.BF16")


def test_an_unknown_checkpoint_format_must_be_said() -> None:
    unknown = replace(LLAMA, weight_format=None)
    with pytest.raises(InvalidValueError, match="--formats"):
        plan_from_text("checkpoint", unknown)
    assert plan_from_text("INT4.BF16", unknown).base.weights == "INT4"


def test_a_tied_embedding_has_the_format_of_the_head() -> None:
    tied = get_model("llama-3.2-1b")
    counts = parameter_counts(tied)
    parsed = plan_from_text("FP8", tied, exceptions=("lm_head=BF16",))
    expected = 2 * (counts.embedding_count + counts.small_count) + counts.attention_count + counts.ffn_count
    assert weights_bytes(tied, parsed) == expected


@pytest.mark.parametrize(
    ("text", "exceptions", "kv", "words"),
    [
        ("INT8.FP8", (), None, "contradict each other"),
        ("BF16.FP8", (), None, "weights BF16 are wider than activations FP8_E4M3"),
        ("NF4.NF4", (), None, "a code table is a format of weights"),
        ("FP8.FP8.BF16", (), "FP8", "the KV format is given twice: BF16"),
        ("BF16", (), "FP32", "kv=FP32 contradicts"),
        ("BF16", ("kv=FP32",), None, "kv=FP32 contradicts"),
        ("BF16", ("lm_head",), None, "is not PART[@LAYERS]=FORMATS"),
        ("BF16", ("head=FP8",), None, "unknown part 'head'. Did you mean lm_head"),
        ("BF16", ("ffn@32=FP8",), None, "has layers 0 to 31, got 32"),
        ("BF16", ("ffn@5-2=FP8",), None, "has layers 0 to 31, got 5-2"),
        ("BF16", ("ffn@x=FP8",), None, "layers are one number or FIRST-LAST"),
        ("BF16", ("lm_head@3=FP8",), None, "lm_head is outside the layers"),
        ("BF16", ("ffn=FP8", "ffn=INT4.BF16"), None, "ffn is given twice for the same layers: FP8_E4M3 and INT4.BF16"),
        ("BF16", ("ffn@0-3=FP8", "ffn@3-5=INT8"), None, "ffn is given twice for the same layers"),
        ("BF16", ("attention=FP8", "attention=INT8"), None, "attention is given twice"),
        ("BF16", ("kv=FP8.BF16",), None, "the cache has one format"),
        ("BF16", ("ffn=FP8.FP8.FP8",), None, "an exception of its own, kv=FP8"),
        ("BF16", ("experts=FP8",), None, "llama-3-8b has no experts"),
        ("FP17", (), None, "unknown format 'FP17'"),
        ("A.B.C.D", (), None, "unknown format 'A.B.C.D'"),
    ],
)
def test_contradictions_are_named(text: str, exceptions: tuple[str, ...], kv: str | None, words: str) -> None:
    with pytest.raises(RooflineError) as raised:
        plan_from_text(text, LLAMA, kv=kv, exceptions=exceptions)
    assert words in str(raised.value)
    assert "\n" not in str(raised.value)
