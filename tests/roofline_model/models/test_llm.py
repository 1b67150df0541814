"""A whole pass: hand-counted sums, the original documents' figures, limits and relations."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline_model import create_custom_asic, get_hardware
from roofline_model.core.errors import InvalidValueError, RooflineError, UnsupportedError
from roofline_model.core.finding import has_code
from roofline_model.models.decoder_step import Workload, step_kernels
from roofline_model.models.format_plan import plan_from_text
from roofline_model.models.hf.parameters import model_kv_bytes, parameter_counts
from roofline_model.models.llm import (
    LaunchCosts,
    kv_crossover_tokens,
    launch_costs,
    predict_model,
    read_weight_bytes,
    time_to_first_token_s,
)
from roofline_model.models.model_memory import plan_kv_bytes, weights_bytes
from roofline_model.models.model_registry import get_model, list_models
from roofline_model.models.tensor_parallel import Parallel, shard

GB10 = get_hardware("gb10")
NAMES = [shape.name for shape in list_models()]


def kernel_bytes(name: str, **options: object) -> dict[str, float]:
    """Return the bytes each kernel moves in one pass on gb10."""
    prediction = predict_model(GB10, name, **options)  # type: ignore[arg-type]
    return {kernel.kernel.name: kernel.moved_bytes for kernel in prediction.kernels}


# --- the original documents


def test_seed_decode_times_of_llama_3_8b_on_gb10() -> None:
    # 004 claims 45.8 ms at 4K and 91.6 ms at 32K; its own bytes give these (SEED_FIGURES "correct").
    four, thirty_two = (
        predict_model(GB10, "llama-3.1-8b", context=context, formats="FP16").time_s for context in (4096, 32768)
    )
    assert four * 1e3 == pytest.approx(57, abs=0.1)
    assert thirty_two * 1e3 == pytest.approx(70.7, abs=0.1)
    bytes_32k = 2 * (6_979_321_856 + 128256 * 4096) + 4096 * 1024**2
    assert thirty_two == pytest.approx(bytes_32k / 273.06e9, rel=1e-3)


@pytest.mark.parametrize(
    ("name", "formats", "kv", "batch", "tokens"),
    [
        ("llama-3-8b", "FP16", None, 1, 114_512), ("llama-3-8b", "FP8", "FP8", 1, 114_512), ("llama-3-8b", "FP8", "NVFP4", 1, 202_173),
        ("llama-2-70b", "FP16", None, 1, 419_392), ("llama-3-8b", "FP16", None, 8, 14_314),
    ],
)  # fmt: skip
def test_seed_crossover(name: str, formats: str, kv: str | None, batch: int, tokens: int) -> None:
    narrow = [f"{part}={formats}" for part in ("lm_head", "embedding")]  # every matrix, as the original documents count
    plan = plan_from_text(formats, get_model(name), kv=kv, exceptions=narrow)
    crossover = kv_crossover_tokens(name, plan, batch=batch)
    assert crossover is not None
    assert round(crossover) == tokens


def test_at_the_crossover_weights_and_cache_are_equal() -> None:
    for name in NAMES:
        shape = get_model(name)
        plan = plan_from_text("checkpoint", shape)
        tokens = kv_crossover_tokens(shape, plan)
        if tokens is None:
            assert shape.windowed_count == shape.layer_count
        else:
            below, above = (plan_kv_bytes(shape, plan, edge) for edge in (math.floor(tokens), math.ceil(tokens)))
            assert below <= read_weight_bytes(shape, plan) * (1 + 1e-12) <= above * (1 + 1e-9)


def test_a_model_of_windows_alone_has_no_crossover() -> None:
    assert kv_crossover_tokens("mistral-7b-v0.1") is None
    with pytest.raises(InvalidValueError, match="batch must be a whole number"):
        kv_crossover_tokens("llama-3-8b", batch=0)


def test_a_crossover_inside_the_window() -> None:
    # 10,000 sequences: the cache passes the weights before the window of 128 tokens is full.
    tokens = kv_crossover_tokens("gpt-oss-20b", "FP16", batch=10_000)
    assert tokens is not None
    assert tokens < 128
    shape = get_model("gpt-oss-20b")
    plan = plan_from_text("FP16", shape)
    assert plan_kv_bytes(shape, plan, 1, 10_000) * tokens == pytest.approx(read_weight_bytes(shape, plan, 10_000))


# --- hand counts


def test_a_decode_step_of_llama_3_8b_by_hand() -> None:
    prediction = predict_model(GB10, "llama-3-8b", context=4096)
    kernels = {kernel.kernel.name: kernel for kernel in prediction.kernels}
    assert {name: kernel.kernel.calls_count for name, kernel in kernels.items()} == {
        "embedding": 1,
        "input_norm": 32,
        "qkv_proj": 32,
        "rope": 32,
        "kv_write": 32,
        "attention": 32,
        "o_proj": 32,
        "ffn_norm": 32,
        "gate_up_proj": 32,
        "silu_mul": 32,
        "down_proj": 32,
        "final_norm": 1,
        "lm_head": 1,
    }
    assert prediction.launch_count == 10 * 32 + 3
    assert kernels["qkv_proj"].moved_bytes == 32 * 2 * (4096 + 6144 * 4096 + 6144)
    assert kernels["gate_up_proj"].moved_bytes == 32 * 2 * (4096 + 2 * 14336 * 4096 + 2 * 14336)
    assert kernels["attention"].moved_bytes == 32 * 2 * (2 * 4096 + 2 * 4096 * 1024)  # Q, O, and K and V of 4096 tokens
    assert kernels["attention"].flops == 32 * 4 * 32 * 4096 * 128
    assert kernels["kv_write"].moved_bytes == 32 * 2 * 2 * 2 * 1024
    assert kernels["lm_head"].flops == 2 * 128256 * 4096
    products = 2 * (6_979_321_856 + 128256 * 4096)
    matrices = sum(kernels[name].flops for name in ("qkv_proj", "o_proj", "gate_up_proj", "down_proj", "lm_head"))
    assert matrices == products
    assert prediction.time_s == pytest.approx(sum(kernel.time_s for kernel in prediction.kernels))
    assert prediction.tokens_per_s == pytest.approx(1 / prediction.time_s)
    assert prediction.bound == "memory"


def test_seed_prefill_flops() -> None:
    # L·(2·S·(layer matrices) + 4·nh·d·S·(S + 1)/2) + one row of logits; 002's 8·B·S·H² holds for MHA only.
    size = 2048
    prediction = predict_model(GB10, "llama-3-8b", "prefill", context=size)
    names = ("qkv_proj", "o_proj", "gate_up_proj", "down_proj", "attention", "lm_head")
    flops = sum(kernel.flops for kernel in prediction.kernels if kernel.kernel.name in names)
    assert flops == 2 * size * 6_979_321_856 + 32 * 4 * 32 * 128 * size * (size + 1) // 2 + 2 * 128256 * 4096
    assert prediction.bound == "compute"
    assert prediction.token_count == size


def test_a_mixture_reads_only_the_experts_it_visits() -> None:
    single = kernel_bytes("mixtral-8x7b", context=128)
    expert = 4096 * 14336 * 2
    assert single["experts_down"] == pytest.approx(32 * (2 * expert + 2 * 2 * (14336 + 4096)))
    many = kernel_bytes("mixtral-8x7b", context=128, batch=64)
    visited = 8 * (1 - (6 / 8) ** 64)
    assert many["experts_down"] == pytest.approx(32 * (visited * expert + 128 * 2 * (14336 + 4096)))
    assert many["qkv_proj"] < 1.1 * single["qkv_proj"]


def test_gpt_oss_keeps_mxfp4_for_its_experts_and_reads_only_its_window() -> None:
    prediction = predict_model(GB10, "gpt-oss-20b", context=4096)
    kernels = {kernel.kernel.name: kernel for kernel in prediction.kernels}
    assert dict(kernels["experts_down"].kernel.work.formats)["b"] == "MXFP4"
    assert dict(kernels["qkv_proj"].kernel.work.formats)["b"] == "BF16"
    full, window = kernels["attention"], kernels["attention[128]"]
    assert (full.kernel.calls_count, window.kernel.calls_count) == (12, 12)
    assert window.moved_bytes == 12 * 2 * (2 * 4096 + 2 * 128 * 512)
    assert full.moved_bytes == 12 * 2 * (2 * 4096 + 2 * 4096 * 512)


def test_published_checkpoint_sizes_of_gpt_oss() -> None:
    # gpt-oss model card (arXiv 2508.10925), table 1: 12.8 and 60.8 GiB.
    for name, gib in (("gpt-oss-20b", 12.8), ("gpt-oss-120b", 60.8)):
        shape = get_model(name)
        assert round(weights_bytes(shape, plan_from_text("checkpoint", shape)) / 1024**3, 1) == gib


def test_latent_attention_absorbs_in_decode_and_expands_in_prefill() -> None:
    decode = {kernel.kernel.name: kernel for kernel in predict_model(GB10, "deepseek-v3", context=4096).kernels}
    assert dict(decode["attention"].kernel.work.shape)["Hkv"] == 1
    assert decode["attention"].flops == 61 * 2 * 128 * 4096 * (576 + 512)
    assert decode["attention"].moved_bytes == 61 * 2 * (128 * 576 + 4096 * 576 + 128 * 512)  # the latent is read once
    assert {"absorb_k", "absorb_v"} <= set(decode)
    assert "kv_b_proj" not in decode
    prefill = {
        kernel.kernel.name: kernel for kernel in predict_model(GB10, "deepseek-v3", "prefill", context=512).kernels
    }
    assert prefill["attention"].flops == 61 * 2 * 128 * (512 * 513 // 2) * (192 + 128)
    assert prefill["kv_b_proj"].flops == 61 * 2 * 512 * 512 * 128 * 256
    assert "absorb_k" not in prefill


def test_a_parallel_block_has_one_norm_and_a_plain_mlp() -> None:
    names = [kernel.kernel.name for kernel in predict_model(GB10, "phi-2", context=64).kernels]
    assert names == [
        "embedding",
        "input_norm",
        "qkv_proj",
        "rope",
        "kv_write",
        "attention",
        "o_proj",
        "up_proj",
        "gelu",
        "down_proj",
        "residual_add",
        "final_norm",
        "lm_head",
    ]


def test_gemma_has_four_norms_and_normed_heads() -> None:
    counts = {
        kernel.kernel.name: kernel.kernel.calls_count
        for kernel in predict_model(GB10, "gemma-3-1b", context=64).kernels
    }
    assert {counts[name] for name in ("input_norm", "post_attention_norm", "ffn_norm", "post_ffn_norm", "qk_norm")} == {
        26
    }
    assert counts["attention"] + counts["attention[512]"] == 26


# --- relations


@pytest.mark.parametrize("name", NAMES)
def test_the_pass_reads_the_weights_it_should(name: str) -> None:
    shape = get_model(name)
    plan = plan_from_text("BF16", shape)
    weights = sum(
        kernel.calls_count * size
        for kernel in step_kernels(shape, Workload.of("decode", 1, 1), plan)
        for tensor, size in kernel.work.cost.read_bytes
        if tensor == "B"
    )
    absorbed = read_weight_bytes(shape, plan)
    gates = shape.layer_count * shape.hidden_size * 2 if shape.experts and shape.experts.has_shared_gate else 0
    assert weights == pytest.approx(absorbed, abs=gates + 1)


@pytest.mark.parametrize("name", NAMES)
def test_memory_is_parameters_and_cache(name: str) -> None:
    shape = get_model(name)
    plan = plan_from_text("BF16", shape)
    assert weights_bytes(shape, plan) == 2 * parameter_counts(shape).total_count
    for context in (1, 300, shape.max_context_size):
        assert plan_kv_bytes(shape, plan, context, 3) == model_kv_bytes(shape, context, 3)


@given(
    name=st.sampled_from(NAMES),
    batch=st.integers(1, 64),
    context=st.integers(1, 2048),
    data=st.data(),
    phase=st.sampled_from(["decode", "prefill"]),
)
def test_more_work_never_takes_less_time(name: str, batch: int, context: int, phase: str, data: st.DataObject) -> None:
    prediction = predict_model(GB10, name, phase, batch=batch, context=context)
    more_batch = predict_model(GB10, name, phase, batch=batch + data.draw(st.integers(1, 64)), context=context)
    longer = predict_model(GB10, name, phase, batch=batch, context=min(2048, context + data.draw(st.integers(1, 512))))
    assert prediction.time_s > 0
    assert more_batch.time_s >= prediction.time_s
    assert longer.time_s >= prediction.time_s * (1 - 1e-12)
    assert prediction.graph_time_s >= prediction.time_s
    assert prediction.stream_time_s >= prediction.graph_time_s


@given(name=st.sampled_from(["llama-3-8b", "qwen3-8b", "gemma-2-9b", "mixtral-8x7b"]), tokens=st.integers(1, 64))
def test_prefill_of_one_token_is_a_decode_step(name: str, tokens: int) -> None:
    decode = predict_model(GB10, name, "decode", batch=tokens, context=1)
    prefill = predict_model(GB10, name, "prefill", batch=tokens, context=1)
    assert decode.time_s == prefill.time_s


@given(name=st.sampled_from(NAMES), context=st.integers(2, 1024), chunk=st.integers(1, 1024))
def test_a_chunk_is_never_more_than_the_whole_prompt(name: str, context: int, chunk: int) -> None:
    whole = predict_model(GB10, name, "prefill", context=context)
    part = predict_model(GB10, name, "prefill", context=context, new_tokens=min(chunk, context))
    assert part.flops <= whole.flops


def test_faster_chips_and_narrower_formats_are_never_slower() -> None:
    times = [predict_model("b10", "llama-3-8b", formats=text).time_s for text in ("FP16", "FP8", "NVFP4")]
    assert times[0] > times[1] > times[2]
    assert predict_model("h100-sxm", "llama-3-8b").time_s < predict_model(GB10, "llama-3-8b").time_s


def test_time_to_first_token_is_the_prompt() -> None:
    decode = predict_model(GB10, "llama-3-8b", context=1025)
    prompt = predict_model(GB10, "llama-3-8b", "prefill", context=1024)
    assert time_to_first_token_s(decode, GB10) == prompt.time_s == time_to_first_token_s(prompt, GB10)
    first = predict_model(GB10, "llama-3-8b", context=1)
    assert time_to_first_token_s(first, GB10) == first.time_s


def test_new_tokens_of_speculative_decoding() -> None:
    single, five = (predict_model(GB10, "llama-3-8b", context=1024, new_tokens=count) for count in (1, 5))
    assert five.token_count == 5
    assert single.time_s < five.time_s < 1.05 * single.time_s


# --- launches


def test_launch_gaps_without_graphs_are_longer_and_the_host_is_a_floor() -> None:
    costs = LaunchCosts(1e-6, 2e-6, 10e-6, "test")
    assert costs.step_s(1e-3, 100, has_graph=True) == pytest.approx(1.1e-3)
    assert costs.step_s(1e-3, 100, has_graph=False) == pytest.approx(1.2e-3)
    assert costs.step_s(1e-4, 100, has_graph=False) == pytest.approx(1e-3)  # the host needs 1 ms to launch them
    prediction = predict_model("h200", "llama-3.2-1b", context=128, launches=costs)
    assert prediction.stream_time_s == pytest.approx(prediction.launch_count * 10e-6)
    with pytest.raises(InvalidValueError, match="host_launch_s must be seconds"):
        LaunchCosts(0, 0, -1e-6, "test")


def test_a_cpu_launches_nothing() -> None:
    from dataclasses import replace

    assert launch_costs(replace(GB10, kind="cpu")).host_launch_s == 0
    assert "published" in launch_costs(GB10).source


# --- several devices


def test_tensor_parallelism_divides_weights_and_adds_the_all_reduces() -> None:
    link = 450e9
    prediction = predict_model("h100-sxm", "llama-3.1-70b")
    two = predict_model("h100-sxm", "llama-3.1-70b", parallel=Parallel(2, link))
    assert two.memory.weights_bytes == pytest.approx(prediction.memory.weights_bytes / 2, rel=1e-3)
    assert two.memory.kv_bytes == prediction.memory.kv_bytes / 2
    assert two.all_reduce_s == pytest.approx(2 * 80 * (8192 * 2) / link)  # 2·(n − 1)/n = 1
    assert prediction.time_s / 2 < two.time_s < 0.6 * prediction.time_s
    many = shard(get_model("llama-3.1-70b"), 16)
    assert (many.query_heads, many.kv_heads) == (4, 1)  # key/value heads are copied


@pytest.mark.parametrize(
    ("count", "link", "words"),
    [
        (0, None, "1 to 1024 devices, got 0"),
        (2, -1.0, "must be a positive number"),
    ],
)
def test_devices_are_checked(count: int, link: float | None, words: str) -> None:
    with pytest.raises(InvalidValueError) as raised:
        Parallel(count, link)
    assert words in str(raised.value)


def test_what_cannot_be_divided_is_named() -> None:
    with pytest.raises(InvalidValueError, match=r"query_heads 32.*3"):
        predict_model(GB10, "llama-3-8b", parallel=Parallel(3, 1e9))


# --- bad input


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"context": 8193}, "context 8,193 is more than llama-3-8b declares: max_position_embeddings 8,192"),
        ({"context": 8193}, "max_context (--max-context) where a checkpoint extends it"),
        (
            {"context": 100, "max_context": 99},
            "context 100 is more than llama-3-8b declares: max_position_embeddings 99",
        ),
        ({"context": 0}, "context must be a whole number"),
        ({"batch": 0}, "batch must be a whole number"),
        ({"new_tokens": 5000}, "new_tokens 5000 must not exceed context 4096"),
        ({"phase": "training"}, "phase must be prefill or decode, got 'training'"),
        ({"formats": "INT8.FP8"}, "contradict each other"),
        ({"formats": "FP17"}, "unknown format 'FP17'"),
        ({"kv": "FP32"}, "kv=FP32 contradicts activations of BF16"),
    ],
)
def test_bad_input_names_the_field(options: dict[str, object], words: str) -> None:
    with pytest.raises(RooflineError) as raised:
        predict_model(GB10, "llama-3-8b", **options)  # type: ignore[arg-type]
    assert words in str(raised.value)


def test_an_extended_context_has_to_be_said() -> None:
    assert predict_model(GB10, "llama-3-8b", context=32768, max_context=131072).workload.context_count == 32768


def test_a_chip_with_tensor_rates_only_can_run_a_model() -> None:
    chip = create_custom_asic("mine", 500, {"FP16": 50.0})
    prediction = predict_model(chip, "llama-3-8b", formats="FP16")
    assert prediction.memory.fits is None
    assert has_code(prediction.findings, "rate-not-declared", "elementwise")
    with pytest.raises(UnsupportedError, match="BF16"):
        predict_model(chip, "llama-3-8b", formats="BF16")


def test_a_chip_without_the_models_sixteen_bit_format_computes_in_its_own():
    chip = create_custom_asic("mine", 500, {"FP16": 100.0})
    prediction = predict_model(chip, "llama-3.1-8b")
    assert (prediction.model.wide_format, prediction.plan.wide) == ("FP16", "FP16")
    as_bf16 = predict_model(create_custom_asic("other", 500, {"BF16": 100.0}), "llama-3.1-8b")
    assert prediction.time_s == as_bf16.time_s
