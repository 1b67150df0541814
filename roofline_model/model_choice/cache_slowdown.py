"""Why a plan with a narrow cache may be slower than the same plan with a 16-bit one: its attention takes longer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from roofline_model.decoder.llm import ModelPrediction
from roofline_model.expected.attention.predict import UNSPLIT_NOTE
from roofline_model.expected.predict import ExpectedPrediction, predict_expected
from roofline_model.formats import get_format
from roofline_model.hardware import Device
from roofline_model.operators import Operator
from roofline_model.tie_ranking import LEVEL_RATIO


def cache_slowdown(passes: Sequence[ModelPrediction], device: Device) -> str:
    """Say what attention on a plan's narrow cache costs, where it is expected to take longer than on a 16-bit one; else empty."""
    for found in passes:
        for one in found.kernels:
            if one.kernel.work.op != "attention":
                continue
            narrow = dict(one.kernel.work.formats).get("kv", found.plan.wide)
            if get_format(narrow).element_bits >= get_format(found.plan.wide).element_bits:
                continue
            mine, wide = (_expected(one.kernel.work, device, kv) for kv in (narrow, found.plan.wide))
            if mine is None or wide is None or mine.time_s <= (1 + LEVEL_RATIO) * wide.time_s:
                continue
            said = f"attention takes {mine.time_s / wide.time_s:.1f}x as long on its {narrow} cache as on a 16-bit one"
            return f"{said}: {UNSPLIT_NOTE}" if mine.is_cache_unsplit else said
    return ""


def _expected(work: Operator, device: Device, cache_format: str) -> ExpectedPrediction | None:
    """Return the expected time of this attention on a cache of another format; queries are 16 bit where the cache is."""
    formats = {**dict(work.formats), "kv": cache_format}
    if get_format(cache_format).element_bits >= 16:
        formats |= {name: cache_format for name in ("q",) if get_format(formats["q"]).element_bits < 16}
    return predict_expected(replace(work, formats=tuple(formats.items())), device)
