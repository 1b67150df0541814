"""`roofline show` on a run of whole models: tables per model, a case in full, JSON."""

from __future__ import annotations

import json

import pytest
from model_records import RUN_ID, model_profile, model_run, model_run_records
from typer.testing import CliRunner

from results import open_store
from roofline_cli.main import app

runner = CliRunner()


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "r.db"
    with open_store(path) as store:
        store.begin_run(model_run())
        store.add_profile(model_profile())
        for record in model_run_records():
            store.add_record(record)
    return str(path)


def show(target, *arguments, columns="100"):
    result = runner.invoke(app, ["show", RUN_ID[:8], *arguments, "--db", target], env={"COLUMNS": columns})
    assert result.exit_code == 0, result.output
    return result.output


def test_a_run_shows_each_model_once_with_its_verdicts(target):
    assert show(target).startswith("decode: stay with BF16, ")
    output = show(target, "--all")
    assert output.count("seeded-llama-156m, batch 1, 128 tokens") == 1
    assert "→ decode: stay with BF16, " in output
    assert "Faster, riskier: INT4 (W4A16), 2.5×, loss ≤ " in " ".join(output.split())
    assert "→ prefill: stay with BF16, " in output
    assert "nothing about language" in output
    assert "decode:seeded" not in output


def test_the_answer_has_times_and_gains_of_both_phases(target):
    lines = show(target, columns="80").splitlines()
    assert len(lines) <= 17  # two say what the host takes, two the next command with the path of the database
    assert sum(line.startswith("Note: issuing a decode step from Python took 7.5 ms") for line in lines) == 1
    head, row = (next(line.split() for line in lines if line.startswith(name)) for name in ("Format", "INT4 (W4A16)"))
    assert [name for name in head if name != "±"] == ["Format", "Decode", "Gain", "Prefill", "Gain", "Held", "Loss"]
    assert [cell for cell in row if cell.endswith("×")] == ["2.5×", "0.044×"]
    assert {"ms", "130.9", "MB"} <= set(row)


@pytest.mark.parametrize("columns", ["80", "120"])
def test_tables_fit_the_screen(target, columns):
    assert max(map(len, show(target, columns=columns).splitlines())) <= int(columns)


def test_a_case_says_tokens_memory_quality_layers_and_where_the_expected_time_goes(target):
    output = " ".join(show(target, "INT8.BF16", columns="120").split())
    assert "seeded-llama-156m, decode, batch 1, 128 tokens: INT8 (W8A16) · torchao" in output
    assert "27.6 tokens/s on the GPU alone" in output
    assert "issuing a" not in output  # which takes less than the step
    assert "189 MB of 311.5 MB before (61 %), 189 MB stated by the formats" in output
    assert "peak of a call 66.72 MB, in which the largest weight is decoded" in output
    assert "KL 2.8e-4 [2.7e-4, 2.9e-4] nats/token" in output
    assert "57 INT8; a kernel (emulated" in output
    assert "expected in dequantize_weights" in output


def test_a_case_that_the_host_issues_slower_says_so(target):
    output = " ".join(show(target, "decode", "INT4.BF16", columns="120").split())
    assert "192 tokens/s on the GPU alone" in output
    assert (
        "host issuing a decode step from Python took 7.5 ms, one at a time: without CUDA graphs the GPU waits for it"
        in output
    )


def test_json_has_the_models_beside_the_cases(target):
    data = json.loads(show(target, "--json"))
    assert len(data["cases"]) == 7
    (model,) = data["models"]
    assert [phase["phase"] for phase in model["phases"]] == ["decode", "prefill"]
    assert model["phases"][0]["passes"][1]["held_bytes"] == 189_045_248
    assert model["phases"][0]["passes"][1]["issue_s"] == 7e-3


def test_a_word_is_looked_for_in_the_operator_too(target):
    assert "decode" not in json.loads(show(target, "--json"))["cases"][0]["case_id"]
    answers = [json.loads(show(target, word, "--json"))["cases"] for word in ("decode", "PREFILL")]
    assert sorted(map(len, answers)) == [3, 4]
    assert {case["op"].partition(":")[0] for case in answers[0]} == {"decode"}
