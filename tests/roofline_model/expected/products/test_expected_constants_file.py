"""The TOML of fitted constants: round trip, refusals, and what ships with the package."""

from __future__ import annotations

import math
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

import roofline_model.expected
from roofline_model import DefinitionError, InvalidValueError
from roofline_model.expected.products.fitted.constants import (
    FITTED_BOUNDS,
    KNOT_COUNT,
    Correction,
    GemmConstants,
    constants_text,
    fitted_names,
    from_values,
    read_constants,
)
from roofline_model.expected.products.fitted.library import shipped_gemm

FOLDER = Path(roofline_model.expected.__file__).parent / "constants"
L40S = [gemm for gemm in shipped_gemm() if gemm.chip.key == "l40s"]
TEXT = constants_text(L40S, comment="two\nlines")


def test_what_is_written_is_read_back():
    assert read_constants(TEXT, "l40s") == L40S
    assert TEXT.startswith("# two\n# lines\n")


def test_a_set_without_a_surface_is_written_without():
    bare = [replace(l40, correction=None) for l40 in L40S]
    assert read_constants(constants_text(bare), "l40s") == bare
    assert "correction" not in constants_text(bare)


def test_a_surface_survives():
    surface = Correction(tuple(round(0.6 * math.sin(i), 3) for i in range(KNOT_COUNT)))
    corrected = replace(L40S[0], correction=surface)
    assert read_constants(constants_text([corrected]), "x")[0].correction == surface


def test_text_with_quotes_and_line_ends_survives():
    sourced = replace(L40S[0], evidence=replace(L40S[0].evidence, source='a "table" \\ of rows'))
    assert read_constants(constants_text([sourced]), "x")[0].evidence.source == 'a "table" \\ of rows'


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("schema = 1", "schema = 2", "schema must be 1"),
        ('device = "l40s"', "device = 3", "device must name"),
        ("sm_count", "sms", "unknown field 'sms'"),
        ('family = "sm89"', 'family = "sm77"', "sm77"),
        ('format = "BF16"', 'format = "FP3"', "format must be one of BF16"),
        ("tensor_ratio = ", "tensor_rate = ", "tensor_rate"),
        ("m16-floor", "m17-floor", "m17-floor"),
        ("[gemm.evidence]", "[gemm.evidences]", "evidences"),
        ("row_count", "rows", "rows"),
        ("log_ratio = [", "log_ratio = [[9.0],", "344|correction"),
        ("[[gemm]]", "[[gemm]", "cannot be read as TOML"),
    ],
)
def test_a_bad_file_is_refused_by_name(old, new, message):
    assert old in TEXT
    with pytest.raises(DefinitionError, match=message):
        read_constants(TEXT.replace(old, new, 1), "l40s.toml")


def test_missing_tables_are_named():
    with pytest.raises(DefinitionError, match="'family' is missing"):
        read_constants('schema = 1\ndevice = "x"\n[spec]\n', "x.toml")
    without = TEXT[: TEXT.index("[[gemm]]")]
    with pytest.raises(DefinitionError, match=r"at least one \[\[gemm\]\]"):
        read_constants(without, "x.toml")
    twice = TEXT.replace('format = "FP8"', 'format = "BF16"')
    with pytest.raises(DefinitionError, match="two"):
        read_constants(twice, "x.toml")


def test_one_file_is_one_chip():
    other = next(gemm for gemm in shipped_gemm() if gemm.chip.key == "b200")
    with pytest.raises(DefinitionError, match="l40s and b200"):
        constants_text([L40S[0], other])


@pytest.mark.parametrize("value", [-1.0, math.inf, math.nan, "3", True, None, 0])
def test_constants_are_numbers_in_range(value):
    with pytest.raises(InvalidValueError, match="tensor_ratio"):
        replace(L40S[0].constants, tensor_ratio=value)


def test_a_missing_constant_is_named():
    with pytest.raises(InvalidValueError, match="dram_ratio is missing"):
        from_values({"launch_s": 1e-6, "tensor_ratio": 1.0}, "sm90", "BF16")


def test_every_chip_and_kernel_family_of_the_table_ships():
    assert {(gemm.chip.key, gemm.family) for gemm in shipped_gemm()} == {
        *((chip, "BF16") for chip in ("a100-sxm-80gb", "h100-sxm", "b200", "l40s", "rtx-pro-6000")),
        *((chip, "FP8") for chip in ("h100-sxm", "b200", "l40s", "rtx-pro-6000")),
        *((chip, "NVFP4") for chip in ("b200", "rtx-pro-6000")),
        *((chip, family) for chip in ("a100-sxm-80gb", "l40s") for family in ("INT8", "INT4")),
    }


@pytest.mark.parametrize("fitted", shipped_gemm(), ids=lambda fitted: f"{fitted.chip.key}-{fitted.family}")
def test_shipped_constants_have_evidence_and_stay_physical(fitted):
    evidence = fitted.evidence
    assert evidence.row_count >= 1000
    assert "aiconfigurator" in evidence.source
    assert evidence.date >= "2026-11-21"
    assert 0 < evidence.in_sample_mape_ratio <= evidence.cv_mape_ratio < 0.12
    assert 0.77 <= evidence.coverage_ratio <= 0.85
    for name in fitted_names(fitted.constants, fitted.family):
        low, high = FITTED_BOUNDS[name]
        assert low * 0.999 <= getattr(fitted.constants, name) <= high * 1.001, name


def test_the_mean_errors_are_below_the_studys():
    def mean(*families: str) -> float:
        errors = [gemm.evidence.cv_mape_ratio for gemm in shipped_gemm() if gemm.family in families]
        return sum(errors) / len(errors)

    # BF16 7.9 %, FP8 5.9 %, NVFP4 7.0 %, weight-only 10 % are the floor
    assert mean("BF16") < 0.079
    assert mean("FP8") < 0.059
    assert mean("NVFP4") < 0.070
    assert mean("INT8", "INT4") < 0.100


def test_the_files_say_what_a_reader_needs():
    for path in FOLDER.glob("*.toml"):
        if not path.name.startswith("attention-"):
            text = path.read_text(encoding="utf-8")
            assert tomllib.loads(text)["device"] == path.stem
            assert len(text.encode()) < 60_000


def test_missing_optional_terms_stay_missing():
    constants = GemmConstants(1e-6, 1.0, 0.8, 0.5, 1.0, 1e-7, 3.0, 0.1)
    assert constants.split_s is None
    assert "split_s" not in fitted_names(constants, "BF16")
