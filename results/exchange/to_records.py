"""A foreign file as a run with records: ids from its content, a timer of its own, predictions where they can be
made.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from results.exchange.foreign import ForeignFile, ForeignRow, Stated, printable
from results.exchange.measured import doubted
from results.exchange.model_predictions import CallPrediction, model_predictions
from results.records.plain_form import tag
from results.records.records import (
    FOREIGN_COMMAND,
    EnvironmentInfo,
    HardwareProfile,
    Method,
    ProcessInfo,
    Record,
    RunInfo,
)
from results.store.run_names import LONGEST_LABEL
from roofline_model.chips.hardware import Device, DeviceFacts, list_hardware, match_device
from roofline_model.core.errors import RooflineError
from roofline_model.core.finding import Finding, finding, stored_form

METHOD_VERSION = "imported-1"
"""Changes whenever the same file would become other samples."""
TIMER_PREFIX = "imported:"
"""First of every foreign timer: results whose methods differ are never compared."""


@dataclass(frozen=True, slots=True)
class ForeignRun:
    """A foreign file, ready to be stored."""

    run: RunInfo
    profiles: tuple[HardwareProfile, ...]
    records: tuple[Record, ...]
    """Each measurement once."""
    repeated_count: int
    """Rows that stand in the file twice."""
    chip: Device | None
    """The chip that predictions were asked of; None: not known, or each row its own."""


def to_records(
    foreign: ForeignFile, stated: Stated, *, started_at: str, advance: Callable[[int, int], None] | None = None
) -> ForeignRun:
    """Return the run of a file; `started_at` is taken where the file has no date."""
    chip, why_no_chip = measured_chip(foreign.device_name, stated.hardware)
    stated_identity = stated.identity()
    ids = [record_id(foreign.kind, row.content, stated_identity) for row in foreign.rows]
    run = run_id(foreign.kind, ids[0])
    created = foreign.started_at or started_at
    host = printable(str(foreign.facts.get("node", "")))
    process = ProcessInfo(host=host, started_at=created, role="main")
    records: dict[str, Record] = {}
    for position, (row, identity) in enumerate(zip(foreign.rows, ids, strict=True)):
        if identity not in records:
            records[identity] = _record(row, identity, run, foreign, chip, why_no_chip, process, created)
        if advance is not None:
            advance(position + 1, len(ids))
    devices = (*foreign.devices, *([chip] if chip is not None else []))
    keys = {device.key for device in devices}
    dated = {} if foreign.started_at else {"date_source": "file's time stamp"}
    info = RunInfo(
        run_id=run,
        started_at=created,
        label=f"{foreign.kind}: {foreign.name}".replace(",", ";")[:LONGEST_LABEL].strip(),
        finished_at=created,
        status="complete",
        exit_code=None,
        hardware_key=keys.pop() if len(keys) == 1 else "",
        command=f"{FOREIGN_COMMAND}{foreign.name}"[:400],
        git_commit=foreign.git_commit,
        git_branch=foreign.git_branch,
        git_is_dirty=foreign.git_is_dirty,
        environment=EnvironmentInfo(
            {"imported_from": foreign.kind, "file": foreign.name, **foreign.facts, **dated},
            {"imported_from": foreign.kind, **foreign.class_facts},
        ),
    )
    profiles = {device.content_hash: device for device in devices}
    return ForeignRun(
        info,
        tuple(
            HardwareProfile(device.key, device.name, hashed, device.to_dict()) for hashed, device in profiles.items()
        ),
        tuple(records.values()),
        len(ids) - len(records),
        chip,
    )


def measured_chip(device_name: str, stated: Device | None) -> tuple[Device | None, Finding | None]:
    """Return the chip of a file, or none and why: the stated one unless the file names another, else the one its name
    matches.

    A number measured on one chip is never set beside the prediction of another.
    """
    if not device_name:
        return stated, None if stated is not None else finding("import-incomplete", kind="chip", options="--hw")
    facts = DeviceFacts(device_name)
    if stated is None:
        chip, _ = match_device(facts)
        if chip is not None:
            return chip, None
        several = tuple(device.key for device in list_hardware() if match_device(facts, [device])[0] is not None)
        return None, finding(
            "import-incomplete",
            kind="chip-unclear",
            options="--hw",
            device=device_name[:80],
            candidates=several or None,
        )
    if not stated.match.device_names or match_device(facts, [stated])[0] is not None:
        return stated, None
    return None, finding("chip-contradicted", device=device_name[:80], hardware=stated.key)


def _record(
    row: ForeignRow,
    identity: str,
    run: str,
    foreign: ForeignFile,
    chip: Device | None,
    why_no_chip: Finding | None,
    process: ProcessInfo,
    created: str,
) -> Record:
    predictions, reason, measurement = row.predictions, row.reason, row.measurement
    if row.ask is not None and not predictions:
        predictions, reason, least_s = _asked(row, chip, why_no_chip)
        measurement = doubted(measurement, least_s)
    extra: dict[str, object] = {
        "imported": {"from": foreign.kind, "file": foreign.name, "where": row.where, **row.facts}
    }
    if reason:
        extra["unpredicted"] = stored_form(reason)
    phase, _, name = row.case.op.partition(":")
    if row.tokens_per_call is not None:
        extra["tokens_per_call"] = row.tokens_per_call
        extra["model"] = {
            "name": name,
            "phase": phase,
            "precision": str(row.facts.get("quantization") or row.case.precision_label),
            "method": "",
        }
    return Record(
        record_id=identity,
        run_id=run,
        case=row.case,
        status="measured",
        test_id=printable(row.test_id[:400]),
        created_at=row.created_at or created,
        process=process,
        method=Method(f"{TIMER_PREFIX}{foreign.kind}", METHOD_VERSION, dict(row.settings)),
        measurement=measurement,
        predictions=predictions,
        extra=extra,
    )


def _asked(row: ForeignRow, chip: Device | None, why_no_chip: Finding | None) -> CallPrediction:
    assert row.ask is not None  # asked by _record
    if chip is None:
        return CallPrediction((), why_no_chip, 0.0)
    try:
        return model_predictions(row.ask, chip, row.measurement.median_s)
    except RooflineError as error:
        return CallPrediction((), finding("unsupported", reason=str(error)), 0.0)


def record_id(kind: str, content: Mapping[str, Any], stated: Mapping[str, Any]) -> str:
    """Return 32 hex digits of a measurement's content and of what the user said that changes its case."""
    return _digest(["record", kind, dict(content), dict(stated)])


def run_id(kind: str, first_record_id: str) -> str:
    """Return 32 hex digits for the run of a file: those of its first record, so that a file that grew stays one run."""
    return _digest(["run", kind, first_record_id])


def _digest(value: Any) -> str:
    import json

    text = json.dumps(tag(value), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]
