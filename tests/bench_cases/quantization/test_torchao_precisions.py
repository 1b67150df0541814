from __future__ import annotations

import subprocess
import sys

import pytest

from bench_cases.quantization.plans.precisions import PLAIN_FORMATS, PRECISIONS, parse_precision
from bench_cases.quantization.plans.recipes import FALLBACKS, RECIPES
from bench_cases.quantization.target import Target
from bench_cases.quantization.torchao_configs import availability, map_precision_to_torchao
from roofline_model.core.errors import UnknownNameError, UnsupportedError
from roofline_model.core.finding import finding
from roofline_model.formats.catalog import FORMATS

CPU = Target("cpu")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("INT4", "INT4"),
        ("int4", "INT4"),
        ("INT4.BF16", "INT4"),
        ("int4_weight_only", "INT4"),
        ("W4A16", "INT4"),
        ("INT8", "INT8"),
        ("INT8.FP16", "INT8"),
        ("W8A8", "INT8.INT8"),
        ("INT8.INT8", "INT8.INT8"),
        ("FP8", "FP8"),
        ("FP8_E4M3", "FP8"),
        ("FP8.FP8", "FP8"),
        ("FP8.BF16", "FP8.BF16"),
        ("INT4.FP8", "INT4.FP8"),
        ("W4A8", "INT4.INT8"),
        ("NVFP4", "NVFP4"),
        ("nvfp4.bf16", "NVFP4.BF16"),
        ("MXFP8", "MXFP8"),
        ("MXFP4.MXFP4", "MXFP4"),
        ("BF16", "BF16"),
        ("fp16", "FP16"),
    ],
)
def test_spellings(text, name):
    assert parse_precision(text).name == name


def test_every_format_of_the_catalog_leads_somewhere():
    for key in FORMATS:
        precision = parse_precision(key)
        assert precision.name in (*PRECISIONS, *PLAIN_FORMATS)
        # A name that changes what was asked always says so.
        assert (precision.substitution is not None) == (precision.name.split(".")[0] not in (key, *_aliases(key)))


def _aliases(key):
    return FORMATS[key].aliases


@pytest.mark.parametrize("text", ["FP8.INT8", "INT8.FP8", "NVFP4.INT8", "BF16.INT8", "MXFP4.FP8"])
def test_pairs_that_no_kernel_multiplies(text):
    with pytest.raises(UnsupportedError, match="torchao"):
        parse_precision(text)


@pytest.mark.parametrize("text", ["INT3", "", "FP8.XY", "..", "INT4.INT4.INT4"])
def test_unknown_names(text):
    with pytest.raises(UnknownNameError, match="unknown format"):
        parse_precision(text)


def test_every_precision_has_a_recipe_and_every_fallback_is_a_precision():
    assert {recipe.precision for recipe in RECIPES} == set(PRECISIONS)
    assert set(FALLBACKS) | set(FALLBACKS.values()) <= set(PRECISIONS)


def test_fallbacks_never_use_fewer_weight_bits():
    for precision, other in FALLBACKS.items():
        assert FORMATS[_weight(other)].element_bits >= FORMATS[_weight(precision)].element_bits


def _weight(precision):
    from roofline_model.formats.catalog import get_format

    return get_format(precision.partition(".")[0]).key


# The original documents: NVFP4, NF4 and MXFP4 → INT4, FP8 → INT8, INT4 and INT8 as they are.
@pytest.mark.parametrize(
    ("precision", "target", "runs"),
    [
        ("INT4", CPU, "INT4"),
        ("INT8", CPU, "INT8"),
        ("NF4", CPU, "INT4"),
        ("NVFP4", CPU, "NVFP4.BF16"),
        ("MXFP4", CPU, "MXFP4"),
        ("FP8", CPU, "FP8.BF16"),
        ("FP8", Target("cuda", (8, 0)), "FP8.BF16"),
        ("FP8", Target("cuda", (8, 9)), "FP8"),
        ("NVFP4", Target("cuda", (9, 0)), "NVFP4.BF16"),
        ("NVFP4", Target("cuda", (10, 0)), "NVFP4"),
        ("NVFP4", Target("cuda", (12, 1)), "NVFP4"),
        ("INT4", Target("cuda", (7, 5)), "INT4"),
        ("INT4.FP8", Target("cuda", (9, 0)), "INT4"),
        ("INT4.FP8", Target("cuda", (9, 0), ("mslk",)), "INT4.FP8"),
        ("BF16", CPU, "BF16"),
    ],
)
def test_map_precision(precision, target, runs):
    assert map_precision_to_torchao(precision, target) == runs


def test_the_map_says_why():
    answer = availability("FP8", Target("cuda", (8, 6)))
    assert not answer.is_exact
    (gap,) = answer.findings
    assert (gap.value("kind"), gap.value("capabilities"), gap.value("capability")) == (
        "capability",
        "8.9+",
        "8.6",
    )
    assert availability("FP8", CPU).findings[0] == finding("torchao-kernel-missing", "FP8", kind="device", device="cpu")
    assert availability("INT8", CPU).findings == ()
    nothing = availability("INT4", Target("cuda", (7, 5)))
    assert nothing.recipe is None
    assert "8.0+" in [item.value("capabilities") for item in nothing.findings]


def test_a_device_nobody_knows():
    with pytest.raises(UnsupportedError, match="mps"):
        Target("mps")


def test_every_public_name_is_there():
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    import bench_cases.quantization as package

    for name in package.__all__:
        assert getattr(package, name) is not None
    assert package.__all__ == dir(package)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        package.nothing  # noqa: B018 (the look-up is the test)


def test_names_without_torch():
    code = (
        "import sys, bench_cases.quantization as q\n"
        "from bench_cases.quantization.target import Target\n"
        "assert q.map_precision_to_torchao('NVFP4', Target('cuda', (12, 1))) == 'NVFP4'\n"
        "print(sorted({'torch', 'torchao', 'transformers'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
