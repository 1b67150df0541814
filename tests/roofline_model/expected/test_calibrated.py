"""The calibrated prediction: measured constants in, hand-computed times out; and the [calibration] table it reads."""

from __future__ import annotations

import copy
import json
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline_model.chips.device_text import device_text
from roofline_model.chips.hardware import (
    MemoryLevel,
    Quantity,
    create_custom_asic,
    get_hardware,
    list_hardware,
    read_device_text,
)
from roofline_model.chips.machine_constants import Calibration, Constant, constant_of_flops, constant_of_times
from roofline_model.core.cost import OpCost
from roofline_model.core.errors import DefinitionError, UnsupportedError
from roofline_model.core.finding import finding
from roofline_model.expected.calibrated import predict_calibrated
from roofline_model.expected.predict import predict_expected, why_no_expected
from roofline_model.ideal.roofline import predict
from roofline_model.operators.elementwise import softmax
from roofline_model.operators.product import gemm, gemv
from roofline_model.recommend.shape import recommend_quantization


def rate(best, median, slow, unit="B/s"):
    return Constant(unit, best, median, slow, 0.1, 20)


def cost_s(best, median, slow):
    return Constant("s", best, median, slow, 0.1, 20)


CALIBRATION = Calibration(
    measured_at="2026-11-21T12:00:00+00:00",
    subject="Test CPU",
    kind="cpu",
    dram={
        "read": rate(50e9, 40e9, 20e9),
        "copy": rate(30e9, 25e9, 10e9),
        "triad": rate(32e9, 30e9, 16e9),
        "write": rate(20e9, 10e9, 5e9),
    },
    peaks={"FP32": rate(200e9, 160e9, 100e9, "FLOP/s"), "BF16": rate(400e9, 320e9, 200e9, "FLOP/s")},
    cache={"read": rate(200e9, 160e9, 80e9), "copy": rate(180e9, 150e9, 70e9)},
    cache_capacity_bytes=2.0**25,
    floors={"call": cost_s(1e-6, 2e-6, 4e-6), "fork-join": cost_s(3e-6, 4e-6, 8e-6)},
    casts={"INT8>BF16": cost_s(1e-11, 2e-11, 4e-11)},
    scaling={"1": rate(25e9, 20e9, 10e9), "2": rate(50e9, 40e9, 20e9)},
    conditions={"torch": "2.13.0", "threads": 2, "governor": "performance"},
    fingerprint="0123456789abcdef",
)
LEVEL = MemoryLevel("LLC", 2.0**25, Quantity(200e9, "B/s", "measured-here", "test"))
CHIP = replace(
    create_custom_asic("test cpu", 50, {"FP32": 0.2, "BF16": 0.4, "FP64": 0.1}),
    calibration=CALIBRATION,
    levels=(LEVEL,),
    kind="cpu",
)


def test_nothing_calibrated_gives_no_prediction():
    assert predict_calibrated(gemv(4096, 4096, a="BF16"), get_hardware("gb10")) is None


def test_a_memory_bound_product_costs_its_bytes_and_the_fixed_costs():
    work = gemv(4096, 4096, a="BF16")
    prediction = predict_calibrated(work, CHIP)
    moved = 2 * (4096 * 4096 + 4096 + 4096)
    assert prediction.kernel == "read"
    assert prediction.time_s == pytest.approx(moved / 40e9 + 6e-6)
    assert prediction.low_s == pytest.approx(moved / 50e9 + 4e-6)
    assert prediction.high_s == pytest.approx(moved / 20e9 + 12e-6)
    assert (prediction.binding, prediction.provenance) == ("dram", "measured-here")
    assert dict(prediction.terms)["launch"] == pytest.approx(6e-6)
    assert "cast" not in dict(prediction.terms)
    assert prediction.findings == ()


def test_a_compute_bound_product_uses_the_measured_peak():
    prediction = predict_calibrated(gemm(2048, 2048, 2048, a="BF16"), CHIP)
    assert prediction.binding == "tensor"
    assert dict(prediction.terms)["tensor"] == pytest.approx(2 * 2048**3 / 320e9)
    assert prediction.time_s == pytest.approx(2 * 2048**3 / 320e9 + 6e-6)


