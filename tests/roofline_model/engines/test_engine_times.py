"""The engine model against the check values of the study it comes from, and the laws that any such model keeps."""

from __future__ import annotations

from dataclasses import replace
from statistics import geometric_mean

import pytest

from roofline_model.chips.hardware import get_hardware
from roofline_model.core.errors import UnknownNameError, UnsupportedError
from roofline_model.engines.amounts import Layout, StoredModel, gguf_roles, mlx_roles, stored_format
from roofline_model.engines.checkpoints import fetched_weights
from roofline_model.engines.engine import engine_names, get_engine
from roofline_model.engines.loads import Load, client_times
from roofline_model.engines.power import mean_power_w
from roofline_model.engines.steps import StepModel
from roofline_model.models.decoders import get_decoder
from roofline_model.models.experts import visited_count

_ALL = ("attention", "linear", "indexer", "ffn", "shared_expert", "expert")


def steps(model, chip, engine, *, weights="BF16", activations=None, roles=_ALL, cache=1.0, layout=None, block=False):
    stored = {} if weights == "BF16" else dict.fromkeys(roles, stored_format(weights, activations or weights))
    made = StoredModel(get_decoder(model), stored, cache, has_block_scales=block)
    return StepModel(made, get_hardware(chip), get_engine(engine).constants_for(chip), layout or Layout())


def gguf_steps(model, chip, mix, engine="llama-cpp"):
    decoder = get_decoder(model)
    stored = StoredModel(decoder, gguf_roles(decoder, mix), 2.0)
    return StepModel(stored, get_hardware(chip), get_engine(engine).constants_for(chip))


def mlx_steps(model, chip):
    decoder = get_decoder(model)
    return StepModel(
        StoredModel(decoder, mlx_roles(decoder, 4), 2.0), get_hardware(chip), get_engine("mlx").constants_for(chip)
    )


def fp8_tp(count):
    return {"weights": "FP8_E4M3", "layout": Layout(count, count)}


@pytest.mark.parametrize(
    ("model", "load", "token_ms"),
    [
        (steps("qwen3.5-35b-a3b", "gb10", "vllm", weights="FP8_E4M3"), Load("single", 2048, 512), 20.35),
        (steps("granite-4.1-8b", "gb10", "vllm"), Load("single", 2048, 512), 77.76),
        (steps("granite-4.1-8b", "gb10", "vllm"), Load("wave", 8192, 512, 10), 119.4),
        (steps("llama-3.1-70b", "h100-sxm", "vllm", **fp8_tp(4)), Load("steady", 1024, 1024, 32), 15.59),
        (steps("llama-3.1-70b", "b200", "tensorrt-llm", **fp8_tp(2)), Load("steady", 8192, 1024, 64), 35.44),
        (
            steps("gpt-oss-120b", "b200", "vllm", weights="MXFP4", activations="FP8_E4M3", roles=("expert",)),
            Load("steady", 1024, 1024, 4),
            4.24,
        ),
    ],
)
def test_times_per_token_are_those_of_the_study(model, load, token_ms):
    assert client_times(model, load).token_s * 1e3 == pytest.approx(token_ms, rel=0.04)


def test_a_gguf_mix_is_priced_by_the_bytes_of_its_roles():
    model = gguf_steps("qwen3-14b", "gb10", "Q4_K_M")
    assert client_times(model, Load("single", 30, 300)).token_s * 1e3 == pytest.approx(44.97, rel=0.02)
    assert model.model.weight_bytes() == pytest.approx(9.0e9, rel=0.02)  # Qwen3-14B-Q4_K_M.gguf: 9.00 GB


@pytest.mark.parametrize(
    ("model", "share"),
    [
        (gguf_steps("qwen3-14b", "gb10", "Q4_K_M"), 0.730),
        (gguf_steps("qwen3-14b", "apple-m5-max", "Q4_K_M"), 0.733),
        (gguf_steps("qwen3-14b", "rx-7900-xt", "Q4_K_M"), 0.854),
        (gguf_steps("qwen3-14b", "rtx-5070", "Q4_K_M"), 0.851),
        (gguf_steps("qwen3-14b", "rtx-2080", "Q8_0"), 0.817 * 1.08),
        (gguf_steps("qwen3-14b", "gtx-1050-ti", "Q4_K_M"), 0.446),
        (mlx_steps("qwen3-14b", "apple-m4-pro"), 0.873),
    ],
)
def test_one_stream_reads_its_bytes_at_the_share_of_the_study(model, share):
    decoder = model.model.decoder
    looked_up = decoder.vocab_size * decoder.hidden_size * model.model.stored("embedding").bytes_per_element
    reading_s = model.step_s(1, 1) - decoder.layer_count * model.constants.layer_s
    read_bytes = model.model.weight_bytes() - looked_up
    assert read_bytes / reading_s / model.device.bandwidth.value == pytest.approx(share, rel=0.01)


def test_a_chip_without_rows_has_the_mean_of_its_kind_and_a_wider_interval():
    engine = get_engine("llama-cpp")
    kind, members = engine.constants_for("rtx-4090"), [engine.constants_for(key) for key in ("rtx-5070", "rtx-2080")]
    for name in ("bandwidth_ratio", "layer_s"):
        assert getattr(kind, name) == pytest.approx(geometric_mean(getattr(each, name) for each in members), rel=0.01)
    narrow = members[0].interval("tpot", "single", "dense")
    low, high = kind.interval("tpot", "single", "dense")
    assert low < narrow[0] < 1 < narrow[1] < high
    with pytest.raises(UnsupportedError, match=r"llama\.cpp has no constants for h100-sxm"):
        engine.constants_for("h100-sxm")


