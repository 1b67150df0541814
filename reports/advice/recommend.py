"""Ranked recommendations from stored records: of one run by shape, of the whole store by shape and by model.

The door to both: `reports.ranking.shape_ranking` ranks a shape, `reports.stored` chooses what the runs together say of it.
"""

from __future__ import annotations

from collections.abc import Iterable

from reports.cases.rows import case_rows
from reports.ranking.case_ranking import ShapeRanking
from reports.ranking.shape_ranking import rank_shape
from reports.stored.from_store import recommend_from_runs, recommend_from_store
from results.records.case_names import is_model_case
from results.records.records import Record
from results.statistics.replication import total_intervals
from results.verdicts.shape_verdict import Totals
from roofline_model.chips.hardware import Device

__all__ = ["ShapeRanking", "recommend_from_run", "recommend_from_runs", "recommend_from_store"]


def recommend_from_run(
    records: Iterable[Record], hardware: Device | None, *, totals: Totals | None = None
) -> list[ShapeRanking]:
    """Return one ranking per chip, operator, shape and mode, in the order they were run.

    Each ranks one cache state, never two: cold where it was measured, else flushed, else the next of `regime_rank`.
    `hardware` (the chip the run's predictions are for) adds the formats that were not run; without it, or for operators that
    are no products, only what the run stored is ranked. `totals`: the intervals over processes by case key; None: from these
    records alone. Passes of whole models are no shapes of an operator: `results.verdicts.model_results` judges them.
    """
    records = tuple(record for record in records if not is_model_case(record.case))
    totals = total_intervals(records) if totals is None else totals
    rows = case_rows(records)
    groups: dict[tuple[str, str, str, str], list[int]] = {}
    for index, row in enumerate(rows):
        groups.setdefault((row.hardware_key, row.op, row.shape_label, row.mode), []).append(index)
    # Cases that failed before their prediction carry no chip: they explain an exclusion, they make no ranking.
    recommendations = []
    for (hardware_key, op, shape, mode), members in groups.items():
        if hardware_key or not any(other[1:] == (op, shape, mode) for other in groups if other[0]):
            lost = [] if not hardware_key else groups.get(("", op, shape, mode), [])
            indices = [*members, *lost]
            device = hardware if hardware is not None and hardware_key in ("", hardware.key) else None
            recommendations.append(rank_shape(hardware_key, [rows[i] for i in indices], device, totals))
    return recommendations
