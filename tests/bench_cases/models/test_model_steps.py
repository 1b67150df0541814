"""A step of a real model: repeatable, checked, its memory counted, its quality against the original."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import transformers
from counts import FULL

from bench_cases.models.held_models import HeldModel, HeldModels
from bench_cases.models.host_time import host_time, loaded_reference
from bench_cases.models.model_cases import model_cases
from bench_cases.models.model_step import compiled, make_step, step_ids, vocabulary_size
from bench_cases.models.reference import find_model
from bench_cases.models.sources import LoadedModel, seeded_llama
from bench_cases.models.step_memory import measure_memory, resident_bytes
from bench_cases.models.step_quality import measured_quality, quality_or_reason, quality_text
from bench_cases.quality.texts.python_help import ByteTokenizer
from bench_cases.quantization import apply_quantization, model_bytes, save_quantized
from bench_cases.quantization.target import Target
from roofline_model import create_custom_asic, get_hardware
from roofline_model.core.errors import RooflineError, UnsupportedError
from roofline_model.models.decoder_step import Workload

CONTEXT = 24


@pytest.fixture(scope="module")
def model():
    return seeded_llama("seeded-llama-1m")


@pytest.fixture(scope="module")
def ids(model):
    return step_ids(2, CONTEXT, vocabulary_size(model), "cpu")


@pytest.fixture(scope="module")
def small():
    return find_model("seeded-llama-1m")


@pytest.mark.parametrize("phase", ["decode", "prefill"])
@pytest.mark.parametrize("kv", ["BF16", "INT8", "NVFP4"])
def test_a_step_gives_the_same_logits_every_time_and_those_of_the_whole_sequence(model, ids, phase, kv):
    step = make_step(model, ids, Workload.of(phase, 2, CONTEXT), kv)
    first, second = step.fn(), step.fn()
    assert torch.equal(first, second)
    assert first.shape == (2, 512)
    assert step.check(first) <= step.tolerance
    assert step.check(torch.randn_like(first.float())) > 2 * step.tolerance
    assert step.check(torch.full_like(first, float("nan"))) == float("inf")


def test_the_cache_holds_what_its_format_says(model, ids):
    wide = make_step(model, ids, Workload.of("decode", 2, CONTEXT), "BF16").cached_bytes
    assert (
        wide == 2 * 2 * 2 * CONTEXT * 2 * 32 * 2
    )  # layers, keys and values, sequences, tokens, heads, head size, bytes
    narrow = make_step(model, ids, Workload.of("decode", 2, CONTEXT), "INT8").cached_bytes
    assert wide / 2 < narrow < wide * 0.6
    assert make_step(model, ids, Workload.of("prefill", 2, CONTEXT), "BF16").cached_bytes == wide


def test_a_window_that_slides_is_taken_back_too(ids):
    config = transformers.MistralConfig(
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=512,
        max_position_embeddings=128,
        sliding_window=8,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=None,
    )
    torch.manual_seed(0)
    mistral = transformers.MistralForCausalLM(config).eval()
    step = make_step(mistral, ids, Workload.of("decode", 2, CONTEXT), "FP32")
    first = step.fn()
    assert torch.equal(first, step.fn())
    assert step.check(first) < 1e-3


@pytest.fixture(scope="module")
def bert():
    config = transformers.BertConfig(
        hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64, vocab_size=512
    )
    torch.manual_seed(0)
    return transformers.BertModel(config).eval()


def test_an_encoder_is_compared_by_its_embeddings(bert):
    loaded = LoadedModel("bert", "folder", bert, None, 1)
    text = quality_text(loaded, 512, "cpu", None)
    quality = measured_quality(HeldModel(loaded, None), HeldModel(loaded, None), text)
    assert quality["embedding_cosine_ratio"]["value"] == pytest.approx(1)
    assert quality["rank_agreement_ratio"]["value"] == pytest.approx(1)
    assert (quality["sentences_count"], "kl_nats_per_token" in quality) == (64, False)


def test_an_encoder_has_a_prefill_and_no_decode_step(bert, ids):
    step = make_step(bert, ids, Workload.of("prefill", 2, CONTEXT), "FP32")
    assert step.fn().shape == (2, 32)
    assert step.check(step.fn()) < 1e-5
    with pytest.raises(UnsupportedError, match="BertModel keeps no key-value cache"):
        make_step(bert, ids, Workload.of("decode", 2, CONTEXT), "FP32")


def test_the_peak_counts_what_a_step_allocates_at_once():
    def step():
        first = torch.ones(1000, 1000)
        second = first + 1
        del first
        return second.sum()

    assert 8e6 <= measure_memory(step, "cpu")["peak_bytes"] < 8.2e6


def test_quantised_weights_really_leave_the_process():
    """Two 32 MB Linears to INT4 in this very process: what the allocator gives back is what the result says."""
    apply_quantization(torch.nn.Linear(128, 128), "INT4")  # what is imported for it stays
    net = torch.nn.Sequential(*(torch.nn.Linear(4096, 4096, bias=False, dtype=torch.bfloat16) for _ in range(2)))
    before = resident_bytes()
    if before is None:
        pytest.skip("this system does not tell the resident memory")
    result = apply_quantization(net, "INT4")
    after = resident_bytes()
    assert after is not None
    assert result.saved_bytes > 45e6
    assert before - after == pytest.approx(result.saved_bytes, rel=0.1)


def test_models_are_loaded_once_and_one_copy_is_held(small):
    held = HeldModels()
    cases = {(case.precision, case.phase): case for case in model_cases(small, "cpu", "quick")}
    reference = held.of(cases["BF16", "decode"], "cpu", None)
    assert held.of(cases["BF16", "prefill"], "cpu", None) is reference
    int4 = held.of(cases["INT4", "decode"], "cpu", None)
    assert held.of(cases["INT4", "prefill"], "cpu", None) is int4
    assert int4.loaded.model is not reference.loaded.model
    assert int4.held_bytes < 0.6 * reference.held_bytes
    assert held.of(cases["INT8", "decode"], "cpu", None) is not int4
    assert held.of(cases["BF16", "decode"], "cpu", None) is reference
    held.clear()
    assert held.of(cases["BF16", "decode"], "cpu", None) is not reference


def test_a_saved_model_is_run_as_it_was_saved(tmp_path):
    quantised = seeded_llama("seeded-llama-1m")
    folder = save_quantized(quantised, tmp_path / "int4", apply_quantization(quantised, "INT4"))
    saved = find_model(str(folder))
    held = HeldModels().of(model_cases(saved, "cpu", "quick")[0], "cpu", None)
    assert held.result is None
    assert held.held_bytes == model_bytes(quantised)


def test_a_compiled_step_gives_the_same_logits_and_leaves_the_model_as_it_was(model, ids):
    step = make_step(model, ids, Workload.of("decode", 2, CONTEXT), "BF16")
    before, calls = step.fn(), []

    def backend(graph, inputs):
        calls.append(len(inputs))
        return graph.forward

    with torch.compiler.set_stance("default"), compiled(model, backend=backend):
        assert step.check(step.fn()) <= step.tolerance
    assert calls
    assert model._compiled_call_impl is None
    assert torch.equal(step.fn(), before)


def test_each_compiled_case_is_one_graph_of_its_own_sizes_whatever_ran_before(model):
    """With sizes that torch may make symbolic, three contexts gave two graphs: a time that depends on the cases
    before.
    """
    graphs = []

    def backend(graph, inputs):
        graphs.append(
            all(isinstance(value, torch.Tensor) for value in inputs)
        )  # a symbolic size is an input, an integer
        return graph.forward

    contexts = (8, 16, 24) if FULL else (8, 16)  # the second is where a symbolic size would come in
    for context in contexts:
        ids = step_ids(2, context, vocabulary_size(model), "cpu")
        step = make_step(model, ids, Workload.of("decode", 2, context), "BF16")
        with torch.compiler.set_stance("default"), compiled(model, backend=backend):
            for _ in range(3):
                step.fn()
    assert graphs == [True] * len(contexts)


def test_a_model_that_is_no_single_graph_is_refused_with_the_reason(model, ids, monkeypatch):
    step = make_step(model, ids, Workload.of("decode", 2, CONTEXT), "BF16")
    inner = model.forward

    def breaks(*arguments, **wishes):
        torch._dynamo.graph_break()
        return inner(*arguments, **wishes)

    monkeypatch.setattr(model, "forward", breaks)
    with (
        torch.compiler.set_stance("default"),
        pytest.raises(UnsupportedError, match=r"torch\.compile cannot take LlamaForCausalLM as one graph: "),
        compiled(model, backend="eager"),
    ):
        step.fn()
    assert model._compiled_call_impl is None


def test_a_case_that_would_run_another_precision_is_refused(small):
    case = replace(model_cases(small, "cpu", "quick")[-1], precision="MXFP4.BF16")
    with pytest.raises(RooflineError):
        HeldModels().of(case, "cpu", None)
    fp8 = replace(case, precision="FP8")  # a CPU has the weight-only form alone
    with pytest.raises(UnsupportedError, match=r"FP8.*FP8\.BF16"):
        HeldModels().of(fp8, "cpu", None)


def test_quality_says_on_what_it_was_measured(small):
    held = HeldModels()
    cases = {case.precision: case for case in model_cases(small, "cpu", "quick")}
    reference, int4 = held.of(cases["BF16"], "cpu", None), held.of(cases["INT4"], "cpu", None)
    text = quality_text(reference.loaded, 512, "cpu", None)
    assert (text.source, text.is_language) == ("random tokens", False)
    assert not torch.equal(text.windows.ids, text.calibration.ids)
    quality = measured_quality(reference, int4, text)
    same = measured_quality(reference, reference, text)
    assert same["kl_nats_per_token"]["value"] == 0
    assert quality["kl_nats_per_token"]["low"] > 0
    assert quality["tokens_count"] == text.windows.scored_count


def test_a_model_with_a_tokenizer_reads_python_s_help_or_the_given_file(tmp_path):
    loaded = LoadedModel("bytes", "folder", seeded_llama("seeded-llama-1m"), ByteTokenizer(), 1)
    text = quality_text(loaded, 512, "cpu", None)
    assert text.source.startswith("pydoc_data.topics of Python 3")
    assert text.is_language
    book = tmp_path / "book.txt"
    book.write_text("".join(chr(97 + i // 100) for i in range(1280)))
    given = quality_text(loaded, 512, "cpu", book)
    assert given.source == "book.txt"
    rows = {tuple(row.tolist()) for row in given.windows.ids}
    assert rows.isdisjoint({tuple(row.tolist()) for row in given.calibration.ids})
    with pytest.raises(UnsupportedError, match="has no tokenizer"):
        quality_text(replace(loaded, tokenizer=None), 512, "cpu", book)


def test_no_quality_is_a_reason_and_no_error():
    def fails():
        raise UnsupportedError("no logits here")

    assert quality_or_reason(fails) == {"source": "none", "reason": "no logits here"}


def test_the_host_takes_time_that_grows_with_layers_and_not_with_size(small, model):
    case = model_cases(small, "cpu", "quick")[0]
    work = case.work(Target("cpu"))
    chip = replace(create_custom_asic("test cpu", 40, {"BF16": 0.4, "FP32": 0.2}), kind="cpu")
    time = host_time(model, case, work, chip)
    assert time is not None
    assert 1e-5 < time.low_s <= time.time_s <= time.high_s < 1
    many = replace(work, shape=replace(work.shape, layer_count=200))
    assert host_time(model, case, many, chip).time_s > 5 * time.time_s


def test_on_a_gpu_no_twin_is_made(small, model, monkeypatch):
    case = model_cases(small, "cuda", "quick")[0]

    def forbidden(*given):
        raise AssertionError("a twin was made")  # no error that is taken for a class's demand

    monkeypatch.setattr("bench_cases.models.host_time._twin", forbidden)
    assert host_time(model, case, case.work(Target("cuda", (9, 0))), get_hardware("h200-sxm")) is None


def test_a_class_without_a_twin_has_no_host_time(small):
    case = model_cases(small, "cpu", "quick")[0]
    odd = torch.nn.Linear(8, 8)
    chip = replace(create_custom_asic("test cpu", 40, {"BF16": 0.4}), kind="cpu")
    assert host_time(odd, case, case.work(Target("cpu")), chip) is None


def test_a_loaded_model_tells_its_shape(small, model):
    unknown = replace(small, shape=None)
    reference = loaded_reference(unknown, model)
    assert reference.shape is not None
    assert (reference.shape.layer_count, reference.shape.hidden_size, reference.wide) == (2, 128, "BF16")
    assert loaded_reference(small, model) is small
