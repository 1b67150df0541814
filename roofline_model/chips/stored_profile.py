"""The profile of a chip that is stored beside a run (`Device.to_dict`), read back and checked field by field."""

from __future__ import annotations

from typing import Any

from roofline_model.chips.hardware import Device
from roofline_model.core.typed_fields import Limits, read_as, refused
from roofline_model.formats.catalog import FORMATS

_LIMITS: Limits = (1e-9, 1e30)
"""Of any number, in its SI unit: a smaller rate or a larger one gives times that no float holds."""


def device_from_profile(profile: Any, where: str = "profile") -> Device:
    """Return the chip that `Device.to_dict` described.

    Raises `OtherVersionError` where a field is missing or unknown to this version, and `DefinitionError` naming the
    first field, below `where`, whose value no chip has.
    """
    device = read_as(Device, profile, where, _LIMITS)
    for key, path in device.paths.items():
        if key in FORMATS and path.format != key:
            raise refused(f"{where}.paths.{key}.format", path.format, key)
        if key in FORMATS and path.compute_format not in FORMATS:
            raise refused(f"{where}.paths.{key}.compute_format", path.compute_format, "a format")
    return device
