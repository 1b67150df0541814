"""`roofline predict model` as typed: tables at both widths, JSON, comparisons, and one line for every mistake."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from roofline_cli.main import app
from roofline_model import expected_step, predict_model

runner = CliRunner()


def run(*arguments: str, columns: int | None = None):
    environment = {"COLUMNS": str(columns) if columns else ""}
    return runner.invoke(app, ["predict", "model", "--all", *arguments], env=environment)


def document(*arguments: str):
    """The document of --json, with the keys of its prediction where it has one alone."""
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    answer = json.loads(result.stdout)
    return {**answer, **answer["predictions"][0]} if len(answer["predictions"]) == 1 else answer


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
    assert "First token of one request alone: ideal 332.5 ms" in text
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
    answer = document("--model", "gpt-oss-20b", "--hw", "gb10")
    assert answer["parameter_count"] == 20_914_757_184
    assert answer["formats"] == "checkpoint (BF16, experts MXFP4)"
    assert answer["time_s"] == pytest.approx(sum(kernel["time_s"] for kernel in answer["kernels"]))
    assert answer["launch_count"] == sum(kernel["calls_count"] for kernel in answer["kernels"])
    assert answer["memory"]["fits"] is True
    assert answer["kv_crossover_tokens"] > 131072
    assert {kernel["ideal"]["bound"] for kernel in answer["kernels"]} <= {"memory", "compute"}
    assert answer["model_shape"]["window_pattern"] == "WF"
    expected = answer["expected"]
    assert answer["expected_reason"] is None
    assert expected["low_s"] < expected["time_s"] < expected["high_s"]
    assert expected["time_s"] > answer["time_s"]
    calls = sum(kernel["expected_s"] for kernel in answer["kernels"])
    assert calls == pytest.approx(expected["time_s"])


def test_several_formats_and_batches_are_compared() -> None:
    answer = document("--model", "llama-3.1-70b", "--hw", "gb10", "--formats", "BF16,NVFP4", "--batch", "1,8")
    rows = [(prediction["formats"], prediction["batch_count"]) for prediction in answer["predictions"]]
    assert rows == [("BF16", 1), ("BF16", 8), ("NVFP4", 1), ("NVFP4", 8)]
    assert [prediction["memory"]["fits"] for prediction in answer["predictions"]] == [False, False, True, True]
    for columns in (80, 120):
        result = run(
            "--model", "llama-3.1-70b", "--hw", "gb10", "--formats", "BF16,NVFP4", "--batch", "1,8", columns=columns
        )
        assert max(len(line) for line in result.stdout.splitlines()) <= columns
        rows = [line.split()[:2] for line in result.stdout.splitlines() if line.startswith("NVFP4 (W4A4) ")]
        assert len(rows) == 5  # the answer, and a row for each batch in both tables


def test_formats_by_part_and_layer() -> None:
    answer = document(
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
        (kernel["name"], kernel["formats"]["b"]): kernel["calls_count"]
        for kernel in answer["kernels"]
        if "b" in kernel["formats"]
    }
    assert formats[("gate_up_proj", "FP8_E4M3")] == 4
    assert formats[("gate_up_proj", "NVFP4")] == 28
    assert formats[("lm_head", "BF16")] == 1
    assert answer["kv_format"] == "FP8_E4M3"
    assert answer["formats"] == "NVFP4 ffn@0-3=FP8 lm_head=BF16"


def test_a_config_json_is_read(tmp_path: Path) -> None:
    config = {
        "architectures": ["LlamaForCausalLM"], "hidden_act": "silu", "hidden_size": 64, "intermediate_size": 128,
        "max_position_embeddings": 4096, "num_attention_heads": 4, "num_hidden_layers": 2, "vocab_size": 100, "torch_dtype": "bfloat16",
    }  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(config))
    answer = document("--model", str(tmp_path), "--hw", "b10")
    assert answer["model_shape"]["layer_count"] == 2
    assert answer["parameter_count"] == 2 * 100 * 64 + 2 * (4 * 64 * 64 + 3 * 64 * 128 + 2 * 64) + 64


def test_several_devices() -> None:
    answer = document("--model", "llama-3.1-405b", "--hw", "h100-sxm", "--tensor-parallel", "16", "--link-gb-s", "450")
    assert answer["device_count"] == 16
    assert answer["all_reduce_s"] > 0
    assert answer["memory"]["fits"] is True
    text = run("--model", "llama-3.1-70b", "--hw", "h100-sxm", "--tensor-parallel", "2", "--link-gb-s", "450").stdout
    assert "all_reduce" in text
    assert "2 × h100-sxm" in text
    assert "Memory on each device" in text
    assert "6 µs of latency for each of 160 all-reduces (published: NCCL issue 1259" in text
    assert "963 kernels" in text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("--model llama-3-9b", "unknown model 'llama-3-9b'. Did you mean llama-3-8b"),
        ("--model absent.json", "does not exist"),
        ("--model llama-3-8b --context 8193", "more than llama-3-8b declares: max_position_embeddings 8,192"),
        ("--model llama-3-8b --context 200 --max-context 100", "a context of 200 is longer than --max-context 100"),
        ("--model llama-3-8b --link-gb-s 450", "--link-gb-s is about several devices, which needs --tensor-parallel"),
        ("--model llama-3-8b --all-reduce-us 5", "--all-reduce-us is about several devices"),
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
        ("--model llama-3-8b --tensor-parallel 2", "b10 has no link of its own to 1 more: give what nccl-tests measures"),
        ("--model llama-3-8b --tensor-parallel 3 --link-gb-s 450", "query_heads 32 cannot be divided among 3"),
        ("--model phi-4 --tensor-parallel 4 --link-gb-s 450", "kv_heads 10 cannot be divided among 4 devices"),
        ("--model llama-3-8b --all-reduce-us -1", "--all-reduce-us must be a number of microseconds from 0"),
        ("--model llama-3-8b --memory-headroom 1", "--memory-headroom must be a share from 0 to below 1, got '1'"),
        ("--model llama-3-8b --memory-headroom much", "--memory-headroom must be a share"),
        ("--model llama-3-8b --hw gb10,h100", "--hw takes one chip here, got 'gb10,h100'"),
        ("--model llama-3-8b --link-gb-s fast", "--link-gb-s must be a positive number of GB/s, got 'fast'"),
        ("--model llama-3-8b --batch 1000000000 --context 131072", "give a smaller --batch or a shorter --context"),
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
        "--all-reduce-us",
        "--memory-headroom",
        "--no-group-scales",
        "--json",
    ):
        assert option in result.stdout


def flat(*arguments: str) -> str:
    """Return what is printed at 120 columns, lines joined."""
    result = run(*arguments, columns=120)
    assert result.exit_code == 0, result.output
    return " ".join(result.stdout.split())


def test_the_latency_of_all_reduces_is_said_whatever_it_is() -> None:
    several = ("--model", "llama-3.1-70b", "--hw", "h100-sxm", "--tensor-parallel", "4", "--link-gb-s", "450")
    assert "10 µs of latency for each of 160 all-reduces (as given)" in flat(*several, "--all-reduce-us", "10")
    assert "The latency of the 160 all-reduces is left out" in flat(*several, "--all-reduce-us", "0")
    given = document(*several, "--all-reduce-us", "10")
    assert given["all_reduce_count"] == 160
    assert given["expected_all_reduce_s"] - given["all_reduce_s"] == pytest.approx(160 * 10e-6)
    assert given["launch_count"] == 160 + sum(kernel["calls_count"] for kernel in given["kernels"])
    assert "latency" not in flat("--model", "llama-3-8b", "--hw", "gb10")


def test_rows_stand_in_the_order_of_a_layer() -> None:
    for model, narrow in (("gpt-oss-20b", "attention[128]"), ("gemma-3-1b", "attention[512]")):
        names = [kernel["name"] for kernel in document("--model", model, "--hw", "gb10")["kernels"]]
        assert names.index("attention") == names.index(narrow) + 1
        assert names.index("kv_write") < names.index(narrow) < names.index("o_proj")
        assert (names[0], names[-1]) == ("embedding", "lm_head")
    names = [kernel["name"] for kernel in document("--model", "deepseek-v3", "--hw", "gb10")["kernels"]]
    assert names.index("o_proj") < names.index("gate_up_proj") < names.index("router") < names.index("combine_experts")
    mixed = document("--model", "llama-3-8b", "--hw", "gb10", "--formats", "FP8", "--set", "qkv_proj@3-4=BF16")
    names = [kernel["name"] for kernel in mixed["kernels"]]
    assert names[names.index("rope") - 1] == "qkv_proj"
    assert names.count("qkv_proj") == 2
    assert max(i for i, name in enumerate(names) if name == "qkv_proj") < names.index("rope")


def test_a_model_of_shorter_contexts_is_predicted_at_its_longest() -> None:
    assert "context=2048," in flat("--model", "tinyllama", "--hw", "gb10")
    assert "context=4096," in flat("--model", "llama-3-8b", "--hw", "gb10")
    assert "context=1024," in flat("--model", "llama-3-8b", "--hw", "gb10", "--max-context", "1024")


def test_the_legend_is_left_out_with_its_column() -> None:
    text = run("--model", "gpt-oss-20b", "--hw", "gb10", columns=80).stdout
    assert "Shape" in text.split("left out at this width")[1].split(")")[0]
    assert "Sizes under Shape" not in text


def test_shapes_have_a_legend() -> None:
    text = flat("--model", "gpt-oss-20b", "--hw", "gb10")
    assert "experts visited x tokens x N x K" in text
    assert "attention batch x query heads x KV heads x new x context x head size" in text
    assert "visited" not in flat("--model", "llama-3-8b", "--hw", "gb10")


def test_a_batch_of_experts_may_be_faster_than_its_ideal_and_says_so() -> None:
    words = "a measured pass can be faster than the ideal one"
    mixture = ("--model", "mixtral-8x7b", "--hw", "gb10")
    assert words not in flat(*mixture)
    assert words in flat(*mixture, "--batch", "32")
    assert words in flat(*mixture, "--batch", "1,32")
    assert words not in flat("--model", "llama-3-8b", "--hw", "gb10", "--batch", "32")
    assert document(*mixture, "--batch", "32")["ideal_is_bound"] is False


def test_tokens_of_speculative_decoding_are_a_promise() -> None:
    answer = document("--model", "llama-3-8b", "--hw", "gb10", "--new-tokens", "4")
    text = flat("--model", "llama-3-8b", "--hw", "gb10", "--new-tokens", "4")
    assert f"{answer['tokens_per_s']:.1f} tokens/s if all 4 new tokens of a sequence are kept" in text
    assert f"{answer['tokens_per_s'] / 4:.1f} if one is" in text
    assert "if all 4 new tokens of every sequence are kept" in flat(
        "--model", "llama-3-8b", "--hw", "gb10", "--new-tokens", "4", "--batch", "1,2"
    )


def test_the_first_token_is_of_one_request_alone_whatever_the_batch() -> None:
    single = flat("--model", "llama-3-8b", "--hw", "gb10", "--context", "2048")
    many = flat("--model", "llama-3-8b", "--hw", "gb10", "--context", "2048", "--batch", "8")
    assert "(2,047 prompt tokens)" in single
    assert "(2,047 prompt tokens); all 8 prompts in one pass: expected" in many


def test_a_cache_that_never_overtakes_is_said() -> None:
    words = "never overtakes reading the weights: every layer keeps 4,096 tokens only"
    assert words in flat("--model", "mistral-7b-v0.1", "--hw", "gb10")
    assert "overtakes reading the weights at 114,512" in flat("--model", "llama-3-8b", "--hw", "gb10")


def test_the_crossover_of_shared_weights_is_that_of_one_device() -> None:
    several = ("--model", "deepseek-v3", "--hw", "h200", "--tensor-parallel", "8", "--link-gb-s", "450")
    assert document(*several)["kv_crossover_tokens"] == pytest.approx(81_135, abs=1)
    assert "at 81,135 tokens per sequence." in flat(*several)


def test_memory_can_be_kept_free() -> None:
    # 70.55 G parameters in FP8, head and embedding in 16 bit, and 1.3 GB of cache are 86.5 % of an H100's 81,559 MiB.
    tight = ("--model", "llama-3.1-70b", "--hw", "h100", "--formats", "FP8")
    assert "fits in 83.72 GB usable of 85.52 GB (86.5 %; driver 805.3 MB, engine 1 GB)." in flat(*tight)
    assert "does NOT fit in 68.42 GB usable of 85.52 GB" in flat(*tight, "--memory-headroom", "0.2")
    assert document(*tight, "--memory-headroom", "0.2")["memory"]["fits"] is False
    assert document(*tight, "--memory-headroom", "0.1")["memory"]["fits"] is True


def test_how_int4_is_counted_is_said() -> None:
    narrow = ("--model", "llama-3-8b", "--hw", "gb10", "--formats", "INT4.BF16")
    assert "INT4 weights carry a 16-bit scale per 128 elements, in memory, ideal and expected time" in flat(*narrow)
    plain = flat(*narrow, "--no-group-scales")
    assert "INT4 weights are counted without scales in memory and ideal time, as the original documents do" in plain
    assert "scale per 128" not in flat("--model", "llama-3-8b", "--hw", "gb10", "--formats", "NVFP4")
    assert document(*narrow)["has_group_scales"] is True
    assert document(*narrow, "--no-group-scales")["has_group_scales"] is False
    assert document("--model", "llama-3-8b", "--hw", "gb10")["has_group_scales"] is None


def test_a_named_attention_kernel() -> None:
    arguments = ("--model", "llama-3-8b", "--hw", "h100", "--batch", "4")
    answer, plain = document(*arguments, "--attention-kernel", "FA3"), document(*arguments)
    step = expected_step(predict_model("h100", "llama-3-8b", batch=4, attention_kernel="fa3"), "h100")
    assert (answer["attention_kernel"], plain["attention_kernel"]) == ("fa3", None)
    assert (answer["expected"]["time_s"], answer["time_s"]) == (step.time_s, plain["time_s"])
    by_name = {kernel["name"]: kernel for kernel in answer["kernels"]}
    assert by_name["attention"]["expected"]["provenance"] == "derived"
    assert by_name["rope"]["expected_s"] > 0
    several = document(*arguments[:-1], "1,4", "--attention-kernel", "fa3")
    assert [prediction["expected"]["time_s"] for prediction in several["predictions"]][1] == step.time_s
    table = run(*arguments, "--attention-kernel", "fa3", columns=80)
    assert table.exit_code == 0
    assert max(len(line) for line in table.stdout.splitlines()) <= 80
    assert run(*arguments, "--attention-kernel", "fa5").exit_code == 2


def test_a_kernel_that_the_chip_does_not_run() -> None:
    answer = document("--model", "llama-3-8b", "--hw", "gb10", "--attention-kernel", "fa3")
    assert answer["expected"] is None
    assert answer["expected_reason"]["subject"] == "attention"


def test_more_passes_than_anybody_waits_for_are_refused():
    batches = ",".join(map(str, range(1, 5000)))
    result = run("--model", "llama-3-8b", "--hw", "gb10", "--batch", batches)
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1
    assert "4,999" in result.stderr
    assert "--batch" in result.stderr


def test_rows_of_one_format_are_told_apart_by_their_batch_in_a_note() -> None:
    asked = ("--model", "qwen2.5-0.5b", "--hw", "b200", "--formats", "INT4.BF16", "--batch", "1,2,4")
    text = runner.invoke(app, ["predict", "model", *asked], env={"COLUMNS": "300"}).stdout
    (note,) = [line for line in text.splitlines() if "; likewise " in line]
    assert [note.count(f"INT4 (W4A16) at batch {batch}") for batch in (1, 2, 4)] == [1, 1, 1]
    assert note.count("INT4 (W4A16)") == 3
