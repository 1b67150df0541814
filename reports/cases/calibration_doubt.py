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


def expected_doubt(device: Device | None) -> str:
    """Return why the stored expected times of a chip are in doubt, and what to do; empty where they are not."""
    return _for_the_next(None if device is None else doubt_of_times(device))


def ideal_doubt(device: Device | None) -> str:
    """Return why the stored ideal times of a chip are in doubt, and what to do; empty where they are not."""
    return _for_the_next(None if device is None else doubt_of_ideals(device))


def _for_the_next(doubt: Finding | None) -> str:
    return "" if doubt is None else f"{short_text(doubt)}{AGAIN}"


def calibration_doubts(device: Device | None, rows: Iterable[CaseRow]) -> dict[str, str]:
    """Return why the stored predictions of some rows are in doubt, by kind: `ideal`, `expected`; of kinds that they have."""
    rows = tuple(rows)
    doubts = {
        "ideal": ideal_doubt(device) if any(row.ideal_s is not None for row in rows) else "",
        "expected": expected_doubt(device) if any(row.expected_s is not None for row in rows) else "",
    }
    return {kind: text for kind, text in doubts.items() if text}


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
