"""`roofline recommend --model`: readable at every width, the same figures in JSON, exit codes, one form or the
other.
"""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from reports.present.predicted.advice import model_answer
from roofline_cli.main import app
from roofline_model.chips.hardware import get_hardware
from roofline_model.core.finding import has_code
from roofline_model.recommend.model import recommend_model
from roofline_model.recommend.search.losses_file import MeasuredLosses, write_losses

runner = CliRunner()
LAYERS = 4
CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "num_hidden_layers": LAYERS, "hidden_size": 2048,
    "num_attention_heads": 16, "num_key_value_heads": 4, "intermediate_size": 5632, "vocab_size": 32000,
    "max_position_embeddings": 4096, "tie_word_embeddings": False, "torch_dtype": "bfloat16", "hidden_act": "silu",
}  # fmt: skip
LOSSES = {"FP8_E4M3": 2e-5, "INT8.BF16": 1e-5, "NVFP4.BF16": 2e-4, "INT4.BF16": 3e-4}


def run(*arguments: str, columns: int | None = None):
    return runner.invoke(app, ["recommend", *arguments], env={"COLUMNS": str(columns) if columns else ""})


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> tuple[str, ...]:
    path = tmp_path_factory.mktemp("small") / "config.json"
    path.write_text(json.dumps(CONFIG))
    return ("--model", str(path), "--hw", "gb10")


def ask(model: tuple[str, ...], *arguments: str):
    result = run(*model, *arguments, "--json")
    assert result.exit_code in (0, 1), result.output
    return json.loads(result.stdout), result.exit_code


@pytest.fixture(scope="module")
def losses(tmp_path_factory) -> str:
    values = {
        (f"layers.{layer}.{part}", name): 5 * loss * (3 if layer < 2 else 1)
        for layer in range(LAYERS)
        for part in ("qkv_proj", "o_proj", "gate_up_proj", "down_proj")
        for name, loss in LOSSES.items()
    }
    made = MeasuredLosses(values, "small", "kl", text="a text", tokens_count=2048)
    return str(write_losses(made, tmp_path_factory.mktemp("losses") / "losses.json"))


@pytest.mark.parametrize("columns", [80, 100, 120])
def test_it_is_readable_at_every_width(columns: int, model, losses: str) -> None:
    result = run(*model, "--losses", losses, "--layers", "--max-latency-ms", "20", "--all", columns=columns)
    assert result.exit_code == 0, result.output
    assert max(len(line) for line in result.stdout.splitlines()) <= columns
    text = " ".join(result.stdout.split())
    for words in (
        "Limits: 114 GB usable of 128.5 GB of memory; 20 ms a pass; a loss of at most 3 % (default), of perplexity",
        "excluded: ",
        "Take pareto-fastest: ",
        "Ranked by the slow end of the 80 % interval of the expected time",
        "fp16_baseline",
        "Front: 12 of the ",
        "losses: layer-wise KL, small, 2,048 tokens of a text",
    ):
        assert words in text
    assert "pareto-fastest: the least time at a loss of at most 3 %" in text
    assert "pareto-least-loss: the least loss within 20 ms and the memory" in text


def test_the_table_has_every_figure_when_piped(model, losses: str) -> None:
    lines = run(*model, "--losses", losses, "--all").stdout.splitlines()
    header = next(line for line in lines if "Plan" in line)
    for name in (
        "Ideal",
        "Expected",
        "80 % from",
        "at most",
        "Tokens/s",
        "Gain",
        "Weights",
        "KV cache",
        "Memory",
        "left",
        "Loss",
        "Method",
        "Runs as",
        "From",
        "Why",
    ):
        assert name in header
    best = next(line for line in lines if line.lstrip().startswith("1 "))
    assert "pareto-fastest" in best
    assert "measured: " in next(line for line in lines if line.startswith("  loss of pareto-fastest: "))
    assert "memory-bound: moves " in best


