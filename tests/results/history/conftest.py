"""Nights made to order: runs and records of one case with given times, environments and flags."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from results.records.records import EnvironmentInfo, Method, ProcessInfo, Record, RunInfo
from roofline_model.operators.case import Case

FIRST = datetime(2026, 3, 1, 2, tzinfo=UTC)
METHOD = Method("cuda-event", "3", {"target_ci_ratio": 0.01})
CLASS_FACTS = {"device": "GB10", "driver": "580.95", "torch": "2.13.0"}


@pytest.fixture(scope="session")
def make_nights(make_run, make_record) -> Callable[..., tuple[list[RunInfo], list[Record]]]:
    def make(
        times_s: Sequence[float],
        *,
        first_day: int = 0,
        processes: int = 1,
        case: Case | None = None,
        class_facts: Mapping[str, object] = CLASS_FACTS,
        facts: Mapping[int, Mapping[str, object]] | None = None,
        hardware_key: str = "gb10",
        method: Method = METHOD,
        flags: Mapping[int, tuple[str, ...]] | None = None,
        runs: Mapping[int, Mapping[str, object]] | None = None,
        clocks_hz: Sequence[float] | None = None,
        errors: Sequence[float] | None = None,
        energies_j: Sequence[float] | None = None,
        extra: Callable[[int], Mapping[str, object]] = lambda number: {},
    ) -> tuple[list[RunInfo], list[Record]]:
        """Return a run a night and its records; `facts`, `flags` and `runs` change single nights, by number."""
        made, records = [], []
        for number, time_s in enumerate(times_s):
            started = (FIRST + timedelta(days=first_day + number)).isoformat(timespec="microseconds")
            environment = EnvironmentInfo(
                {**class_facts, "host": "spark", **(facts or {}).get(number, {})}, class_facts
            )
            fields = {
                "started_at": started,
                "status": "complete",
                "git_commit": f"{number:09d}{0:031d}",
                "git_branch": "main",
                "environment": environment,
                "label": "nightly",
                "hardware_key": hardware_key,
            }
            run = replace(make_run(), run_id=uuid.uuid4().hex, **{**fields, **(runs or {}).get(number, {})})
            made.append(run)
            for ordinal in range(processes):
                record = make_record(run.run_id, process=ProcessInfo(ordinal, 100 + ordinal, "spark", started))
                measured = replace(
                    record.measurement,
                    median_s=time_s,
                    flags=(flags or {}).get(number, ()),
                    sm_clock_hz=clocks_hz[number] if clocks_hz else None,
                    energy_j=energies_j[number] if energies_j else None,
                )
                error = errors[number] if errors else record.ideal.error_ratio
                ideal = replace(record.ideal, hardware_key=hardware_key, error_ratio=error)
                records.append(
                    replace(
                        record,
                        case=case or record.case,
                        method=method,
                        measurement=measured,
                        created_at=started,
                        predictions=(ideal,),
                        extra=dict(extra(number)),
                    )
                )
        return made, records

    return make
