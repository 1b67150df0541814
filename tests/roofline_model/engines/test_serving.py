"""What engines serve of a model: ranking, limits, memory, loads at a rate, and what leaves an engine out."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from roofline_model.chips.hardware import get_hardware
from roofline_model.core.errors import InvalidValueError, UnsupportedError
from roofline_model.engines.amounts import Layout
from roofline_model.engines.engine import distinct_engines, get_engine
from roofline_model.engines.loads import arriving_load, client_times
from roofline_model.engines.serving import Demand, engine_steps, serve
from roofline_model.models.decoders import find_checkpoint

CHAT = Demand(1024, 512, (1, 8, 32))


def served(model, chip, demand=CHAT, **options):
    return serve(find_checkpoint(model), get_hardware(chip), demand, **options)


def kinds(answer):
    return {each.key: each.finding.value("kind") for each in answer.excluded}


def test_engines_and_formats_are_ranked_by_what_they_serve_in_all():
    answer = served("llama-3.1-70b", "b200", formats=("FP8_E4M3", "NVFP4"))
    assert len(answer.ranked) == 6
    rates = [each.best.tokens_per_s for each in answer.ranked]
    assert rates == sorted(rates, reverse=True)
    assert answer.ranked[0].weights == "NVFP4"
    excluded = {f"{engine} {weights}" for engine in ("llama.cpp", "MLX") for weights in ("FP8_E4M3", "NVFP4")}
    assert kinds(answer) == dict.fromkeys(excluded, "chip")


def test_a_model_is_taken_as_it_is_published():
    answer = served("gpt-oss-120b", "gb10")
    sizes = {each.engine: each.weight_bytes for each in answer.ranked}
    assert sizes == {"vllm": pytest.approx(65.2e9, rel=0.01), "llama-cpp": pytest.approx(63.4e9, rel=0.01)}


def test_every_pair_of_format_and_engine_is_answered_or_excluded():
    formats = ("BF16", "FP8_E4M3", "Q4_K_M", "MXFP4")
    answer = served("qwen3-32b", "gb10", Demand(1024, 512, (1,)), formats=formats)
    assert len(answer.ranked) + len(answer.excluded) == len(formats) * len(distinct_engines())
    assert {(each.engine, each.weights) for each in answer.ranked} == {
        ("vllm", "BF16"),
        ("vllm", "FP8_E4M3"),
        ("llama-cpp", "BF16"),
        ("llama-cpp", "Q4_K_M"),
    }
    assert kinds(answer)["vLLM MXFP4"] == "format"  # a model without experts has none to store in it


def test_the_largest_load_keeps_the_limits_and_one_request_more_misses_them():
    demand = Demand(1024, 512, (1,), max_first_token_s=0.5, max_token_s=0.05)
    first = served("llama-3.1-70b", "b200", demand, formats=("NVFP4",)).ranked[0]
    count = round(first.largest.request_count)
    assert first.largest.is_within_limits
    (more,) = served(
        "llama-3.1-70b",
        "b200",
        replace(demand, concurrencies=(count + 1,)),
        formats=("NVFP4",),
        engines=(first.engine,),
    ).ranked
    assert not more.loads[0].is_within_limits
    assert first.best is first.largest


def test_an_engine_that_misses_the_limits_with_one_request_ranks_last_without_a_largest_load():
    demand = Demand(1024, 512, (1,), max_token_s=0.012)
    answer = served("llama-3.1-70b", "b200", demand, formats=("NVFP4", "BF16"))
    assert answer.ranked[0].largest is not None
    assert answer.ranked[-1].weights == "BF16"
    assert answer.ranked[-1].largest is None


def test_what_does_not_fit_is_named_with_what_does():
    demand = Demand(30_000, 2_000, (1, 256))
    (only,) = served("llama-3.1-70b", "h100-sxm", demand, formats=("FP8_E4M3",), engines=("vllm",)).ranked or [None]
    assert only is None or only.most_request_count < 256
    assert kinds(served("llama-3.1-70b", "h100-sxm", demand, formats=("BF16",)))["vLLM BF16"] == "memory"
    on_two = served("llama-3.1-70b", "h200-sxm", demand, formats=("FP8_E4M3",), layout=Layout(2, 2)).ranked[0]
    (beyond,) = [item for item in on_two.findings if item.code == "requests-beyond-memory"]
    assert beyond.value("count") == 256
    assert beyond.value("most_count") == int(on_two.most_request_count)
    assert [load.request_count for load in on_two.loads] == [1]


def test_requests_at_a_rate_are_as_many_in_flight_as_littles_law_says():
    steps = engine_steps(find_checkpoint("qwen3-32b"), "NVFP4", get_engine("vllm"), get_hardware("gb10"))
    load = arriving_load(steps, 1024, 512, 0.05)
    times = client_times(steps, load)
    assert load.request_count == pytest.approx(0.05 * (times.first_token_s + 512 * times.token_s), rel=1e-6)
    assert arriving_load(steps, 1024, 512, 0.06).request_count > load.request_count


def test_a_rate_beyond_what_is_served_is_refused_beside_those_that_are():
    answer = served("qwen3-32b", "gb10", Demand(1024, 512, rates_per_s=(0.05, 3.0)), formats=("NVFP4",))
    (vllm,) = answer.ranked
    assert [load.rate_per_s for load in vllm.loads] == [0.05]
    assert [item.value("kind") for item in vllm.findings] == ["rate"]
    assert (
        kinds(served("qwen3-32b", "gb10", Demand(1024, 512, rates_per_s=(3.0,)), formats=("NVFP4",)))["vLLM NVFP4"]
        == "rate"
    )


def test_llama_cpp_answers_one_request_alone_and_says_so():
    (only,) = served("qwen3-14b", "gb10", formats=("Q4_K_M",)).ranked
    assert [load.request_count for load in only.loads] == [1]
    assert [item.value("kind") for item in only.findings] == ["load"]
    assert only.loads[0].first_token is None


def test_a_chip_without_rows_of_its_own_is_marked():
    (only,) = served("llama-3.1-8b", "h100-pcie", engines=("vllm",)).ranked
    assert "engine-of-similar-chip" in [item.code for item in only.findings]
    assert only.loads[0].token.provenance == "transferred-class"


def test_devices_share_a_model_over_their_link():
    single, pair = (
        served("llama-3.1-70b", "h200-sxm", formats=("FP8_E4M3",), layout=Layout(count, count)).ranked[0]
        for count in (1, 2)
    )
    assert pair.weight_bytes == pytest.approx(single.weight_bytes / 2, rel=0.02)
    assert single.loads[0].token.time_s / 2 < pair.loads[0].token.time_s < single.loads[0].token.time_s
    with pytest.raises(InvalidValueError, match="link between devices of gb10"):
        served("llama-3.1-8b", "gb10", layout=Layout(2, 2))
    linked = Layout(2, 2, link_bytes_per_s=25e9)
    assert served("llama-3.1-8b", "gb10", layout=linked).ranked[0].loads[0].token.time_s > 0


def test_an_eight_bit_cache_holds_twice_the_requests():
    wide, narrow = (
        served("llama-3.1-8b", "gb10", formats=("BF16",), cache_bytes=size).ranked[0] for size in (2.0, 1.0)
    )
    assert narrow.request_bytes == wide.request_bytes / 2
    assert narrow.most_request_count == pytest.approx(2 * wide.most_request_count)


def test_steps_of_an_engine_that_does_not_run_there_are_refused():
    with pytest.raises(UnsupportedError, match="no constants for gb10"):
        engine_steps(find_checkpoint("qwen3-32b"), "BF16", get_engine("sglang"), get_hardware("gb10"))


def test_an_engine_around_another_is_answered_where_it_is_named():
    asked = {"formats": ("Q4_K_M",), "engines": ("llama-cpp", "ollama")}
    inner, outer = served("qwen3-14b", "rtx-5070", Demand(30, 256, (1,)), **asked).ranked
    assert {inner.engine, outer.engine} == {"llama-cpp", "ollama"}
    assert inner.best.token == outer.best.token
    assert served("qwen3-14b", "apple-m4-pro", Demand(30, 256, (1,)), formats=("4BIT",)).ranked[0].engine == "mlx"


def test_one_request_is_ranked_by_its_time_per_token_as_not_every_engines_prompts_are_known():
    ranked = served("qwen3-32b", "gb10", Demand(32_000, 512, (1,)), formats=("BF16",)).ranked
    assert {each.loads[0].first_token is None for each in ranked} == {True, False}
    times_s = [each.loads[0].token.time_s for each in ranked]
    assert times_s == sorted(times_s)


@pytest.mark.parametrize("engine", ["vllm", "sglang", "tensorrt-llm"])
def test_one_request_is_the_same_alone_and_at_a_rate_near_none(engine):
    asked = {"formats": ("BF16",), "engines": (engine,)}
    (alone,) = served("llama-3.1-8b", "h100-sxm", Demand(1024, 512, (1,)), **asked).ranked
    (rare,) = served("llama-3.1-8b", "h100-sxm", Demand(1024, 512, rates_per_s=(1e-6,)), **asked).ranked
    assert rare.loads[0].token.time_s == pytest.approx(alone.loads[0].token.time_s, rel=0.01)
    assert rare.loads[0].first_token.time_s == pytest.approx(alone.loads[0].first_token.time_s, rel=0.15)


def test_all_engines_of_a_chip_are_held_against_the_same_load_at_any_length():
    for length in (1023, 1024, 4096, 4097):
        ranked = served("llama-3.1-8b", "h100-sxm", Demand(length, 512, (1, 16)), formats=("BF16",)).ranked
        assert {load.kind for each in ranked for load in each.loads} == {"steady"}


def test_arrivals_keep_or_miss_limits_by_themselves():
    demand = Demand(1024, 512, rates_per_s=(1.0, 12.0), max_token_s=0.012)
    (only,) = served("llama-3.1-8b", "h100-sxm", demand, formats=("BF16",), engines=("vllm",)).ranked
    assert only.largest is None
    assert [load.is_within_limits for load in only.loads] == [True, False]


def test_an_engine_of_one_request_keeps_limits_with_that_one():
    (only,) = served("llama-3.1-8b", "rtx-4090", Demand(512, 256, (1,), max_token_s=0.05)).ranked
    assert only.largest.request_count == 1


@pytest.mark.parametrize(
    ("chip", "options", "kind"),
    [
        ("h100-sxm", {"engines": ("vllm",), "layout": Layout(3, 3)}, "split"),
        ("gb10", {"engines": ("llama-cpp",), "layout": Layout(2, 2, link_bytes_per_s=25e9)}, "devices"),
        ("h100-sxm", {"engines": ("tensorrt-llm",), "formats": ("NVFP4",)}, "kernel"),
    ],
)
def test_what_no_engine_does_is_excluded_by_its_reason(chip, options, kind):
    answer = served("llama-3.1-8b", chip, Demand(512, 256, (1,)), **options)
    assert answer.ranked == ()
    assert [each.finding.value("kind") for each in answer.excluded] == [kind]


def test_experts_that_a_maker_ships_in_four_bits_stay_so_in_a_mix():
    (only,) = served("gpt-oss-120b", "gb10", Demand(512, 256, (1,)), formats=("Q4_K_M",)).ranked
    assert only.weight_bytes == pytest.approx(63e9, rel=0.02)  # the published Q4_K_M file: 62.8 GB


def test_a_checkpoint_that_mlx_packed_is_for_mlx(tmp_path):
    config = {
        "hidden_size": 4096,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "intermediate_size": 14336,
        "vocab_size": 128256,
        "quantization": {"bits": 4, "group_size": 64},
    }
    path = tmp_path / "packed.json"
    path.write_text(json.dumps(config))
    ranked = served(str(path), "apple-m4-pro", Demand(512, 256, (1,))).ranked
    assert [(each.engine, each.weights) for each in ranked] == [("mlx", "4BIT")]
    assert not served(str(path), "gb10", Demand(512, 256, (1,))).ranked
    assert find_checkpoint(str(path)).decoder.name == "packed"


def test_states_of_a_hybrid_are_split_as_its_heads_are():
    single, four = (
        served("qwen3.5-27b", "b200", Demand(512, 256, (1,)), engines=("vllm",), layout=Layout(count, count)).ranked[0]
        for count in (1, 4)
    )
    assert four.request_bytes == pytest.approx(single.request_bytes / 4)
