"""docs/reference/torchao.md says what the tables in the code say."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest

from bench_cases.quantization.plans.precisions import PRECISIONS
from bench_cases.quantization.plans.recipes import FALLBACKS, RECIPES
from roofline_model.kernels.known_kernels import capabilities_text

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "reference" / "torchao.md").read_text(encoding="utf-8")
TABLE = TEXT[TEXT.index("| precision | CPU | CUDA |") :].partition("\n\n")[0]
ROWS = {line.split("`")[1]: line.strip("|").split(" | ") for line in TABLE.splitlines()[2:]}


def test_the_table_has_every_precision_once():
    assert sorted(ROWS) == sorted(PRECISIONS)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_the_table_of_precisions(precision):
    _, cpu, cuda, fallback = (cell.strip("| ") for cell in ROWS[precision])
    for device, cell in (("cpu", cpu), ("cuda", cuda)):
        recipes = [recipe for recipe in RECIPES if recipe.precision == precision and recipe.device == device]
        assert (cell == "–") == (not recipes)
        for recipe in recipes:
            assert recipe.config_name in cell or "the same" in cell
            assert ("emulated" in cell) or not recipe.is_emulated or "the same" in cell
            if recipe.capabilities is not None:
                text = capabilities_text(*recipe.capabilities)
                assert (f"≥ {text.removesuffix('+')}" if text.endswith("+") else text) in cell
    assert fallback == (f"`{FALLBACKS[precision]}`" if precision in FALLBACKS else "16 bit")


def test_methods_engines_and_formats_of_caches_are_there():
    torch = pytest.importorskip("torch")
    assert torch
    from bench_cases.quantization.calibrated import METHODS
    from bench_cases.quantization.kv.codecs import KV_FORMATS
    from roofline_model.models.strategies.module_names import ROLES

    for name in (*METHODS, *ROLES, *(key.removesuffix("_E4M3") for key in KV_FORMATS)):
        assert re.search(rf"\b{re.escape(name)}\b", TEXT), name
    for engine in ("transformers", "vLLM", "SGLang", "TensorRT-LLM", "llama.cpp"):
        assert f"| {engine} |" in TEXT


def test_the_names_in_the_examples_exist():
    import bench_cases.quantization as package

    used = set(re.findall(r"from bench_cases\.quantization import ([\w, ]+)", TEXT))
    names = {name.strip() for line in used for name in line.split(",")}
    assert names
    assert names <= set(package.__all__)


def test_nothing_is_left_to_fill_in():
    assert "FIGURES" not in TEXT
    assert "unproven on hardware" in TEXT


def blocks_that_stand_alone():
    """Code blocks that load a model of their own."""
    blocks = re.findall(r"(?:^ {4}.*\n|^\n(?= {4}))+", TEXT, re.MULTILINE)
    return [textwrap.dedent(block) for block in blocks if "load_model(" in block]


def test_the_examples_run_with_a_small_model(tmp_path, monkeypatch, capfd):
    for needed in ("torchao", "transformers"):
        pytest.importorskip(needed)
    monkeypatch.chdir(tmp_path)
    blocks = blocks_that_stand_alone()
    assert len(blocks) == 4
    for block in blocks:
        small = block.replace("seeded-llama-156m", "seeded-llama-1m").replace("max_new_tokens=64", "max_new_tokens=4")
        exec(small, {})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model-int8", "model-int8-hf"]
    assert "KVCacheReport(precision='INT8'" in capfd.readouterr().out
