"""`roofline predict serve` and `roofline check`: answers, JSON, widths, exit codes and what they refuse."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from roofline_cli.main import app

runner = CliRunner()
ASKED = ("predict", "serve", "--model", "llama-3.1-70b", "--hw", "b200", "--formats", "FP8,NVFP4")


def roofline(*arguments, **environment):
    return runner.invoke(app, list(arguments), env=environment)


@pytest.mark.parametrize("width", ["80", "120"])
def test_the_answer_fits_its_width(width):
    text = roofline(*ASKED, "--concurrency", "1,32", "--max-tpot-ms", "50", "--all", COLUMNS=width).stdout
    assert max(map(len, text.splitlines())) <= int(width)


def test_the_document_holds_every_engine_with_its_loads():
    document = json.loads(roofline(*ASKED, "--concurrency", "1,32", "--json").stdout)
    assert document["schema_version"]
    assert [load["request_count"] for load in document["ranked"][0]["loads"]] == [1, 32]
    assert {each["engine"] for each in document["ranked"]} == {"vllm", "sglang", "tensorrt-llm"}
    assert document["excluded"][0]["findings"][0]["code"] == "engine-excluded"
    assert "verdict" not in document
    json.dumps(document, allow_nan=False)


def test_a_measured_rate_is_judged_in_the_document_too():
    done = roofline(*ASKED, "--engine", "vllm", "--measured-tokens-s", "20", "--measured-ttft-ms", "5000", "--json")
    verdict = json.loads(done.stdout)["verdict"]
    assert verdict["place"] == "slower"
    assert verdict["first_token"]["values"]["kind"] == "slower"
    assert verdict["explanations"]


def test_no_engine_is_exit_1_with_the_reasons():
    done = roofline("predict", "serve", "--model", "qwen3-32b", "--hw", "orin-agx-64gb")
    assert done.exit_code == 1
    assert "vLLM has no constants for orin-agx-64gb" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--concurrency", "0"], "--concurrency must be a whole number from 1"),
        (["--concurrency", "5000"], "--concurrency must be at most 4,096"),
        (["--rate", "fast"], "--rate must be a positive number of requests per second"),
        (["--kv", "INT4"], "--kv must be BF16 or FP8"),
        (["--engine", "vlm"], "unknown engine 'vlm'"),
        (["--output", "1"], "--output must be 2 tokens or more"),
        (["--tensor-parallel", "1000000"], "tensor parallelism takes 1 to 1024 devices"),
        (["--formats", "FP9"], "FP9"),
        (["--link-gb-s", "50"], "needs --tensor-parallel"),
        (["--concurrency", "1,2", "--measured-tokens-s", "5"], "give one --concurrency or one --rate"),
        (["--measured-ttft-ms", "5"], "give --measured-tokens-s, too"),
        (["--max-ttft-ms", "-1"], "--max-ttft-ms must be a positive number of milliseconds"),
    ],
)
def test_what_makes_no_sense_is_one_line(arguments, message):
    done = roofline("predict", "serve", "--model", "qwen3-32b", "--hw", "gb10", *arguments)
    assert done.exit_code == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_limits_that_nothing_keeps_are_exit_1_and_a_rate_says_whether_it_keeps_them():
    asked = ("predict", "serve", "--model", "llama-3.1-8b", "--hw", "h100", "--engine", "vllm")
    within = roofline(*asked, "--rate", "5", "--max-tpot-ms", "50")
    assert within.exit_code == 0
    assert within.stdout.startswith("Arrivals at 5/s keep 50 ms a token, with ")
    missed = roofline(*asked, "--rate", "5", "--max-tpot-ms", "5")
    assert missed.exit_code == 1
    assert missed.stdout.startswith("Arrivals at 5/s miss 5 ms a token, with ")


def test_a_claim_is_judged_from_words_or_options():
    words = roofline("check", "70B Q4_K_M gb10 47 tok/s")
    options = roofline("check", "--params", "70B", "--format", "Q4_K_M", "--hw", "gb10", "--tokens-s", "47")
    assert words.stdout == options.stdout
    assert "impossible" in words.stdout.splitlines()[0]
    assert words.exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["70B Q4_K_M gb10"], "a claim needs a rate (--tokens-s)"),
        (["gb10 5 t/s"], "a claim needs a size or model"),
        (["70B gb10 5 t/s", "--hw", "h100"], "a claim names one chip; two are given"),
        (["70B Q4_K_M gb11 47 tok/s"], "'gb11' is no size (70B), model, format, chip or engine"),
        (["--params", "many", "--hw", "gb10", "--tokens-s", "5"], "a size is written as 70B"),
    ],
)
def test_a_claim_that_is_not_understood_is_one_line(arguments, message):
    done = roofline("check", *arguments)
    assert done.exit_code == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
