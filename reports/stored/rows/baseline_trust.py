"""What the baseline's time takes from the rows over it: a gain is no surer than the worse of its two times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from reports.stored.answer import CONFIDENCES, StoredRow
from results.verdicts.gain import Gain, GainSide, gain_of

_OF_THE_TIMER = frozenset({"simulated"})
"""Among the doubts of a row, what no second measurement mends."""


def with_baseline_trust(rows: Sequence[StoredRow]) -> list[StoredRow]:
    """Return the rows with the ends of their measured speed-ups and the worse confidence of both times."""
    base = next((row for row in rows if row.is_baseline and row.is_measured), None)
    if base is None:
        return list(rows)
    return [row if row is base or not row.is_measured else _over(row, base) for row in rows]


def doubts_to_mend(doubts: Sequence[str]) -> tuple[str, ...]:
    """Return what puts a time in doubt that measuring again may mend."""
    return tuple(doubt for doubt in doubts if doubt not in _OF_THE_TIMER)


def _over(row: StoredRow, base: StoredRow) -> StoredRow:
    if row.speedup_ratio is None:
        return row
    gain = None if row.speedup_basis else gain_of(row.speedup_ratio, _side(row), _side(base))
    worse = max(row.confidence, base.confidence, key=CONFIDENCES.index)
    is_over_doubt = bool(doubts_to_mend(base.doubts))
    return replace(
        row,
        confidence=worse,
        baseline_reason=base.confidence_reason if is_over_doubt or worse != row.confidence else "",
        is_over_doubt=is_over_doubt,
        speedup_low_ratio=None if gain is None else gain.low_ratio,
        speedup_high_ratio=None if gain is None else gain.high_ratio,
    )


def told_gain(row: StoredRow, baseline_doubts: Sequence[str]) -> Gain | None:
    """Return the measured gain of a row that `with_baseline_trust` gave; None of the baseline and of what was not measured."""
    if row.speedup_ratio is None or not row.is_measured or row.is_baseline:
        return None
    return Gain(
        row.speedup_ratio,
        row.speedup_low_ratio,
        row.speedup_high_ratio,
        doubts_to_mend(row.doubts),
        doubts_to_mend(baseline_doubts),
    )


def _side(row: StoredRow) -> GainSide:
    return GainSide(row.low_s, row.high_s, doubts_to_mend(row.doubts))
