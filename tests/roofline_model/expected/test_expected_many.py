"""All formats of a shape in one pass: the same numbers as one by one, to the bit."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline_model import create_custom_asic, gemm, get_hardware, list_hardware
from roofline_model.chips.machine_constants import Calibration, Constant
from roofline_model.core.elementwise import powered, rooted
from roofline_model.core.errors import InvalidValueError
from roofline_model.expected.predict import ExpectedTimes, expected_times
from roofline_model.formats.catalog import FORMATS
from roofline_model.operators.case import Case
from roofline_model.recommend.shape import recommend_quantization

CHIPS = [device.key for device in list_hardware()]
PAIRS = (
    ("FP16", "FP16"), ("BF16", "BF16"), ("FP8_E4M3", "FP8_E4M3"), ("MXFP8_E4M3", "MXFP8_E4M3"), ("INT8", "INT8"), ("NVFP4", "NVFP4"),
    ("MXFP4", "MXFP4"), ("FP16", "INT4"), ("BF16", "INT8"), ("FP16", "NF4"), ("FP8_E4M3", "INT4"), ("INT4", "INT4"), ("FP32", "INT8"), ("FP32", "FP32"), ("TF32", "FP16"),
)  # fmt: skip
"""(activation, weight)"""
ROWS = st.one_of(st.integers(1, 20), st.sampled_from([64, 128, 129, 256, 257, 2048]), st.integers(1, 100_000))
SIZES = st.one_of(st.integers(1, 600), st.integers(8, 512).map(lambda n: 64 * n), st.integers(1, 300_000))


def cases(shape: tuple[int, int, int], pairs, cache: str = "cold") -> list[Case]:
    return [gemm(*shape, a=a, b=b, c="FP16").case("*", cache=cache) for a, b in pairs]


@given(st.sampled_from(CHIPS), st.lists(st.sampled_from(PAIRS), min_size=1, max_size=7), ROWS, SIZES, SIZES)
def test_many_are_the_same_as_each(chip: str, pairs, m: int, n: int, k: int):
    times, questions = expected_times(get_hardware(chip)), cases((m, n, k), pairs)
    assert times.many(questions) == [times(case) for case in questions]


@given(
    st.sampled_from(CHIPS),
    ROWS,
    SIZES,
    SIZES,
    st.sampled_from([None, "decode", "prefill"]),
    st.sampled_from([None, 0.05, 40.0]),
    st.sampled_from([None, 7e9]),
    st.one_of(st.none(), st.lists(st.sampled_from(sorted(FORMATS)), min_size=1, max_size=6)),
)
def test_a_recommendation_is_the_same_either_way(chip, m, n, k, phase, limit_gb, parameters, formats):
    device = get_hardware(chip)
    times = expected_times(device)
    options = {"model_parameters": parameters, "formats": formats}
    together = recommend_quantization(device, m, n, k, phase, limit_gb, times=times, **options)
    apart = recommend_quantization(device, m, n, k, phase, limit_gb, times=lambda case: times(case), **options)
    assert together == apart


@pytest.mark.full
@pytest.mark.parametrize("chip", CHIPS)
def test_every_chip_format_and_regime(chip: str):
    times = expected_times(get_hardware(chip))
    pairs = [*PAIRS, *((wide, key) for wide in ("FP16", "BF16") for key in FORMATS)]
    for shape in itertools.product((1, 8, 16, 17, 300, 4096), (96, 4096, 50_000), (100, 512, 14_336)):
        questions = cases(shape, pairs)
        assert times.many(questions) == [times(case) for case in questions]


def test_what_cannot_be_priced_together_is_asked_one_by_one(monkeypatch):
    times = expected_times(get_hardware("h100"))
    two_shapes = [*cases((1, 4096, 4096), PAIRS[:2]), *cases((64, 4096, 4096), PAIRS[:2])]
    warm = cases((16, 2048, 2048), PAIRS[:3], cache="warm")
    for questions in (two_shapes, warm):
        assert times.many(questions) == [times(case) for case in questions]
    assert times.many([]) == []
    # What is priced together is not asked again by itself.
    alone: list[Case] = []
    monkeypatch.setattr(ExpectedTimes, "__call__", lambda self, case: alone.append(case))
    times.many(cases((1, 4096, 4096), PAIRS[:3]))
    assert alone == []
    times.many(warm)
    assert alone == warm


def test_a_shape_out_of_range_is_refused():
    (case,) = cases((1, 64, 64), PAIRS[:1])
    with pytest.raises(InvalidValueError, match="N must be a whole number"):
        expected_times(get_hardware("gb10")).many([replace(case, shape=(("M", 1), ("N", 0), ("K", 64)))])


@pytest.fixture(scope="module")
def machine():
    """A chip as `roofline calibrate` describes it."""

    def made(kind: str, base):
        rate = Constant("B/s", 48e9, 40e9, 32e9, 0.1, 20)
        peak = Constant("FLOP/s", 380e9, 320e9, 250e9, 0.1, 20)
        calibration = Calibration(
            measured_at="2026-11-21T12:00:00+00:00",
            subject="Test",
            kind=kind,
            dram={"read": rate, "copy": rate},
            peaks={"BF16": peak, "FP32": peak},
            floors={"call": Constant("s", 1e-6, 2e-6, 4e-6, 0.1, 20)},
        )
        return replace(base, calibration=calibration)

    return made


def test_calibrated_machines_answer_as_before(machine):
    cpu = replace(machine("cpu", create_custom_asic("test cpu", 50, {"FP32": 0.2, "BF16": 0.4})), kind="cpu")
    gpu = machine("cuda", get_hardware("gb10"))
    unknown = machine("cuda", create_custom_asic("mine", 100, {"FP16": 50, "BF16": 50}))
    for device in (cpu, gpu, unknown):
        times = expected_times(device)
        questions = cases(
            (1, 4096, 4096), (("BF16", "BF16"), ("BF16", "INT4"), ("FP16", "FP16"))[: 2 if device is cpu else 3]
        )
        assert times.many(questions) == [times(case) for case in questions]


def test_a_norm_of_several_orders_is_each_of_them():
    import numpy as np

    x = np.random.default_rng(3).uniform(1e-7, 1e-2, (5, 4))
    orders = np.array([4, 3, 3, 4])
    for function in (powered, rooted):
        together = function(x, orders)
        for place, order in enumerate(orders.tolist()):
            assert (together[:, place] == function(x[:, place].copy(), order)).all()


def test_a_kernel_of_somebodys_own_that_is_called_a_product_has_no_time():
    (whole,) = cases((1, 4096, 4096), [("FP16", "FP16")])
    mine = replace(whole, shape=(("M", 1), ("K", 4096)))
    times = expected_times(get_hardware("gb10"))
    assert (times(mine), times.many([mine, mine])) == (None, [None, None])
    assert times(whole) is not None
