"""What a calibration on a busy machine leaves open of the predictions that were stored with a run: its profile keeps the flags."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

from reports.cases.rows import CaseRow
from results.records.records import HardwareProfile
from roofline_model.chips.hardware import Device, device_from_profile, doubt_of_ideals, doubt_of_times
from roofline_model.core.errors import RooflineError
from roofline_model.core.finding import Finding, short_text

AGAIN = ", for the runs that follow"


def for_the_next(doubt: Finding | None) -> str:
    """Return a doubt of a calibration, and that a new one mends the runs that follow; empty where there is none."""
    return "" if doubt is None else f"{short_text(doubt)}{AGAIN}"


def calibration_doubts(device: Device | None, rows: Iterable[CaseRow]) -> dict[str, str]:
    """Return why the stored predictions of some rows are in doubt, by kind: `ideal`, `expected`; of kinds that they have."""
    rows = tuple(rows)
    if device is None:
        return {}
    doubts = {
        "ideal": doubt_of_ideals(device) if any(row.ideal_s is not None for row in rows) else None,
        "expected": doubt_of_times(device) if any(row.expected_s is not None for row in rows) else None,
    }
    return {kind: for_the_next(doubt) for kind, doubt in doubts.items() if doubt is not None}


def profile_doubts(profiles: Iterable[HardwareProfile], rows: Iterable[CaseRow]) -> list[str]:
    """Return these reasons for the stored profiles of a run, each once; a profile that cannot be read has none."""
    rows = tuple(rows)
    doubts: list[str] = []
    for profile in profiles:
        with contextlib.suppress(RooflineError):
            doubts += calibration_doubts(device_from_profile(profile.profile), rows).values()
    return list(dict.fromkeys(doubts))


def doubtful_words(kinds: Iterable[str]) -> str:
    """Return a sentence for beside the errors of these kinds: the warnings of the report say why and what to do."""
    return f"In doubt, as the verdict says: {' and '.join(kinds)} times"
