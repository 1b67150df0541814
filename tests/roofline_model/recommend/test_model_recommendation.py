"""The recommendation for a whole model: figures of the predictions, ranking, limits, honesty about quality, the
search.
"""

from __future__ import annotations

import dataclasses
import math
import random

import pytest

from roofline_model.chips.hardware import create_custom_asic, get_hardware
from roofline_model.core.answer import Estimate
from roofline_model.core.errors import InvalidValueError, UnknownNameError, UnsupportedError
from roofline_model.core.finding import Finding, has_code
from roofline_model.models.llm import predict_model
from roofline_model.models.model_shapes import ModelShape
from roofline_model.models.step_expected import expected_step
from roofline_model.models.strategies.config import MixedPrecisionConfig
from roofline_model.models.strategies.strategies import get_strategy
from roofline_model.models.tensor_parallel import Parallel
from roofline_model.recommend.model import ModelRanking, recommend_model
from roofline_model.recommend.plan_formats import PlanPart
from roofline_model.recommend.plan_options import Execution
from roofline_model.recommend.ranking import LEVEL_RATIO, MAX_LOSS_PCT, excess_ratio
from roofline_model.recommend.search.losses_file import MeasuredLosses, loss_pct
from roofline_model.recommend.search.model_problem import traffic_share

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
def on_gb10() -> ModelRanking:
    return recommend_model("gb10", "llama-3-8b", max_loss_pct=16.0)


@pytest.fixture(scope="module")
def searched() -> ModelRanking:
    return recommend_model("gb10", small_llama(), losses=small_losses(), max_loss_pct=1.0)


def labels(ranking: ModelRanking) -> list[str]:
    return [option.key for option in ranking.options]


def exclusions(ranking: ModelRanking) -> dict[str, Finding]:
    return {exclusion.key: exclusion.finding for exclusion in ranking.excluded}


def codes(ranking: ModelRanking) -> list[str]:
    return [item.code for item in ranking.findings]


def test_figures_are_those_of_the_predictions(on_gb10):
    wide_parts = ["lm_head=BF16", "embedding=BF16"]
    for label, formats in (("NVFP4.BF16", "NVFP4.BF16"), ("FP8_E4M3", "FP8"), ("fp8_balanced", "FP8.FP8.FP8")):
        option = on_gb10.option(label)
        ideal = predict_model("gb10", "llama-3-8b", context=4096, formats=formats, exceptions=wide_parts)
        better = expected_step(ideal, "gb10")
        assert better is not None
        assert option.times.ideal.time_s == pytest.approx(ideal.time_s)
        assert (option.estimate.time_s, option.estimate.low_s, option.estimate.high_s) == pytest.approx(
            (better.time_s, better.low_s, better.high_s)
        )
        assert option.tokens_per_s == pytest.approx(1 / better.time_s)
        assert option.memory.total_bytes == pytest.approx(ideal.memory.total_bytes)
        assert option.speedup_ratio == pytest.approx(on_gb10.baseline.estimate.time_s / better.time_s)
        assert option.ideal_speedup_ratio == pytest.approx(on_gb10.baseline.times.ideal.time_s / ideal.time_s)
        assert (option.estimate.source, option.estimate.provenance) == ("expected", better.provenance)
    base = predict_model("gb10", "llama-3-8b", context=4096, formats="BF16")
    assert on_gb10.baseline.times.ideal.time_s == pytest.approx(base.time_s)
    assert on_gb10.baseline.speedup_ratio == 1.0


def test_known_losses_come_before_unknown_ones_each_by_the_interval_s_end_with_ties():
    ranking = recommend_model("gb10", "llama-3-8b", extra_formats=["NF4.BF16", "FP8_E5M2"])
    options = [option for option in ranking.options if option.loss.pct is not None]
    unknown = [
        option for option in ranking.options if option.loss.pct is None and not has_code(option.findings, "kernel-gap")
    ]
    assert ranking.options[: len(options) + len(unknown)] == (*options, *unknown)
    assert {option.key for option in unknown} == {"NF4.BF16"}
    for group in (options, unknown):
        for at, lead in enumerate(group):
            assert all(later.estimate.high_s * (1 + LEVEL_RATIO) >= lead.estimate.high_s for later in group[at + 1 :])
    assert ranking.choice is options[0]
    assert all(option.loss.source == "unknown" for option in unknown)


