"""vLLM's serving, latency and throughput benchmarks: old and new names, what runs together, what is no pass."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from foreign_files import LATENCY, LATENCY_WITH_ARGUMENTS, OLD_SERVE, SERVE, THROUGHPUT

from results.exchange.foreign import Stated
from results.exchange.importing import import_any, read_any
from results.exchange.model_names import model_of_hub_id
from results.records.records import Record
from results.store.store import ResultStore
from roofline_model.chips.hardware import get_hardware
from roofline_model.core.errors import StoreError
from roofline_model.core.finding import finding, from_stored
from roofline_model.models.llm import predict_model

Write = Callable[[str, Any], Path]
H100 = get_hardware("h100")


def records(path: Path, **facts: Any) -> tuple[Record, ...]:
    read = read_any(path, Stated(**facts))
    assert read.kind
    return read.records


def test_time_per_output_token_is_a_decode_step_of_all_that_run_together(write: Write) -> None:
    step, first = records(write("s.json", SERVE), hardware=H100)
    assert step.case.op == "decode:llama-3.1-8b"
    assert step.case.shape == (("B", 16), ("Sq", 1), ("Skv", 1024 + 64))  # 1024 in, 128 out: 64 more in the middle
    assert step.measurement is not None
    assert step.ideal is not None
    assert step.expected is not None
    assert step.measurement.samples_s == pytest.approx((0.0089,))  # the median, in seconds
    assert step.extra["tokens_per_call"] == 16
    ours = predict_model(H100, "llama-3.1-8b", "decode", batch=16, context=1088)
    assert step.ideal.time_s == pytest.approx(ours.time_s)
    assert step.ideal.error_ratio == pytest.approx(ours.time_s / 0.0089 - 1)
    assert step.extra["imported"]["in_flight"] == "max_concurrency"
    assert step.extra["imported"]["p99_itl_ms"] == 20.0
    assert step.method is not None
    assert step.method.timer == "imported:vllm-serve"
    assert first.case.op == "ttft:llama-3.1-8b"  # no pass: it must not stand among prefills
    assert first.case.shape == (("B", 16), ("Sin", 1024), ("Sout", 128))
    assert "tokens_per_call" not in first.extra
    assert first.predictions == ()
    assert first.extra["unpredicted"]["code"] == "foreign-not-predicted"


def test_one_request_at_a_time_is_a_prefill(write: Write) -> None:
    step, first = records(write("s.json", {**SERVE, "max_concurrency": 1}), hardware=H100)
    assert first.case.op == "prefill:llama-3.1-8b"
    assert first.ideal is not None
    assert first.measurement is not None
    assert first.ideal.time_s == pytest.approx(predict_model(H100, "llama-3.1-8b", "prefill", context=1024).time_s)
    assert dict(step.case.shape)["B"] == 1


def test_old_names_and_how_many_ran_together_by_littles_law(write: Write) -> None:
    step, _ = records(write("s.json", OLD_SERVE), hardware=H100)
    # 4 requests/s, each 30 ms + 99 × 7 ms: 4 × 0.723 = 2.9 of them at any time
    assert step.case.shape == (("B", 3), ("Sq", 1), ("Skv", 200 + 50))
    assert step.extra["imported"]["in_flight"] == "Little's law"
    assert dict(step.case.formats)["b"] == "FP8_E4M3"  # the suffix of the checkpoint
    assert step.expected is not None
    (again, _) = records(write("s.json", OLD_SERVE), hardware=H100, batch_count=5)
    assert dict(again.case.shape)["B"] == 5
    assert again.record_id != step.record_id  # another answer makes another case


def test_no_more_ran_together_than_were_let_in(write: Write) -> None:
    document = {**OLD_SERVE, "max_concurrency": 2}
    decode = next(record for record in records(write("s.json", document)) if record.case.op.startswith("decode"))
    free = next(record for record in records(write("t.json", OLD_SERVE)) if record.case.op.startswith("decode"))
    assert dict(decode.case.shape)["B"] == 2
    assert dict(free.case.shape)["B"] == 3


def test_without_what_littles_law_needs_it_is_asked_for(write: Write) -> None:
    lean = {key: value for key, value in OLD_SERVE.items() if key not in ("mean_ttft_ms", "duration")}
    step, _ = records(write("s.json", lean), hardware=H100)
    assert step.case.op == "tpot:llama-3.1-8b"
    assert "B" not in dict(step.case.shape)  # nobody knows: no batch of 1
    assert from_stored(step.extra["unpredicted"]) == finding(
        "import-incomplete", kind="batch", options="--batch", missing=("duration", "mean_ttft_ms")
    )


def test_results_appended_to_one_file(write: Write, empty_store: ResultStore) -> None:
    path = write(
        "s.json", json.dumps(SERVE) + "\n" + json.dumps({**SERVE, "date": "20260303-101500", "duration": 90.0})
    )
    assert import_any(empty_store, path).added == 4
    assert import_any(empty_store, path).duplicates == 4
    (run,) = empty_store.runs()
    assert run.started_at == "2026-03-02T10:15:00.000000+00:00"


def test_a_latency_is_a_prefill_and_the_steps_behind_it(write: Write) -> None:
    path = write("l.json", LATENCY)
    (bare,) = records(path, hardware=H100)
    assert bare.extra["unpredicted"]["values"] == {
        "kind": "tokens",
        "options": ["--batch", "--input-len", "--output-len"],
    }
    facts = {"model": "llama-3.1-8b", "batch_count": 8, "input_count": 1024, "output_count": 128}
    (whole,) = records(path, hardware=H100, **facts)
    assert whole.case.shape == (("B", 8), ("Sin", 1024), ("Sout", 128))
    assert whole.measurement is not None
    assert whole.ideal is not None
    assert whole.measurement.samples_s == (1.19, 1.2, 1.21)
    prompt = predict_model(H100, "llama-3.1-8b", "prefill", batch=8, context=1024)
    step = predict_model(H100, "llama-3.1-8b", "decode", batch=8, context=1024 + 64)
    assert whole.ideal.time_s == pytest.approx(prompt.time_s + 127 * step.time_s)
    assert whole.extra["tokens_per_call"] == 8 * 128


def test_the_copy_that_keeps_the_arguments_needs_nothing_said(write: Write) -> None:
    (record,) = records(write("l.pytorch.json", LATENCY_WITH_ARGUMENTS), hardware=H100)
    facts = {"model": "llama-3.1-8b", "batch_count": 8, "input_count": 1024, "output_count": 128}
    (plain,) = records(write("l.json", LATENCY), hardware=H100, **facts)
    assert record.case == plain.case
    assert record.measurement == plain.measurement
    assert record.predictions == plain.predictions
    (more,) = records(write("l.pytorch.json", LATENCY_WITH_ARGUMENTS), hardware=H100, batch_count=16)
    assert dict(more.case.shape)["B"] == 16  # what the user says counts
    two = json.loads(
        json.dumps(LATENCY_WITH_ARGUMENTS).replace('"tensor_parallel_size": 1', '"tensor_parallel_size": 2')
    )
    (over_two,) = records(write("two.json", two), hardware=H100)
    assert over_two.ideal.time_s == pytest.approx(plain.ideal.time_s / 2, rel=0.1)
    with pytest.raises(StoreError, match="tensor_parallel_size is 2: leave --tensor-parallel out"):
        records(write("two.json", two), hardware=H100, device_count=4)


def test_a_throughput_is_kept_but_no_pass(write: Write) -> None:
    (record,) = records(write("t.json", THROUGHPUT), hardware=H100, model="llama-3.1-8b")
    assert record.measurement is not None
    assert record.measurement.median_s == 10.5
    assert record.extra["tokens_per_call"] / 10.5 == pytest.approx(4761.9, rel=1e-4)
    assert record.predictions == ()
    assert record.extra["unpredicted"]["code"] == "foreign-not-predicted"


def test_a_time_per_token_with_speculation_is_no_step_and_the_prefill_stays_one(write: Write) -> None:
    path = write("s.json", {**SERVE, "max_concurrency": 1, "spec_decode_acceptance_length": 2.7})
    per_token, first = records(path, hardware=H100)
    assert per_token.case.op == "tpot:llama-3.1-8b"
    assert per_token.predictions == ()
    assert from_stored(per_token.extra["unpredicted"]) == finding(
        "foreign-not-predicted", kind="speculated", token_count=2.7
    )
    assert first.case.op == "prefill:llama-3.1-8b"
    assert first.predictions


def test_several_devices_share_the_work_over_the_chips_own_link_or_the_one_given(write: Write) -> None:
    path = write("s.json", SERVE)
    (unlinked, _) = records(path, hardware=get_hardware("l40s"), device_count=2)
    assert unlinked.predictions == ()
    assert "l40s has no link of its own" in str(unlinked.extra["unpredicted"])
    (two, _) = records(path, hardware=H100, device_count=2)
    assert two.ideal == records(path, hardware=H100, device_count=2, link_bytes_per_s=450e9)[0].ideal
    (single, _) = records(path, hardware=H100)
    assert two.ideal is not None
    assert single.ideal is not None
    assert 0.5 * single.ideal.time_s < two.ideal.time_s < 0.6 * single.ideal.time_s
    assert two.case.case_key != single.case.case_key


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({**SERVE, "completed": 0}, "completed is 0"),
        ({**SERVE, "median_tpot_ms": -1.0}, "median_tpot_ms is -0.001 s"),
        ({**SERVE, "median_tpot_ms": float("nan")}, "median_tpot_ms is nan"),
        ({**SERVE, "total_input_tokens": "many"}, "total_input_tokens is 'many'"),
        ({**SERVE, "model_id": 7}, "model_id is 7, not text"),
        ({**SERVE, "date": "noon"}, "date is 'noon'"),
        ({**SERVE, "duration": 0}, "duration is 0 s, not a time above 0 s"),
        ({**SERVE, "total_output_tokens": 0}, "total_output_tokens is 0 of 200 requests"),
        ({**LATENCY, "latencies": []}, "latencies is empty"),
        ({**LATENCY, "latencies": [1, "2"]}, "latencies[1] is '2'"),
        ({**THROUGHPUT, "elapsed_time": 0}, "elapsed_time is 0"),
        ([SERVE, LATENCY], "mixes results of vllm-latency and vllm-serve"),
        ([SERVE, {"a": 1}], "[1] is not a result"),
        ([SERVE, 7], "[1] is not a result"),
    ],
)
def test_a_bad_field_is_named(write: Write, content: Any, words: str) -> None:
    path = write("s.json", content)
    with pytest.raises(StoreError) as caught:
        read_any(path, Stated(hardware=H100))
    assert words in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "model", "formats"),
    [
        ("meta-llama/Llama-3.1-8B-Instruct", "llama-3.1-8b", None),
        ("unsloth/Llama-3.1-8B-Instruct", "llama-3.1-8b", None),
        ("RedHatAI/Meta-Llama-3.1-8B-Instruct-FP8-dynamic", "llama-3.1-8b", "FP8"),
        ("neuralmagic/Meta-Llama-3.1-8B-Instruct-quantized.w4a16", "llama-3.1-8b", "INT4.BF16"),
        ("RedHatAI/Llama-3.1-8B-Instruct-quantized.w8a8", "llama-3.1-8b", "INT8"),
        ("Qwen/Qwen2.5-7B-Instruct-AWQ", "qwen2.5-7b", "INT4.BF16"),
        ("Qwen/Qwen2.5-7B-Instruct-GPTQ-Int4", "qwen2.5-7b", "INT4.BF16"),
        ("nvidia/Llama-3.1-8B-Instruct-NVFP4", "llama-3.1-8b", "NVFP4"),
    ],
)
def test_hub_ids(name: str, model: str, formats: str | None) -> None:
    known_model = model_of_hub_id(name)
    assert known_model.shape is not None
    assert (known_model.shape.name, known_model.formats) == (model, formats)


def test_a_served_name_is_never_a_path(write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    step, _ = records(write("s.json", {**SERVE, "model_id": "config.json"}), hardware=H100)
    assert from_stored(step.extra["unpredicted"]) == finding(
        "import-incomplete", kind="model", options="--model NAME or its config.json", model="config.json"
    )
