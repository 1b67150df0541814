"""The recommendation for a whole model: figures of the predictions, ranking, limits, honesty about quality, the search."""

from __future__ import annotations

import dataclasses
import math
import random

import pytest

from roofline_model.core.answer import Estimate
from roofline_model.decoder.llm import predict_model
from roofline_model.decoder.model_shapes import ModelShape
from roofline_model.decoder.step_expected import expected_step
from roofline_model.errors import InvalidValueError, UnknownNameError, UnsupportedError
from roofline_model.hardware import create_custom_asic
from roofline_model.mixed_precision.config import MixedPrecisionConfig
from roofline_model.mixed_precision.strategies import get_strategy
from roofline_model.model_choice.answer import ModelRecommendation
from roofline_model.recommend.model import recommend_model
from roofline_model.recommend.search.losses_file import MeasuredLosses, loss_pct
from roofline_model.recommend.search.model_problem import traffic_share
from roofline_model.recommend.ranking import LEVEL_RATIO

LAYERS = 3
LOSSES = {"FP8_E4M3": 2e-4, "INT8.BF16": 1e-4, "NVFP4.BF16": 1.2e-3, "INT4.BF16": 1.5e-3}
PARTS = ("qkv_proj", "o_proj", "gate_up_proj", "down_proj")


def small_llama(**changes: object) -> ModelShape:
    sizes: dict[str, object] = {
        "layer_count": LAYERS, "hidden_size": 2048, "query_heads": 16, "kv_heads": 4, "head_dim": 128, "ffn_size": 5632,
        "vocab_size": 32000, "max_context_size": 32768,
    }  # fmt: skip
    return ModelShape(name="small", source="this test", **{**sizes, **changes})  # type: ignore[arg-type]


def small_losses(method: str = "kl", **extra: float) -> MeasuredLosses:
    drawn = random.Random(5)
    values = {
        (f"layers.{layer}.{part}", name): loss * drawn.uniform(0.5, 2)
        for layer in range(LAYERS)
        for part in PARTS
        for name, loss in LOSSES.items()
    }
    values |= {("layers.0.kv", name): value for name, value in extra.items()}
    unit = "relative" if method == "prior" else "nats/token"
    return MeasuredLosses(values, "small", method, unit, "a text", 0 if method == "prior" else 4096)


@pytest.fixture(scope="module")
def on_gb10() -> ModelRecommendation:
    return recommend_model("gb10", "llama-3-8b")


@pytest.fixture(scope="module")
def searched() -> ModelRecommendation:
    return recommend_model("gb10", small_llama(), losses=small_losses())


def labels(found: ModelRecommendation) -> list[str]:
    return [one.label for one in found.candidates]


def refusals(found: ModelRecommendation) -> dict[str, str]:
    return {one.label: one.reason for one in found.excluded}


def test_figures_are_those_of_the_predictions(on_gb10):
    kept = ["lm_head=BF16", "embedding=BF16"]
    for label, formats in (("NVFP4.BF16", "NVFP4.BF16"), ("FP8_E4M3", "FP8"), ("fp8_balanced", "FP8.FP8.FP8")):
        one = on_gb10.candidate(label)
        ideal = predict_model("gb10", "llama-3-8b", context=4096, formats=formats, exceptions=kept)
        better = expected_step(ideal, "gb10")
        assert better is not None
        assert one.ideal_s == pytest.approx(ideal.time_s)
        assert (one.time_s, one.low_s, one.high_s) == pytest.approx((better.time_s, better.low_s, better.high_s))
        assert one.tokens_per_s == pytest.approx(1 / better.time_s)
        assert one.memory.total_bytes == pytest.approx(ideal.memory.total_bytes)
        assert one.speedup == pytest.approx(on_gb10.baseline.time_s / better.time_s)
        assert one.ideal_speedup == pytest.approx(on_gb10.baseline.ideal_s / ideal.time_s)
        assert (one.time_source, one.provenance) == ("expected", better.provenance)
    base = predict_model("gb10", "llama-3-8b", context=4096, formats="BF16")
    assert on_gb10.baseline.ideal_s == pytest.approx(base.time_s)
    assert on_gb10.baseline.speedup == 1.0