def test_plans_that_are_equal_are_one_with_several_names(on_gb10):
    assert on_gb10.baseline.aliases == ("fp16_baseline",)
    assert on_gb10.option("fp16_baseline").key == "BF16"
    assert on_gb10.option("INT4.BF16").aliases == ("w4a16_aggressive",)
    assert on_gb10.option("w4a16_aggressive").key == "INT4.BF16"


def test_a_format_without_a_unit_is_left_out_unless_it_is_named():
    usual = recommend_model("h100", small_llama(), max_loss_pct=16.0)
    missing = exclusions(usual)["NVFP4"]
    assert (missing.code, missing.value("instead")) == ("no-unit", "NVFP4.BF16")
    named = recommend_model("h100", small_llama(), formats=["NVFP4"], strategies=[], max_loss_pct=16.0)
    assert labels(named) == ["BF16", "NVFP4"]
    assert named.option("NVFP4").execution == Execution((("dequantize", "BF16"),), is_cache_decoded=False)
    extra = recommend_model(
        "h100", small_llama(), extra_formats=["NVFP4", "INT8.BF16.FP8"], strategies=[], max_loss_pct=16.0
    )
    assert {"NVFP4", "INT8.BF16.FP8_E4M3", "FP8_E4M3"} <= set(labels(extra))


def test_paths_and_methods_say_how(on_gb10):
    assert on_gb10.option("FP8_E4M3").execution == Execution((("native", "FP8_E4M3"),), is_cache_decoded=False)
    assert on_gb10.option("fp8_balanced").execution == Execution((("native", "FP8_E4M3"),), is_cache_decoded=True)
    assert on_gb10.option("NVFP4.BF16").path == "dequantize"
    methods = {label: on_gb10.option(label).method for label in ("BF16", "INT4.BF16", "INT8.BF16", "NVFP4", "FP8_E4M3")}
    assert methods == {
        "BF16": "none",
        "INT4.BF16": "AWQ",
        "INT8.BF16": "weight_only",
        "NVFP4": "native_fp4",
        "FP8_E4M3": "native_fp8",
    }
    prefill = recommend_model("gb10", "llama-3-8b", phase="prefill", context=2048, max_loss_pct=16.0)
    assert prefill.option("NVFP4.BF16").findings[0].value("kind") == "compute-widened"
    assert prefill.option("FP8_E4M3").findings[0].value("kind") == "compute-narrow"
    assert prefill.baseline.tokens_per_s == pytest.approx(2048 / prefill.baseline.estimate.time_s)


def test_a_documents_fp16_is_the_models_own_16_bit_format():
    ranking = recommend_model("gb10", small_llama(wide_format="BF16"))
    assert ranking.wide == "BF16"
    assert "FP16" not in str([option.formats for option in ranking.options])
    chip = create_custom_asic("fp16_only", 500.0, {"FP16": 100.0, "INT8": 200.0})
    other = recommend_model(chip, small_llama(wide_format="BF16"))
    assert (other.wide, other.baseline.aliases) == ("FP16", ("fp16_baseline",))
    assert {"other-wide-format", "ranked-by-bounds"} <= set(codes(other))
    assert other.baseline.estimate.source == "ideal"
    with pytest.raises(UnsupportedError, match="no 16-bit rate"):
        recommend_model(create_custom_asic("narrow", 500.0, {"INT8": 200.0}), small_llama())


def test_a_published_checkpoint_is_its_own_reference():
    ranking = recommend_model("gb10", "gpt-oss-20b")
    option = ranking.option("checkpoint")
    assert (option.kind, option.loss.source, option.loss.pct) == ("published", "reference", 0.0)
    assert has_code(option.findings, "as-published")
    assert option.formats == (("experts", "MXFP4.BF16"),)
    assert option.speedup_ratio > 1


