"""A calibrated prediction as the store keeps it: the record of kind `expected` beside the ideal one."""

from __future__ import annotations

from results.records import PredictionRecord
from roofline_model.calibrated import CalibratedPrediction
from roofline_model.roofline import error_ratio


def expected_record(prediction: CalibratedPrediction, profile_hash: str, measured_s: float | None) -> PredictionRecord:
    """Return the stored form of an expected time beside a measured median (or None)."""
    return PredictionRecord(
        kind="expected",
        model_version=prediction.model_version,
        hardware_key=prediction.hardware,
        profile_hash=profile_hash,
        time_s=prediction.time_s,
        memory_time_s=prediction.memory_time_s,
        compute_time_s=prediction.compute_time_s,
        bound=prediction.bound,
        flops=prediction.flops,
        read_bytes=prediction.read_bytes,
        write_bytes=prediction.write_bytes,
        bandwidth_bytes_per_s=prediction.bandwidth_bytes_per_s,
        peak_flops_per_s=prediction.peak_flops_per_s,
        compute_format=prediction.compute_format,
        path=prediction.path,
        memory_level=prediction.memory_level,
        provenance=prediction.provenance,
        low_s=prediction.low_s,
        high_s=prediction.high_s,
        notes=prediction.notes,
        error_ratio=error_ratio(prediction.time_s, measured_s),
    )
