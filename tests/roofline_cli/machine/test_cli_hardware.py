"""`roofline hardware`: list, show, --toml round trip, check with its exit codes."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from roofline_cli.main import app
from roofline_model.chips.hardware import get_hardware, list_hardware

runner = CliRunner()


@pytest.fixture(autouse=True)
def _plain(monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)


def test_list_names_every_chip():
    text = runner.invoke(app, ["hardware", "list"]).stdout
    data = json.loads(runner.invoke(app, ["hardware", "list", "--json"]).stdout)
    keys = [chip.key for chip in list_hardware()]
    assert [chip["key"] for chip in data["hardware"]] == keys
    assert all(f"\n{key} " in text for key in keys)


def test_list_shows_native_rates_only():
    line = next(
        line for line in runner.invoke(app, ["hardware", "list"]).stdout.splitlines() if line.startswith("b10 ")
    )
    assert line.split()[:7] == ["b10", "1", "TB/s", "200", "400", "400", "800"]


def test_show_prints_every_number_with_status_and_source():
    text = runner.invoke(app, ["hardware", "show", "b10", "--all"]).stdout
    assert "placeholder: invented numbers" in text
    # one line per [[peak]] entry, its formats together
    peak = next(line for line in text.splitlines() if line.startswith("dense peak INT4 NVFP4 MXFP4"))
    assert "800 TFLOP/s" in peak
    assert "placeholder  original document 003 (critical AI 800)" in peak
    path = next(line for line in text.splitlines() if line.startswith("NF4 "))
    assert "dequantize" in path
    assert "the documents name no unit for it" in path


def test_show_json_is_the_whole_profile():
    chip = get_hardware("b10")
    data = json.loads(runner.invoke(app, ["hardware", "show", "blackwell-b10", "--json"]).stdout)
    assert data["content_hash"] == chip.content_hash
    assert data["bandwidth"]["value"] == 1e12
    assert data["bandwidth"]["unit"] == "B/s"
    assert data["paths"]["NVFP4"]["critical_intensity_flop_per_byte"] == pytest.approx(800)
    assert set(chip.to_dict()) < set(data)


def test_toml_output_is_accepted_as_a_custom_chip(tmp_path):
    text = runner.invoke(app, ["hardware", "show", "b10", "--toml"]).stdout
    mine = tmp_path / "mine.toml"
    mine.write_text(text.replace('key = "b10"', 'key = "mine"').replace("value = 1000,", "value = 2000,"))
    data = json.loads(
        runner.invoke(app, ["predict", "gemv", "-N", "4096", "-K", "4096", "--hw", str(mine), "--json"]).stdout
    )
    assert data["predictions"][0]["hardware"] == "mine"
    assert data["predictions"][0]["time_s"] == pytest.approx(33.57e-6 / 2, rel=1e-3)
    assert runner.invoke(app, ["hardware", "show", str(mine), "--toml"]).stdout == mine.read_text()


def test_check_accepts_the_registry():
    result = runner.invoke(app, ["hardware", "check", "--all"])
    assert result.exit_code == 0, result.output
    assert f"{len(list_hardware())} checked, 0 errors" in result.stdout


def test_check_reports_a_slip_of_unit_and_exits_1(tmp_path):
    bad = tmp_path / "bad.toml"
    text = runner.invoke(app, ["hardware", "show", "b10", "--toml"]).stdout
    bad.write_text(text.replace('value = 1000, unit = "GB/s"', 'value = 1000, unit = "MB/s"'))
    result = runner.invoke(app, ["hardware", "check", str(bad), "--json"])
    assert result.exit_code == 1
    data = json.loads(result.stdout)
    assert data["error_count"] == 1
    assert data["chips"][0]["findings"][0]["values"]["error"].count("ridge point") == 1
    assert runner.invoke(app, ["hardware", "check", str(bad)]).exit_code == 1


def test_check_and_show_read_formats_of_ones_own(tmp_path):
    formats = tmp_path / "formats.toml"
    formats.write_text('[OWNFMT5]\nkind = "int"\nelement_bits = 5\n')
    text = runner.invoke(app, ["hardware", "show", "b10", "--toml"]).stdout
    mine = tmp_path / "mine.toml"
    mine.write_text(text.replace('key = "b10"', 'key = "mine"').replace('"NVFP4", ', '"NVFP4", "OWNFMT5", '))
    refused = runner.invoke(app, ["hardware", "check", str(mine)])
    assert refused.exit_code == 1
    assert refused.stdout.count("mine.toml") == 1  # the file is named once a line
    for command in ("check", "show"):
        result = runner.invoke(app, ["hardware", command, str(mine), "--formats-file", str(formats)])
        assert result.exit_code == 0, result.output


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["check"], "either one chip"),
        (["check", "b10", "--all"], "either one chip"),
        (["check", "h101"], "Did you mean h100"),
        (["check", "absent.toml"], "does not exist"),
        (["show", "h101"], "Did you mean h100"),
        (["show", "."], "unknown hardware"),
        (["new", "GB10"], "gb10 is shipped"),
        (["new", "Blackwell B10", "-o", "mine.toml"], "is shipped"),
    ],
)
def test_bad_input_exits_2_with_one_line(arguments, words):
    result = runner.invoke(app, ["hardware", *arguments])
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert words in result.stderr
