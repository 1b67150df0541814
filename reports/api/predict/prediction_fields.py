"""From the model's predictions to the fields that every `PredictedKernel` has."""

from __future__ import annotations

from typing import Any

from reports.api.predict.base_models import ExpectedTime, finding_bodies
from roofline_model.chips.hardware import Device, doubt_of_ideals
from roofline_model.core.finding import reason_text
from roofline_model.expected.predict import why_no_expected
from roofline_model.expected.prediction import ExpectedPrediction
from roofline_model.ideal.roofline import Prediction
from roofline_model.operators.product import Operator


def kernel_fields(
    chip: Device,
    work: Operator,
    found: Prediction,
    expected: ExpectedPrediction | None,
    *,
    cache: str = "cold",
    attention_kernel: str | None = None,
    baseline: str | None,
    wide_s: float | None,
    wide_expected_s: float | None,
) -> dict[str, Any]:
    """Return the fields; `wide_s` and `wide_expected_s` are the ideal and the expected time in the baseline's format."""
    formats = dict(work.formats)
    return {
        "hardware": chip.key,
        "hardware_name": chip.name,
        "is_placeholder": chip.is_placeholder,
        "op": work.op,
        "activation_format": formats["a" if "a" in formats else "q"],
        "output_format": formats["c" if "c" in formats else "o"],
        "time_s": found.time_s,
        "memory_time_s": found.memory_time_s,
        "compute_time_s": found.compute_time_s,
        "bound": found.bound,
        "flops": found.flops,
        "read_bytes": found.read_bytes,
        "write_bytes": found.write_bytes,
        "intensity_flop_per_byte": found.intensity_flop_per_byte,
        "critical_intensity_flop_per_byte": found.critical_intensity_flop_per_byte,
        "rate_flops_per_s": found.rate_flops_per_s,
        "bandwidth_bytes_per_s": found.bandwidth_bytes_per_s,
        "peak_flops_per_s": found.peak_flops_per_s,
        "memory_level": found.memory_level,
        "path": found.path,
        "compute_format": found.compute_format,
        "baseline_format": baseline,
        "speedup_ratio": None if wide_s is None else wide_s / found.time_s,
        "expected": None if expected is None else expected_body(expected),
        "expected_reason": None
        if expected is not None
        else reason_text(why_no_expected(work, chip, cache=cache, attention_kernel=attention_kernel)),
        "expected_speedup_ratio": None
        if wide_expected_s is None or expected is None
        else wide_expected_s / expected.time_s,
        # That of the expected times is among their own findings.
        "provenance": found.provenance,
        "findings": finding_bodies((*found.findings, doubt_of_ideals(chip))),
        "model_version": found.model_version,
    }


def expected_body(found: ExpectedPrediction) -> ExpectedTime:
    """Return an expected time as the API tells it."""
    return ExpectedTime(
        time_s=found.time_s,
        low_s=found.low_s,
        high_s=found.high_s,
        binding=found.binding,
        kernel=found.kernel,
        provenance=found.provenance,
        parts_s=dict(found.parts),
        findings=finding_bodies(found.findings),
        model_version=found.model_version,
    )
