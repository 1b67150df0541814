"""The engine model against the check values of the study it comes from, and the laws that any such model keeps."""

from __future__ import annotations

from dataclasses import replace

import pytest

from roofline_model.chips.hardware import get_hardware
from roofline_model.core.errors import UnknownNameError, UnsupportedError
from roofline_model.engines.amounts import Layout, StoredModel, gguf_roles, stored_format
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
    decoder = get_decoder("qwen3-14b")
    stored = StoredModel(decoder, gguf_roles(decoder, "Q4_K_M"), 2.0)
    device = get_hardware("gb10")
    model = StepModel(stored, device, get_engine("llama-cpp").constants_for("gb10"))
    assert client_times(model, Load("single", 30, 300)).token_s * 1e3 == pytest.approx(44.97, rel=0.02)
    assert stored.weight_bytes() == pytest.approx(9.0e9, rel=0.02)  # Qwen3-14B-Q4_K_M.gguf: 9.00 GB


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