def test_a_tiny_operation_wakes_no_threads():
    assert dict(predict_calibrated(gemv(64, 64, a="FP32"), CHIP).terms)["launch"] == pytest.approx(2e-6)


@pytest.mark.parametrize(
    ("read", "written", "mix", "median"),
    [(9e6, 0, "read", 40e9), (8e6, 4e6, "triad", 30e9), (6e6, 6e6, "copy", 25e9), (0, 9e6, "write", 10e9), (9e6, 1e6, "read", 40e9)],
)  # fmt: skip
def test_the_access_mix_is_the_nearest_by_written_share(read, written, mix, median):
    prediction = predict_calibrated(OpCost(read_bytes=read, write_bytes=written), CHIP)
    assert prediction.kernel == mix
    assert dict(prediction.terms)["dram"] == pytest.approx((read + written) / median)
    assert "tensor" not in dict(prediction.terms)


def test_warm_operands_use_the_cache():
    work = gemv(1024, 1024, a="BF16")
    large = gemv(8192, 8192, a="BF16")
    for asked, cache, rate in ((work, "warm", 160e9), (large, "warm", 40e9), (work, "cold", 40e9)):
        prediction = predict_calibrated(asked, CHIP, cache=cache)
        assert dict(prediction.terms)["dram"] == pytest.approx(asked.cost.total_bytes / rate)


def test_a_narrow_weight_costs_its_cast_unless_a_kernel_hides_it():
    work = gemv(4096, 4096, a="BF16", b="INT8")
    prediction = predict_calibrated(work, CHIP)
    assert dict(prediction.terms)["cast"] == pytest.approx(4096 * 4096 * 2e-11)
    assert prediction.time_s == pytest.approx(work.cost.total_bytes / 40e9 + 6e-6 + 4096 * 4096 * 2e-11)
    assert prediction.low_s == pytest.approx(work.cost.total_bytes / 50e9 + 4e-6)
    assert prediction.high_s == pytest.approx(work.cost.total_bytes / 20e9 + 12e-6 + 4096 * 4096 * 4e-11)


def test_a_cast_that_was_not_measured_is_left_out_and_said():
    prediction = predict_calibrated(gemv(4096, 4096, a="BF16", b="INT4"), CHIP)
    assert "cast" not in dict(prediction.terms)
    assert prediction.findings == (
        finding("ceiling-unmeasured", kind="widening", format="INT4", compute_format="BF16"),
    )


def test_a_dequantized_format_casts_both_operands():
    chip = replace(CHIP, calibration=replace(CALIBRATION, casts={"INT8>BF16": cost_s(1e-11, 1e-11, 1e-11)}))
    assert chip.path("INT8").kind == "dequantize"
    prediction = predict_calibrated(gemm(64, 256, 128, a="INT8"), chip)
    assert dict(prediction.terms)["cast"] == pytest.approx((64 * 128 + 128 * 256) * 1e-11)


def test_a_rate_that_was_not_measured_weakens_the_provenance():
    prediction = predict_calibrated(gemm(512, 512, 512, a="FP64", c="FP64"), CHIP)
    assert prediction.provenance == "declared"
    assert prediction.findings[0] == finding("ceiling-unmeasured", kind="rate", format="FP64")
    assert dict(prediction.terms)["tensor"] == pytest.approx(2 * 512**3 / 0.1e12)


def test_doubts_are_passed_on():
    chip = replace(CHIP, calibration=replace(CALIBRATION, floors={}, provenance="measured"))
    prediction = predict_calibrated(gemv(4096, 4096, a="BF16"), chip)
    assert prediction.provenance == "measured"
    assert finding("ceiling-unmeasured", kind="call-cost") in prediction.findings


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
def test_nothing_is_predicted_from_what_a_busy_machine_showed(kind):
    calibration = replace(CALIBRATION, kind=kind, disturbed_by=("contended",))
    chip = replace(CHIP, kind="cpu" if kind == "cpu" else "gpu", calibration=calibration)
    work = softmax(64, 4096)
    assert predict_calibrated(work, chip) is None
    assert predict_expected(work, chip, allow_ceilings=True) is None
    assert why_no_expected(work, chip).code == "ceilings-contended"
    if kind == "cuda":
        assert predict(work, chip).time_s == predict(work, replace(chip, calibration=None)).time_s  # a data sheet's
        return
    for ask in (lambda: predict(work, chip), lambda: recommend_quantization(chip, 1, 4096, 4096)):
        with pytest.raises(UnsupportedError) as caught:
            ask()
        assert caught.value.finding.code == "ceilings-contended"


