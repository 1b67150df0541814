"""The dual roofline of a chip as plain data: ideal roofs with ridge points, expected roofs, memory levels, the best configuration.

The points are not here: they are the rows of `case_data`, so that the plot and the table cannot say two things.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from reports.case_summary import CaseSummary
from reports.plot_style import ACCENT, GRID, INK, MUTED, SURFACE, Ink, format_inks, op_markers
from reports.views import ChipView


def roofline_data(chip: ChipView) -> dict[str, Any]:
    """Return everything of a chip's roofline but the points. SI units; colours as [light, dark]."""
    view = chip.roofline
    precisions = [*(roof.precision for roof in view.roofs), *(case.lead.precision for case in chip.cases)]
    highlight = view.highlight
    return {
        "title": view.title,
        "unit_flops_per_s": view.unit_flops_per_s,
        "unit_label": view.unit_label,
        "memory_bandwidth_bytes_per_s": view.memory_bandwidth_bytes_per_s,
        "memory_provenance": view.memory_provenance,
        "levels": [{"name": one.name, "bandwidth_bytes_per_s": one.bandwidth_bytes_per_s} for one in view.cache_roofs],
        "roofs": [
            {
                "format": roof.precision,
                "compute_format": roof.compute_format,
                "path": roof.path,
                "provenance": roof.provenance,
                "bandwidth_bytes_per_s": roof.bandwidth_bytes_per_s,
                "peak_flops_per_s": roof.peak_flops_per_s,
                "ridge_flop_per_byte": roof.critical_intensity_flop_per_byte,
            }
            for roof in view.roofs
        ],
        "expected_roofs": expected_roofs(chip.cases),
        "highlight": None
        if highlight is None
        else {
            "intensity_flop_per_byte": highlight.intensity_flop_per_byte,
            "rate_flops_per_s": highlight.rate_flops_per_s,
            "is_measured": highlight.is_measured,
            "lines": list(highlight.lines),
        },
        "inks": {name: [ink.light, ink.dark] for name, ink in format_inks(precisions).items()},
        "markers": op_markers(case.lead.op_title for case in chip.cases),
        "missing": list(view.missing),
    }


def expected_roofs(cases: Iterable[CaseSummary]) -> list[dict[str, Any]]:
    """Return per format the highest rates that an expected time of these cases reaches: what a good kernel gets, as an envelope.

    `bandwidth_bytes_per_s` is the best of the memory-bound cases from DRAM, `peak_flops_per_s` the best of the compute-bound
    ones; None where the run has no such case, and `last_flop_per_byte` is where its memory-bound cases end.
    """
    found: dict[str, dict[str, Any]] = {}
    for case in cases:
        row, ideal, expected = case.lead, case.lead.record.ideal, case.lead.record.expected
        if row.is_model or ideal is None or expected is None or expected.time_s <= 0 or not row.intensity_flop_per_byte:
            continue
        one = found.setdefault(
            row.precision,
            {
                "format": row.precision,
                "bandwidth_bytes_per_s": None,
                "peak_flops_per_s": None,
                "last_flop_per_byte": None,
            },
        )
        if ideal.bound == "compute":
            one["peak_flops_per_s"] = max(one["peak_flops_per_s"] or 0.0, ideal.flops / expected.time_s)
        elif ideal.memory_level == "DRAM":
            one["bandwidth_bytes_per_s"] = max(one["bandwidth_bytes_per_s"] or 0.0, ideal.total_bytes / expected.time_s)
            one["last_flop_per_byte"] = max(one["last_flop_per_byte"] or 0.0, row.intensity_flop_per_byte)
    return [one for one in found.values() if one["bandwidth_bytes_per_s"] or one["peak_flops_per_s"]]


def page_inks() -> dict[str, list[str]]:
    """Return the plots' ink, grid, surface and accent as [light, dark]."""
    inks: dict[str, Ink] = {
        "ink": INK,
        "muted": MUTED,
        "grid": GRID,
        "surface": SURFACE,
        "accent": ACCENT,
        "history": format_inks(["BF16"])["BF16"],
    }
    return {name: [ink.light, ink.dark] for name, ink in inks.items()}
