"""Whole strategies on a model: everything that is narrow is simulated, or the strategy is refused."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torchao")
pytest.importorskip("transformers")

from torch import nn  # noqa: E402

from bench_cases.models.reference import SEEDED_LLAMAS  # noqa: E402
from bench_cases.models.sources import seeded_llama  # noqa: E402
from bench_cases.quality import compare_models, measure_strategy, measured_losses, simulated  # noqa: E402
from bench_cases.quality.attention_products import _attention  # noqa: E402
from bench_cases.quality.mixed_cache import make_mixed_cache  # noqa: E402
from bench_cases.quality.model_outputs import logits_of  # noqa: E402
from bench_cases.quality.sensitivity.part_losses import grouped_sites  # noqa: E402
from bench_cases.quality.whole_plan import (  # noqa: E402
    WholePlan,
    plan_of_formats,
    plan_of_strategy,
    simulating,
)
from bench_cases.quantization import apply_quantization, make_kv_cache  # noqa: E402
from roofline_model.core.errors import InvalidValueError, UnknownNameError, UnsupportedError  # noqa: E402
from roofline_model.formats.codecs import round_trip  # noqa: E402
from roofline_model.models.format_plan import plan_from_text  # noqa: E402
from roofline_model.models.model_shapes import ModelShape  # noqa: E402
from roofline_model.models.strategies.config import MixedPrecisionConfig  # noqa: E402
from roofline_model.models.strategies.model_plan import strategy_plan  # noqa: E402
from roofline_model.models.strategies.strategies import create_layerwise_gradient, get_strategy, list_strategies  # noqa: E402

SHAPE = SEEDED_LLAMAS["seeded-llama-1m"].shape("FP16")


def fp8_attention(name="fp8_attention", **more):
    config = get_strategy("fp8_balanced")
    return replace(config.with_name(name), operator_precisions={**config.operator_precisions, **more})


PRODUCTS = {"qk_matmul": "FP8", "sv_matmul": "FP8"}


@pytest.mark.parametrize("config", list_strategies(num_layers=2), ids=lambda config: config.name)
def test_a_strategy_and_its_format_plan_narrow_the_same(small_llama, config):
    direct = plan_of_strategy(config, small_llama)
    assert direct == plan_of_formats(strategy_plan(config, SHAPE), small_llama)
    assert (not direct.linears) == (config.name == "fp16_baseline")


def test_what_the_strategies_narrow(small_llama):
    hybrid, gradient, fp8 = (
        plan_of_strategy(get_strategy(name, num_layers=2), small_llama)
        for name in ("hybrid_long_context", "layerwise_gradient", "fp8_balanced")
    )
    assert hybrid.linears["model.layers.1.self_attn.v_proj"] == "FP8_E4M3.FP16"
    assert hybrid.linears["model.layers.1.mlp.down_proj"] == "NVFP4.FP16"
    assert hybrid.caches == ("NVFP4", "NVFP4")
    assert set(gradient.linears) == {name for name in hybrid.linears if "layers.1" in name}
    assert set(fp8.linears.values()) == {"FP8_E4M3.FP8_E4M3"}
    assert (fp8.embedding, fp8.products, gradient.caches) == ("", (), ())
    assert not any("lm_head" in plan.linears for plan in (hybrid, gradient, fp8))


def test_weights_and_cache_together_are_what_they_are_apart(small_llama, few_windows, untouched):
    with untouched(small_llama):
        quality = measure_strategy(small_llama, get_strategy("fp8_balanced"), few_windows)
        other = copy.deepcopy(small_llama)
        blocks = {"re:model.*": "FP8"}
        with simulated(other, blocks):
            apart = compare_models(
                small_llama, other, few_windows, quantized_cache=lambda: make_kv_cache(small_llama, "FP8")
            )
    assert quality.plan.name == "fp8_balanced"
    assert quality.quality == apart


def test_the_baseline_loses_nothing(small_llama, few_windows, untouched):
    with untouched(small_llama):
        quality = measure_strategy(small_llama, get_strategy("fp16_baseline"), few_windows).quality
    assert (quality.kl.value, quality.top1_agreement.value, quality.perplexity_ratio.value) == (0.0, 1.0, 1.0)


def test_layers_have_caches_of_their_own(small_llama, few_windows):
    cache = make_mixed_cache(small_llama, ("INT8", "BF16"))
    with torch.no_grad():
        narrow = logits_of(small_llama, few_windows.ids, "", make_cache=lambda: cache)
        both = logits_of(small_llama, few_windows.ids, "", make_cache=lambda: make_kv_cache(small_llama, "INT8"))
        wide = logits_of(small_llama, few_windows.ids, "")
    assert [type(layer).__name__ for layer in cache.layers] == ["NarrowLayer", "DynamicLayer"]
    assert not torch.equal(narrow, wide)
    assert not torch.equal(narrow, both)
    with pytest.raises(InvalidValueError, match="3 formats for a cache of 2 layers"):
        make_mixed_cache(small_llama, ("INT8",) * 3)
    with pytest.raises(UnknownNameError, match="MXFP4"), torch.no_grad():
        logits_of(small_llama, few_windows.ids, "", make_cache=lambda: make_mixed_cache(small_llama, ("MXFP4", "BF16")))


def test_a_window_of_its_own_layout_is_not_left_wide_in_silence():
    from transformers import MistralConfig

    sliding = MistralConfig(
        num_hidden_layers=1, sliding_window=8, hidden_size=64, num_attention_heads=4, num_key_value_heads=2
    )
    with pytest.raises(UnsupportedError, match="layout of its own"):
        make_mixed_cache(sliding, ("INT8",))


def test_narrow_attention_products_are_emulated(few_windows, untouched):
    model = seeded_llama("seeded-llama-1m", dtype=torch.float32)
    assert plan_of_strategy(fp8_attention(), model).products == ()
    assert plan_of_strategy(fp8_attention(**PRODUCTS), model).products == (("FP8_E4M3", "FP8_E4M3"),) * 2
    moved = {}
    with untouched(model), torch.no_grad():
        wide = logits_of(model, few_windows.ids, "")
        for pair in (("FP8_E4M3", "FP16"), ("FP16", "FP8_E4M3"), ("MXFP4", "MXFP4")):
            with simulating(model, WholePlan("products", {}, products=(pair, pair))):
                moved[pair] = float((logits_of(model, few_windows.ids, "") - wide).norm() / wide.norm())
    query, probabilities, both = moved.values()
    assert 1e-5 < query < both / 2
    assert 1e-5 < probabilities < both / 2


def test_products_are_those_of_the_codecs(small_llama):
    generator = torch.Generator().manual_seed(8)
    query, keys, values = (torch.randn(1, heads, 5, 32, generator=generator) for heads in (4, 2, 2))
    module = small_llama.model.layers[1].self_attn
    mask = torch.full((1, 1, 5, 5), -torch.inf).triu(1)
    with simulating(small_llama, WholePlan("fp8", {}, products=(("FP16", "FP16"), ("FP8_E4M3", "INT8")))):
        output, _ = _attention(module, query, keys, values, mask, 0.25)
    rounded = [torch.from_numpy(round_trip(tensor, "FP8_E4M3")) for tensor in (query, keys)]
    for head in range(4):
        scores = rounded[0][0, head] @ rounded[1][0, head // 2].T * 0.25 + mask[0, 0]
        shares = torch.from_numpy(round_trip(scores.softmax(-1), "INT8"))
        torch.testing.assert_close(output[0, :, head], shares @ values[0, head // 2])


def test_wide_products_through_the_emulation_are_the_models_own(few_windows, untouched):
    model = seeded_llama("seeded-llama-1m", dtype=torch.float32)
    plan = WholePlan("wide", {}, products=(("FP16", "FP16"),) * 2)
    with untouched(model), torch.no_grad():
        expected = logits_of(model, few_windows.ids, "")
        with simulating(model, plan):
            logits = logits_of(model, few_windows.ids, "")
    torch.testing.assert_close(logits, expected, rtol=1e-4, atol=1e-5)
    assert model.config._attn_implementation == "sdpa"


def test_attention_that_cannot_be_replaced_is_refused(few_windows):
    plan = WholePlan("fp8", {}, products=(("FP8_E4M3", "FP8_E4M3"),))
    with pytest.raises(UnsupportedError, match="cannot be replaced"), simulating(nn.Linear(4, 4), plan):
        pass
    model = seeded_llama("seeded-llama-1m")
    with pytest.raises(UnsupportedError, match="does not compute attention"), simulating(model, plan):
        pass  # the products were never asked for: whatever came out did not use them
    assert not any(hasattr(module, "roofline_products") for module in model.modules())


def test_a_narrow_embedding_is_looked_up_as_stored(untouched):
    tied = seeded_llama("seeded-llama-1m-tied")
    config = MixedPrecisionConfig("table", operator_precisions={"embeddings": "INT4"})
    plan = plan_of_strategy(config, tied)
    assert (plan.embedding, plan.linears) == ("INT4", {"lm_head": "INT4.FP16"})
    before = tied.get_input_embeddings().weight
    with untouched(tied), simulating(tied, plan):
        table = tied.get_input_embeddings().weight
        assert not torch.equal(table, before)
        assert torch.equal(table, tied.lm_head.weight)


def test_what_is_refused(small_llama, few_windows):
    with pytest.raises(InvalidValueError, match=r"3.*2.*create_layerwise_gradient\(2\)"):
        measure_strategy(small_llama, create_layerwise_gradient(3), few_windows)
    with pytest.raises(UnsupportedError, match="needs a decoder model"):
        measure_strategy(nn.Linear(8, 8), get_strategy("fp8_balanced"), few_windows)


def test_a_strategy_is_not_measured_in_part(small_llama, few_windows):
    from transformers import MixtralConfig, MixtralForCausalLM

    config = MixtralConfig(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        num_local_experts=2,
    )
    with pytest.raises(UnsupportedError, match=r"0.*MixtralForCausalLM.*nn\.Linear.*ffn_down"):
        measure_strategy(MixtralForCausalLM(config), get_strategy("fp8_balanced"), few_windows)
    apply_quantization(small_llama, "INT8")
    with pytest.raises(UnsupportedError, match="16-bit"):
        measure_strategy(small_llama, get_strategy("fp8_balanced"), few_windows)


def test_losses_are_those_of_each_group_alone(small_llama, few_windows, untouched):
    with untouched(small_llama):
        table = measured_losses(small_llama, few_windows, ["INT4", "FP8"], kv_formats=["INT8"], wide="FP16")
        plan = plan_from_text("FP16", SHAPE, exceptions=["qkv_proj@0=INT4.FP16"])
        alone = measure_strategy(small_llama, plan, few_windows).quality.kl
        cached = measure_strategy(
            small_llama, plan_from_text("FP16", SHAPE, exceptions=["kv@1=INT8"]), few_windows
        ).quality.kl
    assert table.values["layers.0.qkv_proj", "INT4.FP16"] == alone.value
    assert table.values["layers.1.kv", "INT8"] == cached.value
    names = {name for name, _ in table.values}
    parts = ("qkv_proj", "o_proj", "gate_up_proj", "down_proj", "kv")
    assert names == {"lm_head", *(f"layers.{layer}.{part}" for layer in range(2) for part in parts)}
    assert {name for name, _ in table.by_part(SHAPE)} == names
    assert table.confidence == "high"
    assert "184 predictions" in table.source


def test_a_plain_feed_forward_block_has_its_own_groups(few_windows):
    from transformers import PhiConfig, PhiForCausalLM

    config = PhiConfig(
        vocab_size=512,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=1,
        num_attention_heads=2,
        max_position_embeddings=64,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        model = PhiForCausalLM(config).eval()
    parts = {name: [site.name for site in sites] for name, sites in grouped_sites(model).items()}
    assert parts["layers.0.up_proj"] == ["model.layers.0.mlp.fc1"]
    assert parts["layers.0.down_proj"] == ["model.layers.0.mlp.fc2"]
    assert parts["layers.0.o_proj"] == ["model.layers.0.self_attn.dense"]
    table = measured_losses(model, few_windows, ["INT4"])
    shape = ModelShape(
        "phi", "here", 1, 64, 2, 2, 32, 128, 512, 64, ffn="plain", wide_format="FP32", weight_format="FP32"
    )
    assert {name for name, _ in table.by_part(shape)} == set(parts)
    assert measure_strategy(model, get_strategy("w4a16_aggressive"), few_windows).quality.kl.value > 0
