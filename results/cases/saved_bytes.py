"""What a narrower weight saves of the 16-bit bytes."""

from __future__ import annotations

from results.records.records import Record
from roofline_model.core.answer import Option
from roofline_model.core.errors import RooflineError
from roofline_model.formats.catalog import get_format

_SIXTEEN_BITS_BYTES = 2.0


def weight_saved_ratio(record: Record | None, weight_format: str) -> float | None:
    """Return the saved share of the 16-bit weight bytes; negative where they grow, None where the format is not known.

    Of a product whose case says its bytes: those of its weight, group scales and zero points as the kernel holds them
    (INT4 with a BF16 pair per group of 32 or 128, say). Else the bytes that `weight_format` moves per element. Without
    unit.
    """
    held_bytes = _weight_bytes(record) if record is not None else None
    if held_bytes is not None and record is not None:
        shape = dict(record.case.shape)
        return 1 - held_bytes / (shape["N"] * shape["K"] * _SIXTEEN_BITS_BYTES)
    try:
        return 1 - get_format(weight_format).traffic_bytes_per_element / _SIXTEEN_BITS_BYTES if weight_format else None
    except RooflineError:  # a user's format that this process has not loaded
        return None


def saved_ratio(option: Option) -> float | None:
    """Return the saved share of an option's 16-bit weight bytes; by its format alone where nothing is known of its
    memory.
    """
    return weight_saved_ratio(None, option.weight_format) if option.memory is None else option.memory.saved_ratio


def _weight_bytes(record: Record) -> float | None:
    """Return what a product reads beyond its activations; an intermediate that is written is read once more, no
    weight.
    """
    shape, formats, ideal = dict(record.case.shape), dict(record.case.formats), record.ideal
    if ideal is None or set(shape) != {"M", "N", "K"} or not {"a", "b", "c"} <= set(formats):
        return None
    try:
        a, c = get_format(formats["a"]), get_format(formats["c"])
    except RooflineError:
        return None
    activation_bytes = shape["M"] * shape["K"] * a.traffic_bytes_per_element
    intermediate_bytes = ideal.write_bytes - shape["M"] * shape["N"] * c.traffic_bytes_per_element
    held_bytes = ideal.read_bytes - activation_bytes - max(0.0, intermediate_bytes)
    return held_bytes if held_bytes > 0 and shape["N"] * shape["K"] else None
