"""`roofline predict`, `recommend`, `formats` and `compare --no-measure`: the seeds' tables, JSON keys, user formats."""

from __future__ import annotations

import itertools
import json
import re

import pytest
from typer.testing import CliRunner

from roofline_cli.main import app

runner = CliRunner()

Q4_K = """
[Q4_K]
kind = "int"
element_bits = 4
scales = [{bits = 12, block_elems = 32}, {bits = 32, block_elems = 256}]
"""


@pytest.fixture(autouse=True)
def _plain(monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.fixture
def own_format(tmp_path, monkeypatch):
    from roofline_model.formats import catalog as formats

    monkeypatch.setattr(formats, "_USER_FORMATS", {})
    file = tmp_path / "mine.toml"
    file.write_text(Q4_K)
    return str(file)


def invoke(*arguments: str) -> str:
    """Run a command to its end; `predict` with everything that it can show."""
    details = ["--all"] if arguments[0] == "predict" and "--json" not in arguments else []
    result = runner.invoke(app, [*arguments, *details])
    assert result.exit_code == 0, result.output
    return result.stdout


def details(text: str) -> str:
    """Return what `--all` adds to an answer."""
    return text.partition("\n\n")[2]


def table_rows(text: str) -> dict[str, list[str]]:
    """The lines of a table by their first word; times are two words."""
    return {line.split()[0]: line.split() for line in text.splitlines() if line.strip()}


def test_gemv_prints_the_table_of_the_original_documents():
    rows = table_rows(invoke("predict", "gemv", "-N", "4096", "-K", "4096", "--hw", "b10"))
    # time, AI, critical AI, speed-up, bound: SEED_FIGURES "Reproduce exactly"
    expected = {
        "FP16": ["33.57", "µs", "1.00", "200", "1.0×", "memory", "native"],
        "FP8": ["16.79", "µs", "2.00", "400", "2.0×", "memory", "native"],
        "INT8": ["16.79", "µs", "2.00", "400", "2.0×", "memory", "native"],
        "NVFP4": ["9.51", "µs", "3.53", "800", "3.5×", "memory", "native"],
        "INT4": ["8.40", "µs", "4.00", "800", "4.0×", "memory", "native"],
    }
    widths = {"FP16": [], "FP8": ["(W8A8)"], "INT8": ["(W8A8)"], "NVFP4": ["(W4A4)"], "INT4": ["(W4A4)"]}
    for name, cells in expected.items():
        assert rows[name][1:] == [*widths[name], *cells]


def test_gemm_prints_the_compute_bound_table():
    rows = table_rows(invoke("predict", "gemm", "-M", "2048", "-N", "4096", "-K", "4096", "--hw", "b10"))
    cells = {
        name: [cell for cell in rows[name] if "(W" not in cell] for name in ("FP16", "FP8", "INT8", "NVFP4", "INT4")
    }
    times = {name: float(row[1]) for name, row in cells.items()}
    assert times == pytest.approx({"FP16": 343.6, "FP8": 171.8, "INT8": 171.8, "NVFP4": 85.9, "INT4": 85.9}, abs=0.05)
    assert [row[3] for row in cells.values()] == ["1024", "1638", "1638", "2215", "2341"]  # AI with FP16 output
    assert {row[6] for row in cells.values()} == {"compute"}


def test_predict_json_carries_si_units():
    data = json.loads(invoke("predict", "gemv", "-N", "4096", "-K", "4096", "--hw", "B10", "--json"))
    int4 = data["predictions"][-1]
    assert [int4[name] for name in ("hardware", "op", "M", "N", "K")] == ["b10", "gemv", 1, 4096, 4096]
    assert int4["is_placeholder"] is True
    assert int4["baseline_format"] == "FP16"
    assert int4["format"] == "INT4.INT4"
    # weight 4096² / 2, activation 4096 / 2, FP16 output 2 · 4096, at 1000 GB/s
    assert int4["time_s"] == pytest.approx((4096**2 / 2 + 4096 / 2 + 2 * 4096) / 1e12)
    assert int4["flops"] == 2 * 4096**2
    assert set(data) == {"schema_version", "predictions", "excluded", "findings"}


def test_mixed_formats_and_their_notes_are_numbered():
    text = invoke(
        "predict",
        "gemm",
        "-M",
        "64",
        "-N",
        "4096",
        "-K",
        "4096",
        "--hw",
        "b10",
        "--formats",
        "BF16,INT4.BF16",
        "--formats",
        "NF4.NF4",
    )
    assert "INT4 (W4A16)" in text
    assert "dequantize  [1] [2]" in text
    assert "[1] INT4 weights are widened to BF16 before the product" in text
    assert "[2] INT4 weights carry a 16-bit scale per 128: 4.125 bits each" in text
    assert "[3] the documents name no unit" in text


def test_a_format_is_listed_once_however_often_it_was_typed():
    data = json.loads(
        invoke("predict", "gemv", "-N", "64", "-K", "64", "--hw", "b10", "--formats", "INT8,INT8.BF16,int8", "--json")
    )
    assert [row["format"] for row in data["predictions"]] == ["INT8.BF16"]


def test_default_formats_a_chip_cannot_compute_are_left_out_with_the_reason(tmp_path):
    chip = tmp_path / "tiny.toml"
    chip.write_text(
        'schema = 1\nkey = "tiny"\nname = "Tiny"\nkind = "custom"\n'
        '[memory]\nbandwidth = {value = 50, unit = "GB/s", status = "declared", source = "me"}\n'
        '[[peak]]\nformats = ["INT8"]\ndense = {value = 4, unit = "TOP/s", status = "declared", source = "me"}\n'
    )
    data = json.loads(invoke("predict", "gemv", "-N", "4096", "-K", "4096", "--hw", str(chip), "--json"))
    assert [row["format"] for row in data["predictions"]] == ["INT8.INT8"]
    assert data["predictions"][0]["speedup_ratio"] is None
    assert data["predictions"][0]["baseline_format"] is None
    assert {row["key"] for row in data["excluded"]} == {"FP16", "FP8_E4M3", "NVFP4", "INT4"}
    text = invoke("predict", "gemv", "-N", "4096", "-K", "4096", "--hw", str(chip))
    assert "left out: FP16, FP8_E4M3, NVFP4, INT4: tiny declares no such rate (--formats" in text
    result = runner.invoke(app, ["predict", "gemv", "-N", "4096", "-K", "4096", "--hw", str(chip), "--formats", "FP16"])
    assert result.exit_code == 2
    assert "tiny has no rate for FP16" in result.stderr


def test_user_formats_are_predicted_as_weight_only(own_format):
    data = json.loads(
        invoke("predict", "gemv", "-N", "4096", "-K", "4096", "--hw", "b10", "--formats-file", own_format, "--json")
    )
    own_row = data["predictions"][-1]
    assert (own_row["format"], own_row["path"]) == ("Q4_K.FP16", "dequantize")
    # 4.5 bits per weight, 16-bit activation and output
    assert own_row["time_s"] == pytest.approx((4096**2 * 4.5 / 8 + 2 * 4096 + 2 * 4096) / 1e12)


def test_recommend_names_the_winner_of_the_original_documents():
    text = invoke("recommend", "-M", "1", "-N", "4096", "-K", "4096", "--hw", "b10")
    assert text.startswith(
        "Take INT4 (W4A4), AWQ: ideal (at rated speed) 8.40 µs, 4.0× FP16; saves 75 % of the weight bytes."
    )
    text = invoke("recommend", "-M", "2048", "-N", "4096", "-K", "4096", "--hw", "b10")
    assert text.startswith("Take NVFP4 (W4A4): ideal (at rated speed) ")
    assert " 4.0× FP16; saves 72 % of the weight bytes." in text


def test_recommend_json_and_memory_limit():
    arguments = [
        "recommend",
        "-M",
        "1",
        "-N",
        "4096",
        "-K",
        "4096",
        "--hw",
        "b10",
        "--memory-limit-gb",
        "6",
        "--model-parameters",
        "8.03e9",
    ]
    data = json.loads(invoke(*arguments, "--json"))
    assert set(data) == {
        "schema_version",
        "hardware",
        "phase",
        "M",
        "N",
        "K",
        "precision",
        "method",
        "short_answer",
        "summary",
        "reason",
        "fits_memory_limit",
        "ranked_by",
        "best",
        "baseline",
        "candidates",
        "excluded",
        "findings",
    }
    assert data["fits_memory_limit"] is True
    assert data["phase"] == "decode"
    assert data["best"]["format"] == "INT4"
    assert data["best"]["memory_bytes"] == pytest.approx(8.03e9 / 2)
    assert all(candidate["memory_bytes"] <= 6e9 for candidate in data["candidates"])
    excluded = {row["format"]: row["reason"] for row in data["excluded"]}
    assert "16.06 GB" in excluded["FP16"]
    assert "excluded: FP16" in invoke(*arguments, "--all")


def test_recommend_weighs_user_formats(own_format):
    data = json.loads(
        invoke(
            "recommend", "-M", "1", "-N", "4096", "-K", "4096", "--hw", "b10", "--formats-file", own_format, "--json"
        )
    )
    assert "Q4_K" in {candidate["format"] for candidate in data["candidates"]}


def test_formats_lists_the_catalog_with_aliases_and_overheads(own_format):
    rows = table_rows(invoke("formats", "--formats-file", own_format))
    assert rows["NVFP4"][1:5] == ["4.53125", "0.566", "11.7", "%"]
    assert rows["MXFP4"][1:5] == ["4.25", "0.531", "5.9", "%"]
    assert rows["TF32"][1:3] == ["19", "2.375"]
    assert rows["Q4_K"][1:3] == ["4.5", "0.562"]
    data = json.loads(invoke("formats", "--json"))
    by_key = {fmt["key"]: fmt for fmt in data["formats"]}
    assert by_key["FP8_E4M3"]["aliases"] == ["FP8"]
    assert by_key["TF32"]["container_bits"] == 32
    assert len(by_key) == 18


def test_compare_without_measuring_shows_prediction_and_ranking():
    text = invoke("compare", "gemv", "-N", "4096", "-K", "4096", "--hw", "b10", "--no-measure")
    assert "33.57 µs" in text
    assert "Take INT4 (W4A4), AWQ: " in text
    data = json.loads(
        invoke("compare", "gemm", "-M", "2048", "-N", "4096", "-K", "4096", "--hw", "b10", "--no-measure", "--json")
    )
    assert data["is_measured"] is False
    assert data["run_id"] is None
    assert data["recommendation"]["best"]["format"] == "NVFP4"
    assert data["predictions"][0]["time_s"] == pytest.approx(343.6e-6, rel=1e-3)


def test_compare_ranks_only_the_formats_asked_for():
    data = json.loads(
        invoke(
            "compare",
            "gemv",
            "-N",
            "4096",
            "-K",
            "4096",
            "--hw",
            "b10",
            "--no-measure",
            "--formats",
            "FP16,INT8.FP16",
            "--json",
        )
    )
    assert [row["format"] for row in data["predictions"]] == ["FP16", "INT8.FP16"]
    assert {candidate["format"] for candidate in data["recommendation"]["candidates"]} == {"FP16", "INT8"}


def chip_file(path, *formats: str) -> str:
    """A user's chip with one rate for the formats given."""
    path.write_text(
        'schema = 1\nkey = "mine"\nname = "Mine"\nkind = "custom"\n'
        '[memory]\nbandwidth = {value = 50, unit = "GB/s", status = "declared", source = "me"}\n'
        f'[[peak]]\nformats = {list(formats)}\ndense = {{value = 4, unit = "TOP/s", status = "declared", source = '
        f'"me"}}\n'
    )
    return str(path)


def test_a_chip_without_fp16_starts_with_bf16_and_predicts_only_what_it_declares(tmp_path):
    chip = chip_file(tmp_path / "mine.toml", "BF16", "INT8")
    arguments = ["predict", "gemv", "-N", "4096", "-K", "4096", "--hw", chip]
    data = json.loads(invoke(*arguments, "--json"))
    assert [row["format"] for row in data["predictions"]] == ["BF16", "INT8.INT8"]
    assert "left out: FP8_E4M3, NVFP4, INT4: mine declares no such rate" in invoke(*arguments)
    requested = json.loads(invoke(*arguments, "--formats", "INT4.BF16", "--json"))["predictions"]
    assert [(row["format"], row["operands"], row["path"]) for row in requested] == [
        ("INT4.BF16", "W4A16", "dequantize")
    ]


def test_a_chip_without_any_default_format_says_what_to_name(tmp_path):
    chip = chip_file(tmp_path / "mine.toml", "FP64")
    result = runner.invoke(app, ["predict", "gemv", "-N", "64", "-K", "64", "--hw", chip])
    assert result.exit_code == 2
    assert "mine declares none of the default formats. Declared: FP64; name the formats to predict" in result.stderr


@pytest.mark.parametrize(("hw", "operands"), [("b10", "W4A4"), ("h100", "W4A16")])
def test_native_and_weight_only_int4_are_told_apart(hw, operands):
    arguments = ["-M", "1", "-N", "4096", "-K", "4096", "--hw", hw]
    assert f"INT4 ({operands})" in invoke("recommend", *arguments)
    assert f"INT4 ({operands})" in invoke("compare", "gemv", *arguments[2:], "--no-measure")
    candidates = json.loads(invoke("recommend", *arguments, "--json"))["candidates"]
    assert {candidate["format"]: candidate["operands"] for candidate in candidates}["INT4"] == operands


def test_nothing_fits_is_no_recommendation():
    arguments = ["recommend", "-M", "1", "-N", "4096", "-K", "4096", "--hw", "b10", "--memory-limit-gb", "3"]
    result = runner.invoke(app, [*arguments, "--model-parameters", "8e9"])
    assert result.exit_code == 1
    assert "INT4" in result.stdout.splitlines()[0]
    assert "1 GB more" in result.stdout.splitlines()[0]
    assert "Best:" not in result.stdout
    assert "speedup" not in result.stdout
    assert "this one product" not in result.stdout
    result = runner.invoke(app, [*arguments, "--model-parameters", "8e9", "--json"])
    assert result.exit_code == 1
    data = json.loads(result.stdout)
    assert data["fits_memory_limit"] is False
    assert data["best"]["format"] == "INT4"


def test_a_limit_without_a_model_says_what_it_was_applied_to():
    arguments = ["recommend", "-M", "1", "-N", "4096", "-K", "4096", "--hw", "b10"]
    assert "this one product" in invoke(*arguments, "--memory-limit-gb", "3")
    assert (
        "this one product" in json.loads(invoke(*arguments, "--memory-limit-gb", "3", "--json"))["findings"][-1]["text"]
    )
    assert "this one product" not in invoke(*arguments)


# Expected times in the ranking and in the speed-ups ------------------------------------------------------------------


def test_recommend_and_predict_tell_one_story():
    """The fastest of the ranking is the fastest of the table: both go by expected times where the chip has them."""
    shape = ("-N", "4096", "-K", "4096", "--hw", "h100")
    ranked = json.loads(invoke("recommend", "-M", "1", *shape, "--json"))
    table = json.loads(invoke("predict", "gemv", *shape, "--formats", "FP16,FP8,INT4.FP16", "--json"))
    rows = {prediction["format"]: prediction for prediction in table["predictions"]}
    best = ranked["best"]
    assert (best["format"], best["time_source"], best["time_provenance"]) == ("FP8_E4M3", "expected", "fitted")
    assert best["time_s"] == rows["FP8_E4M3"]["expected"]["time_s"]
    assert best["low_s"] < best["time_s"] < best["high_s"]
    assert best["speedup_ratio"] == pytest.approx(rows["FP8_E4M3"]["expected_speedup_ratio"])
    assert best["ideal_speedup_ratio"] == pytest.approx(rows["FP8_E4M3"]["speedup_ratio"])
    assert (
        rows["FP8_E4M3"]["expected_speedup_ratio"]
        == rows["FP16"]["expected"]["time_s"] / rows["FP8_E4M3"]["expected"]["time_s"]
    )
    ends = [candidate["high_s"] for candidate in ranked["candidates"] if not candidate["kernel_gap"]]
    assert all(first <= 1.0501 * second for first, second in itertools.pairwise(ends))  # level ones go by time and loss


def test_recommend_shows_the_ideal_gain_beside_the_expected_one_and_says_which_ranks():
    shape = ("-M", "1", "-N", "4096", "-K", "4096")
    lines = invoke("recommend", *shape, "--hw", "h100", "--all").splitlines()
    header = next(line for line in lines if "Ideal gain" in line)
    assert {"Ideal", "Ideal gain", "Expected", "Gain"} <= {name.strip() for name in header.split("  ")}
    assert "3.9×" in next(line for line in lines[lines.index(header) :] if " INT4 " in line)
    assert "Ranked by the slow end of the 80 % interval" in "\n".join(lines)
    assert "Expected" not in invoke("recommend", *shape, "--hw", "b10")


def test_compare_without_measuring_ranks_by_expected_times():
    data = json.loads(invoke("compare", "gemv", "-N", "4096", "-K", "4096", "--hw", "h100", "--no-measure", "--json"))
    assert {candidate["time_source"] for candidate in data["recommendation"]["candidates"]} == {"expected"}
    assert data["recommendation"]["best"]["format"] == "FP8_E4M3"


@pytest.mark.parametrize(
    ("chip", "heading"), [("h100", "exp. vs FP16"), ("b10", "ideal vs FP16"), ("mi300x", "ideal vs FP16")]
)
def test_the_heading_says_which_times_a_speed_up_compares(chip, heading):
    text = invoke("predict", "gemm", "-M", "512", "-N", "4096", "-K", "4096", "--hw", chip)
    assert heading in details(text).splitlines()[0]


def test_the_interval_outlasts_the_intensities_on_a_narrow_screen(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    text = details(invoke("predict", "gemv", "-N", "4096", "-K", "4096", "--hw", "gb10"))
    assert "80 %" in text.splitlines()[0]
    assert "AI" in next(line for line in text.splitlines() if line.startswith("(left out"))
    assert max(map(len, text.splitlines())) <= 80


def test_a_row_has_one_unit():
    # 9.7 µs ideal and 10.7 µs expected were 9719.67 ns and µs; 1.86 ms stood beside an interval in ms as 1855.15 µs.
    for arguments in (("gemv", "-N", "1024", "-K", "1024"), ("gemm", "-M", "8192", "-N", "4096", "-K", "4096")):
        for line in invoke("predict", *arguments, "--hw", "gb10").splitlines():
            if re.match(r"(FP|INT|NV)\w+ ", line):
                assert len(set(re.findall(r"\d (ns|µs|ms|s)\b", line))) == 1, line
