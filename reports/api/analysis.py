"""Answers about one product. Pure, so each is kept: the same question is answered from memory the second time."""

from __future__ import annotations

from dataclasses import asdict
from functools import lru_cache

from reports.api.analysis_models import (
    Analysis,
    Candidate,
    Excluded,
    OccupancyBody,
    Recommendation,
    TilingAnswer,
    TilingBody,
)
from reports.api.base_models import ExpectedTime
from reports.api.chip_lookup import find_chip
from roofline_model import recommendation
from roofline_model.auto_quantize import recommend_quantization
from roofline_model.case import Case
from roofline_model.expected.case_times import expected_times
from roofline_model.expected.predict import ExpectedPrediction, predict_expected, why_no_expected
from roofline_model.hardware import Device
from roofline_model.operators import gemm
from roofline_model.recommendation import TimeEstimate
from roofline_model.roofline import predict
from roofline_model.tiling import gemm_tiling

KEPT_ANSWERS = 4_096
"""Answers of each kind that are kept as text: a few kilobytes each."""
KEPT_TIMES = 65_536

GEMV_NOTE = "the library runs its GEMV kernel here, which has no tiles; it streams the weights once"

Shape = tuple[int, int, int]


@lru_cache(KEPT_ANSWERS)
def analysis_json(chip_key: str, shape: Shape, activation: str, weight: str, cache: str) -> str:
    """Return the `Analysis` of a product as JSON. Raises `UnsupportedError` where the chip cannot compute in the formats."""
    chip = find_chip(chip_key)
    work = gemm(*shape, a=activation, b=weight)
    found = predict(work, chip, cache=cache)
    expected = _expected(chip_key, shape, activation, weight, cache)
    baseline = next((name for name in ("FP16", "BF16") if chip.declares(name)), None)
    wide_s = None if baseline is None else predict(gemm(*shape, a=baseline), chip, cache=cache).time_s
    wide = None if baseline is None or expected is None else _expected(chip_key, shape, baseline, baseline, cache)
    formats = dict(work.formats)
    return Analysis(
        hardware=chip.key, hardware_name=chip.name, is_placeholder=chip.is_placeholder, op=work.op,
        M=shape[0], N=shape[1], K=shape[2], weight_format=formats["b"], activation_format=formats["a"],
        output_format=formats["c"], operands=operands_label(formats["b"], formats["a"]), cache=cache,
        time_s=found.time_s, memory_time_s=found.memory_time_s, compute_time_s=found.compute_time_s, bound=found.bound,
        flops=found.flops, read_bytes=found.read_bytes, write_bytes=found.write_bytes,
        intensity_flop_per_byte=found.intensity_flop_per_byte,
        critical_intensity_flop_per_byte=found.critical_intensity_flop_per_byte,
        rate_flops_per_s=found.rate_flops_per_s, bandwidth_bytes_per_s=found.bandwidth_bytes_per_s,
        peak_flops_per_s=found.peak_flops_per_s, memory_level=found.memory_level, path=found.path,
        compute_format=found.compute_format, baseline_format=baseline,
        speedup_ratio=None if wide_s is None else wide_s / found.time_s,
        expected=None if expected is None else expected_body(expected),
        expected_reason=None if expected is not None else why_no_expected(work, chip, cache=cache),
        expected_speedup_ratio=None if wide is None or expected is None else wide.time_s / expected.time_s,
        provenance=found.provenance, notes=list(found.notes), model_version=found.model_version,
    ).model_dump_json()  # fmt: skip


