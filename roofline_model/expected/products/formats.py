"""Which kernel family multiplies a pair of formats, and how many bytes that kernel moves per element.

Five families were measured and fitted: BF16, FP8 (W8A8), NVFP4 (W4A4), INT8 and INT4 weight-only (W8A16, W4A16 in
groups of 128). Any other pair runs on the nearest of them, with its own bytes and its own tensor peak, and the
prediction says so. Where another library's kernel may well be faster, `reference_kernel` names the one that an expected
time stands for.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from roofline_model.core.finding import Finding, finding
from roofline_model.formats.catalog import NumberFormat, get_format

KERNEL_FAMILIES = ("BF16", "FP8", "NVFP4", "INT8", "INT4")
WEIGHT_ONLY = ("INT8", "INT4")
QUANTIZED = ("FP8", "NVFP4")
"""Both operands narrow: activations may be quantised on the fly."""

INTEGER_GROUP_ELEMS = 128
"""Weight-only kernels keep one 16-bit scale per this many narrow integers; plain INT4 of the catalog counts none."""

CAST_READ_BYTES = {"FP8": 4.0, "NVFP4": 2.0}
"""Bytes of a 16-bit activation read per element by the quantising kernels: FP8 reads twice (amax, then convert)."""


@dataclass(frozen=True, slots=True)
class GemmFormats:
    """The kernel family of a weight and activation format, and the bytes per element its kernel moves."""

    family: str
    """One of `KERNEL_FAMILIES`: whose constants are used."""
    compute_format: str
    """Format key whose tensor peak counts."""
    weight_bytes_per_element: float
    activation_bytes_per_element: float
    output_bytes_per_element: float
    is_measured_pair: bool
    """False when the pair itself was never measured and runs on its neighbour's constants."""
    findings: tuple[Finding, ...] = ()

    @property
    def is_weight_only(self) -> bool:
        """Whether narrow weights are widened to 16 bit inside the kernel."""
        return self.family in WEIGHT_ONLY


def gemm_formats(
    weight_format: str | NumberFormat,
    activation_format: str | NumberFormat,
    output_format: str | NumberFormat = "BF16",
    *,
    computes_wide: bool = False,
) -> GemmFormats:
    """Return the kernel family of a pair of formats.

    `computes_wide`: the chip has no unit for the pair, so both operands are widened to 16 bit (as weight-only kernels
    do). Raises `UnknownNameError` for an unknown format.
    """
    return _of_formats(
        get_format(weight_format), get_format(activation_format), get_format(output_format), computes_wide
    )


@cache
def _of_formats(
    weight: NumberFormat, activation: NumberFormat, output: NumberFormat, computes_wide: bool
) -> GemmFormats:
    family, compute, is_measured, findings = _family(weight, activation, computes_wide)
    return GemmFormats(
        family,
        compute,
        kernel_bytes_per_element(weight),
        kernel_bytes_per_element(activation),
        kernel_bytes_per_element(output),
        is_measured,
        findings,
    )


def kernel_bytes_per_element(fmt: NumberFormat) -> float:
    """Return the bytes a kernel moves per element: the container, block scales, and group scales of narrow integers.

    One scale per tensor is nothing; INT4 and INT2 without scales of their own get one of 16 bit per 128 (INT4:
    0.515625).
    """
    bits = float(fmt.container_bits or fmt.element_bits)
    bits += sum(level.bits / level.block_elems for level in fmt.scales if level.block_elems)
    if fmt.kind == "int" and fmt.element_bits < 8 and not fmt.scales:
        bits += 16 / INTEGER_GROUP_ELEMS
    return bits / 8


_Family = tuple[str, str, bool, tuple[Finding, ...]]
"""Kernel family, compute format, whether this pair was measured, and what to know of it."""


def _family(weight: NumberFormat, activation: NumberFormat, computes_wide: bool) -> _Family:
    if weight.element_bits < activation.element_bits or (computes_wide and weight.element_bits < 16):
        return _narrow_weight(weight, activation, computes_wide)
    if activation.element_bits < weight.element_bits:
        # A narrow activation is widened on load: the kernel of the weight's format.
        family, compute, _, _ = _family(weight, weight, computes_wide)
        widened = finding("activation-widened", activation=activation.key, weight=weight.key)
        return family, compute, False, (widened,)
    if activation.element_bits > 16:
        return "BF16", activation.key, False, (_unmeasured(activation.key, "products", "BF16"),)
    if activation.element_bits == 16:
        return "BF16", activation.key, True, ()
    if activation.element_bits >= 6:
        is_plain = activation.kind == "float" and not activation.scales
        findings = () if is_plain else (_unmeasured(activation.key, "products", "FP8"),)
        return "FP8", activation.key, is_plain, findings
    is_nvfp4 = activation.key == weight.key == "NVFP4"
    return "NVFP4", activation.key, is_nvfp4, () if is_nvfp4 else (_unmeasured(weight.key, "products", "NVFP4"),)


def _unmeasured(format_key: str, operand: str, family: str) -> Finding:
    return finding("format-unmeasured", format=format_key, operand=operand, family=family)


def _narrow_weight(weight: NumberFormat, activation: NumberFormat, computes_wide: bool) -> _Family:
    if activation.element_bits >= 16 or computes_wide:
        family = "INT8" if weight.element_bits >= 6 else "INT4"
        wide = activation.key if activation.element_bits >= 16 else "BF16"
        is_measured = weight.key == family and activation.element_bits == 16
        findings = () if is_measured else (_unmeasured(weight.key, "weights", f"{family} weight-only"),)
        return family, wide, is_measured, findings
    # W4A8: computed in 8 bit after widening the weight.
    return "FP8", activation.key, False, (_unmeasured(f"{weight.key}.{activation.key}", "products", "FP8"),)


WEIGHT_ONLY_KERNEL = "TensorRT-LLM 1.0 weight-only"
"""W8A16 and W4A16 rows: 4,800 of 26,900 measured ones, of these two chips; docs/validation.md. Source: aiconfigurator."""


def reference_kernel(weight: str, activation: str, provenance: str) -> str:
    """Return the kernel that an expected time of a product stands for; empty where there is nothing to say.

    Weights narrower than their 16-bit activation: at few rows the measured kernel takes a step from its GEMV to its
    GEMM, and on chips with a newer tensor unit than the measured ones (`transferred-…`) libraries have had better ones
    since.
    """
    is_weight_only = get_format(weight).element_bits < 16 <= get_format(activation).element_bits
    # What a machine measured itself is of its own kernels.
    return WEIGHT_ONLY_KERNEL if is_weight_only and provenance != "measured-here" else ""
