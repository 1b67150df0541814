"""A plan of a model in words: what each part has, and how the chip runs it."""

from __future__ import annotations

from reports.present.predicted.words import execution_text, plan_text
from roofline_model.recommend.plan_formats import PlanPart
from roofline_model.recommend.plan_options import Execution


def test_a_plan_in_a_line():
    ffn = PlanPart("ffn", (("INT4.BF16", 60), ("FP8_E4M3", 8)), 80)
    assert plan_text([ffn, PlanPart("cache", (("NVFP4", 80),), 80)]) == (
        "ffn INT4.BF16 in 60 of 80 layers, FP8_E4M3 in 8; cache NVFP4"
    )
    assert plan_text([PlanPart("layers", (("INT4.BF16", 32),), 32), PlanPart("head", (("FP8_E4M3", 1),), 1)]) == (
        "INT4.BF16; head FP8_E4M3"
    )
    assert plan_text([PlanPart("everything", (("BF16", 32),), 32)]) == "everything BF16"


def test_how_a_plan_runs_in_a_line():
    products = (("native", "FP8_E4M3"), ("dequantize", "BF16"), ("emulated", "FP16"))
    assert execution_text(Execution(products, is_cache_decoded=True)) == (
        "native FP8_E4M3 + decoded to BF16 + emulated in FP16, cache decoded"
    )
    assert execution_text(Execution((("native", "BF16"),), is_cache_decoded=False)) == "native BF16"
