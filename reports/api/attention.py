"""POST /api/attention: fused attention on a chip, ideal and expected; `router` is what the app includes."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from fastapi import APIRouter
from fastapi.responses import Response

from reports.api.analysis import KEPT_ANSWERS, expected_body
from reports.api.attention_models import AttentionAnalysis, AttentionRequest
from reports.api.chip_lookup import DEFAULT_CHIP, HardwareKey, find_chip
from reports.api.problem import naming
from roofline_model.expected.predict import predict_expected, why_no_expected
from roofline_model.formats import get_format
from roofline_model.operators import Operator
from roofline_model.ops.attention_ops import attention, unfused_attention_parts
from roofline_model.ops.attention_shape import check_attention_shape
from roofline_model.ops.operator_sequence import predict_operator, predict_sequence

router = APIRouter(tags=["one product"])


class _Question(NamedTuple):
    """One shape of attention; letters as everywhere."""

    B: int
    Hq: int
    Hkv: int
    Sq: int
    Skv: int
    D: int
    causal: bool
    window: int | None

    def work(self, query: str, cache: str) -> Operator:
        """Return the fused kernel in these formats."""
        return attention(*self[:6], q=query, kv=cache, causal=self.causal, window=self.window)


@router.post("/api/attention", response_model=AttentionAnalysis, summary="Predict fused attention")
async def analyze_attention(body: AttentionRequest, hardware_key: HardwareKey = DEFAULT_CHIP) -> Response:
    """Ideal time of softmax(Q·Kᵀ)·V as one kernel, what bounds it, and the expected time with its interval."""
    chip = find_chip(hardware_key)
    asked = _Question(
        body.B, body.Hq, body.Hq if body.Hkv is None else body.Hkv, body.Sq,
        body.Sq if body.Skv is None else body.Skv, body.D, body.causal, body.window,
    )  # fmt: skip
    with naming(_field_at_fault(asked)):
        check_attention_shape(*asked[:6], causal=asked.causal, window=asked.window)
    with naming("precision"):
        query = get_format(body.precision).key
    with naming("kv_precision"):
        cache = query if body.kv_precision is None else get_format(body.kv_precision).key
    with naming("precision" if body.kv_precision is None else "kv_precision"):
        return Response(attention_json(chip.key, asked, query, cache), media_type="application/json")


@lru_cache(KEPT_ANSWERS)
def attention_json(chip_key: str, asked: _Question, query: str, cache: str) -> str:
    """Return the `AttentionAnalysis` as JSON. Raises `UnsupportedError` where the chip cannot compute in the formats."""
    chip, work = find_chip(chip_key), asked.work(query, cache)
    found, expected = predict_operator(work, chip), predict_expected(work, chip)
    parts = unfused_attention_parts(*asked[:6], q=query, kv=cache, causal=asked.causal, window=asked.window)
    baseline = next((name for name in ("FP16", "BF16") if chip.declares(name)), None)
    wide = None if baseline is None else asked.work(baseline, baseline)
    wide_expected = None if wide is None or expected is None else predict_expected(wide, chip)
    formats, reads = dict(work.formats), dict(work.cost.read_bytes)
    return AttentionAnalysis(
        hardware=chip.key, hardware_name=chip.name, is_placeholder=chip.is_placeholder, op=work.op,
        **asked._asdict(), kv_format=formats["kv"], activation_format=formats["q"], output_format=formats["o"],
        kv_read_bytes=reads["K"] + reads.get("V", 0.0),
        time_s=found.time_s, unfused_time_s=predict_sequence(parts, chip).time_s,
        memory_time_s=found.memory_time_s, compute_time_s=found.compute_time_s, bound=found.bound,
        flops=found.flops, read_bytes=found.read_bytes, write_bytes=found.write_bytes,
        intensity_flop_per_byte=found.intensity_flop_per_byte,
        critical_intensity_flop_per_byte=found.critical_intensity_flop_per_byte,
        rate_flops_per_s=found.rate_flops_per_s, bandwidth_bytes_per_s=found.bandwidth_bytes_per_s,
        peak_flops_per_s=found.peak_flops_per_s, memory_level=found.memory_level, path=found.path,
        compute_format=found.compute_format, baseline_format=baseline,
        speedup_ratio=None if wide is None else predict_operator(wide, chip).time_s / found.time_s,
        expected=None if expected is None else expected_body(expected),
        expected_reason=None if expected is not None else why_no_expected(work, chip),
        expected_speedup_ratio=None if wide_expected is None or expected is None else wide_expected.time_s / expected.time_s,
        provenance=found.provenance, notes=list(found.notes), model_version=found.model_version,
    ).model_dump_json()  # fmt: skip


def _field_at_fault(asked: _Question) -> str:
    """Return the field to blame when the shape contradicts itself."""
    if asked.Hq % asked.Hkv:
        return "Hkv"
    return "Skv" if asked.Sq > asked.Skv else "window"
