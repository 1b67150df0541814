"""Formats and chips of one's own: each row says which it is, what was asked for is there, and names mean what runs."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from roofline_cli.main import app
from roofline_model.chips.hardware import TO_FILL_IN, check_device, errors_of, get_hardware, new_chip_text
from roofline_model.core.finding import has_code
from roofline_model.formats import catalog
from roofline_model.formats.catalog import load_formats
from roofline_model.recommend.model import recommend_model

runner = CliRunner()
FORMATS = """
[MYFP5]
kind = "float"
element_bits = 5
scales = [{bits = 8, block_elems = 32, dtype = "E8M0"}]
"""
PAGE = Path(__file__).resolve().parents[3] / "docs" / "how_to" / "own_chip.md"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Work in a folder with a format file and a chip that has FP16 alone; forget the format afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(catalog, "_USER_FORMATS", {})
    (tmp_path / "my.toml").write_text(FORMATS, encoding="utf-8")
    (tmp_path / "chip.toml").write_text(minimal_chip(), encoding="utf-8")
    return tmp_path


def minimal_chip() -> str:
    """Return the file that the how-to prints."""
    (block,) = re.findall(r"```toml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    return block


def asked(*words: str) -> str:
    done = runner.invoke(app, list(words), env={"COLUMNS": "200"})
    assert done.exit_code == 0, done.output
    return done.stdout


def test_two_pairs_of_one_own_format_have_two_names() -> None:
    gemv = ("predict", "gemv", "-N", "4096", "-K", "4096", "--hw", "gb10", "--formats-file", "my.toml")
    text = asked(*gemv, "--formats", "MYFP5.MYFP5,MYFP5.BF16")
    assert re.findall(r"^(MYFP5 \S+)  ", text, re.MULTILINE) == ["MYFP5 (W5A5)", "MYFP5 (W5A16)"]


@pytest.mark.parametrize("name", ["NVFP4", "FP8", "MYFP5"])
@pytest.mark.parametrize(
    "words", [("gemv", "-N", "4096", "-K", "4096"), ("ffn", "--hidden", "512", "--ffn-dim", "1024")]
)
def test_one_format_on_a_chip_without_its_unit_is_of_the_weight_alone(name: str, words: tuple[str, ...]) -> None:
    options = ("--hw", "chip.toml", "--formats-file", "my.toml", "--json")
    document = json.loads(asked("predict", *words, *options, "--formats", f"{name},{name}.FP16"))
    (row,) = document["predictions"]  # asked for twice, the same
    assert row["activation_format"] == "FP16"
    assert row["operands"] in ("W4A16", "W8A16", "W5A16")
    both = json.loads(asked("predict", *words, *options, "--formats", f"{name}.{name}"))["predictions"][0]
    assert both["activation_format"] == both["weight_format"]


def test_a_cache_format_without_a_unit_leaves_the_query_wide() -> None:
    words = ("predict", "attention", "--heads", "8", "--head-dim", "64", "--kv-len", "512", "--hw", "chip.toml")
    (row,) = json.loads(asked(*words, "--formats", "NVFP4", "--json"))["predictions"]
    assert (row["kv_format"], row["activation_format"]) == ("NVFP4", "FP16")


@pytest.mark.parametrize(
    "words",
    [
        ("predict", "gemv", "-N", "4096", "-K", "4096", "--hw", "gb10"),
        ("predict", "gemm", "-M", "4096", "-N", "4096", "-K", "4096", "--hw", "h100"),
        ("recommend", "-M", "1", "-N", "4096", "-K", "4096", "--hw", "chip.toml"),
        ("recommend", "-M", "512", "-N", "4096", "-K", "4096", "--hw", "h100"),
        ("recommend", "--model", "llama-3.1-8b", "--hw", "gb10"),
    ],
)
def test_an_own_format_has_a_row(words: tuple[str, ...]) -> None:
    assert re.search(r"^ *MYFP5 \(W5A16\) ", asked(*words, "--formats-file", "my.toml"), re.MULTILINE)


@pytest.mark.parametrize("options", [(), ("--formats", "INT4")])
def test_a_model_on_a_chip_without_its_16_bit_format_has_the_chips(options: tuple[str, ...]) -> None:
    words = ("predict", "model", "--model", "llama-3.1-8b", "--hw", "chip.toml", *options)
    assert "no native BF16 here: FP16" in asked(*words)
    (row,) = json.loads(asked(*words, "--json"))["predictions"]
    assert row["time_s"] > 0


GEMM = ("predict", "gemm", "-M", "4096", "-N", "4096", "-K", "4096")


def test_formats_that_take_the_same_time_are_said_to_tie() -> None:
    options = ("--hw", "mi300x", "--formats-file", "my.toml")
    (first, *_) = asked(*GEMM, *options, "--formats", "MYFP5.BF16,BF16").splitlines()
    assert first.startswith("MYFP5 (W5A16) and BF16 tie: ")
    assert first.endswith("no gain over BF16.")
    (first, *_) = asked(*GEMM, *options, "--formats", "FP8,BF16").splitlines()
    assert first.startswith("FP8 (W8A8) is fastest: ")


def test_gains_are_over_a_format_that_has_a_row_where_one_takes_as_long() -> None:
    assert "Gain: over BF16." in asked(*GEMM, "--hw", "h100", "--formats", "FP8,BF16")
    assert "Gain: over FP16." in asked(*GEMM, "--hw", "h100", "--formats", "FP8,BF16,FP16")


@pytest.mark.parametrize(
    ("chip", "formats", "is_said"),
    [("h100", "INT8", True), ("h100", "INT8.BF16", False), ("h100", "INT4", False), ("chip.toml", "INT8", False)],
)
def test_an_integer_named_alone_is_said_to_be_its_weights(chip: str, formats: str, is_said: bool) -> None:
    text = asked(*GEMM, "--hw", chip, "--formats", formats)
    assert ("INT8 alone is its weights (W8A16)" in text) == is_said
    assert "INT8 alone" not in asked(*GEMM, "--hw", chip)


def test_every_format_asked_of_a_recommendation_has_a_row_or_a_reason() -> None:
    names = "FP8,INT4.BF16,NVFP4,MXFP8,INT8.BF16"
    text = asked("recommend", "--model", "llama-3.1-8b", "--hw", "gb10", "--formats", names)
    for name in ("FP8 (W8A8)", "INT4 (W4A16)", "NVFP4 (W4A4)", "MXFP8 (W8A8)", "INT8 (W8A16)"):
        assert name in text


def test_an_option_of_unknown_loss_is_not_said_to_be_slow(folder) -> None:
    load_formats(folder / "my.toml")
    ranking = recommend_model(get_hardware(folder / "chip.toml"), "llama-3.1-8b", formats=["MYFP5.FP16"])
    assert ranking.choice == ranking.baseline
    assert has_code(ranking.choice.findings, "faster-loss-unknown")
    assert not has_code(ranking.choice.findings, "no-other")


@pytest.mark.parametrize(
    ("short", "full"), [("E8M0", "float8_e8m0fnu"), ("e4m3", "float8_e4m3fn"), ("FP32", "float32")]
)
def test_types_of_scales_have_their_usual_names(folder, short: str, full: str) -> None:
    (folder / "my.toml").write_text(FORMATS.replace("E8M0", short), encoding="utf-8")
    (fmt,) = load_formats(folder / "my.toml")
    assert fmt.scales[0].dtype == full


def test_the_chip_of_the_how_to_is_whole(folder) -> None:
    chip = get_hardware(folder / "chip.toml")
    assert check_device(chip) == []
    assert list(chip.paths) == ["FP16"]
    assert "dense FP16" in asked("hardware", "show", "chip.toml")


def test_a_chip_without_bf16_computes_in_its_own_16_bit_format(folder) -> None:
    """INT8 alone is of the weight, under 16 bit: the chip's own."""
    predicted = json.loads(
        asked("predict", "gemv", "-N", "4096", "-K", "4096", "--hw", "chip.toml", "--formats", "INT8", "--json")
    )
    assert [row["format"] for row in predicted["predictions"]] == ["INT8.FP16"]
    swept = json.loads(asked("sweep", "-M", "1,64", "-N", "4096", "-K", "4096", "--hw", "chip.toml", "--json"))
    assert [(row["activation_format"], row["ideal_s"] > 0) for row in swept["rows"]] == [("FP16", True)] * 2


