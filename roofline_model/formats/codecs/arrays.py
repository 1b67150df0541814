"""Anything that holds numbers becomes a float array; what cannot be quantised is refused here, in one line.

torch is never imported: a tensor is known by its methods. numpy has no bfloat16 and no FP8 of its own, so a tensor of
such a type is widened by the tensor's own `float()`, which is exact. A tensor on a GPU is copied to the host.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roofline_model.core.errors import InvalidValueError

Array = NDArray[Any]

_READ_BY_NUMPY = {"float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "bool"}


def as_floats(values: Any) -> Array:
    """Return float32 or float64 of the same shape, sharing memory where possible.

    Takes numpy and ml_dtypes arrays, torch tensors, lists, and whatever has `__array__` or DLPack. Float types of up to
    32 bits become float32, wider ones and integers float64.
    Raises `InvalidValueError` for what is empty, has no dimension, or holds no real numbers.
    """
    array = as_array(values)
    kind = array.dtype.kind
    if kind in "cOSUMmb":
        raise InvalidValueError(f"values of type {array.dtype} cannot be quantised: give real numbers")
    if array.ndim == 0:
        raise InvalidValueError("a single number has no axis to quantise along: give an array of shape (1,)")
    if array.size == 0:
        raise InvalidValueError(f"the tensor of shape {array.shape} is empty: there is nothing to quantise")
    if array.dtype in (np.dtype(np.float32), np.dtype(np.float64)):
        return array
    if kind in "iu" or array.dtype.itemsize > 4:
        return array.astype(np.float64)
    return array.astype(np.float32)


def as_array(values: Any) -> Array:
    """Return a numpy array of whatever type the values have; bfloat16 and FP8 tensors of torch as float32."""
    try:
        if hasattr(values, "detach") and hasattr(values, "cpu"):
            values = values.detach().cpu()
            if str(values.dtype).removeprefix("torch.") not in _READ_BY_NUMPY:
                values = values.float()
        elif hasattr(values, "__dlpack__") and not hasattr(values, "__array__"):
            return np.from_dlpack(values)
        return np.asarray(values)
    except Exception as error:  # every library fails in its own way
        reason = str(error).strip().split("\n")[0] or type(error).__name__
        raise InvalidValueError(f"{type(values).__name__} cannot be read as an array of numbers: {reason}") from None


def axis_index(axis: int, shape: tuple[int, ...]) -> int:
    """Return the axis counted from the front."""
    if isinstance(axis, bool) or not isinstance(axis, int) or not -len(shape) <= axis < len(shape):
        raise InvalidValueError(f"axis={axis!r} is not an axis of shape {shape}")
    return axis % len(shape)


def rows_along(array: Array, axis: int) -> Array:
    """Return (rows, elements along the axis), contiguous; a copy only where the memory order asks for one."""
    moved = np.moveaxis(array, axis, -1)
    return np.ascontiguousarray(moved).reshape(math.prod(moved.shape[:-1]), moved.shape[-1])


def back_from_rows(rows: Array, shape: tuple[int, ...], axis: int) -> Array:
    """Return rows (rows, n) in the tensor's order of axes; n replaces the size of the axis."""
    rest = tuple(n for i, n in enumerate(shape) if i != axis)
    return np.moveaxis(rows.reshape(*rest, rows.shape[-1]), -1, axis)


def to_float32(array: Array) -> Array:
    """Return float32, rounded to nearest; what lies beyond its range becomes infinite and is refused by
    `require_finite`.
    """
    if array.dtype == np.float32:
        return array
    with np.errstate(over="ignore"):
        return array.astype(np.float32)


def to_float32_odd(array: Array) -> Array:
    """Return float32 rounded to odd, so that rounding again to fewer bits equals rounding once.

    An inexact result is cut towards zero and its last bit set. Source: Boldo and Melquiond, “When double rounding is
    odd” (IMACS 2005).
    """
    nearest = to_float32(array)
    if array.dtype == np.float32:
        return nearest
    back = nearest.astype(np.float64)
    bits = nearest.view(np.uint32) - (np.abs(back) > np.abs(array)).astype(np.uint32)  # the next one towards zero
    inexact = (back != array) & ~np.isnan(array)
    return np.where(inexact, bits | 1, nearest.view(np.uint32)).astype(np.uint32).view(np.float32)


def require_finite(rows: Array, format_key: str, *, may_propagate: bool) -> None:
    """Raise `InvalidValueError` that says how many values are NaN or infinite and where the first one stands."""
    bad = ~np.isfinite(rows)
    if not bad.any():
        return
    nan_count = int(np.isnan(rows).sum())
    row, column = (int(index[0]) for index in np.nonzero(bad))
    fix = "clean the tensor, or pass nonfinite='propagate'" if may_propagate else "clean the tensor first"
    raise InvalidValueError(
        f"{format_key}: {nan_count} values are NaN and {int(bad.sum()) - nan_count} infinite or beyond float32, the "
        "first in "
        f"row {row} at position {column} of the axis: {fix}"
    )
