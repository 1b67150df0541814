"""Contents of runs, without reading their records: cases by outcome, operators, formats, processes, chips."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sqlalchemy import Connection, case, func, select

from results.records.records import SIMULATED_TIMERS
from results.store import rows
from results.store.schema import CASE, METHOD, PREDICTION, RECORD
from results.store.write import in_parts
from roofline_model.operators.case import Case, op_title

if TYPE_CHECKING:
    from results.store.store import ResultStore

OUTCOMES = ("measured", "failed", "skipped", "predicted")
"""Of a case that ran in several processes the first of these counts that occurs."""


@dataclass(frozen=True, slots=True)
class RunContents:
    """Contents of one run."""

    counts: Mapping[str, int] = field(default_factory=dict)
    """Cases by outcome, in the order of `OUTCOMES`; outcomes that do not occur are left out."""
    ops: tuple[str, ...] = ()
    """Operators in words, the most frequent first: `gemv`, `seeded-llama-156m decode`."""
    precisions: tuple[str, ...] = ()
    """`BF16`, `INT4 (W4A16)`, the most frequent first."""
    process_count: int = 0
    """Processes that stored something."""
    hardware_keys: tuple[str, ...] = ()
    """Chips predicted for, sorted."""
    is_simulated: bool = False
    """Whether times are of no kernel that ran: a simulated or replayed timer gave them."""

    @property
    def case_count(self) -> int:
        """Cases in all."""
        return sum(self.counts.values())


def run_contents(store: ResultStore, run_ids: Sequence[str]) -> dict[str, RunContents]:
    """Return the contents of these runs by full id; empty for a run without records."""
    return store.query(lambda connection: _contents(connection, run_ids))


def _contents(connection: Connection, run_ids: Sequence[str]) -> dict[str, RunContents]:
    outcomes: dict[str, dict[int, int]] = {run_id: {} for run_id in run_ids}
    processes: dict[str, int] = {}
    chips: dict[str, list[str]] = {run_id: [] for run_id in run_ids}
    simulated: set[str] = set()
    rank = case({name: place for place, name in enumerate(OUTCOMES)}, value=RECORD.c.status, else_=len(OUTCOMES) - 1)
    for chosen in in_parts(run_ids):
        of_runs = RECORD.c.run_id.in_(chosen)
        cases = select(RECORD.c.run_id, RECORD.c.case_id, func.min(rank)).where(of_runs)
        for run_id, case_id, outcome_rank in connection.execute(cases.group_by(RECORD.c.run_id, RECORD.c.case_id)):
            outcomes[run_id][case_id] = outcome_rank
        counted = select(RECORD.c.run_id, func.count(RECORD.c.process_id.distinct())).where(of_runs)
        processes |= {row[0]: row[1] for row in connection.execute(counted.group_by(RECORD.c.run_id))}
        predicted_chips = (
            select(RECORD.c.run_id, PREDICTION.c.hardware_key).join_from(RECORD, PREDICTION).where(of_runs)
        )
        for run_id, key in connection.execute(predicted_chips.distinct()):
            chips[run_id].append(key)
        timers = select(RECORD.c.run_id).join_from(RECORD, METHOD).where(of_runs)
        timed = timers.where(METHOD.c.timer.in_(SIMULATED_TIMERS), RECORD.c.status == "measured")
        simulated |= {row[0] for row in connection.execute(timed.distinct())}
    cases_by_id = _cases(connection, sorted({case_id for outcome in outcomes.values() for case_id in outcome}))
    return {
        run_id: RunContents(
            _counted(statuses.values()),
            _by_frequency(op_title(cases_by_id[case_id]) for case_id in statuses),
            _by_frequency(cases_by_id[case_id].precision_label or "–" for case_id in statuses),
            processes.get(run_id, 0),
            tuple(sorted(filter(None, chips[run_id]))),
            run_id in simulated,
        )
        for run_id, statuses in outcomes.items()
    }


def _cases(connection: Connection, case_ids: Sequence[int]) -> dict[int, Case]:
    return {
        row["id"]: rows.case_of(row)
        for chosen in in_parts(case_ids)
        for row in connection.execute(select(CASE).where(CASE.c.id.in_(chosen))).mappings()
    }


def _counted(places: Iterable[int]) -> dict[str, int]:
    counts = Counter(places)
    return {name: counts[place] for place, name in enumerate(OUTCOMES) if counts[place]}


def _by_frequency(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(name for name, _ in Counter(names).most_common())
