"""MX scales: one power of two (E8M0) per block.

The standard's rule (`floor`): 2^(floor(log2(largest magnitude)) − emax), emax the exponent of the element's largest
value. Values of the block between the largest element and the next power of two saturate. Source: OCP Microscaling
Formats (MX) v1.0 §6.3. The other rules round the exponent differently, as torchao offers them: `ceil` up wherever the
maximum is no power of two, `even` after rounding the maximum to the element's mantissa, `rceil` up from maximum /
largest element, so that nothing saturates (cuBLAS, 1D block quantization).
"""

from __future__ import annotations

from roofline_model.formats.codecs.elements.elements import Element, largest_exponent
from roofline_model.formats.codecs.layout import ScaleRule
from roofline_model.formats.codecs.scales.scaled import Numbers, cast, dtype_for, number_for

BIAS = 127
NAN_CODE = 255
LARGEST_CODE = 254
_INFINITY_BITS = 0x7F80_0000


def e8m0_codes(largest: Numbers, element: Element, rule: ScaleRule) -> Numbers:
    """Return the uint8 E8M0 codes of blocks with these largest magnitudes (float32); NaN where one is not finite.

    An all-zero block gets the smallest scale, 2^−127. Takes torch tensors, too.
    """
    emax = largest_exponent(element.max_value)
    bits = _bits(largest)
    is_bad = bits >= _INFINITY_BITS  # magnitudes have no sign bit: infinities and NaN are the largest patterns
    if rule == "rceil":
        codes = _exponent_up(_bits(largest / number_for(largest, element.max_value)))
    elif rule == "ceil":
        codes = _exponent_up(bits) - emax
    else:
        if rule == "even":
            bits = bits + (1 << (22 - element.mantissa_bits))
        codes = (bits >> 23) - emax
    codes = codes.clip(min=0, max=LARGEST_CODE)
    codes[is_bad] = NAN_CODE
    return cast(codes, "uint8")


def _exponent_up(bits: Numbers) -> Numbers:
    """Return the biased exponent of float32 bits, one more where the number is no power of two."""
    exponent, fraction = bits >> 23, bits & 0x7FFFFF
    # Below the normal numbers the bits count units of 2^−149: code 0 is 2^−127, half of the smallest normal.
    is_between = ((fraction > 0) & (exponent > 0)) | (fraction > 0x400000)
    return exponent + cast(is_between, "int32")


def reciprocals(codes: Numbers) -> Numbers:
    """Return 1 / scale of E8M0 codes as float32, exact (a subnormal for the largest scale); 0 for the code of NaN."""
    exponent = 2 * BIAS - cast(codes, "int32")
    # From bits: the power functions of some devices are not exact.
    bits = (exponent.clip(min=0) << 23) + cast(exponent == 0, "int32") * 0x40_0000
    return bits.view(dtype_for(bits, "float32"))


def _bits(magnitudes: Numbers) -> Numbers:
    return magnitudes.view(dtype_for(magnitudes, "int32"))