def test_json_is_what_python_says(model, losses: str) -> None:
    from roofline_model.recommend.search.losses_file import read_losses

    document, code = ask(model, "--losses", losses, "--memory-limit-gb", "4", "--context", "2048", "--batch", "2")
    ranking = recommend_model(
        "gb10", model[1], batch=2, context=2048, memory_limit_bytes=4e9, losses=read_losses(losses)
    )
    assert code == 0
    assert document["chosen"] == ranking.choice.key
    assert document["traffic"] == [
        {"phase": "decode", "batch_count": 2, "context_count": 2048, "new_count": 1, "share_ratio": 1.0}
    ]
    assert document["limits"]["memory_limit_bytes"] == 4e9
    for candidate, option in zip(document["candidates"], ranking.options, strict=True):
        assert (candidate["plan"], candidate["time_s"], candidate["low_s"], candidate["speedup_ratio"]) == (
            option.key,
            option.estimate.time_s,
            option.estimate.low_s,
            option.speedup_ratio,
        )
        assert candidate["quality"]["loss_pct"] == option.loss.pct
        assert (candidate["quality"]["loss_value"], "loss" in candidate["quality"]) == (option.loss.value, False)
        assert candidate["memory"]["total_bytes"] == option.memory.total_bytes
    assert [left_out["plan"] for left_out in document["excluded"]] == [exclusion.key for exclusion in ranking.excluded]
    (search,) = document["searches"]
    assert len(search["groups"]) == 4 * LAYERS
    assert {group["constraint"] for group in search["groups"]} <= {"time", "memory", "time and memory", "none", "gap"}
    assert len(document["front"]) == len(ranking.front)
    assert {part["loss_unit"] for part in (search, *document["front"])} == {"nats/token"}
    assert ranking.option(search["plan"]).loss.unit == "nats/token"


def test_nothing_that_meets_the_limits_ends_with_1_and_says_by_how_much(model, losses: str) -> None:
    result = run(*model, "--max-latency-ms", "1", columns=400)
    assert result.exit_code == 1
    first = result.stdout.splitlines()[0]
    assert first.startswith("Nothing meets the limits")
    assert "1 ms" in first
    document, code = ask(model, "--memory-limit-gb", "0.3")
    assert (code, document["chosen"], document["candidates"]) == (1, None, [])
    assert document["excluded"][0]["misses"][0]["limit"] == "memory"
    assert document["excluded"][0]["plan"] in document["summary"]
    assert document["excluded"][0]["misses"][0]["excess_ratio"] > 0
    assert "Ranked" not in run(*model, "--memory-limit-gb", "0.3").stdout  # there is no table that it explains


def test_an_unknown_loss_is_never_taken(model, losses: str) -> None:
    arguments = ("--formats", "NF4.BF16", "--strategy", "fp16_baseline", "--memory-limit-gb", "0.5")
    result = run(*model, *arguments)
    assert result.exit_code == 1
    assert "unknown" in result.stdout.splitlines()[0]


def test_what_no_kernel_runs_is_never_the_best() -> None:
    arguments = ("--model", "llama-3.1-70b", "--hw", "rtx4090", "--formats", "INT2.BF16,INT4.BF16")
    result = run(*arguments)
    assert result.exit_code == 1
    assert result.stdout.startswith("Nothing runs within the limits; INT2 (W2A16) would take ")
    assert "take  " not in result.stdout


def test_the_end_that_ranks_is_shown_on_a_narrow_screen() -> None:
    lines = run("--model", "llama-3.1-8b", "--hw", "gb10", "--all", columns=80).stdout.splitlines()
    header = next(line for line in lines if "Plan" in line)
    assert "at most" in header
    assert "Memory" in header
    assert max(map(len, lines)) <= 80


def test_all_shows_the_times_of_excluded_plans_and_which_limit_ranks_the_riskier_one() -> None:
    arguments = ("--model", "llama-3.1-8b", "--hw", "gb10")
    ranking = recommend_model(get_hardware("gb10"), "llama-3.1-8b")
    (riskier,) = [each.option for each in ranking.alternatives if each.role == "riskier"]
    lines = run(*arguments, "--all").stdout.splitlines()
    rows = [line.split() for line in lines if line.startswith("– ") and "before a plan" not in line]
    assert len(rows) == sum(each.option is not None for each in ranking.excluded)
    (row,) = [row for row in rows if " ".join(row[1:3]) == "INT4 (W4A16)"]
    times = riskier.times.ideal.time_s, riskier.estimate.time_s, riskier.estimate.low_s, riskier.estimate.high_s
    assert [float(text) for text in row[3:11:2]] == pytest.approx([1e3 * time_s for time_s in times], abs=5e-3)
    limit = f"{riskier.loss.pct:g}"
    assert f"  --max-quality-loss {limit} ranks INT4 (W4A16) too" in lines
    wider = run(*arguments, "--all", "--max-quality-loss", limit).stdout
    assert any(line.startswith("1 ") and "INT4 (W4A16)" in line for line in wider.splitlines())


