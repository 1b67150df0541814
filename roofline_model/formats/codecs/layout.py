"""From a format and options to what is stored: element, block, scale type and the scheme that ties them together.

`CodecOptions` is what a codec may be told beyond the format: where scales sit, how they are found, what happens to bad
values. The catalog counts no scales for FP8 and plain integers, because kernels choose them. A codec needs them, so
`stored_format` adds the level it writes: the format of a `Quantized` always describes every byte of it.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Literal, get_args

import ml_dtypes
import numpy as np

from roofline_model.core.errors import InvalidValueError, UnsupportedError
from roofline_model.formats.catalog import NumberFormat, ScaleLevel
from roofline_model.formats.codecs.elements.elements import Element, element_of

ScaleScope = Literal["none", "tensor", "row", "block"]
ScaleRule = Literal["floor", "ceil", "rceil", "even", "six", "four_over_six"]
Clip = Literal["absmax", "percentile", "mse"]
Overflow = Literal["saturate", "ieee"]
Nonfinite = Literal["refuse", "propagate"]
Ragged = Literal["keep", "refuse"]

_CHOICES: dict[str, tuple[str, ...]] = {
    "scale": get_args(ScaleScope),
    "scale_rule": get_args(ScaleRule),
    "clip": get_args(Clip),
    "overflow": get_args(Overflow),
    "nonfinite": get_args(Nonfinite),
    "ragged": get_args(Ragged),
}
_MAY_BE_NONE = ("scale", "scale_rule", "overflow")


@dataclass(frozen=True, slots=True)
class CodecOptions:
    """Choices of a codec. None takes what the format asks for; a choice that means nothing for a format is refused."""

    scale: ScaleScope | None = None
    """Plain FP8 and integers only: one scale per tensor, per row (every index but the axis), per block, or none.
    None: `row` for FP8 and 8-bit integers, `block` for narrower integers."""
    block_elems: int | None = None
    """Elements that share a scale of scope `block`. None: 128, and 64 for INT2 and NF4."""
    scale_dtype: str | None = None
    """ml_dtypes or numpy float that holds a scale. None: float32, bfloat16 for integers of fewer than 8 bits, float16
    for NF4.
    """
    scale_rule: ScaleRule | None = None
    """MX: floor (the standard's), ceil, rceil or even.

    NVFP4: six, or four_over_six per block. None: the first of each.
    """
    symmetric: bool | None = None
    """Integers: False stores a zero point beside each scale. None: True unless the format's own scales hold one."""
    clip: Clip = "absmax"
    """Scaled FP8 and integers: the magnitude that the largest code stands for. `percentile` and `mse` clip outliers."""
    clip_quantile_ratio: float = 0.999
    """Share of the magnitudes that `percentile` keeps unclipped."""
    double_scales: bool = False
    """NF4: quantise the scales again, to 8 bits in groups of 256 (QLoRA)."""
    overflow: Overflow | None = None
    """Casts without a scale: the largest finite value, or what IEEE rounding gives (infinity; NaN where there is none).
    None: saturate up to 8 bits, ieee above."""
    nonfinite: Nonfinite = "refuse"
    """`propagate` lets NaN and infinities through where the format has a place for them: plain casts and MX."""
    ragged: Ragged = "keep"
    """A last block that is not full: `keep` gives it a scale of its own, `refuse` raises, as most kernels would."""

    def __post_init__(self) -> None:
        for name, choices in _CHOICES.items():
            value = getattr(self, name)
            if value not in choices and not (value is None and name in _MAY_BE_NONE):
                raise InvalidValueError(f"{name}={value!r} is not a choice; known: {', '.join(choices)}")
        count = self.block_elems
        if count is not None and (not isinstance(count, int) or isinstance(count, bool) or count < 1):
            raise InvalidValueError(f"block_elems must be a whole number of at least 1, got {count!r}")
        if not 0 < self.clip_quantile_ratio <= 1:
            raise InvalidValueError(f"clip_quantile_ratio must be in (0, 1], got {self.clip_quantile_ratio!r}")
        if self.block_elems is not None and self.scale not in (None, "block"):
            raise InvalidValueError(f"block_elems={count} needs scale='block', got scale={self.scale!r}")


DEFAULTS = CodecOptions()
_NAMES = tuple(field.name for field in fields(CodecOptions))


def with_changes(options: CodecOptions, changes: dict[str, Any]) -> CodecOptions:
    """Return `options` with the named choices changed; an unknown name is an error that lists the known ones."""
    for name in changes:
        if name not in _NAMES:
            raise InvalidValueError(f"{name!r} is not an option of a codec; known: {', '.join(_NAMES)}")
    return replace(options, **changes) if changes else options


def require_only(options: CodecOptions, allowed: set[str], format_key: str) -> None:
    """Raise `InvalidValueError` when a choice was made that means nothing for this format."""
    always = {"nonfinite", "ragged"}
    for name in _NAMES:
        if name not in allowed | always and getattr(options, name) != getattr(DEFAULTS, name):
            possible = ", ".join(sorted(allowed)) or "none"
            raise InvalidValueError(
                f"{name}={getattr(options, name)!r} means nothing for {format_key} here; it takes: {possible}"
            )


Scheme = Literal["plain", "scaled", "microscaling", "two_level", "double"]
E8M0 = "float8_e8m0fnu"
CHOSEN_SCALE_DTYPES = ("float32", "float16", "bfloat16")
"""What `scale_dtype` may say."""
TWO_LEVEL_DTYPES = ("float8_e4m3fn", "float8_e5m2")
DOUBLE_GROUP_SCALES = 256
"""Scales that share one FP32 number when they are quantised again (QLoRA §3)."""
_CATALOG_BLOCK_ELEMS = {2: 64}
_DEFAULT_BLOCK_ELEMS = 128


@dataclass(frozen=True, slots=True)
class Layout:
    """How the tensor of one format is stored."""

    scheme: Scheme
    element: Element
    block_elems: int | None
    """Elements that share a scale; None: the whole tensor."""
    scale_dtype: str = ""
    is_symmetric: bool = True


def is_wide_float(fmt: NumberFormat) -> bool:
    """Whether the format is a float of more than 8 bits without scales: rounded, never looked up."""
    return fmt.kind == "float" and fmt.element_bits > 8 and not fmt.scales


def numpy_dtype(name: str) -> np.dtype[Any]:
    """Return the numpy or ml_dtypes type of that name."""
    return np.dtype(getattr(ml_dtypes, name, name))


def float_limits(name: str) -> tuple[float, float]:
    """Return the smallest normal and the largest number of a float type."""
    info = ml_dtypes.finfo(numpy_dtype(name))  # type: ignore[no-untyped-call]
    return float(info.smallest_normal), float(info.max)


def stored_format(fmt: NumberFormat, options: CodecOptions, axis_elems: int) -> NumberFormat:
    """Return the format with the scales that a codec writes for it; refuse options that mean nothing for it.

    `axis_elems`: elements of one row, the block of a scale per row.
    """
    if not fmt.scales:
        return _with_scales(fmt, options, axis_elems)
    first = fmt.scales[0]
    if first.dtype == E8M0:
        require_only(options, {"scale_rule"}, fmt.key)
        _require_rule(fmt, options, ("floor", "ceil", "rceil", "even"))
    elif len(fmt.scales) == 2:
        require_only(options, {"scale_rule"}, fmt.key)
        _require_rule(fmt, options, ("six", "four_over_six"))
        if options.scale_rule == "four_over_six" and element_of(fmt).max_value != 6:
            raise InvalidValueError(f"scale_rule='four_over_six' needs elements that reach 6, {fmt.key} has others")
    elif fmt.key == "NF4":
        return _nf4(fmt, options)
    else:
        require_only(options, {"scale_dtype", "symmetric", "clip", "clip_quantile_ratio"}, fmt.key)
        if not first.dtype and options.scale_dtype is not None:
            _scale_bits(fmt, options.scale_dtype)
            return replace(fmt, scales=(replace(first, dtype=options.scale_dtype), *fmt.scales[1:]))
        if options.scale_dtype not in (None, first.dtype):
            raise InvalidValueError(f"scale_dtype={options.scale_dtype!r}: {fmt.key} has {first.dtype} scales")
    return fmt


def _with_scales(fmt: NumberFormat, options: CodecOptions, axis_elems: int) -> NumberFormat:
    """Add the scale level of a plain FP8 or integer; floats of more than 8 bits take none."""
    if fmt.kind == "table":
        element_of(fmt)  # says what is missing; NF4 without scales cannot be described
    if is_wide_float(fmt):
        require_only(options, {"overflow"}, fmt.key)
        return fmt
    is_int = fmt.kind == "int"
    scope = options.scale or ("block" if options.block_elems or (is_int and fmt.element_bits < 8) else "row")
    if scope == "none":
        require_only(options, {"scale", "overflow"} if not is_int else {"scale"}, fmt.key)
        return fmt
    allowed = {"scale", "block_elems", "scale_dtype", "clip", "clip_quantile_ratio"}
    require_only(options, allowed | {"symmetric"} if is_int else allowed, fmt.key)
    block = {"tensor": None, "row": axis_elems}.get(scope, options.block_elems)
    if scope == "block" and block is None:
        block = _CATALOG_BLOCK_ELEMS.get(fmt.element_bits, _DEFAULT_BLOCK_ELEMS)
    name = options.scale_dtype or ("bfloat16" if is_int and fmt.element_bits < 8 else "float32")
    bits = _scale_bits(fmt, name) + (fmt.element_bits if options.symmetric is False else 0)
    return replace(fmt, scales=(ScaleLevel(bits, block, name),))


def _nf4(fmt: NumberFormat, options: CodecOptions) -> NumberFormat:
    first = fmt.scales[0]
    if len(fmt.scales) > 1:
        require_only(options, set(), fmt.key)
        return fmt
    require_only(
        options, {"block_elems", "double_scales"} | ({"scale_dtype"} if not options.double_scales else set()), fmt.key
    )
    block = options.block_elems or first.block_elems
    if not options.double_scales:
        name = options.scale_dtype or first.dtype
        return replace(fmt, scales=(ScaleLevel(_scale_bits(fmt, name), block, name),))
    if block is None:
        raise InvalidValueError(f"double_scales needs blocks, and {fmt.key} has one scale for the whole tensor here")
    levels = (
        ScaleLevel(8, block, "int8"),
        ScaleLevel(32, block * DOUBLE_GROUP_SCALES, "float32"),
        ScaleLevel(32, None, "float32"),
    )
    return replace(fmt, scales=levels)


def layout_of(fmt: NumberFormat) -> Layout:
    """Return how a stored format is laid out; for every format but the wide floats.

    Raises `UnsupportedError` naming the field that the description lacks.
    """
    element = element_of(fmt)
    if not fmt.scales:
        return Layout("plain", element, None)
    for i, level in enumerate(fmt.scales):
        if not level.dtype:
            raise UnsupportedError(
                f"format {fmt.key}: scales[{i}] ({level.bits:g} bits) has no dtype, so it cannot be written; name it "
                "in the "
                "description, for example dtype = 'float16' (an INT4 or INT8 made by grouped() takes scale_dtype=…)"
            )
    first, *more = fmt.scales
    zero_bits = first.bits - 8 * numpy_dtype(first.dtype).itemsize
    if zero_bits not in (0, fmt.element_bits if fmt.kind == "int" and first.dtype != E8M0 and not more else 0):
        raise UnsupportedError(
            f"format {fmt.key}: scales[0] has {first.bits:g} bits and dtype {first.dtype}; what the other "
            f"{zero_bits:g} bits "
            f"hold is not described (a zero point beside an integer's scale has {fmt.element_bits} bits)"
        )
    block = first.block_elems
    if not more:
        scheme: Scheme = "microscaling" if first.dtype == E8M0 else "scaled"
        _require_float_scale(fmt, first)
        return Layout(scheme, element, block, first.dtype, zero_bits == 0)
    if [(level.dtype, level.block_elems) for level in more] == [("float32", None)] and block is not None:
        if first.dtype not in TWO_LEVEL_DTYPES:
            raise UnsupportedError(
                f"format {fmt.key}: block scales below a tensor's scale can be {' or '.join(TWO_LEVEL_DTYPES)}, not "
                f"{first.dtype}"
            )
        return Layout("two_level", element, block, first.dtype)
    outer = [("float32", (block or 0) * DOUBLE_GROUP_SCALES), ("float32", None)]
    if first.dtype == "int8" and fmt.key == "NF4" and [(level.dtype, level.block_elems) for level in more] == outer:
        return Layout("double", element, block, first.dtype)
    raise UnsupportedError(
        f"format {fmt.key}: {len(fmt.scales)} levels of scales; known are one level, and a level per block below one "
        "float32 for the tensor (NVFP4)"
    )


def _scale_bits(fmt: NumberFormat, name: str) -> int:
    if name not in CHOSEN_SCALE_DTYPES:
        raise InvalidValueError(
            f"scale_dtype={name!r}: the scales of {fmt.key} can be {', '.join(CHOSEN_SCALE_DTYPES)}"
        )
    return 8 * numpy_dtype(name).itemsize


def _require_float_scale(fmt: NumberFormat, level: ScaleLevel) -> None:
    dtypes = (*CHOSEN_SCALE_DTYPES, "float8_e4m3fn", "float8_e5m2", E8M0)
    if level.dtype not in dtypes:
        raise UnsupportedError(
            f"format {fmt.key}: scales of type {level.dtype} cannot be written; known: {', '.join(dtypes)}"
        )


def _require_rule(fmt: NumberFormat, options: CodecOptions, allowed: tuple[str, ...]) -> None:
    if options.scale_rule not in (None, *allowed):
        raise InvalidValueError(
            f"scale_rule={options.scale_rule!r} means nothing for {fmt.key}; known: {', '.join(allowed)}"
        )
