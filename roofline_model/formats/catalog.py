"""The catalog of number formats: bits, element type, blocks and scales; nominal width and real storage apart.

Two widths are kept for every format and never mixed:

* *nominal* bits per element, the convention of the original documents and of format names (TF32 counts 19 bits,
  NVFP4 spreads its one FP32 tensor scale over 1024 elements: 4.53125 bits);
* *storage*: what a tensor of a given shape really occupies (`storage_bytes`), block scales rounded up per row.

`method_of` is the word for how a format is reached from 16-bit weights.

Sources: element layouts as in ml_dtypes; OCP Microscaling Formats (MX) v1.0 (block 32, E8M0 scale); NVIDIA's NVFP4
(block 16, E4M3 scale, one FP32 scale per tensor); NF4 from the QLoRA paper (block 64, 16-bit absmax here, as the
seeds).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, Literal

from roofline_model.core.definition_text import parse_definition, read_definition_text, shown
from roofline_model.core.errors import DefinitionError, InvalidValueError, UnknownNameError
from roofline_model.core.typed_fields import read_as

Kind = Literal["float", "int", "table"]

MAX_NAME_CHARS = 40
"""Longest name of a user's format; it becomes part of test ids and column heads."""

# Written out, because asking numpy and ml_dtypes would import them: names of either that can hold an element or a
# scale.
_DTYPE_NAMES = (
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "float32",
    "float64",
    "bfloat16",
    "float8_e3m4",
    "float8_e4m3",
    "float8_e4m3b11fnuz",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
    "float6_e2m3fn",
    "float6_e3m2fn",
    "float4_e2m1fn",
    "int1",
    "int2",
    "int4",
    "uint1",
    "uint2",
    "uint4",
)


@dataclass(frozen=True, slots=True)
class ScaleLevel:
    """One level of scales: `bits` stored once per `block_elems` elements of a row, or once per tensor."""

    bits: float
    """Size of a block's scale in bits, zero points included (INT4 with BF16 scale and BF16 zero point: 32)."""
    block_elems: int | None = None
    """Elements that share it, along the last axis; None: the whole tensor shares one."""
    dtype: str = ""
    """ml_dtypes or numpy name of the scale, for the reader and the codecs."""
    nominal_share_elems: int = 1024
    """Per-tensor scales only: how many elements the nominal width spreads the scale over (seeds: 1024)."""

    def __post_init__(self) -> None:
        if not 0 < self.bits <= 1024:
            raise InvalidValueError(f"scale bits must be in (0, 1024], got {self.bits}")
        for name, count in (("block_elems", self.block_elems), ("nominal_share_elems", self.nominal_share_elems)):
            if count is not None and (not isinstance(count, int) or isinstance(count, bool) or count < 1):
                raise InvalidValueError(f"{name} must be a whole number of at least 1, got {count!r}")

    @property
    def bits_per_element(self) -> float:
        """Nominal share of this level in one element's bits."""
        return self.bits / (self.block_elems or self.nominal_share_elems)