def test_no_limit_of_the_loss_is_named_where_memory_excludes_too() -> None:
    text = run("--model", "llama-3.1-70b", "--hw", "rtx4090", "--all").stdout
    assert "excluded: INT4 (W4A16): needs " in text
    assert "\n–  INT4 (W4A16)" in text
    assert "--max-quality-loss" not in text


def test_who_expects_int4_reads_why_it_is_not_taken() -> None:
    arguments = ("--model", "llama-3.1-8b", "--hw", "h100")
    lines = run(*arguments, columns=80).stdout.splitlines()
    assert len(lines) <= 12
    assert any(
        line.startswith("Note: INT4 (W4A16): ") and "no faster; loses up to 5.8 % (PPL)" in line for line in lines
    )
    on_gb10 = run("--model", "llama-3.1-8b", "--hw", "gb10").stdout  # there it is the riskier option
    assert "Note: INT4" not in on_gb10
    faster = run("--model", "llama-3.1-70b", "--hw", "b200").stdout
    assert "loses up to 14.6 % (PPL), the limit is 3 %" in faster


def test_both_metrics_of_a_loss_stand_in_their_own_column() -> None:
    """FP8 loses perplexity, the narrow cache task accuracy: the sum of both is no figure of either."""
    lines = run("--model", "llama-3.1-8b", "--hw", "b200", "--batch", "64", columns=80).stdout.splitlines()
    take = next(line for line in lines if line.startswith("take"))
    assert take.endswith("≤ 1.2 %*  ≤ 1.3 %")
    assert "perplexity rises by at most 1.2 % and task accuracy falls by at most 1.3 %" in " ".join(
        " ".join(lines[:3]).split()
    )


def test_names_not_keys_stand_in_all_lines() -> None:
    text = run("--model", "llama-3.1-8b", "--hw", "h100", "--all").stdout
    for key in ("INT8.INT8", "NVFP4.BF16", "FP8_E4M3.BF16", "claimed"):
        assert key not in text.replace("cache FP8_E4M3", "")


@pytest.mark.parametrize("chip", ["gb10", "h100", "orin"])
def test_the_answer_and_what_to_type_next_are_in_the_first_twelve_lines(chip: str) -> None:
    lines = run("--model", "llama-3.1-70b", "--hw", chip, columns=80).stdout.splitlines()
    *answer, more = lines
    assert len(answer) <= 12
    assert more.startswith("More: ")
    assert max(map(len, lines)) <= 80
    assert lines[0].startswith("Nothing fits within a loss of 3 %" if chip == "orin" else "Take FP8 (W8A8): expected ")
    assert any(line.startswith("Next: vllm serve ") for line in lines) is (chip != "orin")
    assert ("BF16, which does not fit;" in " ".join(" ".join(lines[:3]).split())) is (chip != "orin")
    assert "does not fit" not in run("--model", "llama-3.1-8b", "--hw", chip).stdout


@pytest.mark.parametrize(("capacity_bytes", "is_full"), [(80e9, True), (100e9, False)])
def test_a_plan_that_nearly_fills_the_chip_asks_the_engine_for_more_of_its_memory(
    capacity_bytes: float, is_full: bool
) -> None:
    chip = get_hardware("h100")
    chip = replace(chip, capacity=replace(chip.capacity, value=capacity_bytes))
    ranking = recommend_model(chip, "llama-3.1-70b")
    assert 0.88 * 80e9 < ranking.choice.memory.total_bytes < 0.88 * 100e9
    command = model_answer(ranking, chip).next_command
    assert command.startswith("vllm serve ")
    assert ("--gpu-memory-utilization 0.95" in command) is is_full
    nearly = replace(chip, capacity=replace(chip.capacity, value=ranking.choice.memory.total_bytes / 0.975))
    full = recommend_model(nearly, "llama-3.1-70b")
    assert "--gpu-memory-utilization 0.98" in model_answer(full, nearly).next_command