def test_a_limit_above_the_chips_memory_is_said():
    ranking = recommend_model("rtx-4090", "llama-3.1-70b", memory_limit_bytes=1e12)
    assert has_code(ranking.choice.findings, "exceeds-capacity")
    assert not has_code(recommend_model("h100", "llama-3.1-8b").choice.findings, "exceeds-capacity")


def test_memory_latency_and_quality_refuse_with_the_figure():
    tight = recommend_model("gb10", "llama-3-8b", memory_limit_bytes=10e9, memory_headroom_ratio=0.1)
    missed = next(exclusion for exclusion in tight.excluded if exclusion.key == "BF16")
    assert missed.finding.code == "misses-memory-limit"
    assert missed.finding.value("limit_bytes") == 9e9
    assert missed.finding.value("excess_bytes") == pytest.approx(7.598e9, rel=1e-3)
    assert excess_ratio(missed.finding) == pytest.approx(missed.option.memory.total_bytes / 9e9 - 1)
    assert all(option.memory.total_bytes <= 9e9 for option in tight.options)
    quick = recommend_model("gb10", "llama-3-8b", max_latency_s=0.025)
    slow = exclusions(quick)["BF16"]
    assert (slow.code, slow.value("limit_s")) == ("misses-time-limit", 0.025)
    assert slow.value("value_s") == pytest.approx(68.16e-3, rel=1e-3)
    assert all(option.estimate.time_s <= 0.025 for option in quick.options)
    careful = recommend_model("gb10", "llama-3-8b", max_loss_pct=0, formats=["NVFP4.BF16", "NF4.BF16"])
    assert careful.choice is not None
    assert careful.choice.kind == "baseline"
    lossy = exclusions(careful)["NVFP4.BF16"]
    assert (lossy.code, lossy.value("value_pct"), lossy.value("limit_pct")) == ("misses-loss-limit", 6.5, 0.0)
    # An unknown loss is refused by no limit, and stands behind.
    assert labels(careful)[0] == "BF16"
    assert "NF4.BF16" in {item.subject for item in careful.choice.findings} | {labels(careful)[1]}


def test_nothing_that_meets_the_limits_is_told_with_the_nearest():
    ranking = recommend_model("gb10", "llama-3-8b", memory_limit_bytes=6e9)
    assert ranking.choice is None
    assert ranking.options == ()
    nearest = min(each.option.memory.total_bytes for each in ranking.excluded if each.option is not None)
    assert [(item.code, item.subject) for item in ranking.decision] == [
        ("nothing-fits", "INT4.BF16"),
        ("misses-memory-limit", "INT4.BF16"),
        ("misses-loss-limit", "INT4.BF16"),
    ]
    assert ranking.decision[1].value("value_bytes") == nearest


def test_an_unknown_loss_is_never_taken():
    only_unknown = {"formats": ["NF4.BF16"], "strategies": [], "max_latency_s": 0.04}
    for limit in ({}, {"max_loss_pct": 1.0}, {"max_loss_pct": 50.0}):
        ranking = recommend_model("gb10", "llama-3-8b", **limit, **only_unknown)
        assert ranking.choice is None
        assert (ranking.headline.code, ranking.headline.subject) == ("nothing-within-loss", "NF4.BF16")


def test_estimates_of_a_caller_replace_the_expected_times():
    shape = small_llama()
    labels = []

    def twice_the_ideal(prediction):
        labels.append(prediction.plan.label)
        if prediction.plan.label == "FP8_E4M3":
            return None
        return Estimate(2 * prediction.time_s, source="measured", provenance="measured-here")

    ranking = recommend_model("gb10", shape, strategies=[], estimate=twice_the_ideal)
    assert "INT4.BF16" in labels
    for option in ranking.options:
        if option.key == "FP8_E4M3":
            assert (option.estimate.source, option.speedup_ratio) == (
                "ideal",
                pytest.approx(option.ideal_speedup_ratio),
            )
        else:
            assert (option.estimate.source, option.estimate.time_s) == (
                "measured",
                pytest.approx(2 * option.times.ideal.time_s),
            )
            assert (option.estimate.low_s, option.estimate.provenance) == (None, "measured-here")
    # A lower bound cannot be held against measurements: of the plans with a known loss it stands last, although its
    # number is smaller.
    keys = [option.key for option in ranking.options if option.loss.pct is not None]
    assert keys[-1] == "FP8_E4M3"
    assert ranking.option("FP8_E4M3").estimate.time_s < ranking.baseline.estimate.time_s


