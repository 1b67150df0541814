"""A chip and a model by their names, for the functions that take both."""

from __future__ import annotations

from roofline_model.chips.hardware import Device, get_hardware
from roofline_model.core.errors import InvalidValueError, UnknownNameError
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
