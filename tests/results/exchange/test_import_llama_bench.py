"""llama-bench: four forms of the same tests, steps and prompts, what is matched and what is not."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from foreign_files import MARKDOWN, PP, TG, as_csv, llama_test

from results.exchange.foreign import Stated
from results.exchange.importing import import_any, read_any
from results.exchange.model_names import model_of_gguf, quantization_of
from results.records.records import Record
from results.store.store import ResultStore
from roofline_model.chips.hardware import get_hardware
from roofline_model.core.errors import StoreError
from roofline_model.core.finding import finding, from_stored
from roofline_model.models.format_plan import stored_plan
from roofline_model.models.hf.parameters import parameter_counts
from roofline_model.models.llm import predict_model
from roofline_model.models.model_registry import get_model

Write = Callable[[str, Any], Path]


def records(path: Path, **facts: Any) -> tuple[Record, ...]:
    read = read_any(path, Stated(**facts))
    assert read.kind
    return read.records


def test_a_prompt_is_one_call_and_a_decode_step_is_one(write: Write) -> None:
    prompt, steps = records(write("l.json", [PP, TG]))
    assert prompt.case.op == "prefill:llama-3.1-8b"
    assert prompt.case.shape == (("B", 1), ("Sq", 512), ("Skv", 512))
    assert prompt.measurement is not None
    assert prompt.measurement.samples_s == pytest.approx((0.0501, 0.0499, 0.05))
    assert prompt.measurement.median_s == pytest.approx(0.05)
    assert prompt.extra["tokens_per_call"] == 512  # 512 tokens in 50 ms: 10,240 tokens/s, as avg_ts says
    assert steps.case.op == "decode:llama-3.1-8b"
    assert steps.case.shape == (("B", 1), ("Sq", 1), ("Skv", 64))  # 128 steps from nothing: 64 tokens in the middle
    assert steps.measurement is not None
    assert steps.measurement.median_s == pytest.approx(0.8 / 128)
    assert steps.measurement.calls_per_sample == 128
    assert dict(steps.case.formats) == {"a": "BF16", "b": "INT4", "kv": "FP16"}


def test_the_method_is_its_own_and_says_where_it_came_from(write: Write) -> None:
    read = read_any(write("l.json", [PP]))
    assert read.kind
    (record,) = read.records
    assert record.method is not None
    assert record.method.timer == "imported:llama-bench"
    assert record.method.settings["n_gpu_layers"] == 99
    assert record.extra["imported"]["file"] == "l.json"
    assert read.runs[0].run.environment.class_facts["imported_from"] == "llama-bench"
    assert read.runs[0].run.label == "llama-bench: l.json"
    assert read.runs[0].run.started_at == "2026-03-02T10:00:00.000000+00:00"


def test_the_chip_in_the_file_is_predicted_and_no_other(write: Write) -> None:
    path = write("l.json", [TG])
    (record,) = records(path)
    ideal, expected = record.ideal, record.expected
    assert ideal is not None
    assert expected is not None
    assert ideal.hardware_key == "h100-sxm"
    assert ideal.time_s < expected.time_s < record.measurement.median_s  # type: ignore[union-attr]
    assert expected.low_s is not None
    assert expected.high_s is not None
    assert expected.low_s < expected.time_s < expected.high_s
    assert ideal.error_ratio == pytest.approx(ideal.time_s / (0.8 / 128) - 1)
    (other,) = records(path, hardware=get_hardware("gb10"))
    assert other.predictions == ()
    assert from_stored(other.extra["unpredicted"]) == finding(
        "chip-contradicted", device="NVIDIA H100 80GB HBM3", hardware="gb10"
    )


def test_the_prediction_is_that_of_predict_model_where_the_size_is_the_formats(write: Write) -> None:
    chip = get_hardware("h100")
    ours = predict_model(chip, "llama-3.1-8b", "decode", context=64, formats="FP16", kv="FP16")
    wide = {"model_type": "llama 8B F16", "model_filename": "llama-3.1-8b-F16.gguf"}
    same = llama_test(new=128, samples_ns=(10**9,), **wide, model_size=round(ours.memory.weights_bytes))
    more = {**same, "model_size": round(2 * ours.memory.weights_bytes)}
    exact, larger = records(write("l.json", [same, more]))
    assert exact.ideal is not None
    assert larger.ideal is not None
    assert exact.ideal.time_s == pytest.approx(ours.time_s, rel=1e-6)
    assert exact.ideal.read_bytes + exact.ideal.write_bytes == pytest.approx(ours.moved_bytes, rel=1e-6)
    assert exact.ideal.flops == pytest.approx(ours.flops)
    # Twice the bytes per weight: a decode step reads all weights but the embedding once more.
    added = larger.ideal.read_bytes - exact.ideal.read_bytes
    assert 0.9 * ours.memory.weights_bytes < added < ours.memory.weights_bytes
    assert larger.ideal.time_s - exact.ideal.time_s == pytest.approx(added / chip.bandwidth.value)


def test_json_lines_and_csv_are_the_same_records_as_json(write: Write, empty_store: ResultStore) -> None:
    tests = [PP, TG]
    assert import_any(empty_store, write("l.json", tests)).added == 2
    lines = "".join(json.dumps(test) + "\n" for test in tests)
    wide = write("wide.json", tests)
    wide.write_bytes(wide.read_text().encode("utf-16"))  # as a redirection of PowerShell writes it
    logged = write("logged.jsonl", f"ggml_cuda_init: found 1 CUDA devices:\n{lines}")
    for path in (write("l.jsonl", lines), write("l.csv", as_csv(tests)), write("l2.json", tests), wide, logged):
        report = import_any(empty_store, path)
        assert (report.added, report.duplicates) == (0, 2)
    assert len(empty_store.runs()) == 1


def test_a_file_that_grew_adds_what_is_new_to_the_same_run(write: Write, empty_store: ResultStore) -> None:
    import_any(empty_store, write("l.jsonl", json.dumps(PP) + "\n" + json.dumps(TG) + "\n"))
    later = llama_test(new=128, samples_ns=(790_000_000,), test_time="2026-03-03T10:00:00Z")
    report = import_any(
        empty_store, write("l.jsonl", "".join(json.dumps(row) + "\n" for row in (PP, TG, later, later)))
    )
    assert (report.added, report.duplicates) == (1, 3)
    (run,) = empty_store.runs()
    assert len(empty_store.records(run.run_id)) == 3
    report = import_any(empty_store, write("rest.json", [TG, later]))  # other first record: another run, nothing new
    assert (report.added, report.duplicates, report.run_ids) == (0, 2, (run.run_id,))


def test_the_markdown_table_that_people_paste(write: Write) -> None:
    prompt, deep, both = records(write("l.md", MARKDOWN), hardware=get_hardware("h100"))
    assert prompt.measurement is not None
    assert deep.measurement is not None
    assert both.measurement is not None
    assert prompt.measurement.samples_s == pytest.approx((0.05,))
    assert prompt.measurement.std_s is None  # one figure says nothing about the spread
    assert prompt.extra["imported"]["rate_std_tokens_per_s"] == 20.0
    assert dict(deep.case.shape)["Skv"] == 4096 + 64
    assert deep.measurement.median_s == pytest.approx(1 / 150)
    assert both.case.op == "generate:llama-3-8b"  # 8.03 billion parameters: Llama 3 and 3.1 are one shape
    assert both.measurement.median_s == pytest.approx(640 / 700)
    assert both.ideal is not None
    assert prompt.ideal is not None
    step = predict_model("h100", "llama-3-8b", "decode", context=512 + 64, formats="INT4", exceptions=["lm_head=INT4"])
    assert both.ideal.time_s > prompt.ideal.time_s + 128 * step.time_s  # the file is larger than INT4 with its scales


def test_settings_make_cases_of_their_own(write: Write) -> None:
    ways = [{}, {"n_ubatch": 1024}, {"flash_attn": 0}, {"type_k": "q8_0", "type_v": "q8_0"}, {"n_gpu_layers": 20}]
    imported = records(write("l.json", [llama_test(prompt=512, samples_ns=(10**8,), **way) for way in ways]))
    assert len({record.case.case_key for record in imported}) == len(ways)
    assert dict(imported[3].case.formats)["kv"] == "INT8"
    assert from_stored(imported[4].extra["unpredicted"]) == finding(
        "foreign-not-predicted", kind="layers", gpu_count=20, layer_count=32
    )


@pytest.mark.parametrize(
    ("changes", "facts", "reason"),
    [
        (
            {"model_n_params": 9_000_000_000, "model_filename": "my.gguf"},
            {},
            "model",
        ),
        ({"model_type": "llama 8B", "model_filename": "Meta-Llama-3.1-8B.gguf"}, {}, "formats"),
        ({"gpu_info": "NVIDIA Something 9"}, {}, "chip-unclear"),
        ({"gpu_info": "", "backends": "CPU"}, {}, "chip"),
        ({"gpu_info": "", "backends": "CPU"}, {"hardware": "h100"}, "cpu"),
        ({"n_cpu_moe": 3}, {}, "experts"),
        ({"tensor_buft_overrides": "exps=CPU"}, {}, "experts"),
        ({"no_kv_offload": True}, {}, "cache"),
    ],
)
def test_what_cannot_be_matched_is_said_and_stored_all_the_same(
    write: Write, changes: dict[str, Any], facts: dict[str, Any], reason: str
) -> None:
    stated = {"hardware": get_hardware(facts["hardware"])} if facts else {}
    (record,) = records(write("l.json", [{**TG, **changes}]), **stated)
    assert record.status == "measured"
    assert record.predictions == ()
    unpredicted = record.extra["unpredicted"]
    assert unpredicted["values"].get("kind", unpredicted["code"]) == reason


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("avg_ns", -5, "[0].avg_ns is -5e-09 s, not a time above 0"),
        ("avg_ns", float("nan"), "[0].avg_ns is nan"),
        ("avg_ns", "fast", "[0].avg_ns is 'fast', not a number"),
        ("samples_ns", [1, -2], "[0].samples_ns[1]"),
        ("samples_ns", [0], "[0].samples_ns[0] is 0 s, not a time above 0 s"),
        ("samples_ns", 7, "[0].samples_ns is a number, not a list"),
        ("samples_ns", [None], "[0].samples_ns[0] is missing or null"),
        ("n_gen", -1, "[0].n_gen is -1"),
        ("n_gen", 2.5, "[0].n_gen is 2.5, not a whole number"),
        ("n_gen", 0, "n_prompt and n_gen are both 0"),
        ("n_gen", 2**70, "[0].n_gen"),
        ("n_depth", True, "[0].n_depth is true or false"),
        ("model_type", None, "[0].model_type is missing or null"),
        ("model_type", "x" * 5000, "[0].model_type is 5,000 characters long"),
        ("model_size", 0, "[0].model_size is 0"),
        ("test_time", "yesterday", "[0].test_time is 'yesterday', not a date"),
        ("test_time", 7, "[0].test_time is 7"),
    ],
)
def test_a_bad_field_is_named_and_nothing_is_imported(
    write: Write, empty_store: ResultStore, field: str, value: Any, words: str
) -> None:
    bad = {**TG, field: value}
    if field == "avg_ns":
        del bad["samples_ns"]
    path = write("l.json", json.dumps([bad, PP]))
    with pytest.raises(StoreError) as caught:
        import_any(empty_store, path)
    assert words in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert empty_store.runs() == []


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"avg_ts": 100.0, "avg_ns": 1.28e9, "samples_ns": [1_280_000] * 3},
            "[0].avg_ns is 1280000000.0, but the mean of samples_ns 1280000",
        ),
        ({"avg_ts": 1.0}, "[0].avg_ts is 1 tokens/s, but samples_ns says 160"),
        ({"avg_ts": 1.0, "samples_ns": None}, "[0].avg_ts is 1 tokens/s, but avg_ns says 160"),
        ({"avg_ts": 170.0, "samples_ns": None}, "[0].avg_ts is 170 tokens/s, but avg_ns says 160"),
    ],
)
def test_a_test_that_contradicts_itself_is_refused(write: Write, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(StoreError) as caught:
        read_any(write("l.json", [{**TG, **changes}]))
    assert words in str(caught.value)


def test_a_mean_of_rates_may_be_above_the_rate_of_the_mean(write: Write) -> None:
    """Repetitions of 0.5 s and 1.5 s: 170.7 tokens/s on average, 128 by the mean time."""
    noisy = llama_test(new=128, samples_ns=(500_000_000, 1_500_000_000), avg_ts=(256 + 128 / 1.5) / 2, stddev_ts=120.68)
    assert len(records(write("l.json", [noisy]))) == 1
    assert len(records(write("l.csv", as_csv([noisy])))) == 1


def test_the_same_mean_of_other_repetitions_is_another_test(write: Write, empty_store: ResultStore) -> None:
    wide = llama_test(
        new=128, samples_ns=(900_000_000, 700_000_000), stddev_ns=141_421_356, test_time=TG["test_time"], avg_ts=162.54
    )
    assert import_any(empty_store, write("one.json", [TG])).added == 1
    assert import_any(empty_store, write("other.json", [{**wide, "avg_ts": 162.54}])).added == 1


def test_rows_of_two_machines_are_refused(write: Write) -> None:
    with pytest.raises(StoreError, match=r"\[1\].gpu_info differs"):
        read_any(write("l.json", [PP, {**TG, "gpu_info": "NVIDIA L4"}]))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (as_csv([PP]).replace('"50000000"', '"quick"'), "line 2.avg_ns is 'quick', not a number"),
        (as_csv([PP]) + '"only","three","cells"\n', "line 3 has 3 cells"),
        (MARKDOWN.replace("150.00 ± 0.20", "fast"), "line 5.t/s is 'fast'"),
        (
            MARKDOWN.replace("150.00 ± 0.20", "1.000,00"),
            "line 5.t/s is '1.000,00', not tokens per second as in 1000.00",
        ),
        (MARKDOWN.replace("tg128 @ d4096", "embeddings"), "line 5.test is 'embeddings'"),
        (MARKDOWN.replace("150.00 ± 0.20", "0.00"), "line 5.avg_ts is 0 tokens/s"),
        (as_csv([PP]).splitlines()[0] + "\n", "it holds no test"),
    ],
)
def test_a_bad_line_is_named(write: Write, text: str, words: str) -> None:
    with pytest.raises(StoreError) as caught:
        read_any(write("l.csv", text))
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("file", "description", "count", "name"),
    [
        ("Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf", "llama 8B Q4_K - Medium", 8.03e9, "llama-3.1-8b"),
        ("C:\\models\\Qwen2.5-7B-Instruct-q8_0.gguf", "qwen2 7B Q8_0", 7.616e9, "qwen2.5-7b"),
        ("ggml-model-q4_0.gguf", "llama 7B mostly Q4_0", 6.74e9, "llama-2-7b"),
        ("gpt-oss-20b-MXFP4-00001-of-00002.gguf", "gpt-oss 20B MXFP4 MoE", 20.91e9, "gpt-oss-20b"),
        ("Llama-3.1-8B-Q4_0.gguf", "llama 70B Q4_0", 70.55e9, "llama-3-70b"),  # renamed: the parameters count
    ],
)
def test_models_are_recognised_by_name_or_by_parameters(file: str, description: str, count: float, name: str) -> None:
    model = model_of_gguf(file, description, count)
    assert model.unknown is None
    assert model.shape is not None
    assert model.shape.name == model.name == name


@pytest.mark.parametrize(
    ("description", "file", "name", "formats"),
    [
        ("llama 8B Q4_K - Medium", "", "Q4_K - Medium", "INT4.BF16"),
        ("llama 7B mostly Q4_0", "", "Q4_0", "INT4.BF16"),
        ("qwen3 8B Q8_0", "", "Q8_0", "INT8.BF16"),
        ("llama 8B IQ4_XS - 4.25 bpw", "", "IQ4_XS", "INT4.BF16"),
        ("llama 1B F16", "", "F16", "FP16"),
        ("llama 1B all F32", "", "F32", "FP32"),
        ("gpt-oss 20B MXFP4 MoE", "", "MXFP4 MoE", "MXFP4.BF16"),
        ("llama 8B", "Llama-3-8B-Q5_K_S.gguf", "Q5_K_S", "INT4.BF16"),
    ],
)
def test_quantisations_by_llama_cpps_names(description: str, file: str, name: str, formats: str) -> None:
    quantization = quantization_of(description, file)
    assert quantization is not None
    assert (quantization.name, quantization.formats) == (name, formats)
    assert quantization_of("llama 8B", "model.gguf") is None


# Sizes of files: experts stay MXFP4, the rest is Q8_0 or F16; of a model that ships no MXFP4, and of some whose experts
# were widened with the rest.
@pytest.mark.parametrize(
    ("model", "kind", "size", "plan"),
    [
        ("gpt-oss-120b", "MXFP4 MoE", 63_369_809_088, "INT8.BF16 experts=MXFP4.BF16"),
        ("gpt-oss-20b", "MXFP4 MoE", 12_109_566_976, "INT8.BF16 experts=MXFP4.BF16"),
        ("gpt-oss-20b", "F16", 13_780_000_000, "BF16 experts=MXFP4.BF16"),
        ("qwen3-30b-a3b", "MXFP4 MoE", 17_060_000_000, "INT8.BF16 experts=MXFP4.BF16"),
        ("gpt-oss-20b", "Q8_0", 22_260_000_000, "INT8.BF16"),
        ("qwen3-30b-a3b", "Q8_0", 32_480_000_000, "INT8.BF16"),
    ],
)
def test_experts_and_the_rest_of_a_file_have_their_own_formats(
    write: Write, model: str, kind: str, size: int, plan: str
) -> None:
    count = parameter_counts(get_model(model)).total_count
    facts = {"model_type": f"{model} {kind}", "model_size": size, "model_n_params": count, "gpu_info": "NVIDIA GB10"}
    (record,) = records(write("l.json", [{**TG, **facts, "model_filename": f"{model}.gguf"}]))
    assert record.extra["imported"]["compared_as"] == plan
    assert record.ideal is not None
    formats = stored_plan(plan, get_model(model), weight_bytes=size)
    alone = predict_model("gb10", model, "decode", context=64, formats=formats)
    assert record.ideal.time_s == pytest.approx(alone.time_s, rel=0.07)  # scales of Q8_0 and norms are left to scale
    assert dict(record.case.formats)["b"] == ("MXFP4" if "experts" in plan else "INT8")


def test_gpt_oss_on_a_gb10_is_not_promised_the_bytes_of_a_file_that_is_mxfp4_throughout(write: Write) -> None:
    for model, size, tokens_per_s in (("gpt-oss-120b", 63_369_809_088, 78.8), ("gpt-oss-20b", 12_109_566_976, 109.4)):
        count = parameter_counts(get_model(model)).total_count
        facts = {"model_type": f"{model} MXFP4 MoE", "model_size": size, "model_n_params": count}
        facts |= {"model_filename": f"{model}-mxfp4.gguf", "gpu_info": "NVIDIA GB10"}
        (record,) = records(write("l.json", [{**TG, **facts}]))
        assert record.ideal is not None
        assert 1 / record.ideal.time_s == pytest.approx(tokens_per_s, rel=0.015)
