"""The format catalog against ml_dtypes and hand counts, and a user's own formats from TOML."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from roofline_model import (
    FORMATS,
    DefinitionError,
    InvalidValueError,
    NumberFormat,
    UnknownNameError,
    get_format,
    load_formats,
    register_format,
)
from roofline_model.formats import catalog as formats

KEYS = [
    "FP64",
    "FP32",
    "TF32",
    "BF16",
    "FP16",
    "FP8_E4M3",
    "FP8_E5M2",
    "MXFP8_E4M3",
    "MXFP8_E5M2",
    "MXFP6_E3M2",
    "MXFP6_E2M3",
    "MXFP4",
    "MXINT8",
    "NVFP4",
    "NF4",
    "INT8",
    "INT4",
    "INT2",
]

Q4_K = """
[Q4_K]
kind = "int"
element_bits = 4
scales = [{bits = 12, block_elems = 32}, {bits = 32, block_elems = 256}]
aliases = ["GGML_Q4_K"]
"""


@pytest.fixture(autouse=True)
def _no_user_formats() -> Iterator[None]:
    formats._USER_FORMATS.clear()
    yield
    formats._USER_FORMATS.clear()


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "formats.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_the_catalog_holds_the_keys_of_the_design() -> None:
    assert sorted(FORMATS) == sorted(KEYS)


@pytest.mark.parametrize(
    ("name", "key"),
    [("FP8", "FP8_E4M3"), ("MXFP8", "MXFP8_E4M3"), ("MXFP6", "MXFP6_E3M2"), ("NVFP4_KV", "NVFP4"), ("nvfp4", "NVFP4"),
     (" bf16 ", "BF16"), ("fp8-e5m2", "FP8_E5M2"), ("half", "FP16")],
)  # fmt: skip
def test_names_are_found_by_alias_and_in_any_case(name: str, key: str) -> None:
    assert get_format(name).key == key
    assert get_format(get_format(name)) is get_format(name)


@pytest.mark.parametrize("key", [key for key, fmt in FORMATS.items() if fmt.kind == "float" and key != "TF32"])
def test_float_elements_agree_with_ml_dtypes(key: str) -> None:
    fmt = FORMATS[key]
    dtype = np.dtype(getattr(ml_dtypes, fmt.element_dtype, None) or fmt.element_dtype)
    info = ml_dtypes.finfo(dtype)
    assert fmt.max_value == float(info.max)
    assert fmt.element_bits == info.bits
    assert fmt.mantissa_bits == info.nmant
    assert fmt.exponent_bits == info.bits - info.nmant - 1


@pytest.mark.parametrize("key", ["INT8", "INT4", "INT2"])
def test_integer_elements_agree_with_ml_dtypes(key: str) -> None:
    fmt = FORMATS[key]
    info = np.iinfo("int8") if key == "INT8" else ml_dtypes.iinfo(getattr(ml_dtypes, fmt.element_dtype))
    assert fmt.max_value == info.max
    assert fmt.element_bits == info.bits


def test_tf32_max_is_fp32_with_a_ten_bit_mantissa() -> None:
    assert FORMATS["TF32"].max_value == (2 - 2.0**-10) * 2.0**127


@pytest.mark.parametrize("fmt", FORMATS.values(), ids=lambda fmt: fmt.key)
def test_bits_add_up(fmt: NumberFormat) -> None:
    if fmt.kind == "float":
        assert 1 + fmt.exponent_bits + fmt.mantissa_bits == fmt.element_bits  # type: ignore[operator]
    assert fmt.nominal_bits == fmt.element_bits + sum(level.bits_per_element for level in fmt.scales)
    assert fmt.bytes_per_element * 8 == fmt.nominal_bits
    assert fmt.traffic_bytes_per_element >= fmt.bytes_per_element
    assert 0 <= fmt.scale_overhead_ratio < 0.2
    assert fmt.is_sub_byte == (fmt.element_bits < 8)


@pytest.mark.parametrize(
    ("key", "shape", "size"),
    [
        ("FP16", (3, 5), 30),
        ("TF32", (3, 5), 60),  # a 32-bit container
        ("INT4", (3, 5), 8),  # 15 nibbles packed: 7.5 bytes, rounded up
        ("INT2", (1, 5), 2),
        ("MXFP4", (2, 32), 32 + 2),  # 64 nibbles and one E8M0 byte a row
        ("MXFP4", (2, 33), 33 + 4),  # the second block of a row is started
        ("NVFP4", (4, 64), 128 + 16 + 4),  # 256 nibbles, 4 scales a row, one FP32
        ("NVFP4", (1, 1), 1 + 1 + 4),
        ("NF4", (2, 64), 64 + 4),  # one 16-bit absmax per block of 64
        ("MXFP6_E3M2", (1, 32), 24 + 1),
        ("MXINT8", (10, 4096), 40960 + 1280),
        ("INT8", (2, 3, 4), 24),
    ],
)
def test_storage_by_hand(key: str, shape: tuple[int, ...], size: int) -> None:
    assert get_format(key).storage_bytes(shape) == size


@pytest.mark.parametrize("shape", [(), (0, 4), (-1,), (2.5, 4)])
def test_shapes_without_elements_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(InvalidValueError):
        get_format("FP16").storage_bytes(shape)


def test_grouped_int4_counts_its_scales_and_zeros() -> None:
    fmt = get_format("INT4").grouped(128, scale_bits=16, zero_bits=16)
    assert (fmt.key, fmt.nominal_bits, fmt.block_elems) == ("INT4", 4.25, 128)
    assert fmt.storage_bytes((4096, 4096)) == 4096 * 4096 // 2 + 4096 * 32 * 4
    assert get_format("INT4").nominal_bits == 4  # the catalog's own stays without


@pytest.mark.parametrize("name", ["FP9", "", "INT", "🙂"])
def test_unknown_names_are_refused(name: str) -> None:
    with pytest.raises(UnknownNameError, match="unknown format"):
        get_format(name)


# --- a user's own formats


def test_q4_k_has_four_and_a_half_bits(tmp_path: Path) -> None:
    (fmt,) = load_formats(write(tmp_path, Q4_K))
    assert fmt.nominal_bits == 4.5
    assert fmt.storage_bytes((1, 256)) == 144  # llama.cpp: sizeof(block_q4_K)
    assert get_format("ggml_q4_k") is fmt
    assert get_format("Q4_K").block_elems == 32


def test_loading_twice_replaces(tmp_path: Path) -> None:
    load_formats(write(tmp_path, Q4_K))
    load_formats(write(tmp_path, Q4_K.replace("element_bits = 4", "element_bits = 5")))
    assert get_format("Q4_K").element_bits == 5


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "holds no format"),
        ("nonsense", "cannot be read as TOML"),
        ("x = 1" + "0" * 5000, "cannot be read as TOML"),
        ("Q = 5", "expected a table"),
        ("[Q]\nelement_bits = 4", "[Q] kind is missing"),
        ("[Q]\nkind = 'int'", "[Q] element_bits is missing"),
        ("[Q]\nkind = 'fixed'\nelement_bits = 4", "kind is 'fixed', not one of float, int, table"),
        ("[Q]\nkind = 'int'\nelement_bits = '4'", "element_bits is '4', not a whole number"),
        ("[Q]\nkind = 'int'\nelement_bits = -4", "element_bits must be 1"),
        ("[Q]\nkind = 'int'\nelement_bits = 0", "element_bits must be 1"),
        ("[Q]\nkind = 'int'\nelement_bits = true", "element_bits is True, not a whole number"),
        ("[Q]\nkind = 'int'\nelement_bits = 4\ncontainer_bits = 2", "is less than element_bits"),
        ("[Q]\nkind = 'int'\nelement_bits = 4\nbits = 4", "unknown field 'bits'"),
        ("[Q]\nkind = 'int'\nelement_bits = 4\nscales = 5", "scales is 5, not a list of tables"),
        (
            "[Q]\nkind = 'int'\nelement_bits = 4\nscales = [5]",
            "scales[0] is 5, not a table",
        ),
        (
            "[Q]\nkind = 'int'\nelement_bits = 4\nscales = [{bits = 8, x = 1}]",
            "scales[0] has an unknown field 'x'. Known: bits,",
        ),
        ("[Q]\nkind = 'int'\nelement_bits = 4\nscales = [{block_elems = 32}]", "scales[0].bits is missing"),
        ("[Q]\nkind = 'int'\nelement_bits = 4\nscales = [{bits = -8, block_elems = 32}]", "scale bits"),
        ("[Q]\nkind = 'int'\nelement_bits = 4\nscales = [{bits = '8', block_elems = 32}]", "[Q]"),
        (
            "[Q]\nkind = 'int'\nelement_bits = 4\nscales = [{bits = nan, block_elems = 32}]",
            "scales[0].bits is nan, not a number",
        ),
        ("[Q]\nkind = 'int'\nelement_bits = 4\nscales = [{bits = 8, block_elems = 0}]", "block_elems must be"),
        (
            "[Q]\nkind = 'int'\nelement_bits = 4\nscales = [{bits = 8, block_elems = 2.5}]",
            "scales[0].block_elems is 2.5, not a whole number",
        ),
        ("[Q]\nkind = 'int'\nelement_bits = 4\nscales = [{bits = 8, nominal_share_elems = 0}]", "nominal_share_elems"),
        ("[Q]\nkind = 'int'\nelement_bits = 4\nscales = [{bits = 8, block = 32}]", "[Q]"),
        ("[Q]\nkind = 'int'\nelement_bits = 4\nscales = [{block_elems = 32}]", "[Q]"),
        ("[Q]\nkind = 'int'\nelement_bits = 4\naliases = 'QQ'", "aliases is 'QQ', not a list"),
        ("[Q]\nkind = 'int'\nelement_bits = 4\naliases = [4]", "aliases[0] is 4, not text"),
        ("[Q]\nkind = 'int'\nelement_bits = 4\nmax_value = 'big'", "max_value is 'big', not a number"),
        ("[Q]\nkind = 'int'\nelement_bits = 4\ndescription = 4", "description is 4, not text"),
        ("[Q]\nkind = 'int'\nelement_bits = 4\nmax_value = inf", "max_value is inf, not a number"),
        ("[Q]\nkind = 'int'\nelement_bits = 4\nmax_value = nan", "max_value is nan, not a number"),
        ("[Q]\nkind = 'int'\nelement_bits = 4\nmax_value = 1" + "0" * 400, ", not a number"),
        (
            "[Q]\nkind = 'float'\nelement_bits = 4\nexponent_bits = 3\nmantissa_bits = 2",
            "is 5, more than element_bits 4",
        ),
        ("[Q]\nkind = 'float'\nelement_bits = 4\nelement_dtype = 'float5'", "is not a name of numpy or ml_dtypes"),
        (
            "[Q]\nkind = 'int'\nelement_bits = 4\nscales = [{bits = 8, dtype = 'e8m7'}]",
            "scale dtype 'e8m7' is not",
        ),
        ("[Q]\nkind = 'int'\nelement_bits = 4\nscales = [{bits = 8, dtype = 5}]", "scales[0].dtype is 5, not text"),
        ("[" + "Q" * 41 + "]\nkind = 'int'\nelement_bits = 4", "longer than 40 characters"),
        ("x = " + "[" * 50_000, "nested too deeply"),
        ("[INT8]\nkind = 'int'\nelement_bits = 4", "taken by the built-in catalog"),
        ("[Q]\nkind = 'int'\nelement_bits = 4\naliases = ['half']", "taken by the built-in catalog"),
        ("['Q-4']\nkind = 'int'\nelement_bits = 4", "letters, digits"),
        ("[Q]\nkind='int'\nelement_bits=4\n[q]\nkind='int'\nelement_bits=5", "given twice"),
    ],
)
def test_bad_format_files_say_what_is_wrong_and_change_nothing(tmp_path: Path, text: str, message: str) -> None:
    good_first = "[GOOD]\nkind = 'int'\nelement_bits = 3\n" if text.startswith("[") else ""
    with pytest.raises(DefinitionError) as caught:
        load_formats(write(tmp_path, good_first + text))
    assert message in str(caught.value)
    assert "formats.toml" in str(caught.value) or "format name" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert formats._USER_FORMATS == {}


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(DefinitionError, match="does not exist"):
        load_formats(tmp_path / "absent.toml")
    with pytest.raises(DefinitionError, match="cannot be read"):
        load_formats(tmp_path)
    (tmp_path / "latin.toml").write_bytes(b"[Q]\nkind = '\xff'")
    with pytest.raises(DefinitionError, match="cannot be read"):
        load_formats(tmp_path / "latin.toml")


def test_a_user_format_cannot_take_another_ones_name() -> None:
    register_format(NumberFormat("MINE", "int", 3, aliases=("M3",)))
    with pytest.raises(DefinitionError, match="given twice"):
        register_format(NumberFormat("OTHER", "int", 3, aliases=("m3",)))
    assert get_format("m3").key == "MINE"


def test_every_dtype_name_exists_and_every_one_of_the_catalog_is_known() -> None:
    for name in formats._DTYPE_NAMES:
        np.dtype(getattr(ml_dtypes, name, name))
    used = {fmt.element_dtype for fmt in FORMATS.values()} | {s.dtype for f in FORMATS.values() for s in f.scales}
    assert used - {""} <= set(formats._DTYPE_NAMES)


@pytest.mark.parametrize(
    ("widths", "formats"),
    [("W4A16", "INT4.BF16"), ("w8a16", "INT8.BF16"), ("W8A8", "INT8.INT8 or FP8"), ("W4A4", "NVFP4")],
)
def test_widths_as_tables_print_them_lead_to_the_formats(widths, formats):
    with pytest.raises(UnknownNameError, match=rf"widths, not formats; write WEIGHT\.ACTIVATION: {formats}\. "):
        get_format(widths)
