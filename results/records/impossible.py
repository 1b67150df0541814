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

from results.records.limits import outside_limits
from results.records.records import HardwareProfile, Measurement, PredictionRecord, Record, TelemetrySample
from results.records.state_records import EnergyReading, KernelAttribution, MachineState
from roofline_model.chips.hardware import doubt_of_ideals, doubt_of_times
from roofline_model.core.finding import finding, short_text

LARGEST = 1e30
"""Of any unit. A year of the largest machine is 1e26 FLOPs."""
SHORTEST_S = 1e-18
"""Light crosses no atom in it; a time of 0 stays, it is told elsewhere."""
SLOWEST_PER_S = 1e-6
"""Of a rate above 0 (byte/s, FLOP/s, Hz is none): one a fortnight."""

_Part = Measurement | PredictionRecord | EnergyReading | MachineState | KernelAttribution | TelemetrySample
_PARTS: dict[str, type[_Part]] = {
    part_type.__name__: part_type
    for part_type in (Measurement, PredictionRecord, EnergyReading, MachineState, KernelAttribution, TelemetrySample)
}
_TOGETHER = ("energy", "state", "attribution")
"""Parts of a measurement that go as a whole."""


def possible_records(records: Iterable[Record]) -> tuple[Record, ...]:
    """Return the records without impossible numbers; the same objects where there is nothing to take out.

    Impossible: NaN, infinite, beyond `LARGEST`, a time above 0 and below `SHORTEST_S`, a rate below `SLOWEST_PER_S`,
    and what is outside the limits of the record types. A number that may be missing becomes None; one that may not
    takes its part with it: its measurement (the case then counts as failed, and says why), its prediction, its energy
    reading, its sensor reading.
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
    kind = type(value).__name__
    names = [name for name, least in _numbers(kind) if not _is_possible(getattr(value, name), least)]
    for name in ("terms_s", "throttled_s"):
        table = getattr(value, name, None)
        if table is not None and not all(_is_possible(times_s, SHORTEST_S) for times_s in table.values()):
            names.append(name)
    samples_s = getattr(value, "samples_s", ())
    # A NaN or an infinity among the samples is one of their sum.
    if samples_s and (min(samples_s) < 0 or not _is_possible(sum(samples_s), SHORTEST_S)):
        names.append("samples_s")
    for name in _TOGETHER:
        part = getattr(value, name, None)
        if part is not None and any(_impossible(part)):
            names.append(name)
    # A text out of its form is told by `roofline db check`; it spoils no number.
    names += [name for name in outside_limits(value) if isinstance(getattr(value, name), int | float)]
    impossible, optional = dict.fromkeys(names), _optional_fields(kind)
    return [name for name in impossible if name not in optional], [name for name in impossible if name in optional]


def _is_possible(value: float | None, least: float) -> bool:
    if value is None:
        return True
    size = abs(value)
    return size == 0 or least <= size <= LARGEST  # a NaN is neither


@cache
def _numbers(kind: str) -> tuple[tuple[str, float], ...]:
    """Return each float field of a part of a record: its name, the least size above 0."""
    return tuple(
        (name, SLOWEST_PER_S if name.endswith("_per_s") else SHORTEST_S if name.endswith("_s") else 0.0)
        for name, hint in get_type_hints(_PARTS[kind]).items()
        if hint in (float, float | None)
    )


@cache
def _optional_fields(kind: str) -> frozenset[str]:
    """Return the names of the fields of a part of a record that may be None."""
    hints = get_type_hints(_PARTS[kind])
    return frozenset(name for name, hint in hints.items() if type(None) in get_args(hint))
