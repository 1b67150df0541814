"""The recommendation: what an expert would say per chip, ties, memory limits, and times that were measured."""

from __future__ import annotations

import pytest

from roofline_model import (
    InvalidValueError,
    UnknownNameError,
    UnsupportedError,
    create_custom_asic,
    get_format,
)
from roofline_model.core.answer import Estimate, Option, Ranking
from roofline_model.core.finding import has_code
from roofline_model.operators.case import Case
from roofline_model.recommend.shape import recommend_quantization

DECODE, PREFILL = (1, 4096, 4096), (2048, 4096, 4096)


def by_key(ranking: Ranking) -> dict[str, Option]:
    return {option.key: option for option in ranking.options}


def operands(option: Option) -> tuple[str, str]:
    formats = dict(option.formats)
    return formats["b"], formats["a"]


def codes(ranking: Ranking) -> list[str]:
    return [item.code for item in ranking.findings]


def reasons(option: Option) -> list[str]:
    return [item.code for item in option.findings]


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
    ranking = recommend_quantization(chip, *shape)
    assert str(ranking) == answer
    assert ranking.choice.path == path
    assert codes(ranking) == []


def test_weight_only_int4_is_counted_with_the_scales_that_its_kernels_read() -> None:
    options = by_key(recommend_quantization("gb10", *DECODE))
    wide_bytes = 4096 * 4096 * 2 + 2 * 4096 * 2
    int4_bytes = 4096 * 4096 / 2 + 4096 * 4096 / 128 * 16 / 8 + 2 * 4096 * 2
    assert options["INT4"].estimate.time_s == pytest.approx(int4_bytes / 273.06e9, rel=1e-4)
    assert options["INT4"].speedup_ratio == pytest.approx(wide_bytes / int4_bytes)
    assert options["INT4"].speedup_ratio == pytest.approx(3.873, abs=0.0005)
    assert options["MXFP4"].speedup_ratio == pytest.approx(3.76, abs=0.005)
    assert options["INT4"].memory.saved_ratio == 1 - 4.125 / 16
    whole = recommend_quantization("gb10", *DECODE, model_parameters=8e9)
    assert by_key(whole)["INT4"].memory.total_bytes == 8e9 * 4.125 / 8
    # A width the caller states is kept, and a native W4A4 stays as the documents count it.
    grouped = by_key(recommend_quantization("gb10", *DECODE, formats=[get_format("INT4").grouped(32)]))["INT4"]  # type: ignore[list-item]
    assert grouped.memory.saved_ratio == 1 - 4.5 / 16
    native = by_key(recommend_quantization("b10", *DECODE))["INT4"]
    assert native.memory.saved_ratio == 0.75
    assert "awq-scales" in reasons(native)  # the documents' word, which does not fit W4A4


def test_an_int4_unit_is_used_only_where_somebody_says_that_a_kernel_does() -> None:
    # A100 and Ada have INT4 MMA, but no library multiplies INT4 by INT4, and AWQ keeps 16-bit activations.
    assert by_key(recommend_quantization("a100", *PREFILL))["INT4"].formats[0] == ("a", "FP16")
    assert by_key(recommend_quantization("b10", *PREFILL))["INT4"].formats[0] == ("a", "INT4")
    chip = create_custom_asic("mine", 1000, {"FP16": 100.0, "INT4": 400.0})
    assert str(recommend_quantization(chip, *PREFILL)) == "INT4 (AWQ) 4.0x speedup"


def test_a_native_unit_slower_than_16_bit_is_not_used() -> None:
    int8 = by_key(recommend_quantization("b300", *PREFILL))["INT8"]
    assert (int8.method, operands(int8)) == ("weight_only", ("INT8", "FP16"))
    assert int8.speedup_ratio == pytest.approx(1)


def test_the_reasons_say_what_a_user_needs_to_know() -> None:
    ranking = recommend_quantization("gb10", *DECODE)
    assert reasons(ranking.choice)[:3] == ["bound-by", "weight-only", "awq-scales"]
    assert ranking.choice.findings[0].value("moved_ratio") == pytest.approx(0.258, abs=0.0005)
    prefill = recommend_quantization("gb10", *PREFILL)
    assert reasons(prefill.choice) == ["bound-by"]  # MXFP4 is as fast, and has no kernel on 12.1
    assert prefill.choice.findings[0].value("peak_flops_per_s") == pytest.approx(475.3e12, rel=1e-3)
    level = recommend_quantization("b200", *PREFILL).choice.findings[-1]
    assert (level.code, level.value("others")) == ("level-preferred-for-quality", ("MXFP4",))
    assert reasons(by_key(prefill)["INT4"])[0] == "bound-by"
    assert reasons(by_key(prefill)["FP16"]) == ["bound-by"]


# --- ties and the baseline


