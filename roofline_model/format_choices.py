"""Which number formats take part in a recommendation on a chip, and what holds of each whatever the shape.

A format that the chip computes natively gets both operands in that format (W8A8, W4A4); any other is weight-only: the
weight is stored in the format, the activation stays in 16 bit and so does the arithmetic (W8A16, W4A16).
Where both operands are integers they carry no group scales (the convention of the original documents). Weight-only INT4
carries those that its kernels read (`weight_storage.py`), so that it is weighed against MXFP4 and NVFP4 with theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from roofline_model.claimed_losses import claimed_loss_of, claimed_quality
from roofline_model.core.memo import Memo
from roofline_model.errors import UnsupportedError
from roofline_model.formats import NumberFormat, get_format
from roofline_model.hardware import Device
from roofline_model.kernel_gaps import kernel_gap
from roofline_model.product_roof import ProductRoof
from roofline_model.quantization_method import method_of
from roofline_model.serving_kernels import engine_gap
from roofline_model.weight_storage import stored_weight

WIDE_KEYS = ("FP16", "BF16")

DEFAULT_FORMATS = ("FP8_E4M3", "MXFP8_E4M3", "INT8", "NVFP4", "MXFP4", "INT4")
"""Formats weighed against the 16-bit baseline unless the caller names others; those the chip declares take part."""

# Whose word makes an INT4 unit usable: an invented chip's or the user's own. On real chips no library uses it.
_DECLARED = ("placeholder", "declared", "measured-here")


@dataclass(frozen=True, slots=True)
class FormatChoice:
    """What holds of one format on a chip, whatever the shape."""

    fmt: NumberFormat
    weight: NumberFormat
    """As it lies in memory (`stored_weight`)."""
    is_both: bool
    """Whether the activation has the format, too."""
    roof: ProductRoof
    method: str
    memory_saved_ratio: float
    quality: str
    formats: tuple[tuple[str, str], ...]
    """Operand → format key, as in a `Case`."""
    kernel_gap: str = ""
    """Why no kernel is known to run it on the chip (`kernel_gaps.py`); empty where none is known to be missing."""
    engine_gap: str = ""
    """Which serving engines lack a kernel for it on the chip (`serving_kernels.py`)."""
    loss_pct: float | None = None
    """Upper end of what was published of its loss, 0 for 16 bit; None where nothing was found."""


@dataclass(frozen=True, slots=True)
class FormatField:
    """Who takes part on a chip: found out once, and kept for the next shape."""

    choices: tuple[FormatChoice, ...]
    """The 16-bit baseline first."""
    excluded: tuple[tuple[str, str], ...]


_KEPT: Memo[FormatField] = Memo(256)


def field_of(
    device: Device, wanted: Sequence[NumberFormat] | None, baseline: NumberFormat | None = None
) -> FormatField:
    """Return who takes part; `wanted` replaces `DEFAULT_FORMATS` (of which those count that the chip declares).

    `baseline`: the 16-bit format to compare with in place of the one with the faster unit; weight-only formats keep the
    activation of that one, for which their kernels are. A 16-bit format in `wanted` comes before it.
    Raises `UnsupportedError` for a chip without a 16-bit rate.
    """
    if any(fmt.key in WIDE_KEYS for fmt in wanted or ()):
        baseline = None
    return _KEPT.of((device, baseline, *(wanted or ())), lambda: _field(device, wanted, baseline))


def _baseline_format(device: Device, wanted: Sequence[NumberFormat]) -> NumberFormat:
    """Return the 16-bit format of the comparison: one the caller names, else the faster native one, FP16 at a tie.

    GPUs run both at one rate; a CPU may have instructions for one of them only, and then the other is no baseline.
    """
    named = [fmt.key for fmt in wanted if fmt.key in ("FP16", "BF16")]
    order = [key for key in (*named, "FP16", "BF16") if device.declares(key)]
    if not order:
        raise UnsupportedError(
            f"{device.key} declares no 16-bit rate to compare with. Declared: {', '.join(sorted(device.paths))}. Add FP16 or BF16 to its description."
        )
    native = [key for key in order if device.path(key).kind == "native"]
    fastest = max(native or order, key=device.peak_flops_per_s)  # max keeps the first of equals: FP16
    return get_format(named[0] if named and named[0] in order else fastest)


def _field(device: Device, wanted: Sequence[NumberFormat] | None, baseline: NumberFormat | None) -> FormatField:
    """Choose the baseline and every format that takes part; those that cannot are returned with the reason."""
    wide = _baseline_format(device, wanted or ())
    if wanted is None:
        wanted = [get_format(key) for key in DEFAULT_FORMATS if device.declares(key)]
    first = baseline or wide
    choices = [_choice(device, first, first)]
    excluded: list[tuple[str, str]] = []
    for fmt in wanted:
        if fmt.key in (wide.key, first.key):
            continue
        if fmt.traffic_bytes_per_element >= wide.traffic_bytes_per_element:
            excluded.append((fmt.key, f"not narrower than the {wide.key} baseline: nothing to gain"))
            continue
        try:
            choices.append(_choice(device, fmt, wide))
        except UnsupportedError as error:
            excluded.append((fmt.key, str(error)))
    return FormatField(tuple(choices), tuple(excluded))


def _choice(device: Device, fmt: NumberFormat, wide: NumberFormat) -> FormatChoice:
    """Raise `UnsupportedError` when the chip cannot compute in the format."""
    is_both = fmt.key == wide.key or _takes_both_operands(device, fmt, wide)
    weight = fmt if is_both else stored_weight(fmt, wide)
    activation = fmt if is_both else wide
    is_wide = fmt.key == wide.key
    claim = None if is_wide else claimed_loss_of(fmt.key, is_both=is_both)
    return FormatChoice(
        fmt=fmt,
        weight=weight,
        is_both=is_both,
        roof=ProductRoof.of(device, activation=activation, weight=weight, output=wide),
        method="none" if is_wide else method_of(fmt.key, is_both=is_both),
        memory_saved_ratio=1 - weight.traffic_bytes_per_element / wide.traffic_bytes_per_element,
        quality="reference" if is_wide else claimed_quality(fmt.key, is_both=is_both),
        formats=(("a", activation.key), ("b", fmt.key), ("c", wide.key)),
        kernel_gap="" if is_wide else kernel_gap(device, fmt.key, activation.key),
        engine_gap="" if is_wide else engine_gap(device, fmt.key, activation.key),
        loss_pct=0.0 if is_wide else None if claim is None else claim.high_pct,
    )


def _takes_both_operands(device: Device, fmt: NumberFormat, wide: NumberFormat) -> bool:
    """Return whether the activation is quantised too: the unit exists, is no slower than 16 bit, and kernels use it."""
    path = device.path(fmt.key)
    if path.kind != "native" or path.dense.value < device.peak_flops_per_s(wide.key):
        return False
    # AWQ keeps activations in 16 bit, and neither cuBLAS nor torch multiplies INT4 by INT4, although A100 and Ada have
    # the unit. A placeholder's or a user's own rate is taken at its word.
    return fmt.key != "INT4" or path.dense.status in _DECLARED