def test_what_the_callers_device_cannot_run_is_refused_with_its_reason():
    def only_int8(label: str) -> str:
        return "" if label.startswith(("INT8", "BF16")) else f"no kernel for {label} here"

    ranking = recommend_model("gb10", small_llama(), losses=small_losses(), is_runnable=only_int8)
    for label in ("NVFP4.BF16", "fp8_balanced"):
        reason = exclusions(ranking)[label]
        assert (reason.code, reason.value("error")) == ("cannot-run", f"no kernel for {label} here")
    chosen = {reason.chosen.label for search in ranking.searches for reason in search.choice.reasons}
    assert chosen <= {"INT8.BF16", "BF16"}
    assert "FP8_E4M3" in [item.subject for item in ranking.findings if item.value("kind") == "skipped"]
    nothing = recommend_model(
        "gb10", small_llama(), losses=small_losses(), is_runnable=lambda label: "no" * (label != "BF16")
    )
    assert (nothing.searches, labels(nothing)) == ((), ["BF16"])
    stuck = recommend_model("gb10", small_llama(), is_runnable=lambda label: "no torch here")
    assert (stuck.choice, stuck.options) == (None, ())
    assert stuck.headline.code == "nothing-runs"


def test_a_measured_loss_is_the_sum_of_its_layers_and_replaces_the_claim(searched):
    losses = small_losses()
    for label in ("FP8_E4M3", "INT8.BF16"):
        total = math.fsum(value for (_, name), value in losses.values.items() if name == label)
        option = searched.option(label)
        assert option.loss.value == pytest.approx(total)
        assert option.loss.pct == pytest.approx(loss_pct(total))
        assert option.loss.source == "measured"
    # A cache without a loss: the weights alone lose more than the limit, whatever is claimed of the cache.
    measured_losses = MeasuredLosses(
        {key: 9 * value for key, value in losses.values.items()}, "small", "kl", "nats/token", "a text", 4096
    )
    cached = recommend_model(
        "gb10", small_llama(), losses=measured_losses, extra_formats=["NVFP4.BF16.FP8"], strategies=[]
    )
    assert exclusions(cached)["NVFP4.BF16.FP8_E4M3"].value("limit_pct") == MAX_LOSS_PCT
    fisher = recommend_model("gb10", small_llama(), losses=small_losses("fisher"), formats=["FP8"], strategies=[])
    assert fisher.option("FP8_E4M3").loss.source == "estimated"


def test_losses_of_parts_that_the_model_does_not_have_are_told_and_not_used():
    plain = small_llama(ffn="plain")  # an up projection alone, no gate
    ranking = recommend_model("gb10", plain, losses=small_losses())
    assert next(item for item in ranking.findings if item.value("kind") == "unused").value("count") == 3
    assert ranking.option("INT8.BF16").loss.source == "claimed"
    lacking = next(item for item in ranking.option("INT8.BF16").findings if item.value("kind") == "incomplete")
    assert lacking.value("part") == "layers.0.up_proj in INT8.BF16"
    assert {reason.group.rpartition(".")[2] for reason in ranking.searches[0].choice.reasons} == {
        "qkv_proj",
        "o_proj",
        "down_proj",
    }


def test_16_bit_activations_of_a_table_are_those_of_the_baseline():
    chip = create_custom_asic("fp16_only", 500.0, {"FP16": 100.0, "INT8": 200.0})
    ranking = recommend_model(chip, small_llama(wide_format="BF16"), losses=small_losses())
    total = math.fsum(value for (_, name), value in small_losses().values.items() if name == "INT8.BF16")
    assert ranking.option("INT8.FP16").loss.value == pytest.approx(total)


