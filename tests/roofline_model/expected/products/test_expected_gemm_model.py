"""The GEMM model against the study's check values (its constants, both columns), and the laws that any constants
obey.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline_model import InvalidValueError, get_hardware
from roofline_model.expected.chip import ChipSpec
from roofline_model.expected.grid_surface import LARGEST_LOG
from roofline_model.expected.products.fitted.constants import (
    KNOT_COUNT,
    Correction,
    FittedGemm,
    GemmConstants,
    from_values,
)
from roofline_model.expected.products.fitted.library import find_gemm, shipped_gemm
from roofline_model.expected.products.formula import expected_gemm, gemm_times
from roofline_model.expected.products.parameters import COLD, HOT, gemm_formats

# The chips' numbers in the study's table 1.1: family, SMs, GHz, TFLOPS by kernel family, GB/s, L2 MiB.
CHIPS = {
    "a100-sxm-80gb": ("sm80", 108, 1.41, {"BF16": 312.0}, 2039, 40),
    "h100-sxm": ("sm90", 132, 1.83, {"BF16": 989.4, "FP8": 1979.0}, 3352, 50),
    "b200": ("sm100", 148, 1.85, {"NVFP4": 9000.0}, 8000, 126.5),
    "l40s": ("sm89", 142, 2.52, {"BF16": 362.0}, 864, 96),
    "rtx-pro-6000": ("sm120", 188, 2.617, {"BF16": 503.8, "FP8": 1007.6, "NVFP4": 2015.0}, 1792, 128),
    "gb10": ("sm120", 48, 2.418, {"BF16": 118.8, "FP8": 237.7, "NVFP4": 475.3}, 273, 24),
}
# Its table 2.1, as printed (µs): the constants that its check values were computed with.
NAMES = {
    "BF16": "t0 e_c e_m e_L2 e_sm tau_k t_sk kappa omega e_g",
    "FP8": "t0 e_c e_m e_L2 e_sm tau_k t_sk kappa omega c_q tau_q",
    "NVFP4": "t0 e_c e_m e_L2 e_sm tau_k kappa omega c_q tau_q",
    "INT8": "t0 e_c e_m e_L2 e_sm tau_k t_sk kappa e_g tau_g m_g",
    "INT4": "t0 e_c e_m e_L2 e_sm tau_k t_sk kappa e_g tau_g m_g",
}
STUDY = {
    ("h100-sxm", "BF16"): (2.742, 0.9688, 0.8214, 0.8571, 1.836, 0.07983, 2.785, 3.737, 0.6998),
    ("l40s", "BF16"): (2.034, 1, 0.7788, 0.1411, 0.5177, 0.2392, 1.55, 1.332, 0.04093, 0.9188),
    ("rtx-pro-6000", "BF16"): (2.252, 1, 0.8081, 0.1863, 0.4103, 0.2001, 1.557, 2.444, 0.2222, 0.8493),
    ("h100-sxm", "FP8"): (12.56, 0.8481, 0.8237, 1.311, 4, 0.0373, 2.524, 6, 0.7, 0.1494, 3.92e-6),
    ("rtx-pro-6000", "FP8"): (12.16, 0.8905, 0.8333, 0.2106, 1.495, 0.05009, 2.069, 2.404, 0.03168, 0.1516, 1.17e-4),
    ("b200", "NVFP4"): (6.642, 0.9999, 0.6781, 1.207, 1.266, 0.06039, 4.533, 0.08761, 0.2305, 6.54e-4),
    ("rtx-pro-6000", "NVFP4"): (4.442, 0.825, 0.6589, 0.2649, 0.7863, 0.1536, 3.277, 0.01941, 0.1651, 1.13e-3),
    ("a100-sxm-80gb", "INT8"): (9.842, 0.9992, 0.97, 0.2703, 1.56, 0.3462, 10.86, 1.758, 1, 1.15e-3, 8),
    ("a100-sxm-80gb", "INT4"): (9.691, 0.8698, 0.97, 0.2598, 0.2952, 0.318, 11.97, 1.72, 1, 1.50e-3, 4),
}
FIELDS = {
    "t0": "launch_s", "e_c": "tensor_ratio", "e_m": "dram_ratio", "e_L2": "l2_ratio", "e_sm": "sm_ratio",
    "tau_k": "k_step_s", "t_sk": "split_s", "kappa": "output_ratio", "omega": "persistence_ratio",
    "e_g": "gemv_dram_ratio", "c_q": "cast_ratio", "tau_q": "cast_element_s", "tau_g": "gemv_element_s",
    "m_g": "gemv_rows_count",
}  # fmt: skip
FORMATS = {
    "BF16": ("BF16", "BF16"), "FP8": ("FP8_E4M3", "FP8_E4M3"), "NVFP4": ("NVFP4", "NVFP4"),
    "INT8": ("INT8", "BF16"), "INT4": ("INT4", "BF16"),
}  # fmt: skip


def study_chip(key: str, family: str) -> ChipSpec:
    gpu, sms, ghz, peaks, bandwidth, cache = CHIPS[key]
    peak = peaks["BF16" if family.startswith("INT") else family]
    return ChipSpec(key, gpu, sms, ghz * 1e9, peak * 1e12, bandwidth * 1e9, cache * 2**20)


def study_constants(key: str, family: str) -> GemmConstants:
    values = {}
    for name, value in zip(NAMES[family].split(), STUDY[key, family], strict=False):
        values[FIELDS[name]] = value * (1e-6 if name in ("t0", "tau_k", "t_sk", "tau_g", "tau_q") else 1)
    if family.startswith("INT"):
        values["persistence_ratio"] = 0.5
    return from_values(values, CHIPS[key][0], family)


def study_time_us(
    key: str, family: str, m: int, n: int, k: int, *, copies: float = COLD, source: str | None = None
) -> float:
    weight, activation = FORMATS[family]
    batch = expected_gemm(
        study_chip(key, family),
        m,
        n,
        k,
        weight_format=weight,
        activation_format=activation,
        weight_copies=copies,
        dynamic_activation_quantization=family in ("FP8", "NVFP4"),
        constants=study_constants(source or key, family),
    )
    return float(batch.time_s[0]) * 1e6


# copies: the rotation the study states, clip(ceil(L2 / (n·k·bytes)), 1, 5), or 5 for A100 and weight-only.
@pytest.mark.parametrize(
    ("key", "family", "shape", "copies", "rotated_us", "cold_us"),
    [
        ("h100-sxm", "BF16", (8, 4096, 4096), 2, 15.20, 15.22),
        ("h100-sxm", "FP8", (512, 7168, 4096), 2, 39.32, 39.32),
        ("b200", "NVFP4", (4096, 8192, 8192), 4, 151.65, 151.65),
        ("l40s", "BF16", (4, 1024, 1024), 5, 5.93, 7.22),
        ("rtx-pro-6000", "BF16", (1, 8192, 8192), 1, 39.48, 90.71),
        ("a100-sxm-80gb", "INT4", (1, 4096, 4096), 5, 20.39, 20.46),
        ("a100-sxm-80gb", "INT8", (128, 4096, 4096), 5, 44.66, 44.66),
    ],
)
def test_the_studys_check_values(key, family, shape, copies, rotated_us, cold_us):
    # The constants are printed to four digits: 1e-3 covers them.
    assert study_time_us(key, family, *shape, copies=copies) == pytest.approx(rotated_us, rel=1e-3)
    assert study_time_us(key, family, *shape) == pytest.approx(cold_us, rel=1e-3)


def test_the_check_value_of_gb10():
    # A working set of 134 MB in an L2 of 24 MiB: rotated and cold are the same.
    assert study_time_us("gb10", "BF16", 1, 8192, 8192, source="rtx-pro-6000") == pytest.approx(581.42, rel=1e-4)
    assert study_time_us("gb10", "BF16", 1, 8192, 8192, source="rtx-pro-6000", copies=1) == pytest.approx(
        581.42, rel=1e-4
    )


@pytest.mark.parametrize(
    ("shape", "times_us"),
    [
        ((1, 8192, 8192), (581, 309, 224)),
        ((16, 16384, 16384), (2439, 1200, 867)),
        ((512, 4096, 4096), (238, 147, 79)),
        ((8192, 8192, 8192), (11281, 7002, 4011)),
    ],
)
def test_the_studys_gb10_table(shape, times_us):
    predicted_us = [study_time_us("gb10", family, *shape, source="rtx-pro-6000") for family in ("BF16", "FP8", "NVFP4")]
    assert predicted_us == pytest.approx(times_us, rel=4e-3)  # printed to a µs: 0.5 of 147 is 0.4 %


def shipped(key: str, family: str) -> FittedGemm:
    return next(gemm for gemm in shipped_gemm() if (gemm.chip.key, gemm.family) == (key, family))


SHIPPED = [(gemm.chip.key, gemm.family) for gemm in shipped_gemm()]


def priced(fitted: FittedGemm, m, n, k, **more):
    weight, activation = FORMATS[fitted.family]
    return expected_gemm(
        fitted.chip, m, n, k, weight_format=weight, activation_format=activation, constants=fitted, **more
    )


@pytest.mark.parametrize(("key", "family"), SHIPPED)
def test_many_rows_are_priced_as_one_by_one(key, family):
    fitted = shipped(key, family)
    rng = np.random.default_rng(3)
    m, n, k = (np.maximum(1, (2 ** rng.uniform(0, high, 60)).astype(int)) for high in (13, 16, 16))
    copies = np.where(rng.uniform(size=60) < 0.5, 2.0, COLD)
    together = priced(fitted, m, n, k, weight_copies=copies)
    alone = [
        float(priced(fitted, *row[:3], weight_copies=row[3]).time_s[0]) for row in zip(m, n, k, copies, strict=True)
    ]
    np.testing.assert_allclose(together.time_s, alone, rtol=1e-12)
    assert len(together) == len(together.binding) == len(together.kernel) == 60


@pytest.mark.parametrize(("key", "family"), SHIPPED)
def test_a_fit_sees_the_times_of_the_formulas(key, family):
    fitted = replace(shipped(key, family), correction=None)
    m, n, k = (
        np.array([1.0, 5, 64, 700, 4096]),
        np.array([512.0, 4096, 96, 8192, 12288]),
        np.array([4096.0, 65536, 128, 512, 8192]),
    )
    for quantizes in (False, True):
        full = priced(fitted, m, n, k, dynamic_activation_quantization=quantizes)
        bare = gemm_times(
            fitted.chip,
            gemm_formats(*FORMATS[family]),
            fitted.constants,
            m,
            n,
            k,
            np.full(5, np.inf),
            dynamic_activation_quantization=quantizes,
        )
        np.testing.assert_allclose(full.time_s, bare, rtol=1e-12)


sizes = st.integers(min_value=1, max_value=1 << 15)


@given(chip_family=st.sampled_from(SHIPPED), m=sizes, n=sizes, k=sizes)
def test_every_prediction_is_sane(chip_family, m, n, k):
    fitted = replace(shipped(*chip_family), correction=None)
    cold, hot = (priced(fitted, m, n, k, weight_copies=copies) for copies in (COLD, HOT))
    ideal_s = 2 * m * n * k / fitted.chip.peak_flops_per_s
    assert math.isfinite(cold.time_s[0])
    assert cold.time_s[0] >= ideal_s
    assert hot.time_s[0] <= cold.time_s[0] * (1 + 1e-12)
    assert cold.low_s[0] <= cold.time_s[0] <= cold.high_s[0]
    assert all(value[0] >= 0 for value in cold.parts.values())


def test_no_surface_carries_a_product_past_the_peak():
    fitted = shipped("h100-sxm", "BF16")
    eager = replace(fitted, correction=Correction((-LARGEST_LOG,) * KNOT_COUNT))
    large, decode = priced(eager, 8192, 8192, 8192), priced(eager, 8, 8192, 8192)
    assert large.time_s[0] == pytest.approx(2 * 8192**3 / fitted.chip.peak_flops_per_s)
    assert decode.time_s[0] == pytest.approx(8192**2 * 2 / fitted.chip.bandwidth_bytes_per_s, rel=0.01)
    # A saving is not a part of its own: what follows the launch is shorter, nothing beyond the roof of its unit.
    formula = priced(replace(fitted, correction=None), 8192, 8192, 8192)
    assert large.parts["library"][0] == 0
    assert large.parts["launch"][0] == formula.parts["launch"][0]
    assert large.parts["l2"][0] < formula.parts["l2"][0]


@given(chip_family=st.sampled_from(SHIPPED), m=sizes, n=sizes, k=sizes, quantizes=st.booleans())
def test_parts_add_up_to_the_time(chip_family, m, n, k, quantizes):
    batch = priced(shipped(*chip_family), m, n, k, dynamic_activation_quantization=quantizes)
    assert sum(value[0] for value in batch.additive_parts().values()) == pytest.approx(batch.time_s[0], rel=1e-9)
    assert batch.binding[0] in batch.parts


@given(
    chip_family=st.sampled_from(SHIPPED),
    m=sizes,
    n=sizes,
    k=sizes,
    faster=st.sampled_from(["bandwidth_bytes_per_s", "peak_flops_per_s"]),
)
def test_a_faster_chip_is_never_slower(chip_family, m, n, k, faster):
    fitted = replace(shipped(*chip_family), correction=None)
    quick = replace(fitted, chip=replace(fitted.chip, **{faster: 1.5 * getattr(fitted.chip, faster)}))
    # A longer clock loss cannot be had by a faster pipe: theta counts from the ideal length, so it is left out here.
    fitted, quick = (replace(fit, constants=replace(fit.constants, clock_loss_ratio=0.0)) for fit in (fitted, quick))
    assert priced(quick, m, n, k).time_s[0] <= priced(fitted, m, n, k).time_s[0] * (1 + 1e-12)


@pytest.mark.parametrize("key", ["h100-sxm", "b200", "l40s", "rtx-pro-6000"])
def test_a_product_without_its_cast_has_the_floor_of_the_product_alone(key):
    fitted = shipped(key, "FP8")
    with_cast, without = (priced(fitted, 1, 128, 128, dynamic_activation_quantization=casts) for casts in (True, False))
    assert with_cast.parts["launch"][0] == fitted.constants.launch_s
    assert without.parts["launch"][0] == fitted.constants.static_launch_s
    assert "cast" in with_cast.parts
    assert "cast" not in without.parts


def test_weight_only_decode_uses_the_kernel_for_few_rows():
    fitted = shipped("l40s", "INT4")
    edge = int(fitted.constants.gemv_rows_count)
    batch = priced(fitted, [edge, edge + 1], 8192, 8192)
    assert batch.kernel[0] == "gemv"
    assert batch.kernel[1] != "gemv"


def test_narrow_weights_are_read_with_their_scales():
    fitted = replace(shipped("l40s", "INT4"), correction=None)
    parts = priced(fitted, 1, 16384, 16384).parts
    constants, chip = fitted.constants, fitted.chip
    # 4 bit and a 16-bit scale per 128: 0.515625 bytes
    assert parts["dram"][0] == pytest.approx(
        16384**2 * 0.515625 / (constants.gemv_dram_ratio * chip.bandwidth_bytes_per_s)
    )


def test_an_output_smaller_than_every_tile_still_has_a_kernel():
    for key, family in SHIPPED:
        assert math.isfinite(priced(shipped(key, family), 1, 1, 1).time_s[0])


@pytest.mark.parametrize("wrong", [0, -1, 1.5, 2e9, math.nan])
def test_sizes_are_whole_numbers_from_one(wrong):
    with pytest.raises(InvalidValueError, match="N must hold whole numbers"):
        priced(shipped("h100-sxm", "BF16"), 1, wrong, 1)


def test_less_than_one_copy_is_refused():
    with pytest.raises(InvalidValueError, match="weight_copies"):
        priced(shipped("h100-sxm", "BF16"), 1, 8, 8, weight_copies=0.5)


def test_no_rows_give_no_times():
    assert len(priced(shipped("h100-sxm", "BF16"), [], 8, 8)) == 0


def test_the_library_is_asked_when_no_constants_are_given():
    chip = ChipSpec.of(get_hardware("gb10"), "BF16")
    batch = expected_gemm(chip, 1, 8192, 8192, weight_format="BF16", activation_format="BF16")
    assert batch.provenance == find_gemm(chip, "BF16").provenance == "transferred-sibling"
    assert batch.time_s[0] == pytest.approx(581e-6, rel=0.05)


def test_a_pair_that_was_not_measured_says_so_and_widens():
    chip = ChipSpec.of(get_hardware("h100-sxm"), "TF32")
    prediction = priced(shipped("h100-sxm", "BF16"), 8, 4096, 4096)
    other = expected_gemm(chip, 8, 4096, 4096, weight_format="TF32", activation_format="TF32")
    assert other.provenance == "transferred-format"
    assert [item.value("format") for item in other.findings if item.code == "format-unmeasured"] == ["TF32"]
    assert other.high_s[0] / other.time_s[0] > prediction.high_s[0] / prediction.time_s[0]
