"""The words of the verdict on a shape, as the terminal and the report print it; `make wording` rewrites them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from shape_records import attention_record, record

from reports.present.words.verdict_text import verdict_text
from results.cases.case_result import case_results
from results.cases.shape_verdict import judge


def bf16(median_s=100e-6, **more):
    return record("BF16", median_s=median_s, **more)


def fp16(median_s=100e-6, **more):
    return record("FP16", median_s=median_s, **more)


def int8(median_s=50e-6, **more):
    return record("INT8", "INT8", "int_mm", median_s, **more)


def int4(median_s=40e-6, **more):
    return record("INT4", "BF16", "tinygemm", median_s, **more)


def few(made, median_s):
    measurement = replace(made.measurement, min_s=median_s, max_s=median_s, sample_count=1)
    return replace(made, measurement=measurement)


PREFILL = (512, 4096, 4096)
SHAPES = {
    "take": [bf16(), int8()],
    "take with something tied": [bf16(), int8(85e-6), int4(80e-6, low=0.7, high=1.3)],
    "take, with something faster and riskier": [bf16(), int8(), int4(30e-6)],
    "stay, with something faster and riskier": [bf16(), int4(30e-6)],
    "stay: tied": [bf16(), int8(101e-6)],
    "stay: slower by the medians": [bf16(35e-6), int8(100e-6, low=0.3, high=2)],
    "stay: faster by the medians": [bf16(low=0.3, high=2), int8(40e-6)],
    "stay: slower": [bf16(1e-3, shape=PREFILL), int4(10e-3, shape=PREFILL)],
    "stay: only emulated": [record("BF16"), record("FP8_E4M3", "FP8_E4M3", "scaled_mm_emulated", ideal_s=1e-6)],
    "two of 16 bit are tied": [bf16(low=0.999, high=1.001), fp16(96e-6), record("FP32", median_s=94.5e-6)],
    "too few samples": [few(bf16(1.0, has_interval=False), 1.0), few(int8(0.96, has_interval=False), 0.96)],
    "no baseline": [int4(20e-6), record("INT8", "BF16", "int8pack", 30e-6)],
    "no baseline, none within the limit": [int4(20e-6), record("INT4", "BF16", "int4pack", 30e-6)],
    "no narrower format": [bf16(1e-3), fp16(2e-3)],
    "two kernels of one format": [record("FP32", kernel=kernel, median_s=100e-6) for kernel in ("mine", "theirs")],
    "no narrower format, a small lead": [bf16(1e-3), fp16(1.06e-3, low=0.999, high=1.001)],
    "attention: a narrow cache is slower": [
        attention_record("BF16", "BF16", "sdpa_cudnn", 16.72e-6),
        attention_record("BF16", "FP8_E4M3", "widened_emulated", 160.6e-6),
    ],
    "attention: a narrow cache is tied": [
        attention_record("BF16", "BF16", "sdpa_cudnn", 82.34e-6),
        attention_record("FP8_E4M3", "FP8_E4M3", "flex", 82.26e-6),
    ],
    "predictions": [record("BF16"), record("INT8", "INT8", "int_mm")],
    "predictions, one riskier": [record("BF16"), record("INT8", "INT8", "int_mm"), record("INT4", "BF16", "tinygemm")],
    "predictions of one format": [record("FP32", kernel=kernel) for kernel in ("a", "b")],
    "only emulated predictions": [record("FP8_E4M3", "FP8_E4M3", "scaled_mm_emulated", ideal_s=1e-6)],
    "in doubt": [bf16(flags=("noisy",)), int8(flags=("drift",))],
    "disturbed": [bf16(flags=("contended",)), int8()],
    "forced": [bf16(flags=("forced",)), int8(flags=("forced", "drift"))],
    "one kernel": [int8()],
    "nothing": [record("BF16", median_s=1e-9, status="failed", reason="out of memory"), record("FP16", median_s=0.0)],
}


@pytest.mark.parametrize("name", SHAPES)
def test_verdicts(name, snapshot):
    assert verdict_text(judge(case_results(SHAPES[name]))) == snapshot
