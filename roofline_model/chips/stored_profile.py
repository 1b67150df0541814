"""The profile of a chip that is stored beside a run (`Device.to_dict`), read back and checked field by field."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from roofline_model.chips.hardware import Device
from roofline_model.chips.machine_constants import CALIBRATION_VERSION, Calibration
from roofline_model.core.definition_text import shown
from roofline_model.core.errors import DefinitionError, OtherVersionError
from roofline_model.formats.catalog import FORMATS

T = TypeVar("T")

_LEAST, _MOST = 1e-9, 1e30
"""Of any number, in its SI unit: a smaller rate or a larger one gives times that no float holds."""


def device_from_profile(profile: Any, where: str = "profile") -> Device:
    """Return the chip that `Device.to_dict` described.

    Raises `OtherVersionError` where a field is missing or unknown to this version, and `DefinitionError` naming the
    first field, below `where`, whose value no chip has.
    """
    device = _part(Device, profile, where)
    for key, path in device.paths.items():
        if key in FORMATS and path.format != key:
            raise _refused(f"{where}.paths.{key}.format", path.format, key)
        if key in FORMATS and path.compute_format not in FORMATS:
            raise _refused(f"{where}.paths.{key}.compute_format", path.compute_format, "a format")
    return device


def _part(kind: type[T], data: Any, where: str) -> T:
    """Return a part of a chip from its table."""
    if not isinstance(data, Mapping):
        raise _refused(where, data, "a table")
    hints, required = _fields(kind)  # type: ignore[arg-type]
    odd = [name for name in data if name not in hints] + [name for name in required if name not in data]
    if odd:
        raise OtherVersionError(
            f"{where} was written by another version of roofline-bench: it {'has' if odd[0] in data else 'lacks'} "
            f"the field {shown(odd[0])}"
        )
    return kind(**{name: _value(hints[name], item, f"{where}.{name}") for name, item in data.items()})


@cache
def _fields(kind: type[Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the types of the fields of a part, and the names of those that it must have."""
    required = [each.name for each in fields(kind) if each.default is MISSING and each.default_factory is MISSING]
    return get_type_hints(kind), tuple(required)


def _value(hint: Any, data: Any, where: str) -> Any:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):  # of a type and None
        return None if data is None else _value(arguments[0], data, where)
    if hint is Calibration:
        return _calibration(data, where)
    if is_dataclass(hint):
        return _part(hint, data, where)  # type: ignore[arg-type]
    if origin is tuple:
        return _items(arguments, data, where)
    if origin is Literal:
        if data not in arguments:
            raise _refused(where, data, f"one of {', '.join(arguments)}")
        return data
    if isinstance(origin, type) and issubclass(origin, Mapping):
        if not isinstance(data, Mapping):
            raise _refused(where, data, "a table")
        return {key: _value(arguments[1], item, f"{where}.{key[:40]}") for key, item in data.items()}
    return _scalar(hint, data, where)


def _items(kinds: tuple[Any, ...], data: Any, where: str) -> tuple[Any, ...]:
    if not isinstance(data, list | tuple):
        raise _refused(where, data, "a list")
    if Ellipsis not in kinds and len(data) != len(kinds):
        raise _refused(where, data, f"a list of {len(kinds)}")
    return tuple(_value(kinds[0], item, f"{where}[{number}]") for number, item in enumerate(data))


def _calibration(data: Any, where: str) -> Calibration:
    if isinstance(data, Mapping) and data.get("version") != CALIBRATION_VERSION:
        raise OtherVersionError(f"{where} was written by another version of roofline-bench")
    return Calibration.from_dict(data, where)


def _scalar(kind: type[Any], data: Any, where: str) -> Any:
    if kind in (float, int):
        if isinstance(data, bool) or not isinstance(data, int | kind) or not _LEAST <= data <= _MOST:
            raise _refused(where, data, f"a {'whole ' * (kind is int)}number from {_LEAST:g} to {_MOST:g}")
    elif not isinstance(data, kind):
        raise _refused(where, data, "text" if kind is str else "true or false")
    return data


def _refused(where: str, data: Any, wanted: str) -> DefinitionError:
    return DefinitionError(f"{where} is {shown(data)}, not {wanted}")