@dataclass(frozen=True, slots=True)
class NumberFormat:
    """How one number is stored. A value: equal fields, equal format."""

    DERIVED: ClassVar = (
        "nominal_bits",
        "bytes_per_element",
        "traffic_bytes_per_element",
        "scale_overhead_ratio",
        "block_elems",
    )

    key: str
    """Name to ask with."""
    kind: Kind
    """float, int or table."""
    element_bits: int
    """Significant bits of one element (TF32: 19)."""
    element_dtype: str = ""
    """ml_dtypes or numpy name of the element; empty for code tables and packed integers without one."""
    exponent_bits: int | None = None
    """Exponent of a float, bits; None of others."""
    mantissa_bits: int | None = None
    """Stored mantissa of a float, bits; None of others."""
    max_value: float | None = None
    """Largest finite magnitude of one element, before scales."""
    container_bits: int | None = None
    """Bits one element occupies in memory when that is more than `element_bits` (TF32: 32)."""
    scales: tuple[ScaleLevel, ...] = ()
    """Levels of scales, the finest first; empty without any."""
    description: str = ""
    """What it is, in a sentence."""
    aliases: tuple[str, ...] = field(default=(), compare=False)
    """Other names that are understood."""

    def __post_init__(self) -> None:
        if not 1 <= self.element_bits <= 128:
            raise InvalidValueError(f"format {self.key}: element_bits must be 1…128, got {self.element_bits}")
        if min(self.exponent_bits or 0, self.mantissa_bits or 0) < 0:
            raise InvalidValueError(f"format {self.key}: exponent_bits and mantissa_bits must not be negative")
        if self.max_value is not None and not 0 < self.max_value <= sys.float_info.max:
            raise InvalidValueError(f"format {self.key}: max_value must be a positive finite number")
        if self.container_bits is not None and self.container_bits < self.element_bits:
            raise InvalidValueError(
                f"format {self.key}: container_bits {self.container_bits} is less than element_bits {self.element_bits}"
            )

    @property
    def scale_bits_per_element(self) -> float:
        """Nominal bits of scales per element."""
        return sum(level.bits_per_element for level in self.scales)

    @property
    def nominal_bits(self) -> float:
        """Size of an element in bits, by the convention of the seeds: TF32 19, NVFP4 4.53125, MXFP4 4.25."""
        return self.element_bits + self.scale_bits_per_element

    @property
    def bytes_per_element(self) -> float:
        """Nominal bytes per element (`nominal_bits / 8`)."""
        return self.nominal_bits / 8

    @property
    def traffic_bytes_per_element(self) -> float:
        """What one element moves through memory, in bytes: nominal scales, but the container's width (TF32: 4)."""
        return ((self.container_bits or self.element_bits) + self.scale_bits_per_element) / 8

    @property
    def scale_overhead_ratio(self) -> float:
        """Share of the nominal bits that are scales (MXFP4 0.059, NVFP4 0.117)."""
        return self.scale_bits_per_element / self.nominal_bits

    @property
    def block_elems(self) -> int | None:
        """Size of a block of the finest scale level, in elements; None without block scales."""
        blocks = [level.block_elems for level in self.scales if level.block_elems is not None]
        return min(blocks) if blocks else None

    @property
    def is_sub_byte(self) -> bool:
        """True when several elements share a byte."""
        return (self.container_bits or self.element_bits) < 8

    def storage_bytes(self, shape: Sequence[int]) -> int:
        """Return the bytes a packed tensor of `shape` occupies, scales included.

        Counts: elements packed without gaps, one scale per started block of the last axis in each row, one per tensor.
        Ignores: the padding and swizzle of a kernel's scale layout (see the kernel that needs it).
        """
        if not shape or any(int(n) != n or n < 1 for n in shape):
            raise InvalidValueError(f"shape must hold positive whole numbers, got {tuple(shape)}")
        total = math.prod(shape)
        rows = total // shape[-1]
        size = math.ceil(total * (self.container_bits or self.element_bits) / 8)
        for level in self.scales:
            count = 1 if level.block_elems is None else rows * math.ceil(shape[-1] / level.block_elems)
            size += math.ceil(count * level.bits / 8)
        return size

    def grouped(self, group_size: int, *, scale_bits: int = 16, zero_bits: int = 0) -> NumberFormat:
        """Return this format with one scale (and zero point) per `group_size` elements, under the same key.

        The plain INT8 and INT4 of the catalog carry no scales, as the seeds count them; a kernel that reads group
        scales predicts its traffic with the grouped one (INT4 g128 with BF16 scale and zero: 4.25 bits).
        """
        level = ScaleLevel(bits=scale_bits + zero_bits, block_elems=group_size)
        return replace(self, scales=(*self.scales, level))


def _mx(
    key: str, bits: int, dtype: str, exponent: int | None, mantissa: int | None, largest: float, **more: Any
) -> NumberFormat:
    return NumberFormat(
        key,
        "int" if dtype == "int8" else "float",
        bits,
        dtype,
        exponent,
        mantissa,
        largest,
        scales=(ScaleLevel(8, 32, "float8_e8m0fnu"),),
        description=more.pop("description", "OCP microscaling: blocks of 32 share one power-of-two E8M0 scale"),
        **more,
    )


