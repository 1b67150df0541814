"""`roofline validate` on a table of engine runs."""

from __future__ import annotations

import csv
import json

import pytest
from typer.testing import CliRunner

from roofline_cli.main import app

runner = CliRunner()
COLUMNS = ("chip", "engine", "base_model", "weight_format", "kv_format", "load", "concurrency", "input_len", "output_len",
           "tpot_s", "ttft_s", "power_w", "comparable", "speculative", "model_class")  # fmt: skip
ROWS = (
    ("gb10", "vllm", "granite-4.1-8b", "BF16", "FP8_E4M3", "single", 1, 2048, 512, 0.0799, 0.509, 49.5, "True", "", "dense"),
    ("gb10", "llama.cpp", "qwen3-14b", "Q4_K_M", "", "single", 1, 30, 300, 0.044, "", "", "True", "", "dense"),
    ("h100-sxm", "vllm", "llama-3.1-8b", "FP8_E4M3", "", "closed", 8, 1024, 1024, 0.0055, 0.08, "", "True", "", "dense"),
    ("gb10", "vllm", "granite-4.1-8b", "BF16", "FP8_E4M3", "single", 1, 2048, 512, 0.03, "", "", "True", "mtp:2", "dense"),
    ("gb10", "vllm", "nobody-9b", "BF16", "", "single", 1, 2048, 512, 0.05, "", "", "True", "", "dense"),
    ("rtx-5090", "vllm", "granite-4.1-8b", "BF16", "", "single", 1, 2048, 512, 0.02, "", "", "True", "", "dense"),
)  # fmt: skip


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "runs.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([COLUMNS, *ROWS])
    return path


def test_errors_are_told_by_engine_and_chip_without_rows_that_speculate(table):
    document = json.loads(runner.invoke(app, ["validate", str(table), "--json"]).stdout)
    assert document["row_count"] == 6
    assert document["scored_count"] == 5
    groups = {(group["engine"], group["chip"], group["quantity"]): group for group in document["groups"]}
    assert groups["vllm", "gb10", "tpot"]["row_count"] == 1
    assert groups["vllm", "gb10", "tpot"]["median_ratio"] == pytest.approx(0.03, abs=0.02)
    assert groups["llama.cpp", "gb10", "tpot"]["median_ratio"] < 0.05
    assert ("llama.cpp", "gb10", "ttft") not in groups  # prompts of llama.cpp were never fitted
    assert groups["vllm", "gb10", "power"]["row_count"] == 1
    reasons = [each["reason"] for each in document["reasons"]]
    assert any("nobody-9b" in reason for reason in reasons)
    assert any("no constants for rtx-5090" in reason for reason in reasons)


def test_predictions_stand_beside_each_row_with_intervals_or_a_reason(table, tmp_path):
    out = tmp_path / "out.csv"
    assert runner.invoke(app, ["validate", str(table), "--predictions", str(out)]).exit_code == 0
    rows = list(csv.DictReader(out.open()))
    assert len(rows) == len(ROWS)
    for row in rows[:3]:
        low, expected, high = (float(row[f"tpot_expected{end}_s"]) for end in ("_low", "", "_high"))
        assert low < expected < high
        assert row["reason"] == ""
    assert float(rows[0]["power_expected_w"]) == pytest.approx(45, rel=0.2)
    assert rows[4]["tpot_expected_s"] == ""
    assert "nobody-9b" in rows[4]["reason"]


def test_a_model_that_is_not_shipped_is_read_from_a_folder(table, tmp_path):
    config = {
        "hidden_size": 4096,
        "num_hidden_layers": 36,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "intermediate_size": 12288,
        "vocab_size": 150000,
    }
    (tmp_path / "owner--Nobody-9B_config.json").write_text(json.dumps(config))
    document = json.loads(runner.invoke(app, ["validate", str(table), "--model-dir", str(tmp_path), "--json"]).stdout)
    assert not any("nobody-9b" in each["reason"] for each in document["reasons"])


