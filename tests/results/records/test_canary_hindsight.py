"""A canary reading that a later one showed to be slow is stored so, and an import does not forget it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from results.records.records import RunInfo
from results.records.state_records import CanaryReading
from results.store.store import ResultStore

MakeRun = Callable[..., RunInfo]


def reading(minute: int, time_s: float = 3.5e-5, **changes: Any) -> CanaryReading:
    created_at = f"2026-03-01T10:{minute:02}:00.000000+00:00"
    return replace(CanaryReading(minute, 0, created_at, "gemv", time_s, None, False), **changes)


def test_a_reading_judged_slow_in_hindsight_is_stored_so_and_never_made_healthy(
    store: ResultStore, make_run: MakeRun
) -> None:
    run, other = make_run(), make_run()
    for stored_run in (run, other):
        store.begin_run(stored_run)
        store.add_canary(stored_run.run_id, reading(1, time_s=1e-4, reference_s=1e-4))
        store.add_canary(stored_run.run_id, reading(2))
    judged = reading(1, time_s=1e-4, reference_s=3.5e-5, is_slow=True)
    store.rejudge_canaries(run.run_id, [judged, reading(9, is_slow=True)])  # the second is not there
    assert store.canaries(run.run_id) == [judged, reading(2)]
    assert store.canaries(other.run_id)[0].is_slow is False
    store.rejudge_canaries(run.run_id, [replace(judged, is_slow=False), replace(judged, reference_s=1e-9)])
    assert store.canaries(run.run_id) == [judged, reading(2)]


def test_an_import_takes_over_what_a_later_copy_says_of_a_canary(store: ResultStore, make_run: MakeRun) -> None:
    run = make_run()
    judged = reading(1, reference_s=1e-5, is_slow=True)
    store.add_run(run, [], [], canaries=[reading(1)])
    store.add_run(run, [], [], canaries=[judged])
    assert store.canaries(run.run_id) == [judged]
    store.add_run(run, [], [], canaries=[reading(1)])
    assert store.canaries(run.run_id) == [judged]