_CATALOG = (
    NumberFormat("FP64", "float", 64, "float64", 11, 52, 1.7976931348623157e308, description="IEEE binary64"),
    NumberFormat("FP32", "float", 32, "float32", 8, 23, 3.4028234663852886e38, description="IEEE binary32"),
    NumberFormat(
        "TF32",
        "float",
        19,
        "float32",
        8,
        10,
        3.4011621342146535e38,
        container_bits=32,
        description="19 significant bits in a 32-bit container; a tensor-core input format, not a storage format",
    ),
    NumberFormat("BF16", "float", 16, "bfloat16", 8, 7, 3.3895313892515355e38, description="upper half of FP32"),
    NumberFormat("FP16", "float", 16, "float16", 5, 10, 65504.0, description="IEEE binary16", aliases=("HALF",)),
    NumberFormat(
        "FP8_E4M3",
        "float",
        8,
        "float8_e4m3fn",
        4,
        3,
        448.0,
        aliases=("FP8",),
        description="finite-only E4M3; per-tensor or per-row scales are not counted",
    ),
    NumberFormat("FP8_E5M2", "float", 8, "float8_e5m2", 5, 2, 57344.0, description="E5M2 with infinities"),
    _mx("MXFP8_E4M3", 8, "float8_e4m3fn", 4, 3, 448.0, aliases=("MXFP8",)),
    _mx("MXFP8_E5M2", 8, "float8_e5m2", 5, 2, 57344.0),
    _mx("MXFP6_E3M2", 6, "float6_e3m2fn", 3, 2, 28.0, aliases=("MXFP6",)),
    _mx("MXFP6_E2M3", 6, "float6_e2m3fn", 2, 3, 7.5),
    _mx("MXFP4", 4, "float4_e2m1fn", 2, 1, 6.0),
    _mx(
        "MXINT8",
        8,
        "int8",
        None,
        None,
        1.984375,
        description="OCP MX INT8: int8 / 64 in blocks of 32 with an E8M0 scale",
    ),
    NumberFormat(
        "NVFP4",
        "float",
        4,
        "float4_e2m1fn",
        2,
        1,
        6.0,
        aliases=("NVFP4_KV",),
        scales=(ScaleLevel(8, 16, "float8_e4m3fn"), ScaleLevel(32, None, "float32")),
        description="E2M1 in blocks of 16 with an E4M3 scale, and one FP32 scale per tensor",
    ),
    NumberFormat(
        "NF4",
        "table",
        4,
        "",
        None,
        None,
        1.0,
        scales=(ScaleLevel(16, 64, "float16"),),
        description="16-entry normal-quantile table, blocks of 64 with a 16-bit absmax (QLoRA)",
    ),
    NumberFormat(
        "INT8",
        "int",
        8,
        "int8",
        None,
        None,
        127.0,
        description="symmetric integers; per-channel scales are not counted",
    ),
    NumberFormat(
        "INT4", "int", 4, "int4", None, None, 7.0, description="packed integers; group scales counted only when grouped"
    ),
    NumberFormat("INT2", "int", 2, "int2", None, None, 1.0, description="packed integers; research only"),
)

SIXTEEN_BIT = ("FP16", "BF16")
"""Formats that a 16-bit baseline may have; FP16 goes first between equals."""
FORMATS: dict[str, NumberFormat] = {fmt.key: fmt for fmt in _CATALOG}
"""The built-in catalog by key. Use `get_format` to look a name up: it knows aliases and any case."""

_USER_FORMATS: dict[str, NumberFormat] = {}


def _names(formats: Iterable[NumberFormat]) -> dict[str, NumberFormat]:
    return {name.upper(): fmt for fmt in formats for name in (fmt.key, *fmt.aliases)}


# Built once: a prediction looks up about seven names.
_BUILT_IN_NAMES = _names(_CATALOG)


def known_format(name: str | NumberFormat) -> NumberFormat | None:
    """Return the format called `name`, as `get_format` does, or None where nobody knows it."""
    if isinstance(name, NumberFormat):
        return name
    fmt = _BUILT_IN_NAMES.get(name)  # a key as it is written in the catalog: nearly always
    if fmt is not None:
        return fmt
    wanted = str(name).strip().upper().replace("-", "_")
    fmt = _BUILT_IN_NAMES.get(wanted)
    if fmt is None and _USER_FORMATS:
        fmt = _names(_USER_FORMATS.values()).get(wanted)
    return fmt


