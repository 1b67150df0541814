"""Dates of an exported run in UTC, as the store keeps them: it sorts and compares them as texts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from results.records import ProcessInfo, Record
from results.value_checks import utc_date

if TYPE_CHECKING:
    from results.load import ExportedRun


def in_utc(one: ExportedRun) -> ExportedRun:
    """Return the same run with every date in UTC; what one of our own runs wrote is that already.

    Raises `FormError` for a date that has no place in UTC's calendar.
    """
    run = one.run
    finished_at = run.finished_at and utc_date(run.finished_at, "run.finished_at")
    return replace(
        one,
        run=replace(run, started_at=utc_date(run.started_at, "run.started_at"), finished_at=finished_at),
        records=tuple(record_in_utc(record, f"records[{number}]") for number, record in enumerate(one.records)),
        processes=tuple(_process(process, f"processes[{number}]") for number, process in enumerate(one.processes)),
        canaries=tuple(
            replace(reading, created_at=utc_date(reading.created_at, f"canaries[{number}].created_at"))
            for number, reading in enumerate(one.canaries)
        ),
        noise_floors=tuple(
            replace(floor, created_at=utc_date(floor.created_at, f"noise_floors[{number}].created_at"))
            for number, floor in enumerate(one.noise_floors)
        ),
    )


def record_in_utc(record: Record, where: str) -> Record:
    """Return a record with its dates in UTC; empty ones stay: its maker did not say. Raises `FormError` for no date."""
    created_at = record.created_at and utc_date(record.created_at, f"{where}.created_at")
    return replace(record, created_at=created_at, process=_process(record.process, f"{where}.process"))


def _process(process: ProcessInfo, where: str) -> ProcessInfo:
    return replace(process, started_at=process.started_at and utc_date(process.started_at, f"{where}.started_at"))
