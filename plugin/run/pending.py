"""A case on its way into the store: declared, then measured, or skipped or failed with its reason in a line, then a
record.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from plugin.run.session import BenchSession
from plugin.samples.plan import MeasurePlan
from plugin.samples.series import MeasuredKernel
from plugin.timers.clock import utc_now
from plugin.timers.timers import Timer
from results.records.records import Measurement, Method, PredictionRecord, Record, TelemetrySample
from roofline_model.chips.hardware import doubt_of_ideals
from roofline_model.core.cost import OpCost
from roofline_model.core.finding import Finding
from roofline_model.expected.prediction import ExpectedPrediction
from roofline_model.ideal.limits import limit_s
from roofline_model.ideal.roofline import Prediction, predict
from roofline_model.operators.case import Case

SEEN_BYTES_MARGIN = 2.0
"""How far a time may beat the limit of bytes that were seen to be read: three rows of an operand speak for all."""
_OF_ANOTHER_CHIP = frozenset({"simulated", "forced", "cold-unproven"})
"""Flags of times that say nothing about the predicted chip's ceilings, or may come from a cache of unknown size."""


@dataclass(slots=True)
class Pending:
    """One case of a test; what is not known yet is empty or None."""

    case: Case
    prediction: Prediction | None
    work: Any = None
    """What the case does, as it was declared."""
    expected: ExpectedPrediction | None = None
    why_no_expected: Finding | None = None
    """That no constants describe the kernel; None where it has an expected time, or the chip or its work lacks one."""
    status: str = ""
    reason: str = ""
    measurement: Measurement | None = None
    method: Method | None = None
    telemetry: tuple[TelemetrySample, ...] = ()
    record_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    visit_count: int = 1
    """Stays that the case may get; 1: all samples lie in its test."""
    extra: dict[str, Any] = field(default_factory=dict)

    def measured(self, session: BenchSession, kernel: MeasuredKernel, timer: Timer, plan: MeasurePlan) -> Measurement:
        """Take over what the runner and the instruments found; return the measurement."""
        flags = kernel.measurement.flags
        flags += ("simulated",) if not timer.runs_kernel else ()
        flags += ("forced",) if session.target.is_forced else ()
        flags += ("above-roof",) if self._is_impossible(session, kernel, flags) else ()
        self.measurement = replace(kernel.measurement, flags=flags)
        self.telemetry = kernel.telemetry
        self.method = session.instruments.method(timer, plan, self.visit_count)
        self.status = "measured"
        if kernel.issue_s is not None:
            self.extra["issue_s"] = kernel.issue_s
        return self.measurement

    def _is_impossible(self, session: BenchSession, kernel: MeasuredKernel, flags: tuple[str, ...]) -> bool:
        """Return whether no kernel of this work can be so fast: its work is counted wrongly, or it did not do it.

        Without work, what a call was seen to read of its operands takes its time.
        """
        chip, median_s = session.target.hardware, kernel.measurement.median_s
        if _OF_ANOTHER_CHIP.intersection(flags) or doubt_of_ideals(chip) is not None:
            return False
        if self.prediction is not None:
            return median_s < limit_s(self.prediction, chip, cache=self.case.cache)
        if not kernel.read_bytes:
            return False
        seen = predict(OpCost(read_bytes=kernel.read_bytes), chip)
        return median_s * SEEN_BYTES_MARGIN < limit_s(seen, chip, cache=self.case.cache)

    def record(self, session: BenchSession, test_id: str, failure: tuple[str, str] | None) -> Record | None:
        """Return the record, or None for a case that the test declared and then chose not to measure.

        `failure` is (status, reason) of a test that ended without success; it decides for a case without a status.
        """
        if not self.status and failure is None:
            return None
        assert session.run is not None
        status, reason = (self.status, self.reason) if self.status else failure or ("", "")
        measured_s = self.measurement.median_s if self.measurement else None
        predictions = []
        if self.prediction is not None:
            ideal = PredictionRecord.from_prediction(self.prediction, session.profile.profile_hash, measured_s)
            why_not = () if self.why_no_expected is None else (self.why_no_expected,)
            predictions.append(replace(ideal, findings=(*ideal.findings, *why_not)))
        if self.expected is not None and self.prediction is not None:
            predictions.append(
                expected_record(self.expected, self.prediction, session.profile.profile_hash, measured_s)
            )
        return Record(
            record_id=self.record_id,
            run_id=session.run.run_id,
            case=self.case,
            status=status,  # type: ignore[arg-type]
            reason=reason,
            test_id=test_id,
            created_at=utc_now(),
            process=session.process,
            method=self.method,
            measurement=self.measurement,
            predictions=tuple(predictions),
            telemetry=self.telemetry,
            extra=self.extra | ({"test_failure": failure[1]} if failure and self.measurement else {}),
        )


def failure(report: Any, call: pytest.CallInfo[None]) -> tuple[str, str] | None:
    """Return (status, one-line reason) of a test that ended without success, else None."""
    if call.excinfo is None:
        return None
    # An error that a mark expects: pytest reports it as skipped, but the kernel ran and was wrong.
    is_expected = hasattr(report, "wasxfail") and not call.excinfo.errisinstance(pytest.xfail.Exception)
    if report.skipped and not is_expected:
        return "skipped", clean(str(getattr(call.excinfo.value, "msg", call.excinfo.value)))
    error_type = call.excinfo.typename
    try:
        text = str(call.excinfo.value).strip()
    except Exception:  # an exception that cannot even say what it is
        text = "(unprintable message)"
    if isinstance(call.excinfo.value, MemoryError) or error_type == "OutOfMemoryError":
        return "failed", clean(f"out of memory: {text}")
    return "failed", clean(text if error_type == "WrongResultError" else f"{error_type}: {text}")


def clean(text: str) -> str:
    """Return the first line of a text, printable and short enough to store and show."""
    first = text.strip().splitlines()[0] if text.strip() else ""
    return "".join(ch if ch.isprintable() else "?" for ch in first)[:300]


def expected_record(
    expected: ExpectedPrediction, ideal: Prediction, profile_hash: str, measured_s: float | None
) -> PredictionRecord:
    """Return the stored form of an expected time beside a measured median (or None); counts are those of the ideal."""
    terms = dict(expected.terms)
    memory_s, compute_s = terms.get("dram"), terms.get("tensor")
    return PredictionRecord.from_prediction(ideal, profile_hash, measured_s).expected(
        expected.time_s,
        measured_s,
        model_version=expected.model_version,
        memory_time_s=memory_s,
        compute_time_s=compute_s,
        bound=_bound(memory_s, compute_s, ideal),
        provenance=expected.provenance,
        low_s=expected.low_s,
        high_s=expected.high_s,
        findings=(*expected.findings, *filter(None, (expected.beside_ideal,))),
        terms_s=terms,
    )


def _bound(memory_s: float | None, compute_s: float | None, ideal: Prediction) -> str:
    """Return the longer side; of a whole model's pass, whose kernels are bound by one side each, that of the ideal
    time.
    """
    if memory_s is None and compute_s is None:
        return ideal.bound
    return "compute" if (compute_s or 0.0) > (memory_s or 0.0) else "memory"