def get_format(name: str | NumberFormat) -> NumberFormat:
    """Return the format called `name`: key or alias, any case; a `NumberFormat` is returned as it is."""
    fmt = known_format(name)
    if fmt is None:
        formats = {**FORMATS, **_USER_FORMATS}
        raise _unknown_format(str(name), formats)
    return fmt


def split_precision(text: str) -> tuple[NumberFormat, NumberFormat | None]:
    """Return weight and activation format of a precision; the second is None where only one format is named."""
    if not isinstance(text, str):
        raise InvalidValueError(f"a precision is text such as FP8_E4M3 or INT4.BF16, got {str(text)[:40]!r}")
    whole = known_format(text)
    if whole is not None:
        return whole, None  # a user's format may have a dot in its name
    weight, dot, activation = text.partition(".")
    # Without a dot the whole is named again: it raises with the names that are near.
    return (get_format(weight), get_format(activation)) if dot else (get_format(text), None)


_PAIRS_OF_WIDTHS = {"W4A16": "INT4.BF16", "W8A16": "INT8.BF16", "W8A8": "INT8.INT8 or FP8", "W4A4": "NVFP4"}
"""Widths of weights and activations as tables print them → formats that have them, WEIGHT.ACTIVATION."""


def _unknown_format(name: str, formats: Mapping[str, NumberFormat]) -> UnknownNameError:
    """Return the error of an unknown name; widths alone (`W4A16`) are told which formats have them."""
    widths, hint = name.strip().upper(), ""
    if widths in _PAIRS_OF_WIDTHS:
        hint = f"{widths} says widths, not formats; write WEIGHT.ACTIVATION: {_PAIRS_OF_WIDTHS[widths]}. "
    aliases = (alias for number_format in formats.values() for alias in number_format.aliases)
    fix = f"{hint}`roofline formats` lists them with their aliases; --formats-file FILE.toml adds yours."
    return UnknownNameError("format", name, formats, aliases=aliases, fix=fix)


def bytes_per_element(name: str | NumberFormat) -> float:
    """Return the nominal bytes per element of a format, scales included (seeds' helper; TF32 gives 2.375)."""
    return get_format(name).bytes_per_element


def register_format(fmt: NumberFormat) -> NumberFormat:
    """Add a user's format for this process, replacing an earlier one of the same key.

    A built-in key or alias, or a name of another user format, cannot be taken over.
    """
    _check_names([fmt])
    _USER_FORMATS[fmt.key] = fmt
    return fmt


def _check_names(formats: Sequence[NumberFormat]) -> None:
    """Raise `DefinitionError` unless all names are printable in test ids, free, and different from each other."""
    replaced = {fmt.key for fmt in formats}
    others = [fmt for fmt in _USER_FORMATS.values() if fmt.key not in replaced]
    taken = set(_names(others))
    for fmt in formats:
        for name in (fmt.key, *fmt.aliases):
            if not name or not all(ch.isascii() and (ch.isalnum() or ch in "._") for ch in name):
                raise DefinitionError(
                    f"format name {shown(name)}: use letters, digits, dots and underscores only (it becomes part of "
                    "test ids)"
                )
            if len(name) > MAX_NAME_CHARS:
                raise DefinitionError(f"format name {shown(name)} is longer than {MAX_NAME_CHARS} characters")
            if name.upper() in _BUILT_IN_NAMES:
                raise DefinitionError(f"format name {name!r} is taken by the built-in catalog; choose another name")
            if name.upper() in taken:
                raise DefinitionError(f"format name {name!r} is given twice; choose another name")
            taken.add(name.upper())


def load_formats(path: str | Path) -> list[NumberFormat]:
    """Register the formats of a TOML file, one table per format, and return them.

    Example, llama.cpp's Q4_K (256-element super-blocks of 144 bytes = 4.5 bits per element)::

        [Q4_K]
        kind = "int"
        element_bits = 4
        scales = [{bits = 12, block_elems = 32}, {bits = 32, block_elems = 256}]
    """
    file = Path(path)
    text = read_definition_text(file, "format file", fix="give the path of a TOML file with one table per format")
    try:
        tables = parse_definition(text)
    except ValueError as error:  # not TOML, nested too deeply, or a number beyond the digit limit
        raise DefinitionError(f"format file {file} cannot be read as TOML: {error}") from None
    # All tables are checked before the first is registered, so that a bad file changes nothing.
    parsed = [_format_from_table(file, key, table) for key, table in tables.items()]
    if not parsed:
        raise DefinitionError(f"format file {file} holds no format; write one table per format, e.g. [Q4_K]")
    _check_names(parsed)
    return [register_format(fmt) for fmt in parsed]


