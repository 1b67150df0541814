"""The recommendation by expected times: the seam gives them, the ranking goes by them, and nothing is mixed in
silence.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import takewhile

import pytest

from roofline_model import create_custom_asic, gemm, get_hardware
from roofline_model.chips.machine_constants import Calibration, Constant
from roofline_model.core.answer import Estimate, Option, Ranking
from roofline_model.core.finding import has_code
from roofline_model.expected.predict import expected_times, predict_expected
from roofline_model.formats.usual import WEIGHED
from roofline_model.operators.attention import attention
from roofline_model.operators.case import Case
from roofline_model.recommend.ranking import MAX_LOSS_PCT
from roofline_model.recommend.shape import recommend_quantization

BEYOND = "first-beyond-loss-limit"
DECODE, PREFILL = (1, 4096, 4096), (2048, 4096, 4096)


def by_key(ranking: Ranking) -> dict[str, Option]:
    return {option.key: option for option in ranking.options}


def reason(option: Option, code: str) -> dict[str, object]:
    return dict(next(item for item in option.findings if item.code == code).values)


def expected(chip: str, *shape: int, **options) -> Ranking:
    device = get_hardware(chip)
    return recommend_quantization(device, *shape, times=expected_times(device), **options)


def test_the_ranking_agrees_with_the_expected_predictions():
    # The ideals promise 3.8x for INT4 weights; the kernels of this chip make FP8 on both sides the fastest.
    ranking, chip = expected("h100", *DECODE), get_hardware("h100")
    assert recommend_quantization(chip, *DECODE).precision == "INT4"
    assert ranking.precision == "FP8_E4M3"
    fp8, fp16 = (predict_expected(gemm(*DECODE, a=name, c="FP16"), chip) for name in ("FP8", "FP16"))
    assert ranking.choice.estimate == Estimate(fp8.time_s, fp8.low_s, fp8.high_s, "expected", "fitted")
    assert ranking.speedup == fp16.time_s / fp8.time_s
    int4 = by_key(ranking)["INT4"]
    assert int4.ideal_speedup_ratio == pytest.approx(3.87, abs=0.01)
    assert int4.speedup_ratio < 1.5 < ranking.speedup < ranking.choice.ideal_speedup_ratio


def test_what_ranks_before_the_choice_says_by_how_much_it_misses_the_limit():
    ranking = expected("gb10", *DECODE)
    ahead = list(takewhile(lambda option: option is not ranking.choice, ranking.options))
    reasons = {item.subject: dict(item.values) for item in ranking.choice.findings if item.code == BEYOND}
    assert reasons == {each.key: {"loss_pct": each.loss.pct, "limit_pct": MAX_LOSS_PCT} for each in ahead}
    assert reasons["INT4"]["loss_pct"] > MAX_LOSS_PCT
    assert not has_code(expected("gb10", *DECODE, max_loss_pct=20).choice.findings, BEYOND)


@pytest.mark.parametrize("shape", [DECODE, PREFILL, (8192, 4096, 4096)])
@pytest.mark.parametrize("chip", ["b10", "mi300x"])
def test_a_chip_without_expected_times_keeps_its_ideal_ranking(chip: str, shape: tuple[int, int, int]):
    requested, alone = (
        expected(chip, *shape),
        recommend_quantization(chip, *shape, max_loss_pct=None if chip == "b10" else MAX_LOSS_PCT),
    )
    assert requested.options == alone.options
    assert requested.choice.loss.pct <= MAX_LOSS_PCT or chip == "b10"  # an invented chip is for examples
    # An invented chip is not to be calibrated; of a real one a finding says why, as `predict` does.
    assert len(requested.findings) == len(alone.findings) + (chip != "b10")


# --- candidates without an expected time


def without(chip: str, *formats: str):
    times = expected_times(get_hardware(chip))

    def some(case: Case) -> Estimate | None:
        return None if dict(case.formats)["b"] in formats else times(case)

    return some


def test_an_ideal_time_does_not_beat_expected_ones_and_is_named():
    ranking = recommend_quantization("h100", *DECODE, times=without("h100", "INT4", "NVFP4"))
    assert [option.key for option in ranking.options][-2:] == ["INT4", "NVFP4"]  # 2.6 µs ideal, behind 16 µs expected
    assert ranking.precision == "FP8_E4M3"
    by_source = {item.value("source"): item.value("options") for item in ranking.findings}
    assert by_source["ideal"] == ("NVFP4", "INT4")


# --- the seam


def test_the_seam_answers_for_products_only_and_in_their_cache_state():
    chip = get_hardware("rtx-pro-6000")
    times = expected_times(chip)
    assert times(attention(1, 8, 8, 1, 128, 64).case("*", cache="cold")) is None
    work = gemm(16, 2048, 2048, a="BF16")
    cold, warm = (times(work.case("*", cache=state)) for state in ("cold", "warm"))
    assert cold.source == warm.source == "expected"
    assert warm.time_s < cold.time_s


def test_bare_ceilings_of_a_calibrated_machine_are_no_expected_times():
    def constant(unit: str, value: float) -> Constant:
        return Constant(unit, value * 1.2, value, value * 0.8, 0.1, 20)

    calibration = Calibration(
        measured_at="2026-11-21T12:00:00+00:00",
        subject="Test CPU",
        kind="cpu",
        dram={mix: constant("B/s", 40e9) for mix in ("read", "copy", "triad", "write")},
        peaks={"FP32": constant("FLOP/s", 160e9), "BF16": constant("FLOP/s", 320e9)},
        floors={
            "call": Constant("s", 1e-6, 2e-6, 4e-6, 0.1, 20),
            "fork-join": Constant("s", 3e-6, 4e-6, 8e-6, 0.1, 20),
        },
        conditions={"torch": "2.13.0"},
        fingerprint="0123456789abcdef",
    )
    bare = create_custom_asic("test cpu", 50, {"FP32": 0.2, "BF16": 0.4})
    chip = replace(bare, calibration=calibration, kind="cpu")
    work = gemm(*DECODE, a="BF16")
    assert predict_expected(work, chip) is None
    assert expected_times(chip)(work.case("*", cache="cold")) is None


# --- what the intervals cannot tell apart, and what is no gain


def test_the_surer_one_comes_first_and_the_faster_one_is_named():
    ranking = expected("b200", 4096, 14336, 4096, max_loss_pct=20)
    nvfp4, mxfp4 = (by_key(ranking)[key].estimate for key in ("NVFP4", "MXFP4"))
    assert mxfp4.time_s < nvfp4.time_s < 1.05 * mxfp4.time_s
    assert nvfp4.high_s < mxfp4.high_s / 1.05
    assert ranking.choice.key == "NVFP4"
    assert reason(ranking.choice, "faster-not-first") == {
        "kind": "less-certain",
        "time_s": mxfp4.time_s,
        "high_s": mxfp4.high_s,
        "choice_high_s": nvfp4.high_s,
    }


def test_the_choice_keeps_the_limit_of_loss_and_a_faster_format_keeps_its_place():
    ranking = expected("gb10", *DECODE)
    assert ranking.precision == "FP8_E4M3"
    # No chip of GB10's family but its lender was measured in either: both intervals are wide, and INT4's ends first.
    assert [option.key for option in ranking.options][:2] == ["INT4", "NVFP4"]
    assert [(each.role, each.option.key) for each in ranking.alternatives] == [("riskier", "INT4"), ("safest", "FP16")]
    allowed = expected("gb10", *DECODE, max_loss_pct=20)
    assert [(each.role, each.option.key) for each in allowed.alternatives] == [
        ("lower-loss", "FP8_E4M3"),
        ("safest", "FP16"),
    ]
    assert [option.key for option in allowed.options] == [option.key for option in ranking.options]


def test_a_launch_is_no_reason_to_quantise():
    ranking = expected("h100", 1, 64, 64)
    assert ranking.precision == "FP16"
    assert reason(ranking.choice, "no-other")["speedup_ratio"] == pytest.approx(1.02, abs=0.005)
    for option in ranking.options:
        assert "launch" in [item.value("kind") for item in option.findings]


def test_the_answer_for_a_shape_is_that_for_a_model_and_unknown_losses_are_last_of_level_ones():
    ranking = expected("gb10", *DECODE, max_loss_pct=20)
    assert ranking.precision == "INT4"
    assert by_key(ranking)["INT4"].estimate.high_s < by_key(ranking)["NVFP4"].estimate.high_s
    places = [option.key for option in ranking.options]
    assert places.index("INT8") < places.index("MXFP8_E4M3")


def test_a_product_that_no_serving_engine_has_keeps_its_place_and_says_so():
    int8 = by_key(expected("gb10", *DECODE))["INT8"]
    assert not has_code(int8.findings, "kernel-gap")
    assert has_code(int8.findings, "engine-gap")
    assert not has_code(by_key(expected("h100", *DECODE))["INT8"].findings, "engine-gap")


def test_a_slowdown_is_called_one_and_says_why_it_is_taken():
    ranking = expected("h100", 512, 4096, 4096, memory_limit_gb=6, model_parameters=8e9, max_loss_pct=10)
    assert ranking.choice.speedup_ratio < 0.9
    assert ranking.headline.value("kind") == "slower-than-missing"
    assert has_code(ranking.choice.findings, "baseline-misses-limits", "slower")
    assert has_code(ranking.choice.findings, "baseline-misses-limits", "speedups")


@pytest.mark.parametrize("rates", [{"FP16": 50.0}, {"FP16": 50.0, "INT8": 100.0}])
def test_a_custom_chip_weighs_the_weight_formats_that_any_chip_can_decode(rates):
    chip = create_custom_asic("any", 500, rates)
    ranking = expected(chip, *DECODE)
    assert {option.key for option in ranking.options} == {*WEIGHED, "FP16"}
    assert ranking.choice.loss.pct <= MAX_LOSS_PCT
    assert ranking.choice.speedup_ratio > 1.9
    int4 = next(option for option in ranking.options if option.key == "INT4")
    assert (int4.path, dict(int4.formats)["a"]) == ("dequantize", "FP16")


def test_what_loses_too_much_is_no_unknown_loss():
    ranking = expected("gb10", 1, 5120, 25600, model_parameters=32.8e9, memory_limit_gb=20)
    assert ranking.choice is None
    decision = next(each for each in ranking.findings if each.code == "nothing-within-loss")
    assert (decision.subject, decision.value("limit_pct"), decision.value("loss_pct")) == ("INT4", 3, 6.5)