def test_a_near_tie_is_a_tie_and_a_clear_lead_is_not() -> None:
    near = create_custom_asic("near", 1e4, {"FP16": 100.0, "FP8": 200.0, "INT8": 201.0})
    assert recommend_quantization(near, *PREFILL).precision == "FP8_E4M3"
    clear = create_custom_asic("clear", 1e4, {"FP16": 100.0, "FP8": 200.0, "INT8": 215.0})
    assert recommend_quantization(clear, *PREFILL).precision == "INT8"


def test_without_a_real_gain_the_answer_is_to_stay() -> None:
    chip = create_custom_asic("flat", 1e4, {"FP16": 100.0, "INT8": 100.5})
    ranking = recommend_quantization(chip, *PREFILL)
    assert str(ranking) == "stay with FP16"
    assert (ranking.precision, ranking.method, ranking.speedup, ranking.memory_savings_pct) == ("FP16", "none", 1, 0)
    why = ranking.choice.findings[-1]
    assert (why.value("kind"), why.value("nearest"), why.value("speedup_ratio")) == (
        "faster",
        "INT8",
        pytest.approx(1.005),
    )
    assert ranking.baseline is ranking.choice is ranking.options[0]
    alone = recommend_quantization(create_custom_asic("alone", 1e4, {"FP16": 100.0}), *PREFILL)
    assert has_code(alone.choice.findings[-1:], "no-other", "option")


def test_the_baseline_is_bf16_where_there_is_no_fp16() -> None:
    ranking = recommend_quantization(create_custom_asic("b", 500, {"BF16": 50.0, "INT8": 100.0}), *DECODE)
    assert ranking.baseline.key == "BF16"
    assert str(ranking) == "INT8 (PTQ) 2.0x speedup"
    assert recommend_quantization("gb10", *DECODE, formats=["BF16", "INT4"]).baseline.key == "BF16"


def test_a_chip_without_16_bit_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="declares no 16-bit rate"):
        recommend_quantization(create_custom_asic("x", 500, {"INT8": 100.0}), *DECODE)


def test_a_placeholder_chip_warns() -> None:
    assert codes(recommend_quantization("b10", *DECODE)) == ["placeholder-chip"]


# --- phase, formats, bad input


def test_a_format_filter_keeps_the_order_of_merit_and_explains_what_it_drops() -> None:
    ranking = recommend_quantization("gb10", *DECODE, formats=["int8", "FP32", "nvfp4", "INT8", "NF4"])
    assert [option.key for option in ranking.options] == ["NF4", "NVFP4", "INT8", "FP16"]
    assert [(each.key, each.finding.code) for each in ranking.excluded] == [("FP32", "format-excluded")]
    assert by_key(ranking)["NF4"].method == "weight_only"


def test_an_undeclared_format_is_weighed_only_when_asked_for() -> None:
    chip = create_custom_asic("x", 500, {"FP16": 50.0, "INT8": 100.0})
    assert "INT4" not in by_key(recommend_quantization(chip, *DECODE))
    requested = by_key(recommend_quantization(chip, *DECODE, formats=["INT4"]))["INT4"]
    assert (requested.path, operands(requested)[1]) == ("dequantize", "FP16")
    bf16_first = recommend_quantization(chip, *DECODE, formats=["BF16", "INT8"])
    assert bf16_first.baseline.key == "FP16"
    assert bf16_first.excluded[0].key == "BF16"


