from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from roofline_cli.main import app
from roofline_model.models.strategies.operator_type import OperatorType
from roofline_model.models.strategies.strategies import STRATEGIES, get_strategy
from roofline_model.models.strategies.strategy_file import write_strategy

runner = CliRunner()
LLAMA = ("--model", "llama-3-8b", "--hw", "gb10")


def run(*arguments: str, columns: int | None = None):
    return runner.invoke(
        app, ["predict", "model", "--all", *arguments], env={"COLUMNS": str(columns) if columns else ""}
    )


@pytest.mark.parametrize("columns", [80, 120])
def test_a_strategy_shows_time_memory_and_every_operators_format(columns: int) -> None:
    result = run(*LLAMA, "--strategy", "nvfp4_blackwell", columns=columns)
    assert result.exit_code == 0, result.output
    assert max(len(line) for line in result.stdout.splitlines()) <= columns
    text = " ".join(result.stdout.split())
    for operator in OperatorType:
        assert f"{operator.value} all " in text
    assert "ffn_gate all NVFP4.FP16 decoded first" in text
    assert "Memory: weights" in text
    assert "against fp16_baseline: " in text
    assert "(72 % of the layers' matrices)" in text
    assert "nvfp4_blackwell, claimed by an early design document of this project" in text
    assert "not used here" in text


def test_several_strategies_and_formats_are_compared() -> None:
    result = run(
        *LLAMA,
        "--strategy",
        "fp8_balanced",
        "--strategy",
        "w4a16_aggressive",
        "--formats",
        "FP16",
        "--batch",
        "1,8",
        "--json",
    )
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    names = ["fp8_balanced", "w4a16_aggressive", "FP16"]
    assert [prediction["formats"] for prediction in document["predictions"]] == [name for name in names for _ in (1, 8)]
    gains = {
        (entry["strategy"]["name"], entry["batch_count"]): entry["gain_over_fp16"] for entry in document["strategies"]
    }
    assert set(gains) == {(name, batch) for name in names[:2] for batch in (1, 8)}
    times = {
        (prediction["formats"], prediction["batch_count"]): prediction["time_s"]
        for prediction in document["predictions"]
    }
    for (name, batch), gain in gains.items():
        assert gain["speedup"] == pytest.approx(gain["baseline_s"] / times[name, batch])
    text = run(*LLAMA, "--strategy", "fp8_balanced", "--formats", "FP16", columns=100).stdout
    assert "fp8_balanced at batch 1 against fp16_baseline" in text


def test_json_of_one_strategy_holds_paths_gain_and_claims() -> None:
    document = json.loads(run(*LLAMA, "--strategy", "layerwise_gradient", "--json").stdout)
    (strategy,) = document["strategies"]
    assert document["predictions"][0]["formats"] == "layerwise_gradient"
    assert strategy["claims"]["speedup"] == 2.5
    assert strategy["strategy"]["layer_count"] == 32
    ups = [operator for operator in strategy["operators"] if operator["operator"] == "ffn_up"]
    assert [
        (
            run_of_layers["first_layer_index"],
            run_of_layers["last_layer_index"],
            run_of_layers["weights"],
            run_of_layers["path"],
        )
        for run_of_layers in ups
    ] == [
        (0, 10, "FP16", "native"),
        (11, 21, "FP8_E4M3", "dequantize"),
        (22, 31, "NVFP4", "dequantize"),
    ]
    assert "strategies" not in json.loads(run(*LLAMA, "--json").stdout)


@pytest.mark.parametrize("chip", ["b10", "gb10", "h100", "h200"])
def test_every_named_strategy_is_predicted_on_every_chip(chip: str) -> None:
    named = [argument for name in STRATEGIES for argument in ("--strategy", name)]
    result = run("--model", "llama-3-8b", "--hw", chip, *named, "--json")
    assert result.exit_code == 0, result.output
    by_formats = {prediction["formats"]: prediction for prediction in json.loads(result.stdout)["predictions"]}
    assert set(by_formats) == set(STRATEGIES)
    assert all(prediction["time_s"] > 0 for prediction in by_formats.values())
    assert all(
        (prediction["expected"] is None) == (chip == "b10") for prediction in by_formats.values()
    )  # a placeholder was never measured


