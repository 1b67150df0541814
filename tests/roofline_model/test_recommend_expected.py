"""The recommendation by expected times: the seam gives them, the ranking goes by them, and nothing is mixed in silence."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofline_model import create_custom_asic, gemm, get_hardware, list_hardware
from roofline_model.auto_quantize import TimeEstimate, recommend_quantization
from roofline_model.case import Case
from roofline_model.core.finding import reason_text
from roofline_model.expected.case_times import expected_times
from roofline_model.expected.predict import predict_expected, why_no_expected
from roofline_model.machine_constants import Calibration, Constant
from roofline_model.ops.attention_ops import attention
from roofline_model.recommendation import Candidate, Recommendation

DECODE, PREFILL = (1, 4096, 4096), (2048, 4096, 4096)
MODELLED = [device.key for device in list_hardware() if device.key not in ("b10", "mi300x")]


def _loss(one: Candidate) -> float:
    return float("inf") if one.loss_pct is None else one.loss_pct


def by_precision(found: Recommendation) -> dict[str, Candidate]:
    return {candidate.precision: candidate for candidate in found.candidates}


def expected(chip: str, *shape: int, **options) -> Recommendation:
    device = get_hardware(chip)
    return recommend_quantization(device, *shape, times=expected_times(device), **options)


def test_the_ranking_agrees_with_the_expected_predictions():
    # The ideals promise 3.8x for INT4 weights; the kernels of this chip make FP8 on both sides the fastest.
    found, chip = expected("h100", *DECODE), get_hardware("h100")
    assert recommend_quantization(chip, *DECODE).precision == "INT4"
    assert found.precision == "FP8_E4M3"
    fp8, fp16 = (predict_expected(gemm(*DECODE, a=name, c="FP16"), chip) for name in ("FP8", "FP16"))
    assert (found.best.time_s, found.best.low_s, found.best.high_s) == (fp8.time_s, fp8.low_s, fp8.high_s)
    assert found.best.time_provenance == fp8.provenance == "fitted"
    assert found.speedup == fp16.time_s / fp8.time_s
    int4 = by_precision(found)["INT4"]
    assert int4.ideal_speedup == pytest.approx(3.87, abs=0.01)
    assert int4.speedup < 1.5 < found.speedup < found.best.ideal_speedup


def test_the_reason_says_that_expected_times_were_used_and_what_the_ideals_would_give():
    found = expected("h100", *DECODE)
    assert "in FP16, where the ideals would give 2.0x" in found.reason
    assert f"expected {found.best.time_s * 1e6:.4g} µs against" in found.reason
    ideal = recommend_quantization("h100", *DECODE)
    assert "expected" not in ideal.reason
    assert all(one.time_source == "ideal" and one.speedup == one.ideal_speedup for one in ideal.candidates)
    assert all(one.low_s is None and not one.time_provenance for one in ideal.candidates)


def test_staying_is_said_with_the_times_it_rests_on():
    def times(case: Case) -> TimeEstimate | None:
        return TimeEstimate({"FP16": 100e-6, "INT8": 120e-6}[dict(case.formats)["b"]], "expected")

    found = recommend_quantization("gb10", *PREFILL, formats=["INT8"], times=times)
    assert (
        found.reason
        == "stay at FP16: no candidate is more than 5 % faster by expected times (the nearest, INT8: -16.7 %)"
    )
    assert by_precision(found)["INT8"].ideal_speedup == pytest.approx(2, abs=0.01)


@pytest.mark.parametrize("shape", [DECODE, PREFILL, (8192, 4096, 4096)])
@pytest.mark.parametrize("chip", ["b10", "mi300x"])
def test_a_chip_without_expected_times_keeps_its_ideal_ranking(chip: str, shape: tuple[int, int, int]):
    asked, alone = expected(chip, *shape), recommend_quantization(chip, *shape)
    assert replace(asked, notes=alone.notes) == alone
    # An invented chip is not to be calibrated; of a real one the note says why, in the words of `predict`.
    why = () if chip == "b10" else (reason_text(why_no_expected(gemm(*shape, a="FP16"), chip)),)
    assert asked.notes == (*alone.notes, *why)


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(MODELLED), st.integers(1, 8192), st.integers(16, 8192), st.integers(16, 8192))
def test_laws_of_the_ranking_by_expected_times(chip: str, m: int, n: int, k: int):
    found = expected(chip, m, n, k)
    assert {one.time_source for one in found.candidates} == {"expected"}
    assert found.notes == ()
    for one in found.candidates:
        assert one.low_s <= one.time_s <= one.high_s
        assert one.speedup == pytest.approx(found.baseline.time_s / one.time_s)
        assert one.ideal_speedup == pytest.approx(found.baseline.ideal_s / one.ideal_s)
    runnable = [one for one in found.candidates if not one.kernel_gap]
    assert list(found.candidates[: len(runnable)]) == runnable
    for at, below in enumerate(runnable):
        for above in runnable[:at]:
            # What is surer and faster by more than 5 % stands before; of level ones that which loses more does not.
            assert above.time_s <= below.time_s * 1.0501 or above.high_s <= below.high_s * 1.0501
            is_better = below.time_s <= above.time_s and below.high_s <= above.high_s
            assert not is_better or _loss(below) >= _loss(above)


# --- candidates without an expected time


def without(chip: str, *formats: str):
    times = expected_times(get_hardware(chip))

    def some(case: Case) -> TimeEstimate | None:
        return None if dict(case.formats)["b"] in formats else times(case)

    return some


def test_an_ideal_time_does_not_beat_expected_ones_and_is_named():
    found = recommend_quantization("h100", *DECODE, times=without("h100", "INT4", "NVFP4"))
    assert [one.precision for one in found.candidates][-2:] == ["INT4", "NVFP4"]  # 2.6 µs ideal, behind 16 µs expected
    assert found.precision == "FP8_E4M3"
    (note,) = found.notes
    assert "ideal: NVFP4, INT4" in note
    assert "so it ranks behind expected ones" in note


def test_when_nothing_can_be_compared_the_answer_is_to_stay():
    found = recommend_quantization("h100", *DECODE, formats=["INT4"], times=without("h100", "INT4"))
    assert found.reason == "stay at FP16: no other candidate has an expected time to compare with"


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

    known = Calibration(
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
    chip = replace(bare, calibration=known, kind="cpu")
    work = gemm(*DECODE, a="BF16")
    assert predict_expected(work, chip) is None
    assert expected_times(chip)(work.case("*", cache="cold")) is None


# --- what the intervals cannot tell apart, and what is no gain


def test_the_surer_one_comes_first_and_the_faster_one_is_named():
    found = expected("b200", 4096, 14336, 4096)
    nvfp4, mxfp4 = (next(one for one in found.candidates if one.precision == key) for key in ("NVFP4", "MXFP4"))
    assert mxfp4.time_s < nvfp4.time_s < 1.05 * mxfp4.time_s
    assert nvfp4.high_s < mxfp4.high_s / 1.05
    assert found.best is nvfp4
    assert (
        "MXFP4 is expected faster (115.7 µs) but less surely: its 80 % interval ends at 137.4 µs, not 124 µs"
        in found.reason
    )


def test_a_launch_is_no_reason_to_quantise():
    found = expected("h100", 1, 64, 64)
    assert found.precision == "FP16"
    assert found.reason.endswith("(the nearest, FP8_E4M3: +2.0 %); what a launch takes is most of every time")
    assert by_precision(found)["FP8_E4M3"].reason == "bound by what a launch takes, whatever the format"


def test_the_answer_for_a_shape_is_that_for_a_model_and_unknown_losses_are_last_of_level_ones():
    found = expected("gb10", *DECODE)
    assert found.precision == "NVFP4"
    assert (
        "INT4 is expected faster (42.44 µs) but less surely: its 80 % interval ends at 57.42 µs, not 51.46 µs"
        in found.reason
    )
    places = [one.precision for one in found.candidates]
    assert places.index("INT8") < places.index("MXFP8_E4M3")


def test_a_product_that_no_serving_engine_has_keeps_its_place_and_says_so():
    int8 = by_precision(expected("gb10", *DECODE))["INT8"]
    assert int8.kernel_gap == ""
    assert int8.engine_gap.startswith(
        "torch only: no serving engine multiplies INT8 by INT8 on compute capability 12.1"
    )
    assert int8.reason.endswith(int8.engine_gap)
    assert by_precision(expected("h100", *DECODE))["INT8"].engine_gap == ""


def test_a_slowdown_is_called_one_and_says_why_it_is_taken():
    found = expected("h100", 512, 4096, 4096, memory_limit_gb=6, model_parameters=8e9)
    assert found.best.speedup < 0.9
    assert str(found) == "INT4 (AWQ) 0.8x the speed of FP16, needed for the memory limit"
