"""Dates of an imported run in UTC, as the store keeps them: it sorts and compares them as texts."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

from results.records.plain_form import FormError
from results.records.records import ProcessInfo, Record

if TYPE_CHECKING:
    from results.exchange.exported.load import ExportedRun

Dated = TypeVar("Dated", bound=Any)


def in_utc(moment: datetime) -> str:
    """Return a time in ISO 8601 with microseconds, so that texts sort like times; one without an offset is UTC already.

    Raises `OverflowError` for a time at the very edge of the calendar.
    """
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return aware.astimezone(UTC).isoformat(timespec="microseconds")


def run_in_utc(exported: ExportedRun) -> ExportedRun:
    """Return the same run with every date in UTC; what one of our own runs wrote is that already.

    Raises `FormError` for a date that has no place in UTC's calendar.
    """
    return replace(
        exported,
        run=_in_utc(exported.run, "run", "started_at", "finished_at"),
        records=tuple(record_in_utc(record, f"records[{number}]") for number, record in enumerate(exported.records)),
        processes=tuple(
            _in_utc(process, f"processes[{number}]", "started_at") for number, process in enumerate(exported.processes)
        ),
        canaries=tuple(
            _in_utc(reading, f"canaries[{number}]", "created_at") for number, reading in enumerate(exported.canaries)
        ),
        noise_floors=tuple(
            _in_utc(floor, f"noise_floors[{number}]", "created_at")
            for number, floor in enumerate(exported.noise_floors)
        ),
    )


def record_in_utc(record: Record, where: str) -> Record:
    """Return a record with its dates in UTC. Raises `FormError` for what is not a date."""
    process: ProcessInfo = _in_utc(record.process, f"{where}.process", "started_at")
    return replace(_in_utc(record, where, "created_at"), process=process)


def _in_utc(value: Dated, where: str, *names: str) -> Dated:
    """Return a record type with the dates of these fields in UTC; empty and missing ones stay: its maker gave none."""
    dates: dict[str, Any] = {}
    for name in names:
        text = getattr(value, name)
        try:
            dates[name] = text and in_utc(datetime.fromisoformat(text))
        except (ValueError, OverflowError):
            raise FormError(f"{where}.{name} is {text[:40]!r}, not a date and time in ISO 8601") from None
    return replace(value, **dates)