def test_ollama_is_llama_cpp_with_defaults_of_its_own():
    outer, inner = get_engine("ollama"), get_engine("llama-cpp")
    assert (outer.constants, outer.formats) == (inner.constants, inner.formats)
    assert [fetched_weights(outer, published) for published in ("BF16", "FP8_E4M3", "MXFP4")] == [
        "Q4_K_M",
        "Q4_K_M",
        "MXFP4",
    ]
    assert fetched_weights(inner, "BF16") == "BF16"
    assert "4BIT" in get_engine(outer.runs_in["-mlx"]).formats
    assert inner.constants_for("gb10").answers("single")
    assert not inner.constants_for("gb10").answers("wave")


def test_all_of_an_mlx_file_has_four_and_a_half_bits():
    stored = mlx_steps("qwen3-14b", "apple-m4-pro").model
    assert stored.weight_bytes() == pytest.approx(stored.decoder.parameter_count * 4.5 / 8)


def test_a_client_that_counts_the_first_token_sees_that_of_five_spread_over_all():
    model = gguf_steps("qwen3-14b", "gb10", "Q4_K_M")
    alone = client_times(model, Load("single", 30, 300))
    whole = client_times(model, Load("single", 30, 300, counts_first_token=True))
    assert whole.token_s == pytest.approx(alone.token_s * (1 + 4 / 300))
    assert whole.first_token_s == pytest.approx(5 * alone.token_s)
    timed = steps("granite-4.1-8b", "gb10", "vllm")
    alone = client_times(timed, Load("single", 2048, 100))
    whole = client_times(timed, Load("single", 2048, 100, counts_first_token=True))
    assert 100 * whole.token_s == pytest.approx(99 * alone.token_s + alone.first_token_s)


def test_a_token_alone_is_padded_to_no_tile_where_products_have_none():
    # on 7.5 TFLOP/s, tiles of 16 rows of an expert would take longer than reading it
    model = gguf_steps("deepseek-v2-lite", "apple-m4-pro", "Q4_K_M")
    tiled = replace(model, constants=replace(model.constants, expert_tile_rows=(16.0, 64.0)))
    assert model.step_s(1, 100) < 0.7 * tiled.step_s(1, 100)


@pytest.mark.parametrize("engine", engine_names())
def test_every_engine_names_its_rows_and_has_an_interval_around_one(engine):
    assert get_engine(engine).source
    for constants in get_engine(engine).constants:
        assert constants.fitted_chips
        for by_load in constants.intervals.values():
            assert all(low < 1 < high for low, high in by_load.values())


def test_an_engine_without_constants_for_a_chip_says_which_it_has():
    with pytest.raises(UnsupportedError, match="no constants for orin-agx-64gb; they are known for b200"):
        get_engine("vllm").constants_for("orin-agx-64gb")
    with pytest.raises(UnknownNameError, match="vllm"):
        get_engine("vlm")


def test_more_sequences_take_longer_and_serve_more():
    model = steps("qwen3.5-35b-a3b", "gb10", "vllm", weights="FP8_E4M3")
    times = [model.step_s(count, 4096) for count in (1, 2, 8, 64)]
    assert times == sorted(times)
    rates = [count / time for count, time in zip((1, 2, 8, 64), times, strict=True)]
    assert rates == sorted(rates)


def test_a_wave_of_one_is_a_request_alone():
    model = steps("granite-4.1-8b", "gb10", "vllm")
    alone = client_times(model, Load("single", 2048, 512))
    assert client_times(model, Load("wave", 2048, 512, 1)) == pytest.approx(alone)


def test_a_step_is_never_faster_than_its_bytes():
    model = steps("qwen3-32b", "h100-sxm", "vllm")
    read = model.model.weight_bytes() - model.model.decoder.vocab_size * model.model.decoder.hidden_size * 2
    assert model.step_s(1, 1) > read / model.device.bandwidth.value


def test_more_devices_read_less_each_and_pay_for_all_reduces():
    single, four = (steps("llama-3.1-70b", "h200-sxm", "vllm", **fp8_tp(count)) for count in (1, 4))
    assert single.step_s(8, 4096) / 4 < four.step_s(8, 4096) < single.step_s(8, 4096)
    assert four.most_sequences(4096) > 4 * single.most_sequences(4096)


def test_all_experts_are_visited_by_many_tokens_and_the_active_ones_by_one():
    assert visited_count(1, 8, 256) == pytest.approx(8)
    assert visited_count(1e6, 8, 256) == pytest.approx(256)
    assert visited_count(64, 8, 8) == 8


def test_block_scales_cost_time_per_layer():
    plain, block = (steps("qwen3-32b", "h100-sxm", "vllm", weights="FP8_E4M3", block=block) for block in (False, True))
    layers = plain.model.decoder.layer_count
    per_layer = (block.step_s(1, 1024) - plain.step_s(1, 1024)) / layers
    assert per_layer == pytest.approx(0.7 * plain.constants.layer_s)


def test_power_lies_between_idle_and_all_that_can_be_drawn():
    model = steps("granite-4.1-8b", "gb10", "vllm")
    constants = model.constants.power
    load = Load("wave", 8192, 512, 10)
    power_w = mean_power_w(model, load, client_times(model, load), constants)
    assert power_w == pytest.approx(58.7, rel=0.08)  # the study's check value
    assert constants.idle_w < power_w < constants.busy_w + constants.tensor_w


def test_a_smaller_chunk_makes_a_mixture_of_experts_read_its_experts_again():
    model = steps("qwen3.5-35b-a3b", "gb10", "vllm")
    larger = replace(model, constants=replace(model.constants, prompt_chunk_tokens=8192))
    assert larger.prefill_s(8192) < model.prefill_s(8192)
