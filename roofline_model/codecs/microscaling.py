"""MX scales: one power of two (E8M0) per block.

The standard's rule (`floor`): 2^(floor(log2(largest magnitude)) − emax), emax the exponent of the element's largest
value. Values of the block between the largest element and the next power of two saturate. Source: OCP Microscaling
Formats (MX) v1.0 §6.3. The other rules round the exponent differently, as torchao offers them: `ceil` up wherever the
maximum is no power of two, `even` after rounding the maximum to the element's mantissa, `rceil` up from maximum / largest
element, so that nothing saturates (cuBLAS, 1D block quantization).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roofline_model.codecs.elements import Element, largest_exponent
from roofline_model.codecs.options import ScaleRule

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

BIAS = 127
NAN_CODE = 255
LARGEST_CODE = 254


def e8m0_codes(largest: Array, element: Element, rule: ScaleRule) -> Array:
    """Return the uint8 E8M0 codes of blocks with these largest magnitudes (blocks,); NaN where one is not finite.

    An all-zero block gets the smallest scale, 2^−127.
    """
    import numpy as np

    largest = np.ascontiguousarray(largest, np.float32)
    emax = largest_exponent(element.max_value)
    is_bad = ~np.isfinite(largest)
    if rule == "rceil":
        codes = _exponent_up((largest / np.float32(element.max_value)).view(np.uint32))
    elif rule == "ceil":
        codes = _exponent_up(largest.view(np.uint32)) - emax
    else:
        bits = largest.view(np.uint32)
        if rule == "even":
            bits = bits + np.uint32(1 << (22 - element.mantissa_bits))
        codes = (bits >> 23).astype(np.int32) - emax
    codes = np.clip(codes, 0, LARGEST_CODE)
    codes[is_bad] = NAN_CODE
    return np.asarray(codes.astype(np.uint8))


def _exponent_up(bits: Array) -> Array:
    """Return the biased exponent of float32 bits, one more where the number is no power of two."""
    import numpy as np

    exponent, fraction = (bits >> 23).astype(np.int32), bits & 0x7FFFFF
    # Below the normal numbers the bits count units of 2^−149: code 0 is 2^−127, half of the smallest normal.
    return np.asarray(exponent + np.where(exponent > 0, fraction > 0, fraction > 0x400000))


def reciprocals(codes: Array) -> Array:
    """Return 1 / scale of E8M0 codes as float32, exact (a subnormal for the two largest scales)."""
    import numpy as np

    return np.asarray(np.ldexp(np.float32(1), BIAS - codes.astype(np.int32)), np.float32)
