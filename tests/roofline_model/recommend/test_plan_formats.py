"""What a plan gives each part, and which plans are the same."""

from __future__ import annotations

import pytest

from roofline_model.models.format_plan import plan_from_text
from roofline_model.models.model_registry import get_model
from roofline_model.recommend.plan_formats import PlanFormats, formats_of, plan_formats, plan_parts, rewidened

LLAMA = get_model("llama-3-8b")
WIDE_PARTS = ("lm_head=BF16", "embedding=BF16")


def described(text: str, *exceptions: str, model: str = "llama-3-8b", kv: str | None = None) -> dict[str, object]:
    shape = get_model(model)
    return by_part(plan_formats(plan_from_text(text, shape, kv=kv, exceptions=exceptions), shape))


def by_part(formats: PlanFormats) -> dict[str, object]:
    return {part.name: part.format or dict(part.layer_counts) for part in plan_parts(formats)}


@pytest.mark.parametrize(
    ("plan", "parts"),
    [
        (("BF16",), {"everything": "BF16"}),
        (("INT4.BF16", *WIDE_PARTS), {"layers": "INT4.BF16"}),
        (("INT4",), {"layers": "INT4.BF16"}),
        (("INT4.BF16", "lm_head=INT4"), {"layers": "INT4.BF16", "head": "INT4.BF16"}),
        (("BF16", "ffn@0-19=INT4.BF16", "ffn@20-23=FP8"), {"ffn": {"INT4.BF16": 20, "FP8_E4M3": 4}}),
        (("FP8", *WIDE_PARTS, "o_proj=BF16"), {"qkv_proj": "FP8_E4M3", "ffn": "FP8_E4M3"}),
        (("FP8", *WIDE_PARTS, "ffn=NVFP4.BF16"), {"attention": "FP8_E4M3", "ffn": "NVFP4.BF16"}),
        (("BF16", "kv@0-3=FP8"), {"cache": {"FP8_E4M3": 4}}),
        (("BF16", "embedding=INT8.BF16"), {"embedding": "INT8.BF16"}),
    ],
)
def test_the_narrow_parts_of_a_plan(plan, parts):
    assert described(*plan) == parts


def test_a_part_that_differs_between_layers_stands_once_with_each_format():
    formats = plan_formats(plan_from_text("BF16", LLAMA, kv="FP8", exceptions=["ffn@0-19=INT4.BF16"]), LLAMA)
    pairs = formats_of(plan_parts(formats), formats.wide)
    assert pairs == (("ffn", "INT4.BF16"), ("ffn", "BF16"), ("cache", "FP8_E4M3"))


def test_parts_of_a_mixture():
    wide_parts = (*WIDE_PARTS, "router=BF16")
    assert described("BF16", "experts=MXFP4.BF16", model="gpt-oss-20b") == {"experts": "MXFP4.BF16"}
    assert described("FP8", *wide_parts, model="gpt-oss-20b", kv="FP8") == {"layers": "FP8_E4M3", "cache": "FP8_E4M3"}
    # DeepSeek's first layer is dense, the others have routed and shared experts.
    assert described("FP8", *wide_parts, model="deepseek-v2-lite") == {"layers": "FP8_E4M3"}
    assert described("FP8", *wide_parts, "attention=BF16", model="deepseek-v2-lite") == {"mlp": "FP8_E4M3"}


def test_the_same_plan_written_in_two_ways_is_equal():
    plan = plan_from_text("FP8", LLAMA, exceptions=[*WIDE_PARTS, "ffn@0-31=INT4.BF16"])
    other = plan_from_text("INT4.BF16", LLAMA, exceptions=[*WIDE_PARTS, "attention=FP8"])
    assert plan != other
    assert plan_formats(plan, LLAMA) == plan_formats(other, LLAMA)
    narrow = plan_formats(
        plan_from_text("INT4.BF16", LLAMA, kv="FP8", exceptions=[*WIDE_PARTS, "attention=FP8"]), LLAMA
    )
    assert narrow != plan_formats(other, LLAMA)


def test_a_tied_embedding_is_not_told_apart_from_the_head():
    shape = get_model("llama-3.2-1b")
    tied = plan_formats(plan_from_text("BF16", shape, exceptions=["lm_head=INT8.BF16"]), shape)
    assert by_part(tied) == {"head": "INT8.BF16"}


def test_another_16_bit_format_replaces_the_plans_own_everywhere():
    plan = plan_from_text("INT4.FP16", LLAMA, exceptions=["o_proj@0-3=FP16", "lm_head=FP8", "kv@1=INT8"])
    widened = rewidened(plan, "BF16")
    assert (widened.base.label, widened.kv, widened.wide) == ("INT4.BF16", "BF16", "BF16")
    assert widened.of("o_proj", 2).label == "BF16"
    assert (widened.of("lm_head").label, widened.kv_of(1)) == ("FP8_E4M3", "INT8")
    assert rewidened(widened, "BF16") is widened
    assert rewidened(widened, "FP16").base == plan.base
