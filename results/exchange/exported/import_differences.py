"""Is what an import brings what is stored already under the same ids, or a changed copy of it?

What a stored run changes in later is no difference: how it ended, flags in hindsight, samples and sensor readings that
were pruned on either side.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from results.records.plain_form import to_plain
from results.records.records import Record, RunInfo
from results.store import read
from results.store.schema import RECORD
from results.store.write import in_parts

if TYPE_CHECKING:
    from results.store.store import ResultStore


def differing_records(store: ResultStore, records: Sequence[Record]) -> int:
    """Return how many of these records are stored under their ids with other contents."""
    given = {record.record_id: record for record in records}
    count = 0
    for ids in in_parts(list(given)):
        chosen = RECORD.c.record_id.in_(ids)
        for stored in store.query(partial(read.read_chosen, chosen=chosen, with_samples=True)):
            old, new = _lasting(stored, given[stored.record_id]), _lasting(given[stored.record_id], stored)
            count += old != new and _text(old) != _text(new)  # NaN equals itself as text only
    return count


def is_other_run(store: ResultStore, run: RunInfo) -> bool:
    """Return whether a run is stored under this id with another label, start, commit, machine …."""
    stored = store.query(lambda connection: read.read_run(connection, run.run_id))
    if stored is None:
        return False
    ended = {"status": run.status, "exit_code": run.exit_code, "finished_at": run.finished_at}
    return _text(replace(stored, **ended)) != _text(run)  # type: ignore[arg-type]


def _lasting(record: Record, beside: Record) -> Record:
    """Return the immutable fields of a record, without those that either side has pruned."""
    measured, other = record.measurement, beside.measurement
    if measured is not None and other is not None:
        measured = replace(
            measured,
            flags=(),
            samples_s=measured.samples_s if other.samples_s else (),
            clocks_hz=measured.clocks_hz if other.clocks_hz else (),
        )
    return replace(
        record,
        measurement=measured,
        telemetry=record.telemetry if beside.telemetry else (),
        process=replace(record.process, end_reason=""),
    )


def _text(value: Any) -> str:
    return json.dumps(to_plain(value), sort_keys=True)