def test_a_gpu_pays_its_launch():
    chip = replace(
        get_hardware("gb10"),
        calibration=replace(
            CALIBRATION,
            kind="cuda",
            floors={"launch": cost_s(2e-6, 3e-6, 5e-6), "host-launch": cost_s(1e-6, 1e-6, 1e-6)},
        ),
    )
    prediction = predict_calibrated(gemv(4096, 4096, a="BF16"), chip)
    assert dict(prediction.terms)["launch"] == pytest.approx(3e-6)
    assert predict(gemv(4096, 4096, a="BF16"), chip) == predict(gemv(4096, 4096, a="BF16"), "gb10")  # the ideal stays


@given(
    m=st.integers(1, 512),
    n=st.integers(1, 4096),
    k=st.integers(1, 4096),
    b=st.sampled_from(["BF16", "INT8", "INT4", "NVFP4"]),
    cache=st.sampled_from(["cold", "warm"]),
)
def test_the_interval_holds_the_time_and_nothing_beats_its_parts(m, n, k, b, cache):
    prediction = predict_calibrated(gemm(m, n, k, a="BF16", b=b), CHIP, cache=cache)
    assert 0 < prediction.low_s <= prediction.time_s <= prediction.high_s < math.inf
    assert prediction.time_s >= max(seconds for _, seconds in prediction.terms)


def test_constants_summarise_repetitions():
    overhead = constant_of_times([2.0, 1.0, 4.0], 100.0, kernel="copy")
    assert (overhead.unit, overhead.best_value, overhead.median_value, overhead.slow_value) == (
        "B/s",
        100.0,
        50.0,
        25.0,
    )
    assert overhead.sd_ratio == pytest.approx(0.655, abs=1e-3)
    assert (overhead.repetition_count, overhead.kernel) == (3, "copy")
    constant = constant_of_times([3e-6])
    assert (constant.unit, constant.best_value, constant.slow_value, constant.sd_ratio) == ("s", 3e-6, 3e-6, None)
    assert constant_of_flops([0.5], 1e9).best_value == 2e9
    many = constant_of_times([float(i) for i in range(1, 101)])
    assert (many.median_value, many.slow_value) == (50.5, 95.0)


@given(st.lists(st.floats(1e-9, 10.0), min_size=1, max_size=40))
def test_a_constant_is_ordered_and_survives_its_file(seconds):
    for constant in (constant_of_times(seconds), constant_of_times(seconds, 1e6)):
        calibration = replace(CALIBRATION, floors={}, dram={"read": rate(5e9, 4e9, 2e9)})
        table = "floors" if constant.is_time else "scaling"
        calibration = replace(calibration, **{table: {"call" if constant.is_time else "4": constant}})
        assert Calibration.from_dict(calibration.to_dict(), "here") == calibration


def test_the_best_of_two_measurings_and_the_typical_of_the_newest():
    old, new = rate(50e9, 40e9, 20e9), rate(45e9, 30e9, 25e9)
    merged = new.merged(old)
    assert (merged.best_value, merged.median_value, merged.slow_value) == (50e9, 30e9, 25e9)
    assert cost_s(2e-6, 3e-6, 4e-6).merged(cost_s(1e-6, 9e-6, 9e-6)).best_value == 1e-6


@pytest.mark.parametrize("device", [*list_hardware(), CHIP], ids=lambda device: device.key)
def test_every_chip_survives_its_own_text(device):
    assert read_device_text(device_text(device, heading="two\nlines"), "text") == device


