"""Which calls have a kernel at all: an expected time is of one that runs, not of what a chip's ceilings would allow.

Two things make a time that nobody can measure. A calibrated machine knows its bandwidth and the rates of its own units, so
that FP8 or NVFP4 operands, which no kernel of it multiplies, would look like fewer bytes at the rate of another format; and
the fitted models price any pair of formats by its bytes and its tensor peak, also a pair that no library multiplies.
"""

from __future__ import annotations

from roofline_model.formats import NumberFormat, get_format
from roofline_model.hardware import Device
from roofline_model.operators import Operator, compute_format

_RESULTS = ("c", "o")
_INVENTED = ("placeholder", "declared", "measured-here")
"""Whose word makes a unit usable that libraries leave alone: an invented chip's, a user's own, a machine that timed it."""


def why_untimed(work: Operator, device: Device) -> str:
    """Return why the ceilings of a calibrated machine are no expected time of a product or attention; empty where they are.

    They are where the machine's own unit for these very operands was timed: nothing is widened, decoded or emulated.
    """
    known = device.calibration
    computes = [key for key, count in work.cost.flops if count]
    if known is None or not computes:
        return ""
    paths = [device.path(key) for key in computes]
    is_timed = all(path.kind == "native" and path.compute_format in known.peaks for path in paths)
    widest = max(get_format(path.compute_format).element_bits for path in paths)
    if is_timed and all(fmt.element_bits >= widest for fmt in _operands(work)):
        return ""
    return (
        f"no expected time for {_label(work)} on {device.key}: no kernel that multiplies these formats was timed there "
        "(`roofline calibrate` times those that exist); the ideal roofline stands"
    )


def why_no_product_kernel(work: Operator, device: Device) -> str:
    """Return why no library of a GPU multiplies both operands of a product as they are; empty where one may.

    INT4 by INT4: no library (cuBLAS, torch) does, although A100 and Ada have the unit, and Hopper and later would emulate it.
    """
    operands = dict(work.formats)
    activation, weight = get_format(operands["a"]), get_format(operands["b"])
    is_narrow = all(fmt.kind == "int" and fmt.element_bits < 8 for fmt in (activation, weight))
    computes = [key for key, count in work.cost.flops if count]
    if not is_narrow or any(device.path(key).dense.status in _INVENTED for key in computes):
        return ""
    return (
        f"no expected time for {weight.key} by {activation.key} on {device.key}: no library has such a kernel; 4-bit integers run "
        f"as weights alone ({weight.key}.BF16). The ideal roofline stands"
    )


def computed_activation(device: Device, weight: str | NumberFormat, activation: str | NumberFormat) -> str:
    """Return the activation's format in the kernel that exists for a pair: 16 bits where the chip would decode both operands.

    No library decodes two narrow operands for one product: what exists there is the weight-only kernel (Marlin).
    """
    fa, fb = get_format(activation), get_format(weight)
    path = device.path(compute_format(fa, fb))
    is_decoded = path.kind == "dequantize" and fa.element_bits < 16 and fb.element_bits < 16
    return path.compute_format if is_decoded else fa.key


def _operands(work: Operator) -> list[NumberFormat]:
    return [get_format(key) for name, key in work.formats if name not in _RESULTS]


def _label(work: Operator) -> str:
    formats = dict(work.formats)
    names = [formats["b"], formats["a"]] if {"a", "b"} <= formats.keys() else [fmt.key for fmt in _operands(work)]
    return ".".join(dict.fromkeys(names))
