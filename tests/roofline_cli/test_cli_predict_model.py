"""`roofline predict model` as typed: tables at both widths, JSON, comparisons, and one line for every mistake."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from roofline_cli.main import app

runner = CliRunner()


def run(*arguments: str, columns: int | None = None):
    environment = {"COLUMNS": str(columns) if columns else ""}
    return runner.invoke(app, ["predict", "model", *arguments], env=environment)


def document(*arguments: str):
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("model", ["llama-3-8b", "gpt-oss-120b", "deepseek-v3", "gemma-3-27b", "phi-2"])
def test_no_line_is_wider_than_the_screen(model: str, columns: int) -> None:
    result = run("--model", model, "--hw", "gb10", "--context", "2048", columns=columns)
    assert result.exit_code == 0, result.output
    assert max(len(line) for line in result.stdout.splitlines()) <= columns
    assert "memory" in result.stdout


def test_the_table_names_operators_bounds_totals_and_memory() -> None:
    result = run("--model", "llama-3-8b", "--hw", "b10", "--formats", "FP16", "--context", "4096")
    text = result.stdout
    for words in (
        "qkv_proj",
        "gate_up_proj",
        "attention",
        "lm_head",
        "Ideal pass",
        "tokens/s",
        "CUDA graph",
        "323 kernels",
    ):
        assert words in text
    assert "Time to first token" in text
    assert "weights 16.06 GB + KV cache 536.9 MB" in text
    assert "states no capacity" in text  # the placeholder has none
    assert "114,512 tokens per sequence, beyond its 8,192" in text
    assert "No expected time: qkv_proj:" in text
    assert "config.json of meta-llama/Meta-Llama-3-8B" in text
    assert "placeholders" in text


def test_prefill_says_prompt_tokens() -> None:
    text = run("--model", "llama-3-8b", "--hw", "b10", "--phase", "prefill", "--context", "2048").stdout
    assert "prompt tokens/s" in text
    assert "compute" in text
    assert "new=" not in text
    assert (
        "new=256"
        in run(
            "--model", "llama-3-8b", "--hw", "b10", "--phase", "prefill", "--context", "2048", "--new-tokens", "256"
        ).stdout
    )


def test_json_holds_every_number_with_its_unit() -> None:
    found = document("--model", "gpt-oss-20b", "--hw", "gb10")
    assert found["parameter_count"] == 20_914_757_184
    assert found["formats"] == "checkpoint (BF16, experts MXFP4)"
    assert found["time_s"] == pytest.approx(sum(one["time_s"] for one in found["operators"]))
    assert found["launch_count"] == sum(one["calls_count"] for one in found["operators"])
    assert found["memory"]["fits"] is True
    assert found["kv_crossover_tokens"] > 131072
    assert {one["bound"] for one in found["operators"]} <= {"memory", "compute"}
    assert found["model_shape"]["window_pattern"] == "WF"
    expected = found["expected"]
    assert found["expected_reason"] is None
    assert expected["low_s"] < expected["time_s"] < expected["high_s"]
    assert expected["time_s"] > found["time_s"]
    calls = sum(one["expected_call_s"] * one["calls_count"] for one in found["operators"])
    assert calls == pytest.approx(expected["time_s"])


def test_several_formats_and_batches_are_compared() -> None:
    found = document("--model", "llama-3.1-70b", "--hw", "gb10", "--formats", "BF16,NVFP4", "--batch", "1,8")
    rows = [(one["formats"], one["batch_count"]) for one in found["predictions"]]
    assert rows == [("BF16", 1), ("BF16", 8), ("NVFP4", 1), ("NVFP4", 8)]
    assert [one["memory"]["fits"] for one in found["predictions"]] == [False, False, True, True]
    for columns in (80, 120):
        result = run(
            "--model", "llama-3.1-70b", "--hw", "gb10", "--formats", "BF16,NVFP4", "--batch", "1,8", columns=columns
        )
        assert max(len(line) for line in result.stdout.splitlines()) <= columns
        assert result.stdout.count("NVFP4") == 2


def test_formats_by_part_and_layer() -> None:
    found = document(
        "--model",
        "llama-3-8b",
        "--hw",
        "gb10",
        "--formats",
        "NVFP4",
        "--kv",
        "FP8",
        "--set",
        "ffn@0-3=FP8",
        "--set",
        "lm_head=BF16",
    )
    formats = {
        (one["name"], one["formats"]["b"]): one["calls_count"] for one in found["operators"] if "b" in one["formats"]
    }
    assert formats[("gate_up_proj", "FP8_E4M3")] == 4
    assert formats[("gate_up_proj", "NVFP4")] == 28
    assert formats[("lm_head", "BF16")] == 1
    assert found["kv_format"] == "FP8_E4M3"
    assert found["formats"] == "NVFP4 ffn@0-3=FP8 lm_head=BF16"


def test_a_config_json_is_read(tmp_path: Path) -> None:
    config = {
        "architectures": ["LlamaForCausalLM"], "hidden_act": "silu", "hidden_size": 64, "intermediate_size": 128,
        "max_position_embeddings": 4096, "num_attention_heads": 4, "num_hidden_layers": 2, "vocab_size": 100, "torch_dtype": "bfloat16",
    }  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(config))
    found = document("--model", str(tmp_path), "--hw", "b10")
    assert found["model_shape"]["layer_count"] == 2
    assert found["parameter_count"] == 2 * 100 * 64 + 2 * (4 * 64 * 64 + 3 * 64 * 128 + 2 * 64) + 64


def test_several_devices() -> None:
    found = document("--model", "llama-3.1-405b", "--hw", "h100-sxm", "--tensor-parallel", "16", "--link-gb-s", "450")
    assert found["device_count"] == 16
    assert found["all_reduce_s"] > 0
    assert found["memory"]["fits"] is True
    text = run("--model", "llama-3.1-70b", "--hw", "h100-sxm", "--tensor-parallel", "2", "--link-gb-s", "450").stdout
    assert "all_reduce" in text
    assert "2 × h100-sxm" in text
    assert "Memory on each device" in text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("--model llama-3-9b", "unknown model 'llama-3-9b'. Did you mean llama-3-8b"),
        ("--model absent.json", "does not exist"),
        ("--model llama-3-8b --context 8193", "more than llama-3-8b declares: max_position_embeddings 8,192"),
        ("--model llama-3-8b --context 0", "--context must be a whole number from 1"),
        ("--model llama-3-8b --context many", "--context must be a whole number"),
        ("--model llama-3-8b --batch 1,,8", "--batch has an empty entry"),
        ("--model llama-3-8b --batch -1", "--batch must be a whole number"),
        ("--model llama-3-8b --phase both", "--phase must be decode or prefill, got 'both'"),
        ("--model llama-3-8b --new-tokens 9000", "new_tokens 9000 must not exceed context 4096"),
        ("--model llama-3-8b --formats FP17", "Did you mean FP16"),
        ("--model llama-3-8b --formats INT8.FP8", "contradict each other"),
        ("--model llama-3-8b --formats BF16.FP8", "weights BF16 are wider than activations FP8_E4M3"),
        ("--model llama-3-8b --formats FP8.FP8.FP8 --kv BF16", "the KV format is given twice"),
        ("--model llama-3-8b --set head=FP8", "unknown part 'head'. Did you mean lm_head"),
        ("--model llama-3-8b --set ffn", "is not PART[@LAYERS]=FORMATS"),
        ("--model llama-3-8b --set ffn@40=FP8", "has layers 0 to 31"),
        ("--model llama-3-8b --set experts=FP8", "llama-3-8b has no experts"),
        ("--model llama-3-8b --tensor-parallel 2", "needs the speed of one device's link; give it, e.g. --link-gb-s"),
        ("--model llama-3-8b --tensor-parallel 3 --link-gb-s 450", "query_heads 32 cannot be divided among 3"),
        ("--model llama-3-8b --link-gb-s fast", "--link-gb-s must be a positive number of GB/s, got 'fast'"),
        ("--hw b10", "Missing option '--model'"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line_and_exit_code_2(arguments: str, words: str) -> None:
    typed = arguments.split()
    result = run(*typed, *([] if "--hw" in typed else ["--hw", "b10"]))
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert words in result.stderr
    assert len(result.stderr) < 900


def test_help_names_every_option() -> None:
    result = run("--help")
    assert result.exit_code == 0
    for option in (
        "--model",
        "--hw",
        "--phase",
        "--context",
        "--batch",
        "--formats",
        "--kv",
        "--set",
        "--tensor-parallel",
        "--json",
    ):
        assert option in result.stdout