def test_texts_with_quotes_and_control_characters_survive():
    chip = replace(CHIP, name='a "b" \\ \t\x7f\x01 ü 𝄞', notes=("x\ny",))
    assert read_device_text(device_text(chip), "text") == chip


def test_a_calibration_is_part_of_a_profile_and_absent_from_others():
    assert "calibration" not in get_hardware("gb10").to_dict()
    plain = json.loads(json.dumps(CHIP.to_dict()))
    assert Calibration.from_dict(plain["calibration"], "x") == CALIBRATION
    faster = replace(CHIP, calibration=replace(CALIBRATION, floors={}))
    assert faster.content_hash != CHIP.content_hash


def changed(path, value):
    data = copy.deepcopy(CALIBRATION.to_dict())
    *folders, last = path.split("/")
    inner = data
    for name in folders:
        inner = inner[name]
    if value is None:
        del inner[last]
    else:
        inner[last] = value
    return data


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("version", 2, "version must be 1, got 2"),
        ("kind", "tpu", "kind is 'tpu', not one of cpu, cuda"),
        ("provenance", "guessed", "provenance is 'guessed', not one of measured-here, measured"),
        ("subject", "", "subject is empty"),
        ("measured_at", "yesterday", "measured_at is 'yesterday', not a date"),
        ("speed", 3, "unknown field 'speed'. Known: "),
        ("conditions", [1], "conditions is [1], not a table"),
        ("disturbed_by", "contended", "disturbed_by is 'contended', not a list"),
        ("cache_capacity_bytes", -1, "cache_capacity_bytes must be a number of B"),
        ("dram", 4, "dram is 4, not a table"),
        ("dram", {}, "dram needs at least read or copy"),
        ("dram/stream", {"best": 1}, "dram has an unknown field 'stream'. Known: read, copy, triad, write"),
        ("dram/read", 40e9, "dram.read is 40000000000.0, not a table"),
        ("dram/read/best", None, "dram.read.best is missing"),
        ("dram/read/best", "fast", "dram.read.best is 'fast', not a number"),
        ("dram/read/best", math.nan, "dram.read.best is nan, not a number"),
        ("dram/read/best", 1e300, "dram.read best must be a number of B/s"),
        ("dram/read/best", 30e9, "dram.read must run from best over median to slow, got 3e+10, 4e+10, 2e+10"),
        ("dram/read/repetitions", 0, "dram.read needs repetitions of at least 1"),
        ("dram/read/sd_ratio", -1, "dram.read needs repetitions of at least 1, and a sd_ratio from 0"),
        ("dram/read/kernel", 5, "dram.read.kernel is 5, not text"),
        ("dram/read/mean", 1.0, "dram.read has an unknown field 'mean'"),
        ("floors/call/best", 1.0, "floors.call must run from best over median to slow"),
        ("floors/sleep", {}, "floors has an unknown field 'sleep'"),
        ("scaling/two", {}, "scaling must be keyed by a number of cores, got 'two'"),
        ("peaks/FP17", {}, "peaks unknown format 'FP17'"),
        ("peaks/fp8", {}, "peaks must use the formats' own keys, got 'fp8'"),
        ("casts/INT8", {}, "casts must be keyed by FROM>TO, got 'INT8'"),
    ],
)
def test_a_bad_table_is_refused_with_its_key(path, value, words):
    with pytest.raises(DefinitionError, match=r"^file\.toml: \[calibration\]") as caught:
        Calibration.from_dict(changed(path, value), "file.toml")
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("data", [None, 3, [], "x"])
def test_what_is_no_table_is_refused(data):
    with pytest.raises(DefinitionError, match=", not a table"):
        Calibration.from_dict(data, "file.toml")


def test_a_slip_in_a_file_is_named_with_the_file():
    text = device_text(CHIP).replace("[calibration.dram]", "[calibration.dram]\nspeed = 3")
    with pytest.raises(DefinitionError, match=r"^here.toml: \[calibration\] dram has an unknown field 'speed'"):
        read_device_text(text, "here.toml")
    with pytest.raises(DefinitionError, match=r"here.toml.*TOML"):
        read_device_text("broken = \n" + text, "here.toml")