def test_known_losses_come_before_unknown_ones_each_by_the_interval_s_end_with_ties():
    found = recommend_model("gb10", "llama-3-8b", extra_formats=["NF4.BF16", "FP8_E5M2"])
    known = [one for one in found.candidates if one.quality.loss_pct is not None]
    unknown = [one for one in found.candidates if one.quality.loss_pct is None and not one.kernel_gap]
    assert found.candidates[: len(known) + len(unknown)] == (*known, *unknown)
    assert {one.label for one in unknown} == {"NF4.BF16"}
    for group in (known, unknown):
        for at, one in enumerate(group):
            assert all(later.high_s * (1 + LEVEL_RATIO) >= one.high_s for later in group[at + 1 :])
    assert found.chosen is known[0]
    assert found.is_chosen_quality_known
    assert all(one.quality.text == "unknown" for one in unknown)


def test_plans_that_are_equal_are_one_with_several_names(on_gb10):
    assert on_gb10.baseline.aliases == ("fp16_baseline",)
    assert on_gb10.candidate("fp16_baseline").label == "BF16"
    assert on_gb10.candidate("INT4.BF16").aliases == ("w4a16_aggressive",)
    assert on_gb10.candidate("w4a16_aggressive").label == "INT4.BF16"


def test_a_format_without_a_unit_is_left_out_unless_it_is_named():
    usual = recommend_model("h100", small_llama())
    assert "no 4-bit float unit" in refusals(usual)["NVFP4"]
    assert "see NVFP4.BF16" in refusals(usual)["NVFP4"]
    named = recommend_model("h100", small_llama(), formats=["NVFP4"], strategies=[])
    assert labels(named) == ["BF16", "NVFP4"]
    assert named.candidate("NVFP4").path == "decoded to BF16"
    extra = recommend_model("h100", small_llama(), extra_formats=["NVFP4", "INT8.BF16.FP8"], strategies=[])
    assert {"NVFP4", "INT8.BF16.FP8_E4M3", "FP8_E4M3"} <= set(labels(extra))


def test_paths_and_methods_say_how(on_gb10):
    assert on_gb10.candidate("FP8_E4M3").path == "native FP8_E4M3"
    assert on_gb10.candidate("fp8_balanced").path == "native FP8_E4M3, cache decoded"
    assert on_gb10.candidate("NVFP4.BF16").path == "decoded to BF16"
    methods = {
        label: on_gb10.candidate(label).method for label in ("BF16", "INT4.BF16", "INT8.BF16", "NVFP4", "FP8_E4M3")
    }
    assert methods == {
        "BF16": "none",
        "INT4.BF16": "AWQ",
        "INT8.BF16": "weight_only",
        "NVFP4": "native_fp4",
        "FP8_E4M3": "native_fp8",
    }
    prefill = recommend_model("gb10", "llama-3-8b", phase="prefill", context=2048)
    assert prefill.candidate("NVFP4.BF16").reason.startswith("compute-bound: weights are widened")
    assert prefill.candidate("FP8_E4M3").reason == "compute-bound: narrow operands have a unit of their own"
    assert prefill.baseline.tokens_per_s == pytest.approx(2048 / prefill.baseline.time_s)


def test_a_documents_fp16_is_the_models_own_16_bit_format():
    found = recommend_model("gb10", small_llama(wide_format="BF16"))
    assert found.wide == "BF16"
    assert "FP16" not in "".join(one.formats for one in found.candidates)
    chip = create_custom_asic("fp16_only", 500.0, {"FP16": 100.0, "INT8": 200.0})
    other = recommend_model(chip, small_llama(wide_format="BF16"))
    assert (other.wide, other.baseline.aliases) == ("FP16", ("fp16_baseline",))
    assert any("has no native BF16: FP16" in note for note in other.notes)
    assert other.time_source == "ideal"
    assert any("ranked by ideal times" in note for note in other.notes)
    with pytest.raises(UnsupportedError, match="no 16-bit rate"):
        recommend_model(create_custom_asic("narrow", 500.0, {"INT8": 200.0}), small_llama())