def recommendation_json(
    chip_key: str, shape: Shape, phase: str | None, limit_gb: float | None, parameters: float | None, formats: tuple[str, ...] | None
) -> str:  # fmt: skip
    """Return the `Recommendation` for a product as JSON. Raises as `recommend_quantization`."""
    chip = find_chip(chip_key)
    found = recommend_quantization(
        chip, *shape, phase, limit_gb, model_parameters=parameters, formats=formats, times=_times_of(chip)
    )
    is_expected = any(one.time_source != "ideal" for one in found.candidates)
    return Recommendation(
        hardware=found.hardware, phase=found.phase, M=found.M, N=found.N, K=found.K, precision=found.precision,
        method=found.method, summary=str(found), reason=found.reason,
        fits_memory_limit=None if limit_gb is None else found.fits,
        ranked_by="expected" if is_expected else "ideal", best=_candidate(found.best),
        baseline=_candidate(found.baseline), candidates=[_candidate(one) for one in found.candidates],
        excluded=[Excluded(format=name, reason=reason) for name, reason in found.excluded], notes=list(found.notes),
    ).model_dump_json()  # fmt: skip


@lru_cache(KEPT_ANSWERS)
def tiling_json(chip_key: str, shape: Shape, activation: str, weight: str, cache: str) -> str:
    """Return the `TilingAnswer` of a product as JSON. Raises `UnsupportedError` for a chip without the limits of an SM."""
    chip = find_chip(chip_key)
    work = gemm(*shape, a=activation, b=weight)
    found = gemm_tiling(work, chip, cache=cache)
    body = None
    if found is not None:
        names = [name for name in TilingBody.model_fields if name not in ("occupancy", "parts_s", "terms_s")]
        body = TilingBody(
            occupancy=OccupancyBody(**asdict(found.occupancy)), parts_s=dict(found.parts_s),
            terms_s=dict(found.terms_s), **{name: getattr(found, name) for name in names},
        )  # fmt: skip
    formats = dict(work.formats)
    return TilingAnswer(
        hardware=chip.key, M=shape[0], N=shape[1], K=shape[2], weight_format=formats["b"],
        activation_format=formats["a"], cache=cache, tiling=body, note=GEMV_NOTE if body is None else None,
    ).model_dump_json()  # fmt: skip


def operands_label(weight: str, activation: str) -> str:
    """Return the widths of weight and activation: `W4A16`."""
    return Case("gemm", (), (("a", activation), ("b", weight)), "*").width_label.upper() or "–"


def expected_body(found: ExpectedPrediction) -> ExpectedTime:
    """Return an expected time as the API tells it."""
    return ExpectedTime(
        time_s=found.time_s, low_s=found.low_s, high_s=found.high_s, binding=found.binding, kernel=found.kernel,
        provenance=found.provenance, parts_s=dict(found.parts), notes=list(found.notes),
        model_version=found.model_version,
    )  # fmt: skip


@lru_cache(KEPT_TIMES)
def _expected(chip_key: str, shape: Shape, activation: str, weight: str, cache: str) -> ExpectedPrediction | None:
    return predict_expected(gemm(*shape, a=activation, b=weight), find_chip(chip_key), cache=cache)


def _times_of(chip: Device):
    """Return the expected times of a chip, each asked once: limits and phases change nothing about them."""

    def times(case: Case) -> TimeEstimate | None:
        return _time(chip.key, case.op, case.shape, case.formats, case.cache)

    return times


@lru_cache(KEPT_TIMES)
def _time(
    chip_key: str, op: str, shape: tuple[tuple[str, int], ...], formats: tuple[tuple[str, str], ...], cache: str
) -> TimeEstimate | None:
    return expected_times(find_chip(chip_key))(Case(op, shape, formats, "*", cache=cache))


def _candidate(one: recommendation.Candidate) -> Candidate:
    return Candidate(
        format=one.precision, weight_format=one.weight_format, activation_format=one.activation_format,
        operands=operands_label(one.weight_format, one.activation_format), method=one.method, path=one.path,
        time_s=one.time_s, time_source=one.time_source, low_s=one.low_s, high_s=one.high_s,
        time_provenance=one.time_provenance or None, ideal_s=one.ideal_s, speedup_ratio=one.speedup,
        ideal_speedup_ratio=one.ideal_speedup, memory_bytes=one.memory_bytes,
        memory_saved_ratio=one.memory_saved_ratio, bound=one.bound, quality=one.quality, reason=one.reason,
    )  # fmt: skip
