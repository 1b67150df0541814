"""A stored record is completed with more samples: the same row, everything of the new form, flags of the old one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from results.records.records import Record, RunInfo
from results.store.store import ResultStore
from roofline_model.core.errors import StoreError


def longer(record: Record) -> Record:
    """Return the record after a further visit."""
    assert record.measurement is not None
    measured = replace(
        record.measurement,
        samples_s=(4.5e-5, 4.4e-5, 4.3e-5, 4.2e-5, 4.1e-5),
        median_s=4.3e-5,
        min_s=4.1e-5,
        sample_count=5,
        stop_reason="agreed",
    )
    return replace(record, measurement=measured, extra={**record.extra, "visits": {"count": 2, "agreed": 2}})


def test_the_row_stays_and_has_what_the_visits_found(
    store: ResultStore, run: RunInfo, make_record: Callable[..., Record]
) -> None:
    first, other = make_record(run.run_id), make_record(run.run_id)
    store.add_record(first)
    store.add_record(other)
    store.flag_records([first.record_id], "quarantined")
    for _ in range(2):  # a delivery may be made twice
        store.complete_record(longer(first))
    records = {record.record_id: record for record in store.records(run.run_id)}
    assert len(records) == 2
    assert records[other.record_id] == other
    after = records[first.record_id].measurement
    assert after is not None
    assert (after.sample_count, after.median_s, after.stop_reason) == (5, 4.3e-5, "agreed")
    assert after.samples_s == (4.5e-5, 4.4e-5, 4.3e-5, 4.2e-5, 4.1e-5)
    assert "quarantined" in after.flags
    assert records[first.record_id].extra["visits"] == {"count": 2, "agreed": 2}
    assert records[first.record_id].predictions == first.predictions
    assert records[first.record_id].telemetry == first.telemetry


def test_only_a_stored_record_is_completed(
    store: ResultStore, run: RunInfo, make_record: Callable[..., Record]
) -> None:
    with pytest.raises(StoreError, match="only stored records are completed"):
        store.complete_record(make_record(run.run_id))
    assert store.records(run.run_id) == []