def test_a_published_checkpoint_is_its_own_reference():
    found = recommend_model("gb10", "gpt-oss-20b")
    one = found.candidate("checkpoint")
    assert (one.kind, one.quality.text) == ("published", "reference: as published")
    assert one.formats == "experts MXFP4.BF16"
    assert one.speedup > 1


def test_a_limit_above_the_chips_memory_is_said():
    found = recommend_model("rtx-4090", "llama-3.1-70b", memory_limit_bytes=1e12)
    assert any("the memory limit that was given is above that" in note for note in found.notes)
    assert not any("is above that" in note for note in recommend_model("h100", "llama-3.1-8b").notes)


def test_memory_latency_and_quality_refuse_with_the_figure():
    tight = recommend_model("gb10", "llama-3-8b", memory_limit_bytes=10e9, memory_headroom_ratio=0.1)
    missed = next(one for one in tight.excluded if one.label == "BF16")
    assert missed.reason.startswith("needs 16.6 GB, 7.598 GB ")
    assert "more than 10 GB with 10% kept free" in missed.reason
    assert missed.misses[0].excess_ratio == pytest.approx(missed.candidate.memory.total_bytes / 9e9 - 1)
    assert all(one.memory.total_bytes <= 9e9 for one in tight.candidates)
    quick = recommend_model("gb10", "llama-3-8b", max_latency_s=0.025)
    assert "takes 68.16 ms, 43.16 ms more than 25 ms" in refusals(quick)["BF16"]
    assert all(one.time_s <= 0.025 for one in quick.candidates)
    careful = recommend_model("gb10", "llama-3-8b", max_loss_pct=0, formats=["NVFP4.BF16", "NF4.BF16"])
    assert careful.chosen is not None
    assert careful.chosen.kind == "baseline"
    assert refusals(careful)["NVFP4.BF16"] == "claimed: 3.6-6.5 % (RTN), above the limit of 0% of perplexity"
    # An unknown loss is refused by no limit, and stands behind.
    assert labels(careful)[0] == "BF16"
    assert any(note.startswith("faster, but nobody knows what they lose: ") for note in careful.notes)


def test_nothing_that_meets_the_limits_is_told_with_the_nearest():
    found = recommend_model("gb10", "llama-3-8b", memory_limit_bytes=6e9)
    assert found.chosen is None
    assert found.candidates == ()
    nearest = min(one.memory.total_bytes for one in (x.candidate for x in found.excluded if x.candidate is not None))
    assert "nothing meets the limits (memory); nearest: INT4.BF16" in found.misfit
    assert f"needs {nearest / 1e9:.4g} GB" in found.misfit
    assert "more than 6 GB" in found.misfit
    assert str(found) == found.misfit


def test_an_unknown_loss_is_never_silently_first():
    only_unknown = {"formats": ["NF4.BF16"], "strategies": [], "max_latency_s": 0.04}
    found = recommend_model("gb10", "llama-3-8b", **only_unknown)
    assert found.chosen is not None
    assert found.chosen.label == "NF4.BF16"
    assert not found.is_chosen_quality_known
    assert any("the loss of NF4.BF16 is unknown" in note for note in found.notes)
    strict = recommend_model("gb10", "llama-3-8b", max_loss_pct=1.0, **only_unknown)
    assert strict.chosen is None
    assert "NF4.BF16 meets the other limits, but its loss is unknown" in strict.misfit


