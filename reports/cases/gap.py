"""Where the time of a measured case went: `roofline_model.expected.gap` over what the store keeps of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofline_model.expected.gap import Gap, explain_gap

if TYPE_CHECKING:
    from reports.cases.summary import CaseSummary

_PARTS = {
    "ideal": ("ideal roof", ""),
    "memory": ("memory efficiency", "bandwidth that is reached, not printed"),
    "tiles": ("tiles and waves", "tensor pipe with padding, tail and delivered rate"),
    "exp": ("exp bound", "the softmax's unit, not the tensor pipe"),
    "launch": ("launch floor", ""),
    "widening": ("dequantising, casting, split-K sums", ""),
    "host": ("the framework on the host, between the kernels", ""),
    "supply": ("operand supply from L2, latency, imperfect overlap", ""),
    "kernel": ("this kernel beyond the machine's ceilings, as calibrated", ""),
    "clock": ("clock below nominal, where the SMs bind the time", ""),
    "unexplained": ("unexplained", ""),
}
"""Part of a measured time → its name for readers, and what it means; in the order of the split (`PARTS`)."""
NAMES = {part: name for part, (name, _) in _PARTS.items()}
LABELS = {part: f"{name}: {meaning}" if meaning else name for part, (name, meaning) in _PARTS.items()}


def case_gap(case: CaseSummary) -> Gap | None:
    """Return the split of a case's pooled time; None without a measurement, without a prediction, or on another chip."""
    record, measured_s = case.lead.record, case.measured_s
    ideal, expected = record.ideal, record.expected
    if measured_s is None or ideal is None or case.lead.is_forced or ideal.memory_time_s is None:
        return None
    return explain_gap(
        measured_s=measured_s,
        ideal_memory_s=ideal.memory_time_s,
        ideal_compute_s=ideal.compute_time_s or 0.0,
        ideal_s=ideal.time_s,
        expected_s=None if expected is None else expected.time_s,
        terms_s=None if expected is None else expected.terms_s,
        clock_ratio=_clock_ratio(case),
    )


def expected_gap(case: CaseSummary) -> Gap | None:
    """Return the split where an expected time is part of it; without one it would say no more than the error does."""
    return case_gap(case) if has_parts(case) and case.measured_s else None


def has_parts(case: CaseSummary) -> bool:
    """Return whether an expected time with its terms is stored, so that a split has more than the roof and the rest."""
    expected = case.lead.record.expected
    return expected is not None and expected.low_s is not None and expected.terms_s is not None


def _clock_ratio(case: CaseSummary) -> float | None:
    """Return the SM clock while measuring over the one the chip should hold, where both are known."""
    for measured in case.measurements:
        rated_hz = measured.state.rated_clock_hz if measured.state is not None else None
        if measured.sm_clock_hz and rated_hz:
            return measured.sm_clock_hz / rated_hz
    return None