def test_the_search_is_faster_than_every_uniform_plan_at_the_same_loss(searched):
    fastest = searched.option("pareto-fastest")
    assert searched.choice is fastest
    assert fastest.loss.pct <= 1.0
    uniform = [option for option in searched.options if option.kind == "uniform" and option.loss.source == "measured"]
    assert len(uniform) >= 2
    assert all(fastest.estimate.time_s < option.estimate.time_s for option in uniform)
    (search,) = searched.searches
    assert search.choice.plan.time_s == pytest.approx(fastest.estimate.time_s)
    assert search.choice.plan.loss_value == pytest.approx(fastest.loss.value)
    assert search.choice.plan.memory_bytes == pytest.approx(fastest.memory.total_bytes)
    assert len(search.choice.reasons) == LAYERS * len(PARTS)
    assert searched.front
    assert [point.loss_value for point in searched.front] == sorted(point.loss_value for point in searched.front)


def test_with_a_latency_the_least_loss_within_it_is_searched_too(searched):
    limit_s = 0.8 * searched.baseline.estimate.time_s
    ranking = recommend_model("gb10", small_llama(), losses=small_losses(), max_latency_s=limit_s)
    least = ranking.option("pareto-least-loss")
    assert least.estimate.time_s <= limit_s
    for option in ranking.options:
        if option.loss.pct is not None:
            assert least.loss.pct <= option.loss.pct
    hopeless = recommend_model("gb10", small_llama(), losses=small_losses(), max_latency_s=1e-6)
    assert hopeless.choice is None
    assert exclusions(hopeless)["pareto-least-loss"].value("kind") == "time"


def test_a_search_that_meets_the_latency_only_as_a_whole_is_searched_again(searched):
    # The machine's real path is 30 % slower than the kernels' sum, so the first plan found is too slow.
    def slower(prediction):
        step = expected_step(prediction, "gb10")
        return Estimate(1.3 * step.time_s, provenance="stretched")

    limit_s = 0.8 * 1.3 * searched.baseline.estimate.time_s
    ranking = recommend_model("gb10", small_llama(), losses=small_losses(), max_latency_s=limit_s, estimate=slower)
    search = next(candidate for candidate in ranking.searches if candidate.label == "pareto-least-loss")
    assert search.passes_count > 1
    assert ranking.option("pareto-least-loss").estimate.time_s <= limit_s


def test_caches_are_searched_where_they_have_losses():
    ranking = recommend_model("b10", small_llama(), context=32768, losses=small_losses(FP8_E4M3=1e-6))
    (search,) = ranking.searches
    assert search.choice.choices["layers.0.kv"] == "FP8_E4M3"
    assert PlanPart("cache", (("FP8_E4M3", 1),), 3) in ranking.option("pareto-fastest").parts


def test_scores_without_data_choose_but_promise_no_percent():
    ranking = recommend_model("gb10", small_llama(), losses=small_losses("prior"), max_latency_s=1.0)
    assert [search.label for search in ranking.searches] == ["pareto-least-loss"]
    assert "losses-applied" in codes(ranking)
    assert ranking.option("INT8.BF16").loss.pct == 0.2  # the claim's, not the score's
    assert has_code(ranking.option("INT8.BF16").findings, "loss-note", "score")
    # 16 bit meets the latency and scores nothing: the search finds that and is the baseline by another name.
    assert "pareto-least-loss" in ranking.option("BF16").aliases


