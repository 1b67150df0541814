"""A database of many nights, written fast: the rows that a history reads, without samples."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

from benchmarks.store.sample_record import measured_record, run_info
from results import open_store
from results.records.records import Record

NOISE_RATIO = 0.01
SLOWER_EVERY = 50
"""One case of so many becomes 10 % slower in the middle of the nights."""
STEP_RATIO = 0.1


def write_history(database: Path, case_count: int, night_count: int) -> None:
    """Write one complete run a night with every case in one process."""
    source = random.Random(1)
    patterns = [_bare(measured_record("", seed)) for seed in range(case_count)]
    first = datetime(2026, 1, 1, tzinfo=UTC)
    with open_store(database) as store:
        for run_index in range(night_count):
            started = (first + timedelta(days=run_index)).isoformat(timespec="microseconds")
            run = replace(
                run_info(), started_at=started, status="complete", git_branch="main", git_commit=f"{run_index:040x}"
            )
            store.add_run(
                run,
                [],
                [
                    _tonight(pattern, number, run_index, night_count, run.run_id, source)
                    for number, pattern in enumerate(patterns)
                ],
            )


def _bare(record: Record) -> Record:
    assert record.measurement is not None
    return replace(record, measurement=replace(record.measurement, samples_s=()))


def _tonight(
    pattern: Record, number: int, run_index: int, night_count: int, run_id: str, source: random.Random
) -> Record:
    measured = pattern.measurement
    assert measured is not None
    slower = 1 + STEP_RATIO if number % SLOWER_EVERY == 0 and run_index >= night_count // 2 else 1.0
    time_s = measured.median_s * slower * math.exp(NOISE_RATIO * source.gauss(0, 1))
    record_id = UUID(int=source.getrandbits(128)).hex
    return replace(pattern, record_id=record_id, run_id=run_id, measurement=replace(measured, median_s=time_s))
