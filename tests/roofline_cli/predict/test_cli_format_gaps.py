"""`roofline predict`: a format without a known kernel on the chip is said, in the terminal and in JSON, as the API says it."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from roofline_cli.main import app
from roofline_model.chips.hardware import get_hardware
from roofline_model.kernels.kernel_gaps import kernel_gap
from roofline_model.kernels.serving_kernels import engine_gap

runner = CliRunner()


def invoke(*arguments):
    done = runner.invoke(app, arguments, env={"COLUMNS": ""})
    assert done.exit_code == 0, done.output
    return done.stdout


def test_a_format_without_a_known_kernel_says_so_in_the_words_of_the_api():
    arguments = ("predict", "gemv", "-N", "4096", "-K", "4096", "--hw", "gb10", "--formats", "MXFP4,INT8,INT4,FP8")
    rows = {one["format"]: one for one in json.loads(invoke(*arguments, "--json"))["predictions"]}
    chip = get_hardware("gb10")
    for name, row in rows.items():
        assert row["kernel_gap"] == (kernel_gap(chip, name, name) or None)
        assert row["engine_gap"] == (engine_gap(chip, name, name) or None)
    assert rows["FP8_E4M3"]["kernel_gap"] is rows["FP8_E4M3"]["engine_gap"] is None
    text = invoke(*arguments)
    for name in ("MXFP4", "INT4"):
        assert f"  {name}: no kernel is known to run it here: {rows[name]['kernel_gap']}\n" in text
    assert f"  INT8: {rows['INT8']['engine_gap']}\n" in text
    assert text.count("no kernel is known") == 2


@pytest.mark.parametrize(
    ("arguments", "label", "words"),
    [
        (("ffn", "--hidden", "64", "--ffn-dim", "128"), "NVFP4", "torch multiplies NVFP4 by NVFP4 on compute capability 10.0"),
        (("attention", "--heads", "8", "--head-dim", "64"), "NVFP4.FP16", "no released attention kernel reads a NVFP4 cache"),
        (("model", "--model", "llama-3.2-1b"), "NVFP4", "torch multiplies NVFP4 by NVFP4 on compute capability 10.0"),
        (("model", "--model", "llama-3.2-1b", "--kv", "NVFP4"), "BF16", "no released attention kernel reads a NVFP4 cache"),
    ],
)  # fmt: skip
def test_blocks_attention_and_models_name_a_missing_kernel_too(arguments, label, words):
    asked = ("predict", *arguments, "--hw", "h100", "--formats", label)
    document = json.loads(invoke(*asked, "--json"))
    (row,) = document.get("predictions", [document])
    assert row["kernel_gap"].startswith(words)
    assert f"no kernel is known to run it here: {row['kernel_gap']}\n" in invoke(*asked)
