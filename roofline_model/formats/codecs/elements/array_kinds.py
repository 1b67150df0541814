"""What numpy and torch spell differently, for the rules that both follow: how the largest magnitude of a block becomes a scale.

The rules in `scaled`, `microscaling` and `nvfp4` take numpy arrays and torch tensors alike, and a tensor stays on its
device: bench_cases quantises operands of gigabytes on a GPU by the same rules. Only one number per block passes through
them. torch is never imported: whoever hands in a tensor has imported it.
"""

from __future__ import annotations

import sys
from typing import Any

from roofline_model.formats.codecs.layout import numpy_dtype

Numbers = Any
"""A numpy array (or scalar) or a torch tensor; what a rule returns is of the kind it was given."""


def dtype_for(numbers: Numbers, name: str) -> Any:
    """Return the element type of that numpy or ml_dtypes name in the library of `numbers`."""
    return getattr(sys.modules["torch"], name) if _is_tensor(numbers) else numpy_dtype(name)


def cast(numbers: Numbers, name: str) -> Numbers:
    """Return the numbers in another element type, rounded to nearest even."""
    dtype = dtype_for(numbers, name)
    return numbers.to(dtype) if _is_tensor(numbers) else numbers.astype(dtype)


def number_for(numbers: Numbers, value: float) -> Numbers:
    """Return one number of the type of `numbers`, on their device.

    Divide by this, never by a Python number: torch multiplies by the reciprocal of a number from the host on CUDA.
    """
    return numbers.new_tensor(value) if _is_tensor(numbers) else numbers.dtype.type(value)


def _is_tensor(numbers: Numbers) -> bool:
    return hasattr(numbers, "new_tensor")