def test_formats_of_ones_own_are_weighed_beside_the_same_others(folder) -> None:
    question = ("recommend", "-M", "1", "-N", "4096", "-K", "4096", "--hw", "chip.toml", "--json")
    without = {row["format"] for row in json.loads(asked(*question))["candidates"]}
    with_file = {row["format"] for row in json.loads(asked(*question, "--formats-file", "my.toml"))["candidates"]}
    assert with_file == without | {"MYFP5"}
    assert len(without) > 2


def test_the_default_limit_of_the_loss_holds_for_ideal_times_too(folder) -> None:
    for chip in ("mi300x", "chip.toml"):
        answer = json.loads(asked("recommend", "-M", "1", "-N", "8192", "-K", "8192", "--hw", chip, "--json"))
        assert answer["best"]["format"] in ("FP8_E4M3", "INT8")


def test_a_new_chip_lists_what_is_missing_until_it_is_filled_in(folder) -> None:
    asked("hardware", "new", "My Chip")
    file = folder / "my-chip.toml"
    text = file.read_text(encoding="utf-8")
    assert tomllib.loads(text)["name"] == "My Chip"
    checked = runner.invoke(app, ["hardware", "check", "my-chip.toml"])
    assert checked.exit_code == 1
    for place in ("memory.bandwidth.value", "memory.bandwidth.source", "peak 1.dense.value", "peak 1.dense.source"):
        assert place in checked.stdout
    predicted = runner.invoke(app, ["predict", "gemv", "-N", "64", "-K", "64", "--hw", "my-chip.toml"])
    assert predicted.exit_code == 2
    assert TO_FILL_IN in predicted.output
    filled = text.replace(f'value = "{TO_FILL_IN}"', "value = 500").replace(f'source = "{TO_FILL_IN}"', 'source = "me"')
    file.write_text(filled, encoding="utf-8")
    assert errors_of(check_device(get_hardware(file))) == []
    # And so is every part that was behind a #.
    whole = "\n".join(line[2:] if re.match(r"# (\[|\w+ = )", line) else line for line in filled.splitlines())
    whole = re.sub(r"(bandwidth = .*)\n(capacity = .*24)", r"\1\n\2", whole)
    file.write_text(whole, encoding="utf-8")
    chip = get_hardware(file)
    assert {"FP16", "INT8"} == set(chip.paths)
    assert {"clock_max", "tdp"} == set(chip.chip)
    assert chip.capacity is not None
    assert chip.last_level_cache is not None


def test_a_new_chip_overwrites_nothing(folder) -> None:
    asked("hardware", "new", "x", "-o", "mine.toml")
    before = (folder / "mine.toml").read_text(encoding="utf-8")
    refused = runner.invoke(app, ["hardware", "new", "y", "-o", "mine.toml"])
    assert refused.exit_code == 2
    assert "-o" in refused.output
    assert (folder / "mine.toml").read_text(encoding="utf-8") == before


@pytest.mark.parametrize("name", ["!!", "", "x" * 300, "a\nb"])
def test_a_name_that_no_chip_can_have_is_refused(name: str) -> None:
    done = runner.invoke(app, ["hardware", "new", name])
    assert done.exit_code == 2
    assert len(done.output.strip().splitlines()) == 1


def test_any_name_gives_a_file_that_can_be_read() -> None:
    for name in ("A 100", 'quo"te', "naïve chip", "back\\slash", "{key}"):
        assert tomllib.loads(new_chip_text(name))["name"] == name