def _format_from_table(file: Path, key: str, table: Any) -> NumberFormat:
    where = f"format file {file}, [{_cut(key)}] "
    if not isinstance(table, dict) or "key" in table:
        raise DefinitionError(f"{where.rstrip()}: expected a table with kind, element_bits and no key")
    fmt = read_as(NumberFormat, {"key": key, **table}, where)
    if (parts := (fmt.exponent_bits or 0) + (fmt.mantissa_bits or 0)) > fmt.element_bits:
        raise DefinitionError(
            f"{where.rstrip()}: exponent_bits + mantissa_bits is {shown(parts)}, more than element_bits "
            f"{fmt.element_bits}"
        )
    scales = tuple(replace(level, dtype=_dtype(f"{where}scale dtype", level.dtype)) for level in fmt.scales)
    return replace(fmt, element_dtype=_dtype(f"{where}element_dtype", fmt.element_dtype), scales=scales)


_SHORT_DTYPES = {
    "E8M0": "float8_e8m0fnu", "E4M3": "float8_e4m3fn", "E5M2": "float8_e5m2", "E3M2": "float6_e3m2fn",
    "E2M3": "float6_e2m3fn", "E2M1": "float4_e2m1fn", "FP32": "float32", "FP16": "float16", "BF16": "bfloat16",
}  # fmt: skip
"""Names that papers and formats.md use → the type's name in ml_dtypes."""


def _dtype(what: str, name: str) -> str:
    """Return the numpy or ml_dtypes name of a type, of a short name, too; raise `DefinitionError` for any other."""
    dtype = _SHORT_DTYPES.get(name.upper(), name)
    if dtype and dtype not in _DTYPE_NAMES:
        raise DefinitionError(
            f"{what} {shown(name)} is not a name of numpy or ml_dtypes; known: {', '.join(_DTYPE_NAMES)}; in short: "
            f"{', '.join(_SHORT_DTYPES)}"
        )
    return dtype


def _cut(name: str) -> str:
    """Cut a table's name that is too long to be one."""
    return name if len(name) <= MAX_NAME_CHARS else f"{name[:MAX_NAME_CHARS]}…"


_METHODS = {
    "INT8": "PTQ", "INT4": "AWQ", "FP8_E4M3": "native_fp8", "FP8_E5M2": "native_fp8",
    "MXFP8_E4M3": "native_mxfp8", "MXFP8_E5M2": "native_mxfp8", "MXFP6_E3M2": "native_mxfp6", "MXFP6_E2M3": "native_mxfp6",
    "NVFP4": "native_fp4", "MXFP4": "native_fp4",
}  # fmt: skip


def method_of(format_key: str, *, is_both: bool) -> str:
    """Return PTQ, AWQ, native_fp8, native_fp4, …, or weight_only; `is_both`: the activation has the format as well.

    INT4 is AWQ either way, the word of the original documents (see the findings `awq-scales` and, of both operands,
    `awq-both`).
    """
    if is_both or format_key == "INT4":
        return _METHODS.get(format_key, f"native_{format_key.lower()}")
    return "weight_only"


Pair = tuple[NumberFormat, NumberFormat]
"""Weight or cache, and activation."""


ALONE_ACTIVATION = "BF16"
"""Activation of a product whose weight-only format is named alone; a model's is its own 16-bit format."""


def is_weight_only(fmt: NumberFormat) -> bool:
    """Return whether a format named alone means the weights (or the cache) alone, under 16-bit activations.

    So it is of integers and code tables, as torchao, the pytest cases and the measured tables read them (INT4: AWQ and
    GPTQ, INT8: W8A16). Of a narrow float both operands have it, as in published checkpoints (FP8: W8A8, NVFP4: W4A4).
    `INT8.INT8` says both.
    """
    return fmt.kind in ("int", "table")


