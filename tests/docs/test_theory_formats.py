"""docs/theory/formats.md: one entry per format of the catalog, in its order, with the catalog's numbers."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from bench_cases.kernels.products.catalog import KERNELS
from roofline_model import FORMATS, NumberFormat, gemv, get_format, load_formats, predict
from roofline_model.core.errors import InvalidValueError
from roofline_model.expected.products.parameters import kernel_bytes_per_element
from roofline_model.operators.attention import attention
from roofline_model.operators.elementwise import softmax
from roofline_model.operators.kv_cache import kv_write
from roofline_model.operators.layers import lm_head
from roofline_model.operators.product import WEIGHT_GROUP_ELEMS
from roofline_model.operators.quantize import quantize

PAGE = Path(__file__).resolve().parents[2] / "docs" / "theory" / "formats.md"
SHAPE = (4096, 4096)


@cache
def page() -> str:
    return PAGE.read_text(encoding="utf-8")


def section(title: str) -> str:
    """Return the text under a heading, up to the next one; line breaks become spaces."""
    parts = re.split(rf"^#+ {re.escape(title)}$", page(), flags=re.MULTILINE)
    assert len(parts) == 2, f"{len(parts) - 1} headings {title!r}"
    return re.sub(r"\s+", " ", re.split(r"^#+ ", parts[1], flags=re.MULTILINE)[0])


def special_codes(fmt: NumberFormat) -> tuple[int, int]:
    """Return how many codes of the element are infinite and NaN, by decoding them all up to 16 bits."""
    if fmt.element_bits > 16:  # IEEE layout: all ones in the exponent
        assert fmt.mantissa_bits is not None
        return 2, 2 * (2**fmt.mantissa_bits - 1)
    element = np.dtype(getattr(ml_dtypes, fmt.element_dtype, fmt.element_dtype))
    codes = np.arange(2**fmt.element_bits, dtype=np.uint16 if fmt.element_bits > 8 else np.uint8)
    with np.errstate(invalid="ignore"):
        values = codes.view(element).astype(np.float64)
    return int(np.isinf(values).sum()), int(np.isnan(values).sum())


def test_the_formats_stand_in_the_order_of_the_catalog() -> None:
    assert [line[4:] for line in page().splitlines() if line.startswith("### ")] == list(FORMATS)


@pytest.mark.parametrize("fmt", FORMATS.values(), ids=FORMATS)
def test_each_format_has_its_numbers(fmt: NumberFormat) -> None:
    text = section(fmt.key)
    labels = re.findall(r"\*\*([^*]+)\*\*:", text)
    expected = [
        "Bits",
        "Largest element",
        "Special values",
        "Scales",
        "Nominal bits",
        "Stored 4096×4096",
        "Standard",
        "Our kernels",
    ]
    assert labels == expected
    assert f"**Bits**: {fmt.element_bits}" in text
    assert f"**Largest element**: {fmt.max_value:.8g}" in text
    assert f"**Nominal bits**: {fmt.nominal_bits:.8g}." in text
    assert f"**Stored 4096×4096**: {fmt.storage_bytes(SHAPE):,} bytes." in text
    assert all(f" {alias}" in text for alias in fmt.aliases)
    if fmt.scales:
        for level in fmt.scales:
            whose = f"{level.block_elems} elements" if level.block_elems else "tensor"
            assert re.search(rf"\({level.bits:g} bits[^)]*\) per {whose}", text)
        assert f"nominal bits: {100 * fmt.scale_overhead_ratio:.1f} %" in text
    else:
        assert "**Scales**: none counted." in text


@pytest.mark.parametrize("fmt", [fmt for fmt in FORMATS.values() if fmt.kind == "float"], ids=lambda fmt: fmt.key)
def test_each_float_has_its_layout(fmt: NumberFormat) -> None:
    text = section(fmt.key)
    assert fmt.exponent_bits is not None
    assert fmt.mantissa_bits is not None
    assert 1 + fmt.exponent_bits + fmt.mantissa_bits == fmt.element_bits
    assert f"1 sign + {fmt.exponent_bits} exponent + {fmt.mantissa_bits} mantissa" in text
    bias = 2 ** (fmt.exponent_bits - 1) - 1
    assert f"Exponent bias {bias}." in text
    if fmt.key != "TF32" and fmt.element_dtype not in ("float32", "float64"):
        smallest = float(
            ml_dtypes.finfo(np.dtype(getattr(ml_dtypes, fmt.element_dtype, fmt.element_dtype))).smallest_normal
        )
        assert smallest == 2.0 ** (1 - bias)  # the bias is the format's own, not only IEEE's rule
    infinities, nans = special_codes(fmt)
    assert ("two infinities" if infinities == 2 else "no infinities") in text
    assert (f"{nans:,} NaN codes" if nans else "no NaN") in text


@pytest.mark.parametrize("key", FORMATS)
def test_each_format_names_its_kernels(key: str) -> None:
    kernels = section(key).split("**Our kernels**:")[1]
    names = {kernel.name for kernel in KERNELS if kernel.weight == key}
    assert {name for name in re.findall(r"`(\w+)`", kernels) if name in {kernel.name for kernel in KERNELS}} == names
    assert bool(names) != kernels.strip().startswith("none")
    for kernel in KERNELS:
        if kernel.weight == key and kernel.group_size is not None:
            held = kernel.weight_format
            assert f"{held.nominal_bits:g} bits" in kernels
            assert f"{held.storage_bytes(SHAPE):,} bytes" in kernels


def test_the_widths_of_nvfp4() -> None:
    nvfp4 = get_format("NVFP4")
    traffic, storage = nvfp4.traffic_bytes_per_element * SHAPE[0] * SHAPE[1], nvfp4.storage_bytes(SHAPE)
    text = section("Three widths")
    assert f"traffic is {traffic:,.0f} bytes and the storage {storage:,} bytes" in text
    assert f"{100 * (traffic / storage - 1):.1f} % too much" in text
    assert f"4 + 8/16 + 32/1024 = {4 + 8 / 16 + 32 / 1024} bits" in text
    assert nvfp4.nominal_bits == 4 + 8 / 16 + 32 / 1024
    tf32 = get_format("TF32")
    assert f"({tf32.traffic_bytes_per_element:g} bytes instead of {tf32.bytes_per_element})" in text


def test_the_bytes_of_the_expected_model() -> None:
    text = section("Three widths")
    assert f"(NVFP4: {kernel_bytes_per_element(get_format('NVFP4'))} bytes per element)" in text
    assert f"per {WEIGHT_GROUP_ELEMS} elements ({kernel_bytes_per_element(get_format('INT4'))} bytes)" in text


def test_which_formats_can_meet() -> None:
    assert lm_head(1, 64, 64, a="BF16", b="NF4").cost.total_flops == 2 * 64 * 64
    for refused in (
        lambda: softmax(1, 8, a="NF4"),
        lambda: lm_head(1, 64, 64, a="FP8", b="INT8"),
        lambda: quantize(1, 64, "FP8", "INT4"),
        lambda: quantize(1, 64, "BF16", "NVFP4", scale="row"),
        lambda: kv_write(1, 1, 1, 64, source="FP8", kv="BF16"),
    ):
        with pytest.raises(InvalidValueError):
            refused()
    assert [name for name, _ in softmax(1, 8, a="FP8").cost.flops] == ["FP32"]
    assert [name for name, _ in softmax(1, 8, a="FP64").cost.flops] == ["FP64"]
    assert "scales" in dict(quantize(1, 64, "BF16", "FP8").cost.write_bytes)  # per row where nothing is said
    cache = dict(attention(1, 1, 1, 1, 1024, 64, kv="NVFP4_KV").cost.read_bytes)["K"] / (1024 * 64)
    assert f"takes {8 * cache} bits per element" in section("Formats in operators")


def test_the_codes_of_fp4() -> None:
    codes = np.arange(8, dtype=np.uint8).view(ml_dtypes.float4_e2m1fn).astype(np.float32)
    assert f"positive codes are {', '.join(f'{code:g}' for code in codes)}." in section("MXFP4")


def test_the_example_of_a_users_format(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("roofline_model.formats.catalog._USER_FORMATS", {})
    examples = re.findall(r"```toml\n(.*?)```", page(), flags=re.DOTALL)
    assert [list(tomllib.loads(example)) for example in examples] == [["Q4_K"]]
    file = tmp_path / "formats.toml"
    file.write_text(examples[0], encoding="utf-8")
    (q4_k,) = load_formats(file)
    assert q4_k.nominal_bits == 4.5
    assert q4_k.storage_bytes((1, 256)) == 144
    text = section("Your own formats")
    assert f"= {q4_k.nominal_bits} bits per element and {q4_k.storage_bytes(SHAPE):,} bytes for 4096×4096" in text
    assert predict(gemv(4096, 4096, a="BF16", b="Q4_K"), "gb10").path == "dequantize"
