"""A chip and a model by their names, for the functions that take both; and the 16-bit format that both have."""

from __future__ import annotations

from dataclasses import replace

from roofline_model.chips.hardware import Device, get_hardware
from roofline_model.core.errors import InvalidValueError, UnknownNameError, UnsupportedError
from roofline_model.formats.catalog import SIXTEEN_BIT
from roofline_model.models.model_registry import get_model, shipped_model
from roofline_model.models.model_shapes import ModelShape


def get_chip_and_model(hardware: Device | str, model: ModelShape | str) -> tuple[Device, ModelShape]:
    """Return the chip and the model of these names.

    Raises `InvalidValueError` where the two arguments are swapped, else what `get_hardware` and `get_model` raise.

    >>> chip, model = get_chip_and_model("gb10", "llama-3.1-8b")
    >>> chip.key, model.name
    ('gb10', 'llama-3.1-8b')
    """
    if _is_model(hardware) and _is_chip(model):
        first, second = (str(getattr(value, "key", getattr(value, "name", value))) for value in (model, hardware))
        raise InvalidValueError(f"the chip comes first and the model second: ({first[:60]!r}, {second[:60]!r})")
    return get_hardware(hardware), get_model(model)


def _is_model(value: object) -> bool:
    return isinstance(value, ModelShape) or (isinstance(value, str) and shipped_model(value) is not None)


def _is_chip(value: object) -> bool:
    if isinstance(value, Device) or not isinstance(value, str):
        return isinstance(value, Device)
    try:
        get_hardware(value)
    except UnknownNameError:
        return False
    return True


def wide_format(shape: ModelShape, device: Device) -> str:
    """Return the 16-bit format of the baseline: the model's own where the chip has it, else the chip's.

    Raises `UnsupportedError` for a chip without a 16-bit rate.
    """
    order = [shape.wide_format, *SIXTEEN_BIT]
    declared = [key for key in order if device.declares(key)]
    native = [key for key in declared if device.path(key).kind == "native"]
    if not declared:
        raise no_sixteen_bit(device)
    return (native or declared)[0]


def in_wide_format(shape: ModelShape, device: Device) -> ModelShape:
    """Return the model in the 16-bit format that a chip has; as it is where that is its own, or where it has none."""
    if device.declares(shape.wide_format) or not any(map(device.declares, SIXTEEN_BIT)):
        return shape
    wide = wide_format(shape, device)
    return replace(
        shape,
        wide_format=wide,
        weight_format=wide if shape.weight_format == shape.wide_format else shape.weight_format,
    )


def no_sixteen_bit(device: Device) -> UnsupportedError:
    """Return the error of a chip that has no 16-bit baseline."""
    return UnsupportedError(
        f"{device.key} declares no 16-bit rate to compare with. Declared: {', '.join(sorted(device.paths))}. Add FP16 "
        "or BF16 to its description"
    )
