"""INT4 weights of a whole model carry their group scales in memory, ideal and expected time alike."""

from __future__ import annotations

from dataclasses import replace

import pytest

from roofline_model.expected.products.parameters import kernel_bytes_per_element
from roofline_model.formats.catalog import get_format
from roofline_model.models.format_plan import plan_from_text
from roofline_model.models.hf.parameters import parameter_counts, read_weight_count
from roofline_model.models.llm import ModelPrediction, predict_model, read_weight_bytes
from roofline_model.models.model_memory import weights_bytes
from roofline_model.models.model_registry import get_model

LLAMA = get_model("llama-3.1-8b")
WITH_SCALES = 0.5 + 2 / 128

EVERY_MATRIX = ("lm_head=INT4", "embedding=INT4")


def read_bytes(prediction: ModelPrediction) -> float:
    return sum(
        kernel.kernel.calls_count * size
        for kernel in prediction.kernels
        for tensor, size in kernel.kernel.work.cost.read_bytes
        if tensor == "B"
    )


def test_memory_and_ideal_time_count_what_the_expected_time_reads() -> None:
    prediction = predict_model("gb10", LLAMA, formats="INT4.BF16", exceptions=EVERY_MATRIX)
    counts = parameter_counts(LLAMA)
    assert kernel_bytes_per_element(get_format("INT4")) == WITH_SCALES  # what the expected time's constants read
    assert read_bytes(prediction) == pytest.approx(WITH_SCALES * read_weight_count(LLAMA))
    assert read_weight_bytes(LLAMA, prediction.plan) == pytest.approx(WITH_SCALES * read_weight_count(LLAMA))
    matrices = counts.total_count - counts.small_count
    assert prediction.memory.weights_bytes == pytest.approx(WITH_SCALES * matrices + 2 * counts.small_count)
    assert prediction.plan.grouped_weights == ("INT4",)


def test_an_awq_checkpoint_keeps_its_head_and_embedding() -> None:
    shape = replace(LLAMA, weight_format="INT4")
    plan = plan_from_text("checkpoint", shape)
    # 6.979 G in the layers at 4.125 bits and twice 0.525 G at 16.
    assert weights_bytes(shape, plan) / 1e9 == pytest.approx(5.70, abs=0.005)


def test_the_original_documents_count_without() -> None:
    plain = predict_model("gb10", LLAMA, formats="INT4.FP16", exceptions=EVERY_MATRIX, has_group_scales=False)
    assert plain.time_s * 1e3 == pytest.approx(15.75, abs=0.005)
    assert read_bytes(plain) == pytest.approx(0.5 * read_weight_count(LLAMA))
    scaled = predict_model("gb10", LLAMA, formats="INT4.FP16", exceptions=EVERY_MATRIX)
    assert scaled.time_s > plain.time_s
    assert scaled.memory.weights_bytes / plain.memory.weights_bytes == pytest.approx(4.125 / 4, rel=1e-3)
