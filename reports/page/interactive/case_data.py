"""All cases as rows for the page: what its table, its points and its downloads show. Numbers are the records' own."""

from __future__ import annotations

from typing import Any

from reports.cases.summary import CaseSummary
from reports.ranking.shape_ranking import phase_of
from reports.ranking.shape_results import ShapeResult, fastest_by_case
from reports.text.display_text import shown
from reports.view.views import ChipView
from results.records.case_names import pass_name
from roofline_model.core.finding import short_text
from roofline_model.operators.case import Case

TEXT_COLUMNS = (
    "name",
    "op",
    "shape",
    "format",
    "kernel",
    "phase",
    "regime",
    "status",
    "bound",
    "path",
    "compute_format",
    "memory_level",
    "provenance",
    "expected_provenance",
    "total_basis",
    "flags",
    "remarks",
    "standing",
)
NUMBER_COLUMNS = (
    "measured_s",
    "within_ratio",
    "total_ratio",
    "ideal_s",
    "expected_s",
    "expected_low_s",
    "expected_high_s",
    "error_ideal_ratio",
    "error_expected_ratio",
    "roof_share_ratio",
    "achieved_bytes_per_s",
    "achieved_flops_per_s",
    "ideal_flops_per_s",
    "expected_flops_per_s",
    "intensity_flop_per_byte",
    "power_w",
    "energy_j",
    "process_count",
)
COLUMNS = ("number", *TEXT_COLUMNS, *NUMBER_COLUMNS, "is_best", "is_doubtful", "is_plotted")
"""The columns of `case_row`, in the order of a download."""

TABLE_COLUMNS = (
    ("name", "Case", ""),
    ("measured_s", "Measured", "time"),
    ("within_ratio", "±\u00a0within", "width"),
    ("total_ratio", "±\u00a0total", "width"),
    ("flags", "Flags", ""),
    ("regime", "Cache, mode", ""),
    ("ideal_s", "Ideal", "time"),
    ("expected_s", "Expected", "time"),
    ("error_ideal_ratio", "Error of ideal", "signed"),
    ("error_expected_ratio", "Error of expected", "signed"),
    ("roof_share_ratio", "Of roof", "share"),
    ("achieved_bytes_per_s", "Bandwidth", "bandwidth"),
    ("achieved_flops_per_s", "Rate", "flops"),
    ("intensity_flop_per_byte", "FLOP/byte", "plain"),
    ("bound", "Bound", ""),
    ("path", "Path", ""),
    ("power_w", "Power", "watts"),
    ("energy_j", "Energy", "energy"),
)
"""The columns of the page's table: (column of `case_row`, title, how its number is printed: a function of numbers.js)."""
FACETS = (
    ("op", "Operator"),
    ("format", "Format"),
    ("phase", "Phase"),
    ("bound", "Bound"),
    ("regime", "Cache, mode"),
    ("status", "Status"),
)
"""By what cases are filtered: (column of `case_row`, title)."""


def case_rows_data(chip: ChipView, first_number: int) -> list[dict[str, Any]]:
    """Return one row per case of a chip; rows are numbered through from `first_number`, as in the static table."""
    fastest = fastest_by_case(chip.shapes)
    return [
        case_row(case, number, fastest.get(case.lead.case_key)) for number, case in enumerate(chip.cases, first_number)
    ]


def case_row(case: CaseSummary, number: int, fastest_of: ShapeResult | None) -> dict[str, Any]:
    """Return a case as plain values by column: SI units, missing is None. `fastest_of`: the shape that it is the fastest of."""
    row = case.pooled
    expected = case.lead.record.expected
    flops = None if case.lead.record.ideal is None else case.lead.record.ideal.flops
    return {
        "number": number,
        "name": row.name,
        "op": row.op_title,
        "shape": row.shape_label,
        "format": row.precision,
        "kernel": row.kernel,
        "phase": case_phase(row.record.case),
        "regime": case.regime,
        "status": row.status,
        "bound": row.bound or "not predicted",
        "path": row.path,
        "compute_format": row.compute_format,
        "memory_level": row.memory_level,
        "provenance": row.provenance,
        "expected_provenance": "" if expected is None else expected.provenance[:60],
        "total_basis": case.total_basis,
        "flags": case.flags,
        "remarks": "; ".join((*case.remarks, *(shown(short_text(item)) for item in row.findings))),
        "standing": "" if fastest_of is None else fastest_of.standing,
        "measured_s": row.measured_s,
        "within_ratio": row.interval_ratio,
        "total_ratio": case.total_ratio,
        "ideal_s": row.ideal_s,
        "expected_s": row.expected_s,
        "expected_low_s": None if expected is None else expected.low_s,
        "expected_high_s": None if expected is None else expected.high_s,
        "error_ideal_ratio": None if row.is_forced else row.error_ratio,
        "error_expected_ratio": None if row.is_forced else row.expected_error_ratio,
        "roof_share_ratio": row.roof_share_ratio,
        "achieved_bytes_per_s": row.achieved_bytes_per_s,
        "achieved_flops_per_s": row.achieved_flops_per_s,
        "ideal_flops_per_s": row.ideal_flops_per_s,
        "expected_flops_per_s": flops / row.expected_s if flops and row.expected_s else None,
        "intensity_flop_per_byte": row.intensity_flop_per_byte,
        "power_w": row.power_w,
        "energy_j": row.energy_j,
        "process_count": case.process_count,
        "is_best": fastest_of is not None and fastest_of.is_clear,
        "is_doubtful": bool(case.doubts),
        "is_plotted": row.status in ("measured", "predicted")
        and bool(row.intensity_flop_per_byte)
        and (row.ideal_flops_per_s is not None or row.achieved_flops_per_s is not None),
    }


def case_phase(case: Case) -> str:
    """Return `decode`, `prefill` or `other`: by the name of a whole model's pass, else by the operator and its query length."""
    found = pass_name(case.op, case.shape)
    phase = found.phase if found is not None else phase_of(case)
    return phase or "other"
