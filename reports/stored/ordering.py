"""Which row comes first: evidence, then time; where times cannot be told apart the smaller loss, then the smaller memory.

The rules are those of every ranking, `roofline_model.recommend.ranking`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from reports.stored.answer import Refused, StoredRow
from roofline_model.recommend.loss import loss_text
from roofline_model.recommend.ranking import (
    Standing,
    are_level_measured,
    are_level_predictions,
    maybe_faster,
    order_measured,
    order_predictions,
)

_TIERS = {"measured": 0, "expected": 1, "ideal": 2}
_EMULATED_TIER, _BARRED_TIER = 3, 4


def ordered(rows: Iterable[StoredRow]) -> tuple[StoredRow, ...]:
    """Return the rows in order and numbered; the order they come in makes no difference."""
    tiers: dict[int, list[StoredRow]] = {}
    for row in rows:
        tiers.setdefault(evidence_tier(row), []).append(row)
    found = [row for tier in sorted(tiers) for row in _in_order(tiers[tier])]
    return tuple(replace(row, rank=rank) for rank, row in enumerate(found, start=1))


def evidence_tier(row: StoredRow) -> int:
    """Return the kind of evidence, best first: measured, expected, ideal, prediction of an emulated kernel, no known kernel.

    An ideal time is always shorter than a real one, and a prediction of an emulated kernel leaves out what emulating costs.
    """
    if row.kernel_gap:
        return _BARRED_TIER
    return _EMULATED_TIER if row.is_emulated and not row.is_measured else _TIERS[row.time_source]


def is_level(faster: StoredRow, slower: StoredRow) -> bool:
    """Return whether two rows of one kind cannot be told apart: measured intervals that overlap, with times at most
    `LEVEL_LIMIT_RATIO` apart, or times at most `UNKNOWN_LEVEL_RATIO` apart where an interval is unknown; predictions whose times and ends of the 80 % interval are within 5 %."""
    if not faster.is_measured:
        return are_level_predictions(_standing(faster), _standing(slower))
    return are_level_measured(_standing(faster), _standing(slower))


def level_with(row: StoredRow, rows: Iterable[StoredRow]) -> tuple[StoredRow, ...]:
    """Return the other rows of the same kind of evidence that a row is level with."""
    alike = (other for other in rows if other is not row and evidence_tier(other) == evidence_tier(row))
    return tuple(one for one in alike if is_level(*sorted((row, one), key=lambda two: two.time_s)))


def maybe_faster_row(rows: Sequence[StoredRow]) -> StoredRow | None:
    """Return the measured row that stands behind the first for its loss alone and may be faster; see `maybe_faster`."""
    return maybe_faster([row for row in rows if row.is_measured], _standing)


def within_limits(
    rows: Iterable[StoredRow], memory_limit_bytes: float | None, max_loss_pct: float | None
) -> tuple[list[StoredRow], list[Refused]]:
    """Return the rows within the limits, and the others with what they miss; what nobody knows keeps no limit."""
    kept, refused = [], []
    for row in rows:
        misses = [*_memory_miss(row, memory_limit_bytes), *_loss_miss(row, max_loss_pct)]
        if misses:
            refused.append(Refused(row.label, "; ".join(misses)))
        else:
            kept.append(row)
    return kept, refused


def _in_order(rows: list[StoredRow]) -> list[StoredRow]:
    if rows[0].is_measured:
        return order_measured(rows, _standing)
    return order_predictions(sorted(rows, key=lambda row: (row.time_s, not row.is_baseline, row.identity)), _standing)


def _standing(row: StoredRow) -> Standing:
    return Standing(row.time_s, row.low_s, row.high_s, row.loss.pct, row.memory_bytes, row.identity)


def _memory_miss(row: StoredRow, limit_bytes: float | None) -> list[str]:
    if limit_bytes is None:
        return []
    if row.memory_bytes is None:
        return ["what it needs in memory is not known, and a limit was given"]
    if row.memory_bytes <= limit_bytes:
        return []
    return [f"needs {row.memory_bytes / 1e9:.3g} GB, the limit is {limit_bytes / 1e9:.3g} GB"]


def _loss_miss(row: StoredRow, limit_pct: float | None) -> list[str]:
    if limit_pct is None:
        return []
    loss = row.loss.pct
    if loss is None:
        return ["its loss is not known, and a limit was given: measure it (model_quant, `roofline losses`)"]
    if loss <= limit_pct:
        return []
    if row.loss.source != "measured":
        return [f"loses {loss:.3g} % ({row.loss.source}), the limit is {limit_pct:g} %"]
    # e^KL − 1 is the rise of perplexity on text that the 16-bit model writes itself.
    return [f"loses {loss:.3g} % ({loss_text(row.loss)}), the limit is {limit_pct:g} %"]