@pytest.mark.parametrize(
    ("arguments", "message"),
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
def test_bad_arguments_are_named(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidValueError, match=message):
        recommend_quantization(**{"hardware": "gb10", "M": 8, "N": 64, "K": 64, **arguments})  # type: ignore[arg-type]


def test_unknown_names_are_named() -> None:
    with pytest.raises(UnknownNameError, match="gb10"):
        recommend_quantization("gb11", *DECODE)
    with pytest.raises(UnknownNameError, match="INT4"):
        recommend_quantization("gb10", *DECODE, formats=["INT5"])


# --- memory


def test_the_whole_model_must_fit_when_its_size_is_known() -> None:
    ranking = recommend_quantization("h200", *PREFILL, memory_limit_gb=60, model_parameters=70e9)
    assert ranking.precision != "FP8_E4M3"  # the fastest, but 70 GB
    assert ranking.choice.memory.total_bytes <= 60e9
    excess = {each.key: each.finding.value("excess_bytes") for each in ranking.excluded}
    assert excess["FP8_E4M3"] == 10e9
    assert excess["FP16"] == 80e9
    assert {each.finding.code for each in ranking.excluded} == {"misses-memory-limit"}
    assert list(excess.values()) == sorted(excess.values())  # the nearest to the limit first
    assert all(option.memory.total_bytes <= 60e9 for option in ranking.options)
    assert "baseline-misses-limits" in reasons(ranking.choice)
    assert ranking.baseline.key == "FP16"  # speed-ups still refer to it


def test_without_a_model_the_operands_must_fit() -> None:
    ranking = recommend_quantization("gb10", *DECODE, memory_limit_gb=0.02)
    size = 4096 * 2 + 4096 * 4096 * 2 + 4096 * 2
    assert ranking.baseline.memory.total_bytes == size
    assert [each.key for each in ranking.excluded] == ["FP16"]
    everything = recommend_quantization("gb10", *DECODE, memory_limit_gb=size / 1e9)
    assert everything.excluded == ()


def test_when_nothing_fits_the_smallest_is_named_with_what_it_misses() -> None:
    ranking = recommend_quantization("gb10", *DECODE, memory_limit_gb=30, model_parameters=70e9)
    assert ranking.choice is None
    assert ranking.options == ()
    assert ranking.precision == ranking.nearest.key == ranking.excluded[0].key == "INT4"
    assert ranking.excluded[0].finding.value("excess_bytes") == pytest.approx(6.09e9, rel=1e-3)
    assert {each.key for each in ranking.excluded[1:]} == {"FP16", "FP8_E4M3", "MXFP8_E4M3", "INT8", "NVFP4", "MXFP4"}
    assert ranking.excluded[-1].key == "MXFP4"  # no kernel is known to run it here
    assert codes(ranking) == ["nothing-fits", "misses-memory-limit"]
    assert ranking.headline.code == "nothing-fits"


def test_a_limit_without_a_model_is_said_to_hold_for_one_product() -> None:
    assert codes(recommend_quantization("gb10", *DECODE, memory_limit_gb=2)) == ["limit-of-one-product"]
    assert codes(recommend_quantization("gb10", *DECODE)) == []
    assert codes(recommend_quantization("gb10", *DECODE, memory_limit_gb=200, model_parameters=70e9)) == []


# --- better times than the ideal


def measured(**times_s: float):  # type: ignore[no-untyped-def]
    cases: list[Case] = []

    def times(case: Case) -> Estimate | None:
        cases.append(case)
        time_s = times_s.get(dict(case.formats)["b"])
        return None if time_s is None else Estimate(time_s, source="measured")

    return times, cases


def test_the_times_seam_is_asked_for_every_case_with_any_kernel() -> None:
    times, cases = measured()
    recommend_quantization("h200", *DECODE, formats=["INT8", "INT4"], times=times)
    assert [case.id for case in cases] == [
        "1x4096x4096-w16a16-FP16.FP16-_-cold",
        "1x4096x4096-w8a8-INT8.INT8-_-cold",
        "1x4096x4096-w4a16-INT4.FP16-_-cold",
    ]
    assert {case.kernel for case in cases} == {"*"}
    assert all(dict(case.formats)["c"] == "FP16" for case in cases)


def test_measured_times_replace_the_ideal_ones_and_can_turn_the_answer() -> None:
    times, _ = measured(FP16=200e-6, INT8=100e-6, INT4=160e-6)
    ranking = recommend_quantization("gb10", *DECODE, formats=["INT8", "INT4"], times=times)
    assert str(ranking) == "INT8 (PTQ) 2.0x speedup"
    assert [option.estimate.source for option in ranking.options] == ["measured"] * 3
    assert ranking.predicted_time_us == pytest.approx(100)
    assert by_key(ranking)["INT4"].speedup_ratio == pytest.approx(1.25)
    ideal = recommend_quantization("gb10", *DECODE).choice.times.ideal
    assert by_key(ranking)["INT4"].times.ideal == ideal
    assert codes(ranking) == []


def test_an_unmeasured_option_stands_behind_measured_ones_and_is_compared_ideal_with_ideal() -> None:
    times, _ = measured(FP16=200e-6)
    ranking = recommend_quantization("gb10", *DECODE, formats=["INT8"], times=times)
    assert [option.key for option in ranking.options] == ["FP16", "INT8"]
    assert ranking.options[1].speedup_ratio == pytest.approx(2, rel=0.01)  # not 200 / 61
    assert reasons(ranking.choice)[-1] == "no-other"
    assert [(item.code, item.value("options")) for item in ranking.findings] == [
        ("mixed-sources", ("FP16",)),
        ("mixed-sources", ("INT8",)),
    ]


def test_an_ideal_baseline_gives_way_to_what_was_measured_faster_than_it_could_be() -> None:
    # The baseline was not measured: its ideal 123 us is a bound, so 150 us proves no gain, and 100 us do.
    times, _ = measured(INT8=150e-6)
    assert str(recommend_quantization("gb10", *DECODE, formats=["INT8"], times=times)) == "stay with FP16"
    times, _ = measured(INT8=100e-6)
    assert recommend_quantization("gb10", *DECODE, formats=["INT8"], times=times).choice.key == "INT8"