def test_traffic_is_a_line_several_or_a_file(model, tmp_path: Path) -> None:
    lines = ["decode:batch=8,context=2048,share=3", "prefill:context=1024"]
    path = tmp_path / "traffic.json"
    path.write_text(
        json.dumps(
            {
                "schema": 1,
                "traffic": [
                    {"phase": "decode", "batch": 8, "context": 2048, "share": 3},
                    {"phase": "prefill", "context": 1024},
                ],
            }
        )
    )
    typed, _ = ask(model, "--traffic", lines[0], "--traffic", lines[1])
    read, _ = ask(model, "--traffic", str(path))
    assert typed == read
    assert [share["share_ratio"] for share in typed["traffic"]] == [3.0, 1.0]
    text = run(*model, "--traffic", lines[0], "--traffic", lines[1]).stdout
    mean = "mean pass of decode:batch=8,context=2048,share=3 + prefill:batch=1,context=1024,share=1 on gb10"
    assert f", {mean}" in text.splitlines()[1]
    assert text.splitlines()[2].split()[:4] == ["Format", "Mean", "Decode", "Prefill"]  # no tokens per second of both
    plan = typed["candidates"][0]
    assert (plan["tokens_per_s"], [phase["phase"] for phase in plan["phases"]]) == (None, ["decode", "prefill"])


def test_a_latency_of_a_mix_names_its_phase(model) -> None:
    mix = ("--traffic", "decode:batch=8,context=2048,share=3", "--traffic", "prefill:context=1024")
    refused = run(*model, *mix, "--max-latency-ms", "30")
    assert (refused.exit_code, refused.stderr.count("\n")) == (2, 1)
    assert "decode=30,prefill=500" in refused.stderr
    document, _ = ask(model, *mix, "--max-latency-ms", "decode=1000,prefill=2000")
    assert document["limits"]["max_phase_latency_s"] == {"decode": 1.0, "prefill": 2.0}
    for bad in ("decode=", "decode=1,decode=2", "decode=-1", "step=3"):
        assert run(*model, *mix, "--max-latency-ms", bad).exit_code == 2, bad


def test_own_formats_and_strategies_take_part(model, tmp_path: Path) -> None:
    formats = tmp_path / "formats.toml"
    formats.write_text('[Q5_M]\nkind = "int"\nelement_bits = 5\nscales = [{bits = 16, block_elems = 32}]\n')
    strategy = tmp_path / "mine.json"
    strategy.write_text('{"schema": 1, "name": "mine", "operator_precisions": {"ffn_down": "INT8"}}')
    document, _ = ask(model, "--formats-file", str(formats), "--strategy", str(strategy), "--strategy", "fp8_balanced")
    plans = {candidate["plan"]: candidate for candidate in document["candidates"]}
    assert {"Q5_M.BF16", "mine", "fp8_balanced", "INT8.BF16"} <= set(plans)
    assert "nvfp4_blackwell" not in plans
    assert plans["mine"]["formats"] == "down_proj INT8.BF16"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("", "give a shape, -M -N -K, or a whole model, --model NAME"),
        ("-M 1 -N 4", "Missing option '-K'"),
        ("-M 1 -N 4 -K 4 --model llama-3-8b", "give either --model or -M -N -K"),
        ("--model llama-3-8b --model-parameters 8e9", "--model-parameters about one shape"),
        ("-M 1 -N 4 -K 4 --losses x.json", "--losses is about a whole model"),
        ("-M 1 -N 4 -K 4 --layers", "--layers is about a whole model"),
        ("--model nobody", "unknown model 'nobody'"),
        ("--model llama-3-8b --phase both", "--phase must be decode or prefill"),
        ("--model llama-3-8b --batch 1,8", "--batch must be a whole number"),
        ("--model llama-3-8b --context 9000", "max_position_embeddings 8,192"),
        ("--model llama-3-8b --max-latency-ms soon", "--max-latency-ms must be a positive number of milliseconds"),
        ("--model llama-3-8b --max-quality-loss -1", "--max-quality-loss must be a percentage from 0"),
        ("--model llama-3-8b --memory-headroom 1", "--memory-headroom must be a share from 0 to below 1"),
        ("--model llama-3-8b --memory-limit-gb 0", "--memory-limit-gb must be a positive number"),
        ("--model llama-3-8b --losses absent.json", "losses file absent.json does not exist"),
        ("--model llama-3-8b --layers", "which needs --losses FILE.json"),
        ("--model llama-3-8b --traffic decode --phase decode", "--phase says what --traffic says"),
        ("--model llama-3-8b --traffic chat:batch=1", "neither PHASE:FIELD=VALUE"),
        ("--model llama-3-8b --formats FP8,,INT8", "--formats has an empty entry"),
        ("--model llama-3-8b --strategy nobodys", "unknown strategy 'nobodys'"),
        ("--model llama-3-8b --strategy fp8_balanced --strategy fp8-balanced", "two strategies are called 'fp8_balanced'"),
    ],
)  # fmt: skip
def test_bad_input_is_one_line_and_exit_code_2(arguments: str, words: str) -> None:
    result = run(*arguments.split(), "--hw", "b10")
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert words in result.stderr


