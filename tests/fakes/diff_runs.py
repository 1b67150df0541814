"""Runs for the tests of the diff: process medians in, records and a database out."""

from __future__ import annotations

import math
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from run_makers import flat_measurement

from results.diff.suites import SuiteSide
from results.records.records import EnvironmentInfo, Measurement, Method, ProcessInfo, Record, RunInfo
from results.records.state_records import NoiseFloor
from roofline_model.operators.case import Case

METHOD = Method("monotonic", "2", {"target_ci_ratio": 0.01})
CLASS_FACTS = {"cpu": "any", "torch": "2.13.0"}
FACTS = {**CLASS_FACTS, "host": "lab", "method_version": "2", "python": "3.11.4"}


@cache
def case(number: int) -> Case:
    return Case("gemv", (("M", 1), ("N", 1024 + number), ("K", 64)), (("a", "BF16"), ("b", "BF16")), "matmul")


def run_info(label: str = "", **changes: Any) -> RunInfo:
    fields: dict[str, Any] = {
        "run_id": uuid.uuid4().hex,
        "started_at": "2026-03-01T10:00:00.000000+00:00",
        "label": label,
        "status": "complete",
        "exit_code": 0,
        "hardware_key": "b10",
        "git_commit": "0123abcd4567",
        "git_branch": "main",
        "environment": EnvironmentInfo(FACTS, CLASS_FACTS),
    }
    return RunInfo(**{**fields, **changes})


def with_facts(run: RunInfo, **facts: Any) -> RunInfo:
    """The run on another environment; names of the class facts change the class."""
    changed = {name: facts[name] for name in facts if name in CLASS_FACTS or name == "driver"}
    environment = EnvironmentInfo({**run.environment.facts, **facts}, {**run.environment.class_facts, **changed})
    return replace(run, environment=environment)


def measurement(median_s: float, flags: Sequence[str] = (), **changes: Any) -> Measurement:
    return flat_measurement(
        median_s,
        100,
        samples_s=(),
        std_s=0.005 * median_s,
        ci_low_s=median_s * 0.999,
        ci_high_s=median_s * 1.001,
        flags=tuple(flags),
        **changes,
    )


def record(run: RunInfo, number: int, process: int, log: float, **changes: Any) -> Record:
    """One case in one process: 1 ms · exp(log). `measured`: further fields of the measurement."""
    more: Mapping[str, Any] = changes.pop("measured", {})
    fields: dict[str, Any] = {
        "status": "measured",
        "process": ProcessInfo(process, 100 + process, "lab", "2026-03-01T10:00:00"),
        "method": METHOD,
        "measurement": measurement(1e-3 * math.exp(log), **more),
    }
    return Record(record_id=uuid.uuid4().hex, run_id=run.run_id, case=case(number), **{**fields, **changes})


def side(logs: np.ndarray, label: str = "", run: RunInfo | None = None, **changes: Any) -> SuiteSide:
    """A run of logs[case, process]."""
    info = run or run_info(label)
    return SuiteSide(
        (info,), tuple(record(info, *index, float(logs[index]), **changes) for index in np.ndindex(*logs.shape))
    )


def lost(run: RunInfo, number: int, status: str, reason: str) -> Record:
    return record(run, number, 0, 0.0, status=status, reason=reason, measurement=None, method=None)


def floors(sd: np.ndarray, count: int = 20, run_ids: Sequence[str] = ("a", "b")) -> dict[tuple[str, str], NoiseFloor]:
    class_hash = EnvironmentInfo(FACTS, CLASS_FACTS).class_hash
    made = [
        NoiseFloor(
            class_hash,
            case(number).case_key,
            METHOD.method_hash,
            float(spread),
            0.005,
            count,
            "2026-03-01T10:00:00+00:00",
            tuple(run_ids),
        )
        for number, spread in enumerate(sd)
    ]
    return {(record.case_key, record.method_hash): record for record in made}


def noisy(rng: np.random.Generator, cases: int, processes: int, sd: float = 0.01) -> np.ndarray:
    return sd * rng.standard_normal((cases, processes))


def stored(path: Any, *sides: SuiteSide, noise: Mapping[tuple[str, str], NoiseFloor] | None = None) -> Any:
    """Put the sides into a database and return its path."""
    from results.store.store import open_store

    with open_store(path) as store:
        for side in sides:
            store.add_run(side.runs[0], [], side.records)
        store.add_noise_floors((noise or {}).values())
    return path


def pair(steps: dict[int, float], *, cases=12, processes=6, sd=0.01, seed=1, **changes):
    """Two sides of unchanged cases but for `steps` (case → change of the logarithm)."""
    rng = np.random.default_rng(seed)
    logs = [noisy(rng, cases, processes, sd) for _ in range(2)]
    for number, step in steps.items():
        logs[1][number] += step
    later = run_info("b", started_at="2026-03-02T10:00:00.000000+00:00")
    return side(logs[0], "a"), side(logs[1], run=later, **changes)


def of(comparison, number):
    return next(compared for compared in comparison.cases if compared.case == case(number))


def changed(side: SuiteSide, numbers, **changes) -> SuiteSide:
    """The side with fields of the measurements of these cases changed; a callable gets the record."""
    keys = {case(number) for number in numbers}

    def other(record):
        values = {name: value(record) if callable(value) else value for name, value in changes.items()}
        return replace(record, measurement=replace(record.measurement, **values))

    return replace(side, records=tuple(other(record) if record.case in keys else record for record in side.records))
