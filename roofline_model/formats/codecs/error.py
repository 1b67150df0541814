"""How much a format hurts one tensor, and how hard the tensor is: measured, in float64.

* SQNR: 10·log10(Σx² / Σ(x − y)²), in decibels; 6.02 dB are one bit. Source: Widrow and Kollár, Quantization Noise
  (2008).
* relative error: ‖x − y‖₂ / ‖x‖₂, the Frobenius norm over all elements; SQNR = −20·log10 of it.
* maximum error: max |x − y|, in the unit of x.
* outlier ratio: max |x| / 99.9th percentile of |x|, as the original documents define it; the percentile interpolated
  between neighbours (numpy's `linear`). `ActivationStats.outlier_ratio`, which decides about activations, takes the
  percentile by rank instead: there a tensor of fewer than 1000 elements never has outliers, here it may.
* kurtosis: Σ(x − mean)⁴/n / (Σ(x − mean)²/n)², Pearson's: 3 for a normal distribution, 1.8 for a uniform one, larger
  for heavy tails. Source: Joanes and Gill, The Statistician 47 (1998): their g₂ + 3, not corrected for small n.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roofline_model.core.errors import InvalidValueError
from roofline_model.formats.catalog import NumberFormat
from roofline_model.formats.codecs.arrays import as_floats
from roofline_model.formats.codecs.decode import dequantize
from roofline_model.formats.codecs.encode import quantize
from roofline_model.formats.codecs.layout import DEFAULTS, CodecOptions

Array = NDArray[Any]

OUTLIER_QUANTILE = 0.999
_CHUNK_ELEMS = 1 << 18


@dataclass(frozen=True, slots=True)
class TensorError:
    """The error of a quantised tensor: SQNR, relative and maximum error. None: undefined for this tensor."""

    element_count: int
    sqnr_db: float | None
    """Infinite when nothing was lost; None for a tensor of zeros."""
    relative_error: float | None
    """None for a tensor of zeros."""
    max_error: float
    bits_per_element: float | None = None
    """What an element cost, scales included; None when the format is not known."""


@dataclass(frozen=True, slots=True)
class TensorSpread:
    """The outliers of a tensor: how far its largest magnitudes lie from the others, whatever the format."""

    element_count: int
    absmax_value: float
    outlier_ratio: float | None
    """By an interpolated percentile, see `outlier_ratio`; None when the 99.9th percentile is zero."""
    kurtosis_ratio: float | None
    """None when all values are equal."""


def tensor_error(reference: Any, approximation: Any, *, bits_per_element: float | None = None) -> TensorError:
    """Compare a tensor with its approximation of the same shape.

    Raises `InvalidValueError` for different shapes and for values that are not finite: their error has no number.
    """
    x, y = as_floats(reference), as_floats(approximation)
    if x.shape != y.shape:
        raise InvalidValueError(f"a tensor of shape {x.shape} cannot be compared with one of shape {y.shape}")
    x, y = _finite(x), _finite(y)
    # In units of the largest value: squares of very small or large ones leave the range of float64.
    unit = max(float(np.abs(x).max()), float(np.abs(y).max())) or 1.0
    signal = noise = max_error = 0.0
    for first in range(0, x.size, _CHUNK_ELEMS):
        part = slice(first, first + _CHUNK_ELEMS)
        a, b = x[part].astype(np.float64), y[part].astype(np.float64)
        max_error = max(max_error, float(np.abs(a - b).max()))
        scaled = (a - b) / unit
        noise += float(scaled @ scaled)
        a /= unit
        signal += float(a @ a)
    return TensorError(
        element_count=x.size,
        sqnr_db=_decibel(signal, noise),
        relative_error=math.sqrt(noise / signal) if signal else None,
        max_error=max_error,
        bits_per_element=bits_per_element,
    )


def format_error(
    values: Any,
    format: str | NumberFormat,
    *,
    axis: int = -1,
    absmax: Any = None,
    options: CodecOptions = DEFAULTS,
    **changes: Any,
) -> TensorError:
    """Quantise a tensor and return its error; arguments as of `quantize`."""
    quantized = quantize(values, format, axis=axis, absmax=absmax, options=options, **changes)
    return tensor_error(values, dequantize(quantized), bits_per_element=quantized.bits_per_element)


def tensor_spread(values: Any) -> TensorSpread:
    """Measure the outliers of a tensor, once for all formats it is tried in."""
    x = _finite(values)
    return TensorSpread(x.size, float(np.abs(x).max()), outlier_ratio(x), kurtosis(x))


def outlier_ratio(values: Any) -> float | None:
    """Return the largest magnitude over the 99.9th percentile of the magnitudes, interpolated, or None when that is
    zero.

    Not the number that `ActivationStats.outlier_ratio` gives, whose percentile is one of the magnitudes (by rank).
    """
    magnitudes = np.abs(_finite(values))
    typical = float(np.quantile(magnitudes, OUTLIER_QUANTILE))
    return float(magnitudes.max()) / typical if typical else None


def kurtosis(values: Any) -> float | None:
    """Return Pearson's kurtosis (normal 3), or None when all values are equal."""
    x = _finite(values)
    if x.min() == x.max():
        return None
    mean = float(x.mean(dtype=np.float64))
    # Divided by the largest deviation first: fourth powers of very small or large values leave the range of float64.
    unit = max(float(x.max()) - mean, mean - float(x.min()))
    second = fourth = 0.0
    for first in range(0, x.size, _CHUNK_ELEMS):
        squares = ((x[first : first + _CHUNK_ELEMS].astype(np.float64) - mean) / unit) ** 2
        second += float(squares.sum())
        fourth += float(squares @ squares)
    return fourth * x.size / second**2


def _finite(values: Any) -> Array:
    x = as_floats(values).reshape(-1)
    if not np.isfinite(x).all():
        raise InvalidValueError("NaN and infinite values have no statistics: clean the tensor first")
    return x


def _decibel(signal: float, noise: float) -> float | None:
    if not signal:
        return None
    return 10 * math.log10(signal / noise) if noise else math.inf