def test_estimates_of_a_caller_replace_the_expected_times():
    shape = small_llama()
    asked = []

    def twice_the_ideal(prediction):
        asked.append(prediction.plan.label)
        if prediction.plan.label == "FP8_E4M3":
            return None
        return Estimate(2 * prediction.time_s, source="measured", provenance="measured-here")

    found = recommend_model("gb10", shape, strategies=[], estimate=twice_the_ideal)
    assert "INT4.BF16" in asked
    for one in found.candidates:
        if one.label == "FP8_E4M3":
            assert (one.time_source, one.speedup) == ("ideal", pytest.approx(one.ideal_speedup))
        else:
            assert (one.time_source, one.time_s) == ("measured", pytest.approx(2 * one.ideal_s))
            assert (one.low_s, one.provenance) == (None, "measured-here")
    # A lower bound cannot be held against measurements: of the plans with a known loss it stands last, although its number is smaller.
    known = [one.label for one in found.candidates if one.quality.loss_pct is not None]
    assert known[-1] == "FP8_E4M3"
    assert found.candidate("FP8_E4M3").time_s < found.baseline.time_s


def test_what_the_callers_device_cannot_run_is_refused_with_its_reason():
    def only_int8(label: str) -> str:
        return "" if label.startswith(("INT8", "BF16")) else f"no kernel for {label} here"

    found = recommend_model("gb10", small_llama(), losses=small_losses(), is_runnable=only_int8)
    assert refusals(found)["NVFP4.BF16"] == "no kernel for NVFP4.BF16 here"
    assert refusals(found)["fp8_balanced"] == "no kernel for fp8_balanced here"
    chosen = {one.chosen.label for search in found.searches for one in search.choice.reasons}
    assert chosen <= {"INT8.BF16", "BF16"}
    assert any(note.startswith("not searched: FP8_E4M3: no kernel") for note in found.notes)
    nothing = recommend_model(
        "gb10", small_llama(), losses=small_losses(), is_runnable=lambda label: "no" * (label != "BF16")
    )
    assert (nothing.searches, labels(nothing)) == ((), ["BF16"])
    stuck = recommend_model("gb10", small_llama(), is_runnable=lambda label: "no torch here")
    assert (stuck.chosen, stuck.candidates) == (None, ())
    assert stuck.misfit == "no plan can run here: BF16: no torch here"


def test_a_measured_loss_is_the_sum_of_its_layers_and_replaces_the_claim(searched):
    losses = small_losses()
    for label in ("FP8_E4M3", "INT8.BF16"):
        total = math.fsum(value for (_, name), value in losses.values.items() if name == label)
        one = searched.candidate(label)
        assert one.quality.loss_value == pytest.approx(total)
        assert one.quality.loss_pct == pytest.approx(loss_pct(total))
        assert one.quality.text == f"measured: {loss_pct(total):.3g}%"
    # A cache without a loss: the weights alone lose more than the limit, whatever is claimed of the cache.
    known = MeasuredLosses(
        {key: 9 * value for key, value in losses.values.items()}, "small", "kl", "nats/token", "a text", 4096
    )
    cached = recommend_model("gb10", small_llama(), losses=known, extra_formats=["NVFP4.BF16.FP8"], strategies=[])
    assert refusals(cached)["NVFP4.BF16.FP8_E4M3"].startswith("measured layers alone: ")
    fisher = recommend_model("gb10", small_llama(), losses=small_losses("fisher"), formats=["FP8"], strategies=[])
    assert fisher.candidate("FP8_E4M3").quality.text.startswith("estimated: ")


def test_losses_of_parts_that_the_model_does_not_have_are_told_and_not_used():
    plain = small_llama(ffn="plain")  # an up projection alone, no gate
    found = recommend_model("gb10", plain, losses=small_losses())
    assert any("losses of 3 parts that small does not have" in note for note in found.notes)
    assert found.candidate("INT8.BF16").quality.source == "claimed"
    assert "no loss is known of layers.0.up_proj in INT8.BF16" in found.candidate("INT8.BF16").quality.note
    assert {one.group.rpartition(".")[2] for one in found.searches[0].choice.reasons} == {
        "qkv_proj",
        "o_proj",
        "down_proj",
    }