def test_a_format_that_a_row_does_not_name_is_the_makers_own_and_an_open_load_needs_its_rate(tmp_path):
    path, out = tmp_path / "runs.csv", tmp_path / "out.csv"
    header = "chip,engine,base_model,weight_format,load,concurrency,input_len,output_len,tpot_s"
    rows = [
        "gpt-oss-120b,,single,1",
        "gpt-oss-120b,MXFP4,single,1",
        "openai/gpt-oss-120b,MXFP4,single,1",
        "qwen3-32b,BF16,open,",
    ]
    path.write_text("\n".join([header, *(f"gb10,vllm,{row},1024,256,0.03" for row in rows)]))
    assert runner.invoke(app, ["validate", str(path), "--predictions", str(out)]).exit_code == 0
    unnamed, named, owned, opened = csv.DictReader(out.open())
    assert unnamed["tpot_expected_s"] == named["tpot_expected_s"] == owned["tpot_expected_s"] != ""
    assert float(named["tpot_expected_s"]) < 0.03
    assert "open load needs request_rate_per_s" in opened["reason"]


def test_rows_of_ollama_and_mlx_have_the_files_that_these_fetch(tmp_path):
    path, out = tmp_path / "runs.csv", tmp_path / "out.csv"
    header = "chip,engine,model,base_model,weight_format,load,input_len,output_len,tpot_s,notes"
    rows = [
        "apple-m5-max,ollama,granite4.1:8b,granite-4.1-8b,,single,30,200,0.01,",
        "apple-m5-max,ollama,granite4.1:8b,granite-4.1-8b,Q4_K_M,single,30,200,0.01,",
        "apple-m5-max,ollama,qwen3.5:4b-mlx,qwen3.5-4b,,single,30,200,0.01,",
        "apple-m5-max,mlx,Qwen3.5-4B-4bit,qwen3.5-4b,4BIT,single,30,200,0.01,",
        "apple-m5-max,mlx,Qwen3.5-4B-4bit,qwen3.5-4b,4BIT,single,30,200,0.01,tpot_s = wall time / output tokens",
        "apple-m5-max,mlx,Qwen3.5-4B,qwen3.5-4b,Q4_K_M,single,30,200,0.01,",
    ]
    path.write_text("\n".join([header, *rows]))
    assert runner.invoke(app, ["validate", str(path), "--predictions", str(out)]).exit_code == 0
    *answered, refused = csv.DictReader(out.open())
    unnamed, named, tagged, plain, whole = (float(row["tpot_expected_s"]) for row in answered)
    assert unnamed == named
    assert tagged == plain < unnamed
    assert whole == pytest.approx(plain * (1 + 4 / 200))
    assert "MLX loads no checkpoint in Q4_K_M" in refused["reason"]


def test_a_row_that_is_short_or_not_finite_is_answered_or_has_a_reason(tmp_path):
    path, out = tmp_path / "runs.csv", tmp_path / "out.csv"
    header = "chip,engine,base_model,weight_format,concurrency,input_len,output_len,tpot_s"
    rows = ["gb10,vllm,qwen3-32b,BF16,inf,1024,256,0.03", "gb10,vllm", "gb10,vllm,qwen3-32b,BF16,1,1e400,256,0.03"]
    path.write_text("\n".join([header, *rows]))
    assert runner.invoke(app, ["validate", str(path), "--predictions", str(out)]).exit_code == 0
    endless, short, _ = csv.DictReader(out.open())
    assert endless["tpot_expected_s"] != ""
    assert short["tpot_expected_s"] == "" != short["reason"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--cross-validate"], "a table of engine runs is compared with the shipped constants alone"),
        (["--model-dir", "absent"], "--model-dir absent is no folder"),
    ],
)
def test_what_does_not_fit_a_table_of_engines_is_one_line(table, arguments, message):
    done = runner.invoke(app, ["validate", str(table), *arguments])
    assert done.exit_code == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_table_without_lengths_names_the_column(tmp_path):
    path = tmp_path / "runs.csv"
    path.write_text("chip,engine,base_model,tpot_s\ngb10,vllm,qwen3-14b,0.04\n")
    done = runner.invoke(app, ["validate", str(path)])
    assert done.exit_code == 2
    assert "has no column input_len and no column output_len" in done.stderr
