"""The expected prediction of a case as the store keeps it: the record of kind `expected` beside the ideal one."""

from __future__ import annotations

from results.records.records import PredictionRecord
from roofline_model.expected.prediction import ExpectedPrediction
from roofline_model.ideal.roofline import Prediction, error_ratio


def expected_record(
    expected: ExpectedPrediction, ideal: Prediction, profile_hash: str, measured_s: float | None
) -> PredictionRecord:
    """Return the stored form of an expected time beside a measured median (or None); counts are those of the ideal."""
    terms = dict(expected.terms)
    memory_s, compute_s = terms.get("dram"), terms.get("tensor")
    return PredictionRecord(
        kind="expected",
        model_version=expected.model_version,
        hardware_key=expected.hardware,
        profile_hash=profile_hash,
        time_s=expected.time_s,
        memory_time_s=memory_s,
        compute_time_s=compute_s,
        bound=_bound(memory_s, compute_s, ideal),
        flops=ideal.flops,
        read_bytes=ideal.read_bytes,
        write_bytes=ideal.write_bytes,
        bandwidth_bytes_per_s=None,
        peak_flops_per_s=None,
        compute_format=ideal.compute_format,
        path=ideal.path,
        memory_level=ideal.memory_level,
        provenance=expected.provenance,
        low_s=expected.low_s,
        high_s=expected.high_s,
        findings=expected.findings,
        terms_s=terms,
        error_ratio=error_ratio(expected.time_s, measured_s),
    )


def _bound(memory_s: float | None, compute_s: float | None, ideal: Prediction) -> str:
    """Return the longer side; of a whole model's pass, whose kernels are bound by one side each, that of the ideal time."""
    if memory_s is None and compute_s is None:
        return ideal.bound
    return "compute" if (compute_s or 0.0) > (memory_s or 0.0) else "memory"