def test_16_bit_activations_of_a_table_are_those_of_the_baseline():
    chip = create_custom_asic("fp16_only", 500.0, {"FP16": 100.0, "INT8": 200.0})
    found = recommend_model(chip, small_llama(wide_format="BF16"), losses=small_losses())
    total = math.fsum(value for (_, name), value in small_losses().values.items() if name == "INT8.BF16")
    assert found.candidate("INT8.FP16").quality.loss_value == pytest.approx(total)


def test_the_search_is_faster_than_every_uniform_plan_at_the_same_loss(searched):
    fastest = searched.candidate("pareto-fastest")
    assert searched.chosen is fastest
    assert fastest.quality.loss_pct <= 1.0
    uniform = [one for one in searched.candidates if one.kind == "uniform" and one.quality.source == "measured"]
    assert len(uniform) >= 2
    assert all(fastest.time_s < one.time_s for one in uniform)
    (search,) = searched.searches
    assert search.choice.plan.time_s == pytest.approx(fastest.time_s)
    assert search.choice.plan.loss_value == pytest.approx(fastest.quality.loss_value)
    assert search.choice.plan.memory_bytes == pytest.approx(fastest.memory.total_bytes)
    assert len(search.choice.reasons) == LAYERS * len(PARTS)
    assert searched.front
    assert [one.loss_value for one in searched.front] == sorted(one.loss_value for one in searched.front)


def test_with_a_latency_the_least_loss_within_it_is_searched_too(searched):
    limit_s = 0.8 * searched.baseline.time_s
    found = recommend_model("gb10", small_llama(), losses=small_losses(), max_latency_s=limit_s)
    least = found.candidate("pareto-least-loss")
    assert least.time_s <= limit_s
    for one in found.candidates:
        if one.quality.loss_pct is not None:
            assert least.quality.loss_pct <= one.quality.loss_pct
    hopeless = recommend_model("gb10", small_llama(), losses=small_losses(), max_latency_s=1e-6)
    assert hopeless.chosen is None
    assert "the fastest takes" in refusals(hopeless)["pareto-least-loss"]


def test_a_search_that_meets_the_latency_only_as_a_whole_is_searched_again(searched):
    # The machine's real path is 30 % slower than the kernels' sum, so the first plan found is too slow.
    def slower(prediction):
        known = expected_step(prediction, "gb10")
        return Estimate(1.3 * known.time_s, provenance="stretched")

    limit_s = 0.8 * 1.3 * searched.baseline.time_s
    found = recommend_model("gb10", small_llama(), losses=small_losses(), max_latency_s=limit_s, estimate=slower)
    search = next(one for one in found.searches if one.label == "pareto-least-loss")
    assert search.passes_count > 1
    assert found.candidate("pareto-least-loss").time_s <= limit_s


def test_caches_are_searched_where_they_have_losses():
    found = recommend_model("b10", small_llama(), context=32768, losses=small_losses(FP8_E4M3=1e-6))
    (search,) = found.searches
    assert search.choice.choices["layers.0.kv"] == "FP8_E4M3"
    assert "cache FP8_E4M3 in 1 of 3 layers" in found.candidate("pareto-fastest").formats


def test_scores_without_data_choose_but_promise_no_percent():
    found = recommend_model("gb10", small_llama(), losses=small_losses("prior"), max_latency_s=1.0)
    assert [one.label for one in found.searches] == ["pareto-least-loss"]
    assert any("say nothing in percent" in note for note in found.notes)
    assert found.candidate("INT8.BF16").quality.loss_pct == 0.2  # the claim's, not the score's
    assert found.candidate("INT8.BF16").quality.text.startswith("claimed: 0.1-0.2 % (RTN); score 0.0")
    # 16 bit meets the latency and scores nothing: the search finds that and is the baseline by another name.
    assert "pareto-least-loss" in found.candidate("BF16").aliases


