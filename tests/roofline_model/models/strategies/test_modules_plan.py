"""The plan of what a library made of each Linear: parts and layers found by name, fallbacks included."""

from __future__ import annotations

import pytest

from roofline_model.core.errors import InvalidValueError, UnsupportedError
from roofline_model.models.decoder_step import Workload, step_kernels
from roofline_model.models.format_plan import PartFormats, plan_from_text
from roofline_model.models.model_registry import get_model
from roofline_model.models.strategies.modules_plan import modules_plan

LLAMA = get_model("llama-3-8b")
INT4, BF16 = PartFormats("INT4", "BF16"), PartFormats("BF16", "BF16")
LINEARS = (
    "self_attn.q_proj",
    "self_attn.k_proj",
    "self_attn.v_proj",
    "self_attn.o_proj",
    "mlp.gate_proj",
    "mlp.up_proj",
    "mlp.down_proj",
)


def modules(formats: PartFormats = INT4) -> dict[str, PartFormats]:
    names = [f"model.layers.{layer}.{name}" for layer in range(LLAMA.layer_count) for name in LINEARS]
    return {**dict.fromkeys(names, formats), "lm_head": formats}


def test_every_linear_narrow_is_the_plan_of_one_word() -> None:
    plan = modules_plan(modules(), LLAMA, wide="BF16")
    same = plan_from_text("INT4.BF16", LLAMA, exceptions=["lm_head=INT4.BF16"])
    work = Workload.of("decode", 1, 512)
    assert step_kernels(LLAMA, work, plan) == step_kernels(LLAMA, work, same)


def test_a_layer_that_fell_back_is_wide_in_that_layer_alone() -> None:
    formats = modules() | {"model.layers.3.mlp.down_proj": BF16}
    plan = modules_plan(formats, LLAMA, wide="BF16", kv="INT8", label="asked")
    assert [plan.of("down_proj", layer).weights for layer in (2, 3, 4)] == ["INT4", "BF16", "INT4"]
    assert plan.of("gate_proj", 3) == INT4
    assert (plan.kv, plan.label, plan.of("embedding").weights) == ("INT8", "asked", "BF16")


def test_a_fused_module_is_all_its_parts() -> None:
    plan = modules_plan({"model.layers.0.self_attn.qkv_proj": INT4}, LLAMA, wide="BF16")
    assert {part: plan.of(part, 0).weights for part in ("q_proj", "k_proj", "v_proj", "o_proj")} == {
        "q_proj": "INT4",
        "k_proj": "INT4",
        "v_proj": "INT4",
        "o_proj": "BF16",
    }


def test_what_is_no_part_of_the_decoder_is_refused_only_when_it_is_narrow() -> None:
    assert modules_plan({"vision.patch": BF16}, LLAMA, wide="BF16").exceptions == ()
    with pytest.raises(UnsupportedError, match=r"vision\.patch.*llama-3-8b"):
        modules_plan({"vision.patch": INT4}, LLAMA, wide="BF16")
    with pytest.raises(InvalidValueError, match=r"40, llama-3-8b.*32"):
        modules_plan({"model.layers.40.mlp.up_proj": INT4}, LLAMA, wide="BF16")
    with pytest.raises(UnsupportedError, match=r"q_proj.*0.*INT4\.BF16.*BF16"):
        modules_plan({"model.layers.0.self_attn.q_proj": INT4, "model.layers.0.attn.query": BF16}, LLAMA, wide="BF16")