def test_a_mix_of_passes_is_the_mean_by_share_and_the_memory_of_the_largest():
    shape = small_llama()
    passes = [{"batch": 8, "context": 8192}, {"phase": "prefill", "context": 2048}]
    shares = [traffic_share(**step, share=share) for step, share in zip(passes, (3.0, 1.0), strict=True)]
    mixed = recommend_model("gb10", shape, traffic=shares)
    alone = [recommend_model("gb10", shape, **step) for step in passes]
    for label in ("BF16", "FP8_E4M3"):
        option, parts = mixed.option(label), [each.option(label) for each in alone]
        assert option.estimate.time_s == pytest.approx(
            0.75 * parts[0].estimate.time_s + 0.25 * parts[1].estimate.time_s
        )
        assert option.estimate.low_s == pytest.approx(0.75 * parts[0].estimate.low_s + 0.25 * parts[1].estimate.low_s)
        assert option.memory.total_bytes == max(each.memory.total_bytes for each in parts)
        # Generated tokens and those of a prompt are of two kinds: each phase has its own rate.
        assert option.tokens_per_s is None
        assert [(phase.phase, phase.time_s, phase.tokens_per_s) for phase in option.phases] == [
            (name, pytest.approx(part.estimate.time_s), pytest.approx(count / part.estimate.time_s))
            for name, part, count in zip(("decode", "prefill"), parts, (8, 2048), strict=True)
        ]
    with pytest.raises(InvalidValueError, match="leave those three out"):
        recommend_model("gb10", shape, batch=2, traffic=shares)


def test_a_latency_of_a_mix_is_held_against_the_longest_pass_of_its_phase():
    shape = small_llama()
    passes = [{"batch": 1, "context": 512}, {"batch": 8, "context": 8192}, {"phase": "prefill", "context": 2048}]
    shares = [traffic_share(**step, share=share) for step, share in zip(passes, (5.0, 3.0, 1.0), strict=True)]
    wide_s = recommend_model("gb10", shape, **passes[1]).option("BF16").estimate.time_s
    limited = recommend_model("gb10", shape, traffic=shares, max_latency_s={"decode": 0.9 * wide_s})
    [excluded] = [each for each in limited.excluded if each.key == "BF16"]
    miss = excluded.findings[0]
    assert (miss.code, miss.value("phase"), miss.value("value_s")) == (
        "misses-time-limit",
        "decode",
        pytest.approx(wide_s),
    )
    assert limited.options
    for option in limited.options:
        assert option.phases[0].longest_s <= 0.9 * wide_s
    # No limit of the prefill: the prompt may take longer than a step.
    assert max(option.phases[1].time_s for option in limited.options) > 0.9 * wide_s
    with pytest.raises(InvalidValueError, match="name the phase"):
        recommend_model("gb10", shape, traffic=shares, max_latency_s=0.05)
    with pytest.raises(InvalidValueError, match="decode and prefill alone"):
        recommend_model("gb10", shape, traffic=shares, max_latency_s={"chat": 0.05})
    alike = recommend_model("gb10", shape, traffic=shares[:2], max_latency_s=0.9 * wide_s)
    assert "BF16" in [each.key for each in alike.excluded]
    single = recommend_model("gb10", shape, **passes[1], max_latency_s={"decode": 0.9 * wide_s})
    assert single.limits == recommend_model("gb10", shape, **passes[1], max_latency_s=0.9 * wide_s).limits


def test_a_choice_whose_interval_crosses_the_limit_of_a_phase_is_marked_for_that_phase():
    shares = [traffic_share(batch=8, context=2048, share=9), traffic_share("prefill", context=1024)]
    decode, prefill = recommend_model("gb10", small_llama(), traffic=shares).choice.phases
    assert decode.prudent_s > decode.longest_s
    limits = {"decode": (decode.longest_s + decode.prudent_s) / 2, "prefill": 2 * prefill.prudent_s}
    ranking = recommend_model("gb10", small_llama(), traffic=shares, max_latency_s=limits)
    marks = [item for item in ranking.findings if item.code == "may-exceed-limit"]
    assert [(item.value("phase"), item.value("high_s"), item.value("limit_s")) for item in marks] == [
        ("decode", decode.prudent_s, limits["decode"])
    ]
    limits["prefill"] = (prefill.longest_s + prefill.prudent_s) / 2
    both = recommend_model("gb10", small_llama(), traffic=shares, max_latency_s=limits).findings
    assert [item.value("phase") for item in both if item.code == "may-exceed-limit"] == ["decode", "prefill"]