def test_a_mix_of_passes_is_the_mean_by_share_and_the_memory_of_the_largest():
    shape = small_llama()
    passes = [{"batch": 8, "context": 8192}, {"phase": "prefill", "context": 2048}]
    shares = [traffic_share(**one, share=share) for one, share in zip(passes, (3.0, 1.0), strict=True)]
    mixed = recommend_model("gb10", shape, traffic=shares)
    alone = [recommend_model("gb10", shape, **one) for one in passes]
    for label in ("BF16", "FP8_E4M3"):
        one, parts = mixed.candidate(label), [each.candidate(label) for each in alone]
        assert one.time_s == pytest.approx(0.75 * parts[0].time_s + 0.25 * parts[1].time_s)
        assert one.low_s == pytest.approx(0.75 * parts[0].low_s + 0.25 * parts[1].low_s)
        assert one.memory.total_bytes == max(each.memory.total_bytes for each in parts)
        assert one.tokens_per_s == pytest.approx((0.75 * 8 + 0.25 * 2048) / one.time_s)
    with pytest.raises(InvalidValueError, match="leave those three out"):
        recommend_model("gb10", shape, batch=2, traffic=shares)


def test_own_strategies_take_part_and_one_that_cannot_run_is_told():
    mine = MixedPrecisionConfig("mine", operator_precisions={"ffn_up": "INT4", "ffn_gate": "INT4", "ffn_down": "INT4"})
    deep = get_strategy("layerwise_gradient", num_layers=16)
    found = recommend_model("gb10", small_llama(), strategies=[mine, deep])
    one = found.candidate("mine")
    assert (one.formats, one.quality.text) == ("ffn INT4.BF16", "claimed: at most 6.5 % (INT4.BF16)")
    assert "is made for 16 layers" in refusals(found)["layerwise_gradient"]


def test_a_placeholder_chip_and_losses_of_another_model_are_told():
    other = dataclasses.replace(small_losses(), model="larger")
    notes = " ".join(recommend_model("b10", small_llama(), losses=other).notes)
    assert "placeholder chip with invented numbers" in notes
    assert "the losses were measured on larger, the recommendation is for small" in notes
    assert "confidence high" in notes


@pytest.mark.parametrize(
    ("options", "kind", "words"),
    [
        ({"phase": "both"}, InvalidValueError, "phase must be"),
        ({"batch": 0}, InvalidValueError, "batch"),
        ({"context": 10**6}, InvalidValueError, "max_position_embeddings"),
        ({"memory_limit_bytes": 0}, InvalidValueError, "memory_limit_bytes must be a positive number"),
        ({"memory_limit_bytes": math.nan}, InvalidValueError, "memory_limit_bytes"),
        ({"max_latency_s": -1}, InvalidValueError, "max_latency_s must be a positive number"),
        ({"max_loss_pct": -0.1}, InvalidValueError, "max_loss_pct must be a percentage"),
        ({"max_loss_pct": True}, InvalidValueError, "max_loss_pct must be a percentage"),
        ({"memory_headroom_ratio": 1}, InvalidValueError, "memory_headroom_ratio must be a share"),
        ({"formats": []}, InvalidValueError, "formats is empty"),
        ({"formats": ["FP17"]}, UnknownNameError, "FP17"),
        ({"formats": ["BF16.FP8"]}, InvalidValueError, "wider than activations"),
        ({"traffic": []}, InvalidValueError, "traffic is empty"),
        ({"losses": {}}, InvalidValueError, "must be MeasuredLosses"),
        (
            {"losses": MeasuredLosses({("layers.3.o_proj", "INT4.BF16"): 1.0}, "deeper", "kl", tokens_count=1)},
            InvalidValueError,
            "deeper with layer 3, but small has layers 0 to 2",
        ),
    ],
)
def test_bad_input_names_the_field(options, kind, words):
    with pytest.raises(kind) as error:
        recommend_model("gb10", small_llama(), **options)
    assert words in str(error.value)