def format_pair(text: str) -> Pair:
    """Return weight and activation format of `FP8` (both), `INT4` (`is_weight_only`) or `INT4.INT8` (weight first)."""
    try:
        both = get_format(text)
    except UnknownNameError:
        weight, _, activation = text.partition(".")
        if not (weight and activation):
            raise
        return get_format(weight), get_format(activation)
    return both, get_format(ALONE_ACTIVATION) if is_weight_only(both) else both


def pair_label(pair: Pair) -> str:
    """Return what `format_pair` reads as this pair: `FP8_E4M3` when both operands have it, else `INT4.BF16`."""
    weight, activation = pair
    is_alone = weight.key == activation.key and not is_weight_only(weight)
    return weight.key if is_alone else f"{weight.key}.{activation.key}"


def short_name(key: str) -> str:
    """Return a format's name as people say it: `FP8` of FP8_E4M3, `FP8 E5M2` of the rarer one.

    >>> short_name("MXFP8_E4M3"), short_name("FP8_E5M2"), short_name("NVFP4")
    ('MXFP8', 'FP8 E5M2', 'NVFP4')
    """
    return key.removesuffix("_E4M3").replace("_", " ") if key in FORMATS else key


def is_narrow_format(key: str) -> bool:
    """Return whether elements of a format take fewer than 16 bits; False for one that this process has not loaded."""
    fmt = known_format(key)
    return fmt is not None and fmt.element_bits < 16


def is_wide_format(key: str) -> bool:
    """Return whether elements of a format take 16 bits or more; False for one that this process has not loaded."""
    fmt = known_format(key)
    return fmt is not None and fmt.element_bits >= 16


def format_name(weight: str, activation: str, cache: str = "") -> str:
    """Return the one name of a choice of formats that people are shown; keys such as `INT4.BF16` are for input.

    >>> format_name("INT4", "BF16"), format_name("FP8_E4M3", "FP8_E4M3", "FP8_E4M3"), format_name("BF16", "BF16")
    ('INT4 (W4A16)', 'FP8 (W8A8) + FP8 KV', 'BF16')
    >>> format_name("INT4", "FP8_E4M3")
    'INT4×FP8 (W4A8)'
    """
    return _format_name(weight, activation, cache, operands_label(weight, activation))


@lru_cache(1_024)
def _format_name(weight: str, activation: str, cache: str, widths: str) -> str:
    name = short_name(weight)
    if weight != activation and (is_narrow_format(activation) or widths == "–"):
        name = f"{name}×{short_name(activation)}"
    if widths != "–" and (is_narrow_format(weight) or is_narrow_format(activation)):
        name = f"{name} ({widths})"
    return f"{name} + {short_name(cache)} KV" if is_narrow_format(cache) else name


def attention_name(cache: str, query: str) -> str:
    """Return the one name of an attention's formats that people are shown: of the key/value cache, and of the query.

    >>> attention_name("BF16", "BF16"), attention_name("FP8_E4M3", "BF16"), attention_name("FP8_E4M3", "FP8_E4M3")
    ('BF16', 'FP8 KV', 'FP8 Q+KV')
    """
    if cache == query:
        return f"{short_name(cache)} Q+KV" if is_narrow_format(cache) else short_name(cache)
    names = [f"{short_name(key)} {what}" for key, what in ((cache, "KV"), (query, "Q")) if is_narrow_format(key)]
    return ", ".join(names) or f"{short_name(cache)} KV, {short_name(query)} Q"


def operands_label(weight: str, activation: str) -> str:
    """Return the widths of weight and activation, `W4A16`: they tell a weight-only INT4 from one that multiplies in
    INT4.

    `–` where this process has not loaded a format.
    """
    try:
        return _operands_label(weight, activation)
    except KeyError:
        return "–"


@lru_cache(1_024)
def _operands_label(weight: str, activation: str) -> str:
    return f"W{container_bits(weight)}A{container_bits(activation)}"


def container_bits(key: str) -> int:
    """Return the bits that an element of a format occupies, scales apart. Raises `UnknownNameError`."""
    fmt = get_format(key)
    return fmt.container_bits or fmt.element_bits