def test_a_longer_context_than_declared_can_be_allowed(model) -> None:
    document, _ = ask(model, "--context", "8192", "--max-context", "8192")
    assert document["traffic"][0]["context_count"] == 8192


GPT_OSS = ("--model", "gpt-oss-20b", "--hw", "gb10", "--context", "8192")


def document_of(*arguments: str):
    return json.loads(run(*arguments, "--json").stdout)


def test_a_slower_choice_says_that_the_baseline_misses_a_limit_only_where_it_does() -> None:
    stays = document_of(*GPT_OSS, "--phase", "prefill")
    assert "BF16" in {plan["plan"] for plan in stays["candidates"]}
    assert (stays["chosen"], "misses" in stays["summary"]) == ("checkpoint", False)
    small = ("--phase", "prefill", "--memory-limit-gb", "7.5", "--max-quality-loss", "16")
    assert document_of("--model", "llama-3.1-8b", "--hw", "h100", *small)["summary"].endswith("which misses a limit")


def test_the_fastest_option_within_the_limits_has_a_row_and_a_reason_where_it_is_not_taken() -> None:
    document = document_of(*GPT_OSS, "--phase", "prefill")
    answer, chosen = document["short_answer"], document["prediction"]["expected"]["time_s"]
    faster = min(document["candidates"], key=lambda plan: plan["time_s"])
    assert faster["time_s"] < chosen
    assert faster["plan"] in [row["key"] for row in answer["rows"]]
    (note,) = [note for note in answer["notes"] if note.startswith(faster["name"])]
    assert "interval" in note
    assert answer["rows"][0]["key"] == "checkpoint"


@pytest.mark.parametrize("limit", ["3", "7", "7.5", "8"])
def test_no_option_beats_the_riskier_one_in_both_time_and_loss(limit: str) -> None:
    document = document_of(*GPT_OSS, "--batch", "16", "--max-quality-loss", limit)
    excluded = [
        plan["candidate"] for plan in document["excluded"] if {miss["limit"] for miss in plan["misses"]} == {"quality"}
    ]
    riskier = [each["plan"] for each in document["alternatives"] if each["role"] == "riskier"]
    assert bool(riskier) is (float(limit) < 7.5)
    for plan in riskier:
        for other in (*document["candidates"], *excluded):
            beats = other["time_s"] < plan["time_s"] and other["quality"]["loss_pct"] <= plan["quality"]["loss_pct"]
            assert not beats, other["plan"]


def test_a_sum_of_losses_that_excludes_is_shown_where_no_part_of_it_would() -> None:
    asked = (*GPT_OSS, "--batch", "16", "--max-quality-loss")
    answer = document_of(*asked, "7")["short_answer"]
    row = next(row for row in answer["rows"] if row["role"] == "riskier")
    assert dict(zip(answer["columns"], row["cells"], strict=True))["Sum"] == "≤ 7.5 %"
    assert "Sum" not in document_of(*asked, "3")["short_answer"]["columns"]  # 6.5 % alone is beyond it


