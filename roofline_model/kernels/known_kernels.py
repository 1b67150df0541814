"""Which calls have a kernel at all: an expected time is of one that runs, not of what a chip's ceilings would allow.

Three things make a time that nobody can measure. A CPU's ceilings say what its units and its memory can do, not what its
kernels make of them. A calibrated GPU knows its bandwidth and the rates of its own units, so that operands which no kernel of
it multiplies would look like fewer bytes at the rate of another format. And the fitted models price any pair of formats by
its bytes and its tensor peak, also a pair that no library multiplies.
"""

from __future__ import annotations

from roofline_model.chips.hardware import Device
from roofline_model.core.cost import OpCost
from roofline_model.core.finding import Finding, finding
from roofline_model.formats.catalog import NumberFormat, get_format
from roofline_model.operators.product import Operator, compute_format

KERNEL_OPS = ("gemv", "gemm", "attention")
"""What an expected time needs a timed kernel for; the other operators stream their operands."""

_RESULTS = ("c", "o")
_INVENTED = ("placeholder", "declared", "measured-here")
"""Whose word makes a unit usable that libraries leave alone: an invented chip's, a user's own, a machine that timed it."""


def why_no_time_here(device: Device) -> Finding | None:
    """Return why nothing has an expected time on a CPU whose ceilings alone are known (`--hw auto` measures them); else None."""
    known = device.calibration
    if known is None or known.kind != "cpu" or known.kernels:
        return None
    return finding("no-kernel-timed", hardware=device.key)


def why_untimed(work: Operator | OpCost, device: Device) -> Finding | None:
    """Return why the ceilings of a calibrated machine are no expected time of work that was not timed; None where they are.

    On a CPU they never are for products and attention, and for nothing while none of its kernels was timed: at few rows
    its BF16 and FP32 kernels take 2.6 to 4.7 times what the ceilings allow, those for INT4 and INT8 weights 2.5 to 3.7
    times at any (37 cases of examples/runs/cpu-amd-epyc-2t/quick.json, 2026-11-21). On a GPU they are where the
    machine's own unit for these very operands was timed: nothing is widened, decoded or emulated.
    """
    known = device.calibration
    if known is None:
        return None
    if (why_not := why_no_time_here(device)) is not None:
        return why_not
    if not isinstance(work, Operator) or work.op not in KERNEL_OPS:
        return None
    computes = [key for key, count in work.cost.flops if count]
    if not computes:
        return None
    paths = [device.path(key) for key in computes]
    is_timed = known.kind != "cpu" and all(
        path.kind == "native" and path.compute_format in known.peaks for path in paths
    )
    widest = max(get_format(path.compute_format).element_bits for path in paths)
    if is_timed and all(fmt.element_bits >= widest for fmt in _operands(work)):
        return None
    return finding("formats-untimed", hardware=device.key, formats=_label(work))


def why_no_product_kernel(work: Operator, device: Device) -> Finding | None:
    """Return why no library of a GPU multiplies both operands of a product as they are; None where one may.

    INT4 by INT4: no library (cuBLAS, torch) does, although A100 and Ada have the unit, and Hopper and later would emulate it.
    """
    operands = dict(work.formats)
    activation, weight = get_format(operands["a"]), get_format(operands["b"])
    is_narrow = all(fmt.kind == "int" and fmt.element_bits < 8 for fmt in (activation, weight))
    computes = [key for key, count in work.cost.flops if count]
    if not is_narrow or any(device.path(key).dense.status in _INVENTED for key in computes):
        return None
    return finding("no-library-kernel", hardware=device.key, weight=weight.key, activation=activation.key)


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
