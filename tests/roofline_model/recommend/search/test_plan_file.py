"""The applied form of a plan: groups of Linears with both formats, read back by the names of a real model's modules."""

from __future__ import annotations

import json

import pytest

from roofline_model.core.errors import UnsupportedError
from roofline_model.models.format_plan import PartFormats, plan_from_text
from roofline_model.models.model_registry import get_model
from roofline_model.models.strategies.module_names import layer_group
from roofline_model.models.strategies.modules_plan import modules_plan
from roofline_model.recommend.search.plan_file import applied_plan, write_plan

LLAMA = get_model("llama-3-8b")
LINEARS = (
    "self_attn.q_proj",
    "self_attn.k_proj",
    "self_attn.v_proj",
    "self_attn.o_proj",
    "mlp.gate_proj",
    "mlp.up_proj",
    "mlp.down_proj",
)


def test_every_group_is_named_with_both_formats(tmp_path) -> None:
    plan = plan_from_text(
        "INT4.BF16", LLAMA, exceptions=["lm_head=BF16", "embedding=BF16", "qkv_proj@0-1=INT8.INT8", "down_proj@31=BF16"]
    )
    formats_by_part = applied_plan(plan, LLAMA)
    assert len(formats_by_part) == 32 * 4 + 1
    assert formats_by_part["layers.1.qkv_proj"] == "INT8.INT8"  # INT8 alone would be weight-only
    assert (
        formats_by_part["layers.2.qkv_proj"],
        formats_by_part["layers.31.down_proj"],
        formats_by_part["lm_head"],
    ) == ("INT4.BF16", "BF16", "BF16")
    path = write_plan(plan, LLAMA, tmp_path / "plan.json")
    document = json.loads(path.read_text())
    assert (document["plan"], document["model"], document["kv"]) == (formats_by_part, "llama-3-8b", "BF16")


def test_the_file_is_the_plan_again_by_the_modules_of_a_model() -> None:
    plan = plan_from_text("INT4.BF16", LLAMA, exceptions=["lm_head=BF16", "embedding=BF16", "o_proj@3=FP8"])
    keys = applied_plan(plan, LLAMA)
    names = [f"model.layers.{layer}.{name}" for layer in range(32) for name in LINEARS] + ["lm_head"]
    formats = {}
    for name in names:
        weights, _, activations = keys[layer_group(name) or ""].partition(".")
        formats[name] = PartFormats(weights, activations or weights)
    again = modules_plan(formats, LLAMA, wide="BF16")
    for part in ("q_proj", "o_proj", "up_proj", "down_proj"):
        assert [again.of(part, layer) for layer in range(32)] == [plan.of(part, layer) for layer in range(32)]


def test_a_plain_ffn_has_its_up_projection_under_the_same_key() -> None:
    phi = get_model("phi-2")
    assert applied_plan(plan_from_text("INT4.FP16", phi), phi)["layers.0.gate_up_proj"] == "INT4.FP16"
    assert layer_group("model.layers.0.mlp.fc1") == "layers.0.gate_up_proj"


def test_what_no_file_can_say_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="has experts in layer 0"):
        applied_plan(plan_from_text("INT4.BF16", get_model("mixtral-8x7b")), get_model("mixtral-8x7b"))
    with pytest.raises(UnsupportedError, match=r"4.*qkv_proj"):
        applied_plan(plan_from_text("INT4.BF16", LLAMA, exceptions=["q_proj@4=BF16"]), LLAMA)
