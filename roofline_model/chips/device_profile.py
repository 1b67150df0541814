"""Rebuild a `Device` from what `Device.to_dict` wrote: a stored run, an export, a pipeline use the numbers of that day."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from roofline_model.chips.hardware import ComputePath, Device, MatchRule, MemoryLevel, Quantity
from roofline_model.chips.machine_constants import Calibration
from roofline_model.core.errors import DefinitionError


def device_from_profile(profile: Mapping[str, Any]) -> Device:
    """Return the chip that `Device.to_dict` described.

    Raises `DefinitionError` when the profile lacks a field or has one this version does not know.
    """
    try:
        data = dict(profile)
        data["bandwidth"] = Quantity(**data["bandwidth"])
        for name in ("bandwidth_achieved", "capacity"):
            data[name] = _optional(data.get(name))
        data["paths"] = {key: _path(path) for key, path in data["paths"].items()}
        data["levels"] = tuple(_level(level) for level in data.get("levels", ()))
        data["chip"] = {key: Quantity(**quantity) for key, quantity in data.get("chip", {}).items()}
        data["match"] = _match(data.get("match") or {})
        if data.get("calibration") is not None:
            data["calibration"] = Calibration.from_dict(data["calibration"], "a stored profile")
        for name in ("aliases", "notes"):
            data[name] = tuple(data.get(name, ()))
        return Device(**data)
    except (AttributeError, KeyError, TypeError) as error:
        key = profile.get("key", "?") if isinstance(profile, Mapping) else "?"
        raise DefinitionError(
            f"the stored profile of {key!r} cannot be read ({error}); it was written by another version of roofline-bench"
        ) from None


def _optional(table: Mapping[str, Any] | None) -> Quantity | None:
    return None if table is None else Quantity(**table)


def _path(table: Mapping[str, Any]) -> ComputePath:
    data = dict(table)
    data["dense"] = Quantity(**data["dense"])
    for name in ("sparse", "achieved"):
        data[name] = _optional(data.get(name))
    return ComputePath(**data)


def _level(table: Mapping[str, Any]) -> MemoryLevel:
    return MemoryLevel(table["name"], table["capacity_bytes"], _optional(table.get("bandwidth")))


def _match(table: Mapping[str, Any]) -> MatchRule:
    data = dict(table)
    data["device_names"] = tuple(data.get("device_names", ()))
    memory = data.get("memory_gb")
    data["memory_gb"] = None if memory is None else (memory[0], memory[1])
    return MatchRule(**data)