def test_a_narrow_checkpoint_loses_nothing_only_where_it_is_its_makers_own(tmp_path: Path) -> None:
    path = tmp_path / "quantised.json"
    path.write_text(json.dumps(CONFIG | {"quantization_config": {"quant_algo": "NVFP4", "quant_method": "modelopt"}}))
    own, foreign = document_of(*GPT_OSS), document_of("--model", str(path), "--hw", "gb10")
    assert own["chosen"] == foreign["chosen"] == "checkpoint"
    losses = [
        dict(zip(each["short_answer"]["columns"], each["short_answer"]["rows"][0]["cells"], strict=True))["PPL"]
        for each in (own, foreign)
    ]
    assert losses == ["0", "unknown"]
    assert [document["short_answer"]["sentence"].endswith("it loses nothing.") for document in (own, foreign)] == [
        True,
        False,
    ]


def test_the_nearest_option_is_one_and_the_hint_names_the_least_loss_that_fits() -> None:
    asked = ("--model", "llama-3.3-70b", "--hw", "gb10", "--phase", "prefill", "--batch", "16", "--context", "8192")
    document = document_of(*asked)
    lossy = [plan for plan in document["excluded"] if {miss["limit"] for miss in plan["misses"]} == {"quality"}]
    least = min(lossy, key=lambda plan: plan["candidate"]["quality"]["loss_pct"])
    assert document["excluded"][0]["plan"] == least["plan"] == document["alternatives"][0]["plan"]["plan"]
    name, loss_pct = least["candidate"]["name"], least["candidate"]["quality"]["loss_pct"]
    first, *_, hint, last = run(*asked, "--all").stdout.splitlines()
    assert f"{name} fits" in first
    assert f"--max-quality-loss {loss_pct:g} ranks {name} too" in hint
    assert f"nearest: {name}" in last


def test_a_baseline_beside_options_that_lose_too_much_is_not_the_only_one() -> None:
    ranking = recommend_model("gb10", "llama-3.1-8b", formats=["NVFP4"])
    assert ranking.choice is ranking.baseline
    reason = next(item for item in ranking.choice.findings if item.code.startswith("no-other"))
    assert (reason.code, reason.value("others")) == ("no-other", ("NVFP4",))
    alone = recommend_model("gb10", "llama-3.1-8b", formats=["BF16"])
    assert has_code(alone.choice.findings, "no-other", "option")


def test_the_nearest_option_and_what_it_misses_are_set_apart(model) -> None:
    mix = ("--traffic", "decode:batch=8,context=2048,share=3", "--traffic", "prefill:context=1024")
    sentence = run(*model, *mix, "--max-latency-ms", "decode=0.001,prefill=0.001").stdout.splitlines()[0]
    assert ": its " in sentence


MIX = "--traffic prefill:batch=1,context=4096,share=0.3 --traffic decode:batch=8,context=4096,share=0.7"


def output(question: str, exit_code: int = 0) -> str:
    done = runner.invoke(
        app, shlex.split(f"recommend --model llama-3.1-8b --hw h100 {question}"), env={"COLUMNS": "400"}
    )
    assert done.exit_code == exit_code
    return done.stdout


def test_tokens_of_a_mix_are_those_of_the_whole_and_a_phases_own_are_called_that() -> None:
    text, document = output(MIX), json.loads(output(f"{MIX} --json"))
    mean_s = document["candidates"][0]["time_s"]
    assert f"The mix: {0.7 * 8 / mean_s:.1f} generated tokens/s. A phase alone: prefill " in text


def test_a_refused_limit_is_repeated_and_says_where_the_time_goes() -> None:
    text = output(f"{MIX} --max-latency-ms decode=1,prefill=300", 1)
    assert "1 ms a decode pass; 300 ms a prefill pass; " in text
    match = re.search(r"Where its time goes: decode ([\d.]+) ms: (.*)\.\n", text)
    assert match is not None  # the prefill keeps its limit
    assert "prefill" not in match[2]
    assert sum(map(int, re.findall(r"(\d+) %", match[2]))) == pytest.approx(100, abs=2)
    alone = output("--batch 8 --max-latency-ms 1", 1)
    assert "1 ms a pass; " in alone
    assert "Where its time goes: decode " in alone
    assert "Where its time goes" not in output("--memory-limit-gb 1", 1)


def test_the_prediction_of_a_choice_over_several_devices_is_of_all_of_them() -> None:
    document = json.loads(output("--tensor-parallel 2 --json"))
    assert document["prediction"]["device_count"] == 2
    expected = document["prediction"]["expected"]["time_s"]
    assert expected == pytest.approx(document["candidates"][0]["time_s"])
