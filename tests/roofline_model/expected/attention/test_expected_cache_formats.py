"""Caches that nobody measured borrow the FP8 cache's kernel: its clocks, their bytes, a wider interval, and a note."""

from __future__ import annotations

import math

import pytest

from roofline_model.core.finding import has_code
from roofline_model.expected.attention.cache_formats import NARROW_HALF_WIDTH
from roofline_model.expected.predict import predict_expected
from roofline_model.operators.attention import attention


def expected_of(chip, kv, *, q="BF16", new=1, context=8192, batch=16):
    work = attention(batch, 32, 8, new, context, 128, q=q, kv=kv, causal=new > 1)
    return predict_expected(work, chip)


@pytest.mark.parametrize("chip", ["gb10", "h100-sxm", "b200"])
@pytest.mark.parametrize("kv", ["NVFP4", "INT4", "MXFP4"])
def test_a_narrow_cache_is_no_slower_than_fp8_nor_faster_than_its_bytes(chip, kv):
    eight, narrow = expected_of(chip, "FP8"), expected_of(chip, kv)
    bits = {"NVFP4": 4.5, "INT4": 4 + 16 / 128, "MXFP4": 4.25}[kv]
    assert bits / 8 * eight.time_s < narrow.time_s < eight.time_s
    terms = {name: dict(prediction.terms) for name, prediction in (("eight", eight), ("narrow", narrow))}
    # Alike but for how far the library's surface is trusted, which shortens every term.
    assert terms["narrow"]["launch"] == pytest.approx(terms["eight"]["launch"], rel=0.01)
    assert terms["narrow"]["latency"] == pytest.approx(terms["eight"]["latency"], rel=0.01)
    assert terms["narrow"]["dram"] < 0.7 * terms["eight"]["dram"]
    assert narrow.provenance == "transferred-format" != eight.provenance
    assert {item.value("format") for item in narrow.findings if has_code([item], "unmeasured-attention", "cache")} == {
        kv
    }


@pytest.mark.parametrize(("new", "phase"), [(1, "decode"), (2048, "prefill")])
def test_the_interval_is_wider_by_the_way_from_16_to_8_bit(new, phase):
    context = 8192 if new == 1 else new
    eight, narrow = (expected_of("h100-sxm", kv, new=new, context=context) for kv in ("FP8", "NVFP4"))
    for side in ("low_s", "high_s"):
        own_width, wide = (
            abs(math.log(getattr(prediction, side) / prediction.time_s)) for prediction in (eight, narrow)
        )
        assert wide == pytest.approx(math.hypot(own_width, NARROW_HALF_WIDTH[phase]), rel=0.05)


def test_a_short_cache_costs_what_the_launch_costs():
    eight, narrow = (expected_of("gb10", kv, context=16, batch=1) for kv in ("FP8", "NVFP4"))
    assert narrow.time_s == pytest.approx(eight.time_s, rel=0.02)


def test_prefill_reads_fewer_bytes_at_the_same_arithmetic():
    eight, narrow = (dict(expected_of("l40s", kv, new=4096, context=4096).terms) for kv in ("FP8", "NVFP4"))
    assert narrow["tensor"] == eight["tensor"]
    assert narrow["append"] < eight["append"]


def test_findings_say_in_what_the_measured_kernels_compute():
    def findings(**call):
        return expected_of("h100-sxm", "FP8", **call).findings

    assert has_code(findings(new=1024, context=1024), "prefill-in-fp8")
    assert not has_code(findings(q="FP8", new=1024, context=1024), "prefill-in-fp8")
    assert has_code(findings(q="FP8"), "unmeasured-attention", "queries")
    assert not has_code(findings(), "unmeasured-attention")


def test_an_integer_cache_of_8_bit_is_not_an_fp8_one():
    eight, whole = expected_of("gb10", "FP8"), expected_of("gb10", "INT8")
    assert whole.time_s == eight.time_s
    assert whole.provenance == "transferred-format"
    assert whole.high_s > eight.high_s


def test_a_chip_without_8_bit_constants_reads_a_narrow_cache_with_its_16_bit_kernel():
    wide, eight, narrow = (expected_of("a100-sxm-80gb", kv) for kv in ("BF16", "FP8", "NVFP4"))
    assert wide.time_s / 2 < eight.time_s < wide.time_s
    assert 4.5 / 16 * wide.time_s < narrow.time_s < eight.time_s
    assert dict(wide.terms)["latency"] == dict(eight.terms)["latency"] == dict(narrow.terms)["latency"]
    assert eight.provenance == narrow.provenance == "transferred-format"
    assert any(has_code([item], "unmeasured-attention", "cache") and item.value("hardware") for item in eight.findings)
    assert wide.high_s / wide.time_s < eight.high_s / eight.time_s < narrow.high_s / narrow.time_s
