"""A foreign file as a run with records: ids from its content, a timer of its own, predictions where they can be
made.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any

from results.exchange.exported.export import ExportedRun
from results.exchange.foreign import ForeignFile, ForeignRow, ReadFile, Stated, printable
from results.exchange.measured import doubted
from results.exchange.model_predictions import model_predictions
from results.records.plain_form import tag
from results.records.records import (
    FOREIGN_COMMAND,
    EnvironmentInfo,
    HardwareProfile,
    Measurement,
    Method,
    PredictionRecord,
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


def to_records(
    foreign: ForeignFile, stated: Stated, *, started_at: str, advance: Callable[[int, int], None]
) -> ReadFile:
    """Return a foreign file as records; `started_at` is taken where it has no date."""
    chip, why_no_chip = measured_chip(foreign.device_name, stated.hardware)
    ids = [_digest(["record", foreign.kind, dict(row.content), stated.identity()]) for row in foreign.rows]
    # The run of a file is that of its first record, so that a file that grew stays one run.
    run_id = _digest(["run", foreign.kind, ids[0]])
    dated = min((row.created_at for row in foreign.rows if row.created_at), default="")
    created = dated or started_at
    process = ProcessInfo(host=printable(str(foreign.facts.get("node", ""))), started_at=created)
    records: dict[str, Record] = {}
    for position, (row, identity) in enumerate(zip(foreign.rows, ids, strict=True), 1):
        if identity not in records:
            measurement, predictions, reason = _predicted(row, chip, why_no_chip)
            records[identity] = Record(
                record_id=identity,
                run_id=run_id,
                case=row.case,
                status="measured",
                test_id=printable(row.test_id[:400]),
                created_at=row.created_at or created,
                process=process,
                method=Method(f"{TIMER_PREFIX}{foreign.kind}", METHOD_VERSION, dict(row.settings)),
                measurement=measurement,
                predictions=predictions,
                extra=_extra(row, foreign, reason),
            )
        advance(position, len(ids))
    profiles = {device.content_hash: device for device in (*foreign.devices, chip) if device is not None}
    keys = {device.key for device in profiles.values()}
    dates = {} if dated else {"date_source": "file's time stamp"}
    run = RunInfo(
        run_id=run_id,
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
            {"imported_from": foreign.kind, "file": foreign.name, **foreign.facts, **dates},
            {"imported_from": foreign.kind, **foreign.class_facts},
        ),
    )
    hardware = (HardwareProfile(each.key, each.name, hashed, each.to_dict()) for hashed, each in profiles.items())
    exported = ExportedRun(run, tuple(hardware), (), tuple(records.values()))
    return ReadFile((exported,), foreign.kind, len(ids) - len(records), chip)


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


def _predicted(
    row: ForeignRow, chip: Device | None, why_no_chip: Finding | None
) -> tuple[Measurement, tuple[PredictionRecord, ...], Finding | None]:
    """Return the measurement of a row, which its prediction may put in doubt, its predictions and why one is
    missing.
    """
    if row.ask is None or row.predictions:
        return row.measurement, row.predictions, row.reason
    if chip is None:
        return row.measurement, (), why_no_chip
    try:
        call = model_predictions(row.ask, chip, row.measurement.median_s)
    except RooflineError as error:
        return row.measurement, (), finding("unsupported", reason=str(error))
    return doubted(row.measurement, call.least_s), call.predictions, call.reason


def _extra(row: ForeignRow, foreign: ForeignFile, reason: Finding | None) -> dict[str, object]:
    extra: dict[str, object] = {
        "imported": {"from": foreign.kind, "file": foreign.name, "where": row.where, **row.facts}
    }
    if reason:
        extra["unpredicted"] = stored_form(reason)
    if row.tokens_per_call is not None:
        phase, _, name = row.case.op.partition(":")
        precision = str(row.facts.get("quantization") or row.case.precision_label)
        extra["tokens_per_call"] = row.tokens_per_call
        extra["model"] = {"name": name, "phase": phase, "precision": precision, "method": ""}
    return extra


def _digest(value: Any) -> str:
    text = json.dumps(tag(value), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]
