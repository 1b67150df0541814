"""What plans that name no part finer than before predict: to the last bit what they did when the parts were coarse."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable

import pytest

from roofline_model.models.format_plan import FormatPlan, plan_from_text
from roofline_model.models.llm import ModelPrediction, predict_model
from roofline_model.models.model_registry import get_model
from roofline_model.models.model_shapes import ModelShape
from roofline_model.models.strategies.model_plan import strategy_plan
from roofline_model.models.strategies.strategies import get_strategy

MIXED = ("attention@0-1=FP8", "o_proj=INT4.FP16", "mlp=NVFP4.FP16", "mlp@0-1=FP8", "kv=FP8", "kv@1=FP16")

BEFORE = [
    ("llama-3-8b", "checkpoint", "0x1.fa1f687259677p-7", "0x1.e618531fd979fp-3", 16_060_522_496, "18b34912c9fb3e17"),
    ("llama-3-8b", "FP8", "0x1.0417c703fb865p-7", "0x1.0761cde79382ap-3", 8_030_527_488, "c1f8d7a473509cfe"),
    ("llama-3-8b", "mixed", "0x1.a84c6f95dbcedp-8", "0x1.d8bee91eab192p-3", 7_284_662_272, "ed78b51b30ad376b"),
    ("llama-3-8b", "layerwise_gradient", "0x1.450d18e74de21p-7", "0x1.e618531fd97a0p-3", 10_534_658_048, "681b2e55a60a1ebc"),
    ("mixtral-8x7b", "checkpoint", "0x1.c70f0987b2417p-5", "0x1.af8796e6a82dep-2", 93_405_585_408, "7d13c192c413aceb"),
    ("mixtral-8x7b", "FP8", "0x1.caaf8d834d557p-6", "0x1.cc1c8dfe774fcp-3", 46_703_058_944, "969c3a4320f202c7"),
    ("mixtral-8x7b", "mixed", "0x1.243bad702863cp-6", "0x1.a3538db2edf07p-2", 29_129_449_472, "6df623a411e80909"),
    ("mixtral-8x7b", "layerwise_gradient", "0x1.154070f59ea28p-5", "0x1.af8796e6a82dep-2", 56_637_333_504, "646c5e521ed98d71"),
    ("deepseek-v3", "checkpoint", "0x1.3bdb050152bf4p-4", "0x1.0f844e41cc028p+0", 672_987_229_184, "dcb048096a20697b"),
    ("deepseek-v3", "FP8", "0x1.37991e4615ef3p-4", "0x1.0d8c24feed994p+0", 671_027_440_640, "1c8b07d769c174c9"),
    ("deepseek-v3", "mixed", "0x1.9f800b12af6f0p-5", "0x1.32ff9220e107fp+0", 388_817_292_288, "7adb26c97f852ec8"),
    ("deepseek-v3", "layerwise_gradient", "0x1.730a2b2b97a87p-4", "0x1.78df9eeacdef8p+0", 782_061_762_560, "5ff006ee19b0f686"),
    ("llama-3.2-1b", "checkpoint", "0x1.5265f4478d29ap-9", "0x1.289c66839f326p-5", 2_471_628_800, "5ec16fd00e1bde18"),
    ("llama-3.2-1b", "FP8", "0x1.6097260e6021fp-10", "0x1.52fcbb18d40dbp-6", 1_235_881_984, "d58f9a2508896be2"),
    ("llama-3.2-1b", "mixed", "0x1.57c3fba433668p-10", "0x1.195b32f36bf54p-5", 1_248_595_968, "a8ff71048528bf32"),
    ("llama-3.2-1b", "layerwise_gradient", "0x1.e2cdb78c650c9p-10", "0x1.289c66839f326p-5", 1_731_604_480, "4befe8a9aafb70a5"),
    ("phi-2", "checkpoint", "0x1.9e489fb61c5f1p-8", "0x1.72e5f946cc808p-4", 5_559_367_680, "f6309621eaadf698"),
    ("phi-2", "FP8", "0x1.e13dbb2149e41p-9", "0x1.a3e10b7bce5a1p-5", 2_780_641_280, "330ebb95d16d7839"),
    ("phi-2", "mixed", "0x1.99538338314acp-9", "0x1.678211a369063p-4", 2_849_044_480, "b8f5d65196ad03b3"),
    ("phi-2", "layerwise_gradient", "0x1.1bb408cf605eep-8", "0x1.72e5f946cc808p-4", 3_566_868_480, "c3ab6d91b45b6bfa"),
    ("gpt-oss-20b", "checkpoint", "0x1.828d831cbfd33p-8", "0x1.bed16f6fac256p-4", 13_761_264_768, "437af1fd71cd1280"),
    ("gpt-oss-20b", "FP8", "0x1.f44dfb44d75b2p-8", "0x1.f750d27d48c04p-5", 20_921_728_128, "0cef9ee412eafe04"),
    ("gpt-oss-20b", "mixed", "0x1.7ff478eb5c8d5p-8", "0x1.afd7bd2882b41p-4", 14_673_879_168, "435e299581dbedf8"),
    ("gpt-oss-20b", "layerwise_gradient", "0x1.38420242484eap-7", "0x1.bed16f6fac256p-4", 25_810_539_648, "246414b456422865"),
]  # fmt: skip
"""Model, plan, seconds of decode and prefill on b10 (batch 3, 1,024 tokens), bytes of the weights, digest of the
kernels.

Computed on 2026-11-21 by commit d0d4e59, when query, key and value had one format, and gate, up and down.
"""


def plan_of(label: str, shape: ModelShape) -> FormatPlan:
    if label == "mixed":
        return plan_from_text("FP16", shape, exceptions=MIXED)
    if label == "layerwise_gradient":
        return strategy_plan(get_strategy(label, num_layers=shape.layer_count), shape)
    if label != "FP8":
        return plan_from_text(label, shape)
    narrow = ["lm_head=FP8", "embedding=FP8", *(["router=FP8"] if shape.experts else [])]  # every matrix, as then
    return plan_from_text(label, shape, exceptions=narrow)


def digest(passes: Iterable[ModelPrediction]) -> str:
    """Return a hash of every kernel: name, shape, formats, calls, FLOPs and bytes."""
    rows = sorted(
        json.dumps(
            [
                kernel.kernel.name,
                kernel.kernel.work.op,
                kernel.kernel.work.shape,
                kernel.kernel.work.formats,
                kernel.kernel.calls_count,
                kernel.flops,
                kernel.moved_bytes,
            ]
        )
        for prediction in passes
        for kernel in prediction.kernels
    )
    return hashlib.sha256("\n".join(rows).encode()).hexdigest()[:16]


@pytest.mark.parametrize(("model", "label", "decode_s", "prefill_s", "weights_bytes", "kernels"), BEFORE)
def test_plans_of_coarse_parts_predict_what_they_did(model, label, decode_s, prefill_s, weights_bytes, kernels) -> None:
    shape = get_model(model)
    plan = plan_of(label, shape)
    passes = [
        predict_model("b10", shape, phase, batch=3, context=1024, formats=plan) for phase in ("decode", "prefill")
    ]
    assert digest(passes) == kernels
    assert [step.time_s.hex() for step in passes] == [decode_s, prefill_s]
    assert passes[0].memory.weights_bytes == weights_bytes