def test_the_search_keeps_the_latency_of_each_phase():
    shares = [traffic_share(batch=8, context=2048, share=9), traffic_share("prefill", context=1024)]
    free = recommend_model("gb10", small_llama(), losses=small_losses(), traffic=shares)
    wide = {phase.phase: phase.time_s for phase in free.option("BF16").phases}
    limits = {"decode": 0.8 * wide["decode"], "prefill": 0.97 * wide["prefill"]}
    ranking = recommend_model("gb10", small_llama(), losses=small_losses(), traffic=shares, max_latency_s=limits)
    searched_plan = ranking.option("pareto-least-loss")
    assert all(phase.longest_s <= limits[phase.phase] for phase in searched_plan.phases)
    assert searched_plan.loss.value > 0


def test_own_strategies_take_part_and_one_that_cannot_run_is_told():
    mine = MixedPrecisionConfig("mine", operator_precisions={"ffn_up": "INT4", "ffn_gate": "INT4", "ffn_down": "INT4"})
    deep = get_strategy("layerwise_gradient", num_layers=16)
    ranking = recommend_model("gb10", small_llama(), strategies=[mine, deep], max_loss_pct=16.0)
    option = ranking.option("mine")
    assert (option.formats, option.loss.pct, option.loss.method) == ((("ffn", "INT4.BF16"),), 6.5, "INT4.BF16")
    assert "is made for 16 layers" in exclusions(ranking)["layerwise_gradient"].value("error")


def test_a_placeholder_chip_and_losses_of_another_model_are_told():
    other = dataclasses.replace(small_losses(), model="larger")
    ranking = recommend_model("b10", small_llama(), losses=other)
    assert {"placeholder-chip", "losses-doubtful"} <= set(codes(ranking))
    assert next(item for item in ranking.findings if item.value("kind") == "used").value("confidence") == "high"


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


# --- several devices


def test_plans_over_several_devices_are_priced_as_the_pass_is_and_limited_by_one_devices_memory() -> None:
    eight = recommend_model("h100-sxm", "llama-3.1-70b", batch=32, parallel=Parallel(8))
    assert dict(eight.question.sizes)["devices"] == 8
    for option in eight.options:
        prediction = predict_model(
            "h100-sxm", "llama-3.1-70b", batch=32, formats=option.plan, parallel=Parallel(8, 450e9)
        )
        step = expected_step(prediction, get_hardware("h100-sxm"))
        assert step is not None
        assert option.estimate.time_s == pytest.approx(step.time_s)
        assert option.memory is not None
        assert option.memory.total_bytes == prediction.memory.total_bytes
    assert not recommend_model("h100-sxm", "llama-3.1-70b", batch=32).options  # nothing fits on one
    wide = next(option for option in eight.options if option.kind == "baseline")
    assert wide.memory is not None  # 16 bit fits on eight, not on one
    assert wide.memory.total_bytes < 81e9


def test_the_search_of_a_format_per_layer_knows_one_device() -> None:
    with pytest.raises(InvalidValueError, match="knows one device"):
        recommend_model("h100", small_llama(), losses=small_losses(), parallel=Parallel(2))


def test_the_decode_step_of_the_choice_is_said_of_engines_too():
    ranking = recommend_model("b200", "llama-3.1-70b")
    passes = [item for item in ranking.findings if item.code == "engine-pass"]
    assert {item.subject for item in passes} == {"vLLM", "SGLang", "TensorRT-LLM"}
    times_s = [item.value("time_s") for item in passes]
    assert times_s == sorted(times_s)
    for item in passes:
        rate = 1 / item.value("time_s")
        assert item.value("low_tokens_per_s") < rate < item.value("high_tokens_per_s")
    assert times_s[0] > ranking.choice.times.ideal_s


@pytest.mark.parametrize("asked", [{"hardware": "l4"}, {"hardware": "b200", "phase": "prefill"}])
def test_a_chip_without_constants_or_a_prefill_has_no_step_of_an_engine(asked):
    ranking = recommend_model(asked.pop("hardware"), "llama-3.1-8b", **asked)
    assert "engine-pass" not in [item.code for item in ranking.findings]
