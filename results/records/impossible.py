"""Stored numbers that no machine gives: taken out before anybody computes with them.

The store keeps what it was given, an import refuses most of this, and `roofline db check` names what is not finite. A
file of another tool or an older version may hold it all the same, and one infinite rate is enough to leave a plot
without axes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from typing import Any, get_args, get_type_hints

from results.records.limits import MAX_TIME_S, are_times, outside_limits
from results.records.records import HardwareProfile, Measurement, PredictionRecord, Record, TelemetrySample
from results.records.state_records import EnergyReading, KernelAttribution, MachineState
from roofline_model.chips.hardware import doubt_of_ideals, doubt_of_times
from roofline_model.core.finding import finding, short_text

_Part = Measurement | PredictionRecord | EnergyReading | MachineState | KernelAttribution | TelemetrySample


def possible_records(records: Iterable[Record]) -> tuple[Record, ...]:
    """Return the records without impossible numbers; the same objects where there is nothing to take out.

    Impossible is what is outside the limits of the record types, NaN and the infinities among it. A number that may be
    missing becomes None; one that may not takes its part with it: its measurement (the case then counts as failed, and
    says why), its prediction, its energy reading, its sensor reading.
    """
    return tuple(_possible(record) for record in records)


def without_contended(records: Iterable[Record], profiles: Iterable[HardwareProfile]) -> tuple[Record, ...]:
    """Return the records without predictions that rest on what a busy machine showed of itself: an earlier version
    stored some.

    `profiles`: the chips of the predictions.
    """
    chips = {profile.profile_hash: chip for profile in profiles if (chip := profile.device) is not None}
    bare = {profile_hash for profile_hash, chip in chips.items() if doubt_of_ideals(chip) is not None}
    ideal_alone = {profile_hash for profile_hash, chip in chips.items() if doubt_of_times(chip) is not None}
    if not bare and not ideal_alone:
        return tuple(records)
    return tuple(
        replace(
            record,
            predictions=tuple(
                prediction
                for prediction in record.predictions
                if prediction.profile_hash not in bare
                and (prediction.kind == "ideal" or prediction.profile_hash not in ideal_alone)
            ),
        )
        for record in records
    )


def _possible(record: Record) -> Record:
    changes: dict[str, Any] = {}
    if record.measurement is not None:
        lost, optional = _impossible(record.measurement)
        if lost:
            reason = short_text(finding("measurement-impossible", fields=tuple(lost)))
            changes |= {"measurement": None, "status": "failed", "reason": reason}
        elif optional:
            changes["measurement"] = _without(record.measurement, optional)
    for name in ("predictions", "telemetry"):
        stored = getattr(record, name)
        possible = tuple(possible_part for possible_part in map(_possible_part, stored) if possible_part is not None)
        if len(possible) != len(stored) or any(new is not old for new, old in zip(possible, stored, strict=True)):
            changes[name] = possible
    return replace(record, **changes) if changes else record


def _possible_part(part: _Part) -> _Part | None:
    """Return a part without its impossible numbers, the part itself where it has none, None where one must be there."""
    required, optional = _impossible(part)
    if required:
        return None
    return _without(part, optional) if optional else part


def _without(part: _Part, names: Iterable[str]) -> _Part:
    nothing: dict[str, Any] = dict.fromkeys(names)
    return replace(part, **nothing)


def _impossible(value: _Part) -> tuple[list[str], list[str]]:
    """Return the names of the impossible fields: those that must be there, and those that may be missing."""
    # A text out of its form is told by `roofline db check`; it spoils no number.
    names = [name for name in outside_limits(value) if not isinstance(getattr(value, name), str)]
    tables = {name: getattr(value, name, None) or {} for name in ("terms_s", "throttled_s")}
    names += [name for name, table in tables.items() if not all(abs(each) < MAX_TIME_S for each in table.values())]
    if isinstance(value, Measurement):
        names += [] if are_times(value.samples_s) else ["samples_s"]
        parts = {"energy": value.energy, "state": value.state, "attribution": value.attribution}
        names += [name for name, part in parts.items() if part is not None and any(_impossible(part))]
    optional = _optional_fields(type(value))  # type: ignore[arg-type]
    return [name for name in names if name not in optional], [name for name in names if name in optional]


@cache
def _optional_fields(kind: type[_Part]) -> frozenset[str]:
    """Return the names of the fields of a part of a record that may be None."""
    return frozenset(name for name, hint in get_type_hints(kind).items() if type(None) in get_args(hint))