def test_operators_of_one_block_may_differ(tmp_path: Path) -> None:
    path = tmp_path / "each.toml"
    path.write_text(
        'schema = 1\nname = "each"\nkv_cache_precision = "FP8"\n'
        'operator_precisions = { q_proj = "FP8", k_proj = "INT8", v_proj = "FP8", ffn_down = "INT4", qk_matmul = '
        '"FP8", sv_matmul = "FP8" }\n'
    )
    kernels = json.loads(run(*LLAMA, "--strategy", str(path), "--json").stdout)["predictions"][0]["kernels"]
    formats = {kernel["name"]: kernel["formats"] for kernel in kernels}
    assert (formats["qv_proj"]["b"], formats["k_proj"]["b"]) == ("FP8_E4M3", "INT8")
    assert (formats["gate_up_proj"]["b"], formats["down_proj"]["b"]) == ("FP16", "INT4")
    assert formats["attention"] == {"q": "FP8_E4M3", "kv": "FP8_E4M3", "o": "FP16"}
    text = run(*LLAMA, "--strategy", str(path), columns=100).stdout
    assert "quantize_query" in text
    assert "decode with FP8_E4M3 queries was not measured" in " ".join(text.split())


def test_a_gradient_takes_the_models_depth() -> None:
    result = run("--model", "llama-3.1-70b", "--hw", "gb10", "--strategy", "layerwise-gradient")
    assert result.exit_code == 0, result.output
    assert "54-79" in result.stdout  # the last third of 80 layers


@pytest.mark.parametrize("suffix", ["toml", "json"])
def test_a_strategy_from_a_file(tmp_path: Path, suffix: str) -> None:
    path = write_strategy(get_strategy("hybrid_long_context").with_name("mine"), tmp_path / f"mine.{suffix}")
    document = json.loads(run(*LLAMA, "--strategy", str(path), "--json").stdout)
    assert document["predictions"][0]["formats"] == "mine"
    assert document["predictions"][0]["kv_format"] == "NVFP4"
    assert document["strategies"][0]["claims"] is None


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("--strategy nvfp4", "unknown strategy 'nvfp4'. Did you mean nvfp4_blackwell"),
        ("--strategy absent.toml", "absent.toml does not exist"),
        ("--strategy fp8_balanced --kv FP8", "--kv and --set change --formats"),
        ("--strategy fp8_balanced --set lm_head=FP8", "--kv and --set change --formats"),
        ("--strategy fp8_balanced --strategy FP8-balanced", "two strategies are called 'fp8_balanced'"),
        (
            "--strategy narrow.toml",
            "kv_cache=FP16 is wider than qk_matmul=FP8_E4M3; no kernel narrows the cache on the way",
        ),
        ("--strategy deep.toml", "deep is made for 4 layers, llama-3-8b has 32"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(
    arguments: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    head = 'schema = 1\nname = "{}"\n'
    for name, body in (
        ("narrow", 'operator_precisions = { qk_matmul = "FP8", sv_matmul = "FP8" }'),
        ("deep", "layer_count = 4\noperator_precisions = {}"),
    ):
        Path(f"{name}.toml").write_text(head.format(name) + body)
    result = run(*LLAMA, *arguments.split())
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert words in result.stderr


def test_a_chip_that_cannot_run_it_is_named(tmp_path: Path) -> None:
    (tmp_path / "chip.toml").write_text(
        'schema = 1\nkey = "tiny"\nname = "Tiny"\nkind = "custom"\n'
        '[memory]\nbandwidth = { value = 100, unit = "GB/s", status = "declared", source = "test" }\n'
        '[[peak]]\nformats = ["INT8"]\ndense = { value = 10, unit = "TOPS", status = "declared", source = "test" }\n'
    )
    result = run("--model", "llama-3-8b", "--hw", str(tmp_path / "chip.toml"), "--strategy", "fp8_balanced")
    assert result.exit_code == 2
    assert "fp8_balanced: q_proj=FP8_E4M3 (and " in result.stderr
    assert "tiny has no rate for FP8_E4M3" in result.stderr
