"""Single matrices with formats of their own: products that split, casts that are shared, groups that are names for
parts.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline_model.core.errors import InvalidValueError, RooflineError
from roofline_model.formats.catalog import get_format
from roofline_model.models.format_plan import MATRICES, plan_from_text
from roofline_model.models.llm import ModelPrediction, predict_model, read_weight_bytes
from roofline_model.models.model_memory import layer_matrices
from roofline_model.models.model_registry import get_model

LLAMA, MIXTRAL, DEEPSEEK, LITE, PHI, QWEN_MOE = (
    get_model(name)
    for name in ("llama-3-8b", "mixtral-8x7b", "deepseek-v3", "deepseek-v2-lite", "phi-2", "qwen1.5-moe-a2.7b")
)


def predicted(model: Any, *exceptions: str, base: str = "BF16", phase: str = "decode") -> ModelPrediction:
    plan = plan_from_text(base, model, exceptions=exceptions)
    return predict_model("gb10", model, phase, context=512, formats=plan)


def products(prediction: ModelPrediction) -> Counter[tuple[str, str, int]]:
    """Return (kernel, WEIGHT.ACTIVATION, output columns) → calls of everything that reads a weight."""
    rows: Counter[tuple[str, str, int]] = Counter()
    for kernel in prediction.kernels:
        formats, sizes = dict(kernel.kernel.work.formats), dict(kernel.kernel.work.shape)
        if "b" in formats and "N" in sizes:
            rows[kernel.kernel.name, f"{formats['b']}.{formats['a']}", sizes["N"]] += kernel.kernel.calls_count
    return rows


def test_matrices_of_other_formats_are_products_of_their_own() -> None:
    rows = products(predicted(LLAMA, "q_proj@0-3=FP8", "down_proj=INT4.BF16", "up_proj@5=NVFP4.BF16"))
    assert rows["qkv_proj", "BF16.BF16", 4096 + 2 * 1024] == 28
    assert rows["q_proj", "FP8_E4M3.FP8_E4M3", 4096] == 4
    assert rows["kv_proj", "BF16.BF16", 2048] == 4  # key and value agree and stay together
    assert rows["gate_up_proj", "BF16.BF16", 2 * 14336] == 31
    assert rows["gate_proj", "BF16.BF16", 14336] == rows["up_proj", "NVFP4.BF16", 14336] == 1
    assert rows["down_proj", "INT4.BF16", 4096] == 32


def test_a_cast_serves_every_reader_of_its_format() -> None:
    """Query and key read FP8, value 16 bit: the norm writes 16 bit and one cast serves both."""
    prediction = predicted(LLAMA, "q_proj=FP8", "k_proj=NVFP4.FP8", "down_proj=FP8")
    kernels = {kernel.kernel.name: kernel.kernel for kernel in prediction.kernels}
    assert dict(kernels["input_norm"].work.formats)["o"] == "BF16"
    assert kernels["quantize"].calls_count == 32
    assert dict(kernels["silu_mul"].work.formats)["o"] == "FP8_E4M3"  # the activation function writes what down reads
    assert dict(kernels["ffn_norm"].work.formats)["o"] == "BF16"
    both = {
        kernel.kernel.name: kernel.kernel
        for kernel in predicted(LLAMA, "q_proj=FP8", "k_proj=FP8", "v_proj=INT4.FP8").kernels
    }
    assert "quantize" not in both
    assert dict(both["input_norm"].work.formats)["o"] == "FP8_E4M3"
    assert both["qk_proj"].calls_count == 32


def test_experts_and_shared_experts_split_as_well() -> None:
    rows = products(
        predicted(QWEN_MOE, "experts_down_proj=INT4.BF16", "experts_up_proj=FP8.BF16", "shared_gate_proj=INT8.BF16")
    )
    assert rows["experts_gate", "BF16.BF16", 1408] == rows["experts_up", "FP8_E4M3.BF16", 1408] == 24
    assert rows["experts_down", "INT4.BF16", 2048] == 24
    assert rows["shared_gate_proj", "INT8.BF16", 5632] == rows["shared_up_proj", "BF16.BF16", 5632] == 24


def test_a_latent_cache_has_one_matrix_for_keys_and_values() -> None:
    rows = products(predicted(DEEPSEEK, "q_proj=INT4.BF16", phase="prefill"))
    assert rows["q_a_proj", "INT4.BF16", 1536] == rows["q_b_proj", "INT4.BF16", 128 * 192] == 61
    assert rows["kv_a_proj", "BF16.BF16", 576] == rows["kv_b_proj", "BF16.BF16", 128 * 256] == 61
    lite = products(predicted(LITE, "k_proj=FP8.BF16", "v_proj=FP8.BF16"))
    assert lite["q_proj", "BF16.BF16", 16 * 192] == lite["kv_a_proj", "FP8_E4M3.BF16", 576] == 27
    with pytest.raises(InvalidValueError, match=r"k_proj=FP8_E4M3.BF16.*v_proj=BF16.*deepseek-v3"):
        predicted(DEEPSEEK, "k_proj=FP8.BF16")


def test_fewer_parts_are_stronger() -> None:
    plan = plan_from_text(
        "BF16",
        LLAMA,
        exceptions=["mlp@0=FP16", "ffn=FP8", "gate_up_proj=INT8.BF16", "up_proj=INT4.BF16", "up_proj@3=NVFP4.BF16"],
    )
    assert [plan.of(part, 0).weights for part in ("gate_proj", "up_proj", "down_proj")] == ["INT8", "INT4", "FP8_E4M3"]
    assert plan.of("up_proj", 3).label == "NVFP4.BF16"
    assert plan.of("qkv_proj", 3).label == "BF16"
    with pytest.raises(InvalidValueError, match=r"\(gate_proj=INT8.BF16, up_proj=NVFP4.BF16"):
        plan.of("ffn", 3)


def test_a_part_of_a_published_plan_is_replaced_alone() -> None:
    gpt = get_model("gpt-oss-20b")
    plan = plan_from_text("checkpoint", gpt, exceptions=["experts_down_proj=FP8.BF16"])
    assert plan.of("experts_gate_proj", 0).label == "MXFP4.BF16"
    assert plan.of("experts_down_proj", 0).label == "FP8_E4M3.BF16"
    whole = plan_from_text("checkpoint", gpt, exceptions=["mlp=FP8.BF16"])
    assert whole.of("experts", 0).label == "FP8_E4M3.BF16"


FORMATS = ("BF16", "FP8", "INT4.BF16", "NVFP4.FP8")


@given(st.sampled_from([LLAMA, MIXTRAL, PHI, QWEN_MOE, DEEPSEEK]), st.data())
def test_every_matrix_is_counted_once_in_its_own_format(model: Any, data: st.DataObject) -> None:
    """FLOPs do not depend on how products split, bytes are those of each matrix, and no part is left out."""
    here = {part for layer in range(model.layer_count) for part, size in layer_matrices(model, layer) if size}
    chosen = {part: data.draw(st.sampled_from(FORMATS), label=part) for part in MATRICES if part in here}
    if model.latent is not None:
        chosen["v_proj"] = chosen["k_proj"]
    prediction = predicted(model, *(f"{part}={text}" for part, text in chosen.items()))
    wide = predicted(model)

    def flops(prediction: ModelPrediction) -> float:
        return sum(kernel.flops for kernel in prediction.kernels if "B" in dict(kernel.kernel.work.cost.read_bytes))

    assert flops(prediction) == pytest.approx(flops(wide), rel=1e-12)
    plan = prediction.plan
    saved = sum(
        size * (2 - plan.weight_bytes_per_element(get_format(chosen[part].partition(".")[0]).key))
        for layer in range(model.layer_count)
        for part, size in layer_matrices(model, layer)
        if part in chosen
    )
    assert wide.memory.weights_bytes - prediction.memory.weights_bytes == pytest.approx(saved, rel=1e-12)
    if model.experts is None:
        assert read_weight_bytes(model, wide.plan) - read_weight_bytes(model, plan) == pytest.approx(saved, rel=1e-12)


@pytest.mark.parametrize(
    ("model", "exceptions", "message"),
    [
        (LLAMA, ["qproj=FP8"], "unknown part 'qproj'. Did you mean q_proj"),
        (LLAMA, ["experts_up_proj=FP8"], "llama-3-8b has no experts"),
        (PHI, ["gate_proj=FP8"], "phi-2 has a plain FFN"),
        (LLAMA, ["q_proj=FP8", "q_proj=INT8"], "q_proj is given twice"),
        (LLAMA, ["q_proj=BF16.FP8"], "q_proj: weights BF16 are wider than activations FP8_E4M3"),
        (LLAMA, ["q_proj@32=FP8"], "llama-3-8b has layers 0 to 31"),
        (LLAMA, ["embedding@1=FP8"], "embedding is outside the layers"),
    ],
)
def test_bad_parts_are_named(model: Any, exceptions: list[str], message: str) -> None:
    with pytest.raises(RooflineError, match=message):
        plan_from_text("BF16", model, exceptions=exceptions)
