"""The recommendation: what an expert would say per chip, ties, memory limits, and times that were measured."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofline_model import (
    InvalidValueError,
    UnknownNameError,
    UnsupportedError,
    create_custom_asic,
    get_format,
    list_hardware,
)
from roofline_model.auto_quantize import Candidate, Recommendation, TimeEstimate, recommend_quantization
from roofline_model.case import Case

DECODE, PREFILL = (1, 4096, 4096), (2048, 4096, 4096)


def by_precision(found: Recommendation) -> dict[str, Candidate]:
    return {candidate.precision: candidate for candidate in found.candidates}


# --- what an expert would answer


@pytest.mark.parametrize(
    ("chip", "shape", "answer", "path"),
    [
        ("gb10", DECODE, "INT4 (AWQ) 3.9x speedup", "dequantize"),
        ("gb10", PREFILL, "NVFP4 (native_fp4) 4.0x speedup", "native"),
        ("h200", DECODE, "INT4 (AWQ) 3.9x speedup", "dequantize"),
        ("h200", PREFILL, "FP8_E4M3 (native_fp8) 2.0x speedup", "native"),
        ("h100", PREFILL, "FP8_E4M3 (native_fp8) 2.0x speedup", "native"),
        ("a100", DECODE, "INT4 (AWQ) 3.9x speedup", "dequantize"),
        ("a100", PREFILL, "INT8 (PTQ) 2.0x speedup", "native"),  # no FP8 unit
        ("orin", DECODE, "INT4 (AWQ) 3.9x speedup", "dequantize"),
        ("orin", PREFILL, "INT8 (PTQ) 2.0x speedup", "native"),
        ("l40s", PREFILL, "FP8_E4M3 (native_fp8) 2.0x speedup", "native"),
        ("rtx-4090", PREFILL, "INT8 (PTQ) 4.0x speedup", "native"),  # FP8 accumulates at half rate there
        ("rtx-5090", PREFILL, "NVFP4 (native_fp4) 8.0x speedup", "native"),
        ("b200", PREFILL, "NVFP4 (native_fp4) 4.0x speedup", "native"),
        ("mi300x", PREFILL, "FP8_E4M3 (native_fp8) 2.0x speedup", "native"),
    ],
)
def test_real_chips(chip: str, shape: tuple[int, int, int], answer: str, path: str) -> None:
    found = recommend_quantization(chip, *shape)
    assert str(found) == answer
    assert found.best.path == path
    assert not any("placeholder" in note for note in found.notes)


def test_native_formats_take_both_operands_and_others_only_the_weight() -> None:
    found = by_precision(recommend_quantization("h200", *PREFILL))
    assert {key: (c.weight_format, c.activation_format, c.method, c.path) for key, c in found.items()} == {
        "FP16": ("FP16", "FP16", "none", "native"),
        "FP8_E4M3": ("FP8_E4M3", "FP8_E4M3", "native_fp8", "native"),
        "INT8": ("INT8", "INT8", "PTQ", "native"),
        "MXFP8_E4M3": ("MXFP8_E4M3", "FP16", "weight_only", "dequantize"),
        "NVFP4": ("NVFP4", "FP16", "weight_only", "dequantize"),
        "MXFP4": ("MXFP4", "FP16", "weight_only", "dequantize"),
        "INT4": ("INT4", "FP16", "AWQ", "dequantize"),
    }


def test_weight_only_int4_is_counted_with_the_scales_that_its_kernels_read() -> None:
    found = by_precision(recommend_quantization("gb10", *DECODE))
    wide_bytes = 4096 * 4096 * 2 + 2 * 4096 * 2
    int4_bytes = 4096 * 4096 / 2 + 4096 * 4096 / 128 * 16 / 8 + 2 * 4096 * 2
    assert found["INT4"].time_s == pytest.approx(int4_bytes / 273.06e9, rel=1e-4)
    assert found["INT4"].speedup == pytest.approx(wide_bytes / int4_bytes)
    assert found["INT4"].speedup == pytest.approx(3.873, abs=0.0005)
    assert found["MXFP4"].speedup == pytest.approx(3.76, abs=0.005)
    assert found["INT4"].memory_saved_ratio == 1 - 4.125 / 16
    whole = recommend_quantization("gb10", *DECODE, model_parameters=8e9)
    assert by_precision(whole)["INT4"].memory_bytes == 8e9 * 4.125 / 8
    # A width the caller states is kept, and a native W4A4 stays as the documents count it.
    own = by_precision(recommend_quantization("gb10", *DECODE, formats=[get_format("INT4").grouped(32)]))["INT4"]  # type: ignore[list-item]
    assert own.memory_saved_ratio == 1 - 4.5 / 16
    native = by_precision(recommend_quantization("b10", *DECODE))["INT4"]
    assert native.memory_saved_ratio == 0.75
    assert native.reason.endswith("no group scales counted")
    assert "quantises weights alone" in native.reason  # the documents' word, which does not fit W4A4


def test_an_int4_unit_is_used_only_where_somebody_says_that_a_kernel_does() -> None:
    # A100 and Ada have INT4 MMA, but no library multiplies INT4 by INT4, and AWQ keeps 16-bit activations.
    assert by_precision(recommend_quantization("a100", *PREFILL))["INT4"].activation_format == "FP16"
    assert by_precision(recommend_quantization("b10", *PREFILL))["INT4"].activation_format == "INT4"
    own = create_custom_asic("mine", 1000, {"FP16": 100.0, "INT4": 400.0})
    assert str(recommend_quantization(own, *PREFILL)) == "INT4 (AWQ) 4.0x speedup"


def test_a_native_unit_slower_than_16_bit_is_not_used() -> None:
    int8 = by_precision(recommend_quantization("b300", *PREFILL))["INT8"]
    assert (int8.method, int8.activation_format) == ("weight_only", "FP16")
    assert int8.speedup == pytest.approx(1)


def test_the_reasons_say_what_a_user_needs_to_know() -> None:
    found = recommend_quantization("gb10", *DECODE)
    assert "AWQ needs activation-aware scales" in found.reason
    assert "round-to-nearest" in found.reason
    assert found.reason.endswith("group-128 scales counted")
    assert found.reason.startswith("memory-bound: moves 0.26x the bytes of FP16")
    prefill = recommend_quantization("gb10", *PREFILL)
    assert (
        prefill.reason
        == (
            "compute-bound: native 475.3 TFLOP/s against 118.8 TFLOP/s in FP16"  # MXFP4 is as fast, and has no kernel on 12.1
        )
    )
    assert recommend_quantization("b200", *PREFILL).reason.endswith(
        "; level with MXFP4 (within 5 %) and preferred for its quality"
    )
    assert all(candidate.reason and "\n" not in candidate.reason for candidate in prefill.candidates)
    assert by_precision(prefill)["INT4"].reason.startswith("compute-bound: weights are widened")
    assert by_precision(prefill)["FP16"].reason == "the 16-bit baseline, compute-bound"


def test_quality_figures_are_marked_as_claims() -> None:
    for candidate in recommend_quantization("gb10", *DECODE).candidates:
        assert candidate.quality == "reference" or candidate.quality.startswith("claimed: ")


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from([device.key for device in list_hardware()]),
    st.integers(1, 8192),
    st.integers(1, 8192),
    st.integers(1, 8192),
)
def test_laws_of_the_ranking(chip: str, m: int, n: int, k: int) -> None:
    found = recommend_quantization(chip, m, n, k)
    places = [candidate.precision for candidate in found.candidates]
    assert len(places) == len(set(places))
    assert found.baseline in found.candidates
    assert found.baseline.speedup == 1
    middle = places.index(found.baseline.precision)
    for place, candidate in enumerate(found.candidates):
        assert candidate.time_source == "ideal"
        assert candidate.time_s == candidate.ideal_s
        assert candidate.speedup == pytest.approx(found.baseline.time_s / candidate.time_s)
        if not candidate.kernel_gap:
            assert place < middle or candidate.speedup <= 1.0501
            assert place >= middle or candidate.speedup > 1
        assert 0 <= candidate.memory_saved_ratio < 1
    gaps = [bool(candidate.kernel_gap) for candidate in found.candidates]
    assert gaps == sorted(gaps)
    assert found.best.time_s <= 1.0501 * min(one.time_s for one in found.candidates if not one.kernel_gap)
    assert found.phase == ("decode" if m <= 16 else "prefill")


# --- ties and the baseline


def test_equal_times_are_decided_by_quality() -> None:
    places = [c.precision for c in recommend_quantization("b10", *PREFILL).candidates]
    assert places == ["NVFP4", "MXFP4", "INT4", "MXFP8_E4M3", "FP8_E4M3", "INT8", "FP16"]


def test_a_near_tie_is_a_tie_and_a_clear_lead_is_not() -> None:
    near = create_custom_asic("near", 1e4, {"FP16": 100.0, "FP8": 200.0, "INT8": 201.0})
    assert recommend_quantization(near, *PREFILL).precision == "FP8_E4M3"
    clear = create_custom_asic("clear", 1e4, {"FP16": 100.0, "FP8": 200.0, "INT8": 215.0})
    assert recommend_quantization(clear, *PREFILL).precision == "INT8"


def test_without_a_real_gain_the_answer_is_to_stay() -> None:
    chip = create_custom_asic("flat", 1e4, {"FP16": 100.0, "INT8": 100.5})
    found = recommend_quantization(chip, *PREFILL)
    assert str(found) == "stay at FP16"
    assert (found.precision, found.method, found.speedup, found.memory_savings_pct) == ("FP16", "none", 1, 0)
    assert found.reason == "stay at FP16: no candidate is more than 5 % faster (the nearest, INT8: +0.5 %)"
    assert found.baseline is found.best
    alone = recommend_quantization(create_custom_asic("alone", 1e4, {"FP16": 100.0}), *PREFILL)
    assert alone.reason == "stay at FP16: there is no other candidate"


def test_the_baseline_is_bf16_where_there_is_no_fp16() -> None:
    found = recommend_quantization(create_custom_asic("b", 500, {"BF16": 50.0, "INT8": 100.0}), *DECODE)
    assert found.baseline.precision == "BF16"
    assert str(found) == "INT8 (PTQ) 2.0x speedup"
    assert recommend_quantization("gb10", *DECODE, formats=["BF16", "INT4"]).baseline.precision == "BF16"


def test_a_chip_without_16_bit_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="declares no 16-bit rate"):
        recommend_quantization(create_custom_asic("x", 500, {"INT8": 100.0}), *DECODE)


def test_a_placeholder_chip_warns() -> None:
    assert any(
        "placeholder chip with invented numbers" in note for note in recommend_quantization("b10", *DECODE).notes
    )


# --- phase, formats, bad input


def test_the_phase_follows_the_rows_unless_given() -> None:
    assert recommend_quantization("gb10", 16, 64, 64).phase == "decode"
    assert recommend_quantization("gb10", 17, 64, 64).phase == "prefill"
    assert recommend_quantization("gb10", 64, 64, 64, "decode").phase == "decode"


def test_a_format_filter_keeps_the_order_of_merit_and_explains_what_it_drops() -> None:
    found = recommend_quantization("gb10", *DECODE, formats=["int8", "FP32", "nvfp4", "INT8", "NF4"])
    assert [c.precision for c in found.candidates] == ["NF4", "NVFP4", "INT8", "FP16"]
    assert found.excluded == (("FP32", "not narrower than the FP16 baseline: nothing to gain"),)
    assert by_precision(found)["NF4"].method == "weight_only"


def test_an_undeclared_format_is_weighed_only_when_asked_for() -> None:
    chip = create_custom_asic("x", 500, {"FP16": 50.0, "INT8": 100.0})
    assert "INT4" not in by_precision(recommend_quantization(chip, *DECODE))
    asked = by_precision(recommend_quantization(chip, *DECODE, formats=["INT4"]))["INT4"]
    assert (asked.path, asked.activation_format) == ("dequantize", "FP16")
    bf16_first = recommend_quantization(chip, *DECODE, formats=["BF16", "INT8"])
    assert bf16_first.baseline.precision == "FP16"
    assert bf16_first.excluded[0][0] == "BF16"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"phase": "training"}, "phase must be decode or prefill"),
        ({"phase": ""}, "phase must be decode or prefill"),
        ({"memory_limit_gb": 0}, "memory_limit_gb must be a positive number"),
        ({"memory_limit_gb": -1}, "memory_limit_gb must be a positive number"),
        ({"memory_limit_gb": float("nan")}, "memory_limit_gb must be a positive number"),
        ({"memory_limit_gb": "24"}, "memory_limit_gb must be a positive number"),
        ({"model_parameters": 0}, "model_parameters must be a positive number"),
        ({"model_parameters": True}, "model_parameters must be a positive number"),
        ({"formats": []}, "formats is empty"),
        ({"M": 0}, "M must be a whole number"),
        ({"K": "64"}, "K must be a whole number"),
    ],
)
def test_bad_arguments_are_named(arguments: dict[str, object], said: str) -> None:
    with pytest.raises(InvalidValueError, match=said):
        recommend_quantization(**{"hardware": "gb10", "M": 8, "N": 64, "K": 64, **arguments})  # type: ignore[arg-type]


def test_unknown_names_are_named() -> None:
    with pytest.raises(UnknownNameError, match="gb10"):
        recommend_quantization("gb11", *DECODE)
    with pytest.raises(UnknownNameError, match="INT4"):
        recommend_quantization("gb10", *DECODE, formats=["INT5"])


# --- memory


def test_the_whole_model_must_fit_when_its_size_is_known() -> None:
    found = recommend_quantization("h200", *PREFILL, memory_limit_gb=60, model_parameters=70e9)
    assert found.precision != "FP8_E4M3"  # the fastest, but 70 GB
    assert found.best.memory_bytes <= 60e9
    assert ("FP8_E4M3", "needs 70 GB, 10 GB more than the limit of 60 GB") in found.excluded
    assert ("FP16", "needs 140 GB, 80 GB more than the limit of 60 GB") in found.excluded
    assert all(candidate.memory_bytes <= 60e9 for candidate in found.candidates)
    assert found.reason.endswith("FP16 does not fit the memory limit")
    assert found.baseline.precision == "FP16"  # speed-ups still refer to it


def test_without_a_model_the_operands_must_fit() -> None:
    found = recommend_quantization("gb10", *DECODE, memory_limit_gb=0.02)
    operands = 4096 * 2 + 4096 * 4096 * 2 + 4096 * 2
    assert found.baseline.memory_bytes == operands
    assert [name for name, _ in found.excluded] == ["FP16"]
    everything = recommend_quantization("gb10", *DECODE, memory_limit_gb=operands / 1e9)
    assert everything.excluded == ()


def test_when_nothing_fits_the_smallest_is_named_with_what_it_misses() -> None:
    found = recommend_quantization("gb10", *DECODE, memory_limit_gb=30, model_parameters=70e9)
    assert [c.precision for c in found.candidates] == ["INT4"]
    assert found.reason.startswith("nothing fits in 30 GB: the smallest, INT4, needs 36.1 GB and misses by 6.09 GB")
    assert any("misses by 6.09 GB" in note for note in found.notes)
    assert {name for name, _ in found.excluded} == {"FP16", "FP8_E4M3", "MXFP8_E4M3", "INT8", "NVFP4", "MXFP4"}
    assert not found.fits
    assert str(found) == "nothing fits in 30 GB; smallest: INT4, misses by 6.09 GB"


def test_a_fitting_answer_says_so() -> None:
    assert recommend_quantization("gb10", *DECODE).fits
    assert recommend_quantization("gb10", *DECODE, memory_limit_gb=100, model_parameters=70e9).fits


def test_a_limit_without_a_model_is_said_to_hold_for_one_product() -> None:
    found = recommend_quantization("gb10", *DECODE, memory_limit_gb=2)
    assert [note for note in found.notes if "this one product" in note and "model_parameters" in note] == list(
        found.notes
    )
    assert len(found.notes) == 1
    assert recommend_quantization("gb10", *DECODE).notes == ()
    assert recommend_quantization("gb10", *DECODE, memory_limit_gb=200, model_parameters=70e9).notes == ()


def test_saved_memory_is_that_of_the_weights() -> None:
    found = by_precision(recommend_quantization("b10", *PREFILL))
    for key, candidate in found.items():
        assert candidate.memory_saved_ratio == 1 - get_format(key).bytes_per_element / 2


# --- better times than the ideal


def measured(**times_s: float):  # type: ignore[no-untyped-def]
    asked: list[Case] = []

    def times(case: Case) -> TimeEstimate | None:
        asked.append(case)
        found = times_s.get(dict(case.formats)["b"])
        return None if found is None else TimeEstimate(found, "measured")

    return times, asked


def test_the_times_seam_is_asked_for_every_case_with_any_kernel() -> None:
    times, asked = measured()
    recommend_quantization("h200", *DECODE, formats=["INT8", "INT4"], times=times)
    assert [case.id for case in asked] == [
        "1x4096x4096-w16a16-FP16.FP16-_-cold",
        "1x4096x4096-w8a8-INT8.INT8-_-cold",
        "1x4096x4096-w4a16-INT4.FP16-_-cold",
    ]
    assert {case.kernel for case in asked} == {"*"}
    assert all(dict(case.formats)["c"] == "FP16" for case in asked)


def test_measured_times_replace_the_ideal_ones_and_can_turn_the_answer() -> None:
    times, _ = measured(FP16=200e-6, INT8=100e-6, INT4=160e-6)
    found = recommend_quantization("gb10", *DECODE, formats=["INT8", "INT4"], times=times)
    assert str(found) == "INT8 (PTQ) 2.0x speedup"
    assert [c.time_source for c in found.candidates] == ["measured"] * 3
    assert found.predicted_time_us == pytest.approx(100)
    assert by_precision(found)["INT4"].speedup == pytest.approx(1.25)
    assert by_precision(found)["INT4"].ideal_s == pytest.approx(recommend_quantization("gb10", *DECODE).best.ideal_s)
    assert found.notes == ()


def test_a_kernel_measured_slower_than_the_baseline_loses() -> None:
    times, _ = measured(FP16=100e-6, INT8=150e-6)
    assert str(recommend_quantization("gb10", *DECODE, formats=["INT8"], times=times)) == "stay at FP16"


def test_an_unmeasured_candidate_is_compared_ideal_with_ideal_and_says_so() -> None:
    times, _ = measured(FP16=200e-6)
    found = recommend_quantization("gb10", *DECODE, formats=["INT8"], times=times)
    assert found.best.time_source == "ideal"
    assert found.speedup == pytest.approx(2, rel=0.01)  # not 200 / 61
    assert any(
        "times of different kinds are ranked together (measured: FP16; ideal: INT8)" in note for note in found.notes
    )


def test_a_candidate_measured_slower_than_an_ideal_baseline_is_not_called_faster() -> None:
    # The baseline was not measured: its ideal 123 us is a bound, so 150 us proves no gain, whatever the ideals say.
    times, _ = measured(INT8=150e-6)
    found = recommend_quantization("gb10", *DECODE, formats=["INT8"], times=times)
    assert str(found) == "stay at FP16"
    assert "the nearest, INT8: -18.0 %" in found.reason


@pytest.mark.parametrize("wrong", [0, -1e-6, float("nan"), float("inf")])
def test_a_time_must_be_a_time(wrong: float) -> None:
    with pytest.raises(InvalidValueError, match="positive number of seconds"):
        TimeEstimate(wrong, "measured")
