"""`roofline predict`: a format without a known kernel on the chip is said, in the terminal and in JSON, as the API says
it.
"""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from roofline_cli.main import app
from roofline_model.chips.hardware import get_hardware
from roofline_model.core.finding import findings_json
from roofline_model.kernels.known_kernels import engine_gap, kernel_gap

runner = CliRunner()


def invoke(*arguments):
    details = ["--all"] if arguments[0] == "predict" and "--json" not in arguments else []
    done = runner.invoke(app, [*arguments, *details], env={"COLUMNS": ""})
    assert done.exit_code == 0, done.output
    return done.stdout


def _json(gap):
    return next(iter(findings_json([gap])), None)


def test_a_format_without_a_known_kernel_says_so_as_the_api_does():
    arguments = (
        "predict",
        "gemv",
        "-N",
        "4096",
        "-K",
        "4096",
        "--hw",
        "gb10",
        "--formats",
        "MXFP4,INT8.INT8,INT4.INT4,FP8",
    )
    rows = {prediction["format"]: prediction for prediction in json.loads(invoke(*arguments, "--json"))["predictions"]}
    chip = get_hardware("gb10")
    for name, row in rows.items():
        key = name.partition(".")[0]
        assert row["kernel_gap"] == _json(kernel_gap(chip, key, key))
        assert row["engine_gap"] == _json(engine_gap(chip, key, key))
    assert rows["FP8_E4M3"]["kernel_gap"] is rows["FP8_E4M3"]["engine_gap"] is None
    text = invoke(*arguments)
    for name, shown in (("MXFP4", "MXFP4 (W4A4)"), ("INT4.INT4", "INT4 (W4A4)")):
        assert f"  {shown}: {rows[name]['kernel_gap']['text']}\n" in text
    assert f"  INT8 (W8A8): {rows['INT8.INT8']['engine_gap']['text']}\n" in text


@pytest.mark.parametrize(
    ("arguments", "label", "subject", "capabilities"),
    [
        (("ffn", "--hidden", "64", "--ffn-dim", "128"), "NVFP4", "NVFP4", "10.0+"),
        (("attention", "--heads", "8", "--head-dim", "64"), "NVFP4.FP16", "kv NVFP4", "10.x"),
        (("model", "--model", "llama-3.2-1b"), "NVFP4", "NVFP4", "10.0+"),
        (("model", "--model", "llama-3.2-1b", "--kv", "NVFP4"), "BF16", "kv NVFP4", "10.x"),
    ],
)
def test_blocks_attention_and_models_name_a_missing_kernel_too(arguments, label, subject, capabilities):
    arguments_given = ("predict", *arguments, "--hw", "h100", "--formats", label)
    document = json.loads(invoke(*arguments_given, "--json"))
    (row,) = document.get("predictions", [document])
    gap = row["kernel_gap"]
    assert (gap["code"], gap["subject"], gap["values"]["capabilities"]) == ("kernel-gap", subject, capabilities)
    assert f": {gap['text']}\n" in invoke(*arguments_given)
