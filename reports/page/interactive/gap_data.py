"""Where the time went, for the page: the parts of every measured time, and what is not known of them.

A case with an expected time has the parts that the model knows (`roofline_model.expected.gap`). One without has its ideal roof and the
rest. A forced case, one without a prediction and an unmeasured one have none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from reports.cases.gap import LABELS, case_gap, has_parts
from reports.cases.summary import CaseSummary
from reports.figures.palette import HATCHED_PARTS, PART_COLOURS
from reports.text.display_text import counted, shown
from roofline_model.expected.gap import PASS_PART, Gap

MOST_STAGES_COUNT = 8
"""Stages of a whole model's pass that a bar names, the longest."""


def gap_data(cases: Sequence[CaseSummary], first_number: int) -> dict[str, Any]:
    """Return the parts that occur, a row of seconds per case that can be split, and sentences on what is missing.

    A row is [number of the case, measured, expected, its low and high end, one cell per part]; None: no such part.
    """
    split = [
        (number, case, gap) for number, case in enumerate(cases, first_number) if (gap := case_gap(case)) is not None
    ]
    occurring = {name for _, _, gap in split for name, _ in gap.parts}
    used = [name for name in LABELS if name in occurring]
    explained = {number for number, case, _ in split if has_parts(case)}
    return {
        "parts": [
            {
                "key": name,
                "label": LABELS[name],
                "inks": list(PART_COLOURS[name][:2]),
                "is_hatched": name in HATCHED_PARTS,
            }
            for name in used
        ],
        "rows": [_row(number, case, gap, used) for number, case, gap in split],
        "stages": {str(number): stages for number, case, _ in split if (stages := _stages(case))},
        "missing": list(_missing(cases, split, explained, used)),
    }


def _row(number: int, case: CaseSummary, gap: Gap, used: Sequence[str]) -> list[float | int | None]:
    expected, parts = case.lead.record.expected, dict(gap.parts)
    span = (None, None) if expected is None else (expected.low_s, expected.high_s)
    return [number, gap.measured_s, gap.expected_s, *span, *(parts.get(name) for name in used)]


def _stages(case: CaseSummary) -> list[list[Any]]:
    """Return the longest stages of a whole model's expected pass as [name, seconds]; they are no parts of the gap."""
    expected = case.lead.record.expected
    terms = {} if expected is None else expected.terms_s or {}
    stages = [(name.removeprefix(PASS_PART), seconds) for name, seconds in terms.items() if name.startswith(PASS_PART)]
    return [[shown(name, 40), seconds] for name, seconds in sorted(stages, key=lambda one: -one[1])[:MOST_STAGES_COUNT]]


def _missing(
    cases: Sequence[CaseSummary],
    split: Sequence[tuple[int, CaseSummary, Gap]],
    explained: set[int],
    used: Sequence[str],
) -> list[str]:
    found = []
    measured_count = sum(case.measured_s is not None for case in cases)
    if measured_count > len(split):
        found.append(
            f"{counted(measured_count - len(split), 'measured case')} cannot be split: no ideal time of this chip is stored."
        )
    plain_count = len(split) - len(explained)
    if plain_count:
        which = (
            f"Of {counted(len(split), 'case')} {plain_count} {'has' if plain_count == 1 else 'have'} no parts of an expected time"
            if explained
            else "No case of this run has parts of an expected time"
        )
        found.append(f"{which} stored: there, all that lies beyond the ideal roof is one part, unexplained.")
    if explained and "clock" not in used:
        found.append("No part is told for the clock: it never stood below its rated value, or no clock was stored.")
    return found
