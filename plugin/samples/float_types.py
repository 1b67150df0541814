"""The types of real numbers that kernels compute with, and which of them a result must have.

A result has the type that its work names, or the one that arithmetic on its arguments has: the widest of those that
have its shape, else of all; 16 bits of 8-bit ones, which are never computed with as they are. Scalars bind nobody, nor
does a float64 reference, which is taken for its exactness. A narrower reference does. Where nothing says a type the
result's own is taken, but 16 bits at least.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from roofline_model.core.errors import UnknownNameError
from roofline_model.formats.catalog import get_format
from roofline_model.operators.product import Operator


@dataclass(frozen=True, slots=True)
class FloatType:
    """How a real number is stored."""

    name: str
    exponent_bits: int
    mantissa_bits: int

    @property
    def bits(self) -> int:
        """Width of one number."""
        return 1 + self.exponent_bits + self.mantissa_bits

    @property
    def roundoff(self) -> float:
        """Half the step above 1 (ratio)."""
        return 2.0 ** -(self.mantissa_bits + 1)

    @property
    def largest(self) -> float:
        """Largest finite number of an IEEE type; a larger one becomes infinite."""
        return (2 - 2.0**-self.mantissa_bits) * 2.0 ** (2 ** (self.exponent_bits - 1) - 1)

    @property
    def smallest(self) -> float:
        """Smallest number above 0 that is kept: 32 bits and BF16 may flush what lies below the normal ones."""
        normal = 2.0 ** (2 - 2 ** (self.exponent_bits - 1))
        return normal if self.exponent_bits >= 8 else normal * 2.0**-self.mantissa_bits


FP64, FP32 = FloatType("float64", 11, 52), FloatType("float32", 8, 23)
FP16, BF16 = FloatType("float16", 5, 10), FloatType("bfloat16", 8, 7)
_PARTS_OF_COMPLEX = {"complex128": FP64, "complex64": FP32, "complex32": FP16}
_WIDE = {each.name: each for each in (FP64, FP32, FP16, BF16)} | _PARTS_OF_COMPLEX
_SMALL = re.compile(r"float[468]_e([0-9])m([0-9])")
_OTHER_RESULTS = {"qk_scores": "scores", "kv_write": "kv"}
"""Operators whose result is neither called c nor o."""
_BYTES = ("int8", "uint8", "qint8", "quint8", "int4", "uint4", "int2", "uint2")


def float_type(type_name: str) -> FloatType | None:
    """Return the type of reals that a name of torch, numpy or ml_dtypes means; of complex numbers that of a part."""
    if type_name in _WIDE:
        return _WIDE[type_name]
    small = _SMALL.match(type_name)
    return None if small is None else FloatType(type_name, int(small[1]), int(small[2]))


def names_codes(work: Any) -> bool:
    """Return whether an operator's result is in a format that is no plain float: codes, with scales of any type."""
    key = _output_key(work)
    return key is not None and _output_type(work) is None


def is_byte(type_name: str) -> bool:
    """Return whether numbers of a type take 8 bits or fewer."""
    small = float_type(type_name)
    return type_name in _BYTES or (small is not None and small.bits < 16)


@dataclass(frozen=True, slots=True)
class Argument:
    """Type and shape of one tensor or array that a kernel was given."""

    type_name: str
    shape: tuple[int, ...]


def expected_type(
    work: Any, arguments: Sequence[Argument], reference: FloatType | None, shape: tuple[int, ...]
) -> FloatType | None:
    """Return the narrowest type that a result of `shape` may have; None where nothing says it."""
    named = _output_type(work)
    if named is not None:
        return named
    expected = _of_arguments(arguments, shape)
    if reference is None or (reference == FP64 and expected is None):
        return expected
    return reference if expected is None or reference.mantissa_bits < expected.mantissa_bits else expected


def coarsest_roundoff(arguments: Sequence[Argument], *types: FloatType | None) -> float:
    """Return the unit roundoff (ratio) of the coarsest type that a right kernel may compute with on its way.

    Of all that its arguments, its result and its reference have, but no coarser than 16 bits.
    """
    of_arguments = [float_type(argument.type_name) for argument in arguments if argument.shape]
    bytes_too = [BF16] if any(is_byte(argument.type_name) for argument in arguments) else []
    roundoffs = [each.roundoff for each in (*types, *of_arguments, *bytes_too) if each is not None]
    return min(max(roundoffs, default=FP64.roundoff), BF16.roundoff)


def _of_arguments(arguments: Sequence[Argument], shape: tuple[int, ...]) -> FloatType | None:
    binding = [each for each in arguments if each.shape == shape] if shape else []
    binding = [each for each in binding if float_type(each.type_name) is not None]
    if not binding:
        binding = [each for each in arguments if each.shape] or list(arguments)
    if any(is_byte(each.type_name) for each in binding):
        return BF16
    types = [each for each in (float_type(argument.type_name) for argument in binding) if each is not None]
    return max(types, key=lambda each: (each.bits, -each.mantissa_bits), default=None)


def _output_key(work: Any) -> str | None:
    """Return the format of the result that an operator names."""
    if not isinstance(work, Operator):
        return None
    formats = dict(work.formats)
    return formats.get("c") or formats.get("o") or formats.get(_OTHER_RESULTS.get(work.op, ""))


def _output_type(work: Any) -> FloatType | None:
    """Return the type of the result that an operator names; None where it is no plain float, or not named."""
    key = _output_key(work)
    try:
        fmt = None if key is None else get_format(key)
    except UnknownNameError:  # a user's own word
        return None
    if fmt is None or fmt.kind != "float" or fmt.scales or fmt.exponent_bits is None or fmt.mantissa_bits is None:
        return None
    return FP32 if fmt.key == "TF32" else FloatType(fmt.element_dtype, fmt.exponent_bits, fmt.mantissa_bits)
