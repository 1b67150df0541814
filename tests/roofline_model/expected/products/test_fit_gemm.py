"""GEMM constants from a synthetic table: known ones come back within their spread, few rows improve on a transfer."""

from __future__ import annotations

import csv
import math
from dataclasses import replace

import numpy as np
import pytest

from roofline_model import get_hardware
from roofline_model.expected.chip import ChipSpec
from roofline_model.expected.fitting.accuracy import accuracy
from roofline_model.expected.fitting.fit_set import fit_rows
from roofline_model.expected.fitting.table import read_kernel_table
from roofline_model.expected.intervals import REGIMES, across_families
from roofline_model.expected.products.fitted.constants import (
    KNOT_COUNT,
    Correction,
    Evidence,
    FittedGemm,
    GemmConstants,
    fitted_names,
    generic_start,
)
from roofline_model.expected.products.fitted.fit import gemm_fit_set, gemm_intervals
from roofline_model.expected.products.fitted.rows import gemm_row_groups
from roofline_model.expected.products.formula import gemm_times
from roofline_model.expected.products.parameters import gemm_formats, rotated_copies

TRUE = {"launch_s": 3.1e-6, "tensor_ratio": 0.8, "dram_ratio": 0.7, "l2_ratio": 0.6, "split_s": 4e-6, "k_step_s": 9e-8}
"""What the synthetic machine is; the other constants are the generic ones."""


def shapes(count: int, seed: int = 5):
    """Log-uniform shapes; n and k from a few values, so that sites have several rows."""
    rng = np.random.default_rng(seed)
    m = np.round(2 ** rng.uniform(0, 13, count))
    n = 64 * np.round(2 ** rng.uniform(1, 8, count))
    k = 64 * np.round(2 ** rng.uniform(2, 8, count))
    return m, n, k


def true_constants(device: str, family: str = "BF16") -> tuple[ChipSpec, GemmConstants]:
    chip = ChipSpec.of(get_hardware(device), {"INT4": "BF16", "FP8": "FP8_E4M3"}.get(family, family))
    return chip, replace(generic_start(chip, family), **TRUE)


def write_table(path, device: str, count: int, *, noise: float, weight="BF16", activation="BF16", cast=False, seed=5):
    family = gemm_formats(weight, activation).family
    chip, constants = true_constants(device, family)
    m, n, k = shapes(count, seed)
    copies = rotated_copies(chip, family, n, k)
    formats = gemm_formats(weight, activation)
    times = gemm_times(chip, formats, constants, m, n, k, copies, dynamic_activation_quantization=cast)
    times *= np.exp(np.random.default_rng(seed + 1).normal(0, noise, count))
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(
            [
                "device",
                "op",
                "m",
                "n",
                "k",
                "weight_format",
                "activation_format",
                "dynamic_activation_quantization",
                "time_s",
            ]
        )
        for row in zip(m, n, k, times, strict=True):
            writer.writerow(
                [device, "gemm", *(int(size) for size in row[:3]), weight, activation, cast, repr(float(row[3]))]
            )
    return read_kernel_table(path)


def fit_set(table, start=None):
    problems: dict[int, str] = {}
    groups = gemm_row_groups(table, problems)
    assert not problems
    chip, family = groups[0].chip, groups[0].formats.family
    begin = beginning(chip, family, start or generic_start(chip, family))
    return gemm_fit_set(groups[0].device.key, family, groups, table.numbers["time_s"], None, begin, is_generic=True)


def beginning(chip, family, constants, correction=None):
    return FittedGemm(family, chip, constants, across_families(family), Evidence("", 0, ""), correction=correction)


def test_known_constants_come_back_within_their_spread(tmp_path):
    """The rows fix launch, tensor, DRAM, L2, split and latency; the machine is h100-sxm with other constants."""
    fit_set_of_table = fit_set(write_table(tmp_path / "t.csv", "h100-sxm", 500, noise=0.02))
    fitted = fit_rows(fit_set_of_table).constants
    assert fitted.mape_ratio == pytest.approx(0.016, abs=0.004)
    for name, true in TRUE.items():
        away = abs(math.log(fitted.values[name] / true))
        assert away < 4 * fitted.spreads[name] + 0.01, f"{name}: {fitted.values[name]} for {true}"
        assert fitted.spreads[name] < 0.25, name


def test_a_weight_only_set_finds_where_the_library_changes_kernels(tmp_path):
    chip, constants = true_constants("l40s", "INT4")
    table = write_table(tmp_path / "t.csv", "l40s", 300, noise=0.01, weight="INT4", activation="BF16")
    assert constants.gemv_rows_count == 4
    fitted = fit_rows(fit_set(table, replace(generic_start(chip, "INT4"), gemv_rows_count=2.0))).constants
    assert fitted.values["gemv_rows_count"] == 4
    assert fitted.mape_ratio < 0.02


def test_a_cast_has_constants_of_its_own(tmp_path):
    table = write_table(tmp_path / "t.csv", "h100-sxm", 60, noise=0.0, weight="FP8", activation="FP8", cast=True)
    assert {"cast_ratio", "cast_element_s"} <= {constant.name for constant in fit_set(table).free}
    static = write_table(tmp_path / "s.csv", "h100-sxm", 60, noise=0.0, weight="FP8", activation="FP8")
    names = {constant.name for constant in fit_set(static).free}
    assert not {"cast_ratio", "cast_element_s"} & names
    assert names <= set(fitted_names(generic_start(true_constants("h100-sxm", "FP8")[0], "FP8"), "FP8"))


def test_thirty_rows_improve_on_constants_of_another_machine(tmp_path):
    table = write_table(tmp_path / "t.csv", "b200", 400, noise=0.03)
    problem = fit_set(table)
    few = np.arange(0, 400, 14)
    rest = np.setdiff1d(np.arange(400), few)
    chip = gemm_row_groups(table, {})[0].chip
    begin = beginning(chip, "BF16", generic_start(chip, "BF16"))
    small = gemm_fit_set("b200", "BF16", gemm_row_groups(table, {}), table.numbers["time_s"], None, begin)
    fitted = fit_rows(
        replace(small, free=tuple(replace(constant, prior_scale=0.2) for constant in small.free), surface=None), few
    )
    start = {constant.name: constant.start for constant in problem.free}
    before = accuracy(problem.predict_s(start, rest), problem.measured_s[rest]).mape_ratio
    after = accuracy(problem.predict_s(fitted.values, rest), problem.measured_s[rest]).mape_ratio
    assert len(few) == 29
    assert after < 0.06 < before


def test_what_a_library_chooses_badly_is_learnt_as_a_surface(tmp_path):
    """Long k with few columns runs up to 80 % slower than any candidate, as where a library does not split."""
    table = write_table(tmp_path / "t.csv", "h100-sxm", 600, noise=0.02)
    n, k = np.log2(table.numbers["n"]), np.log2(table.numbers["k"])
    table.numbers["time_s"][:] *= 1 + 0.8 * np.clip((k - 9) / 4, 0, 1) * np.clip((12 - n) / 4, 0, 1)
    problem = fit_set(table)
    learnt, rest = np.arange(0, 600, 2), np.arange(1, 600, 2)
    fitted = fit_rows(problem, learnt)
    with_surface = accuracy(problem.times(fitted, rest), problem.measured_s[rest]).mape_ratio
    without = accuracy(problem.predict_s(fitted.values, rest), problem.measured_s[rest]).mape_ratio
    assert with_surface < 0.7 * without


def test_few_rows_keep_the_surface_they_begin_with(tmp_path):
    table = write_table(tmp_path / "t.csv", "h100-sxm", 40, noise=0.0)
    groups = gemm_row_groups(table, {})
    chip, constants = true_constants("h100-sxm")
    lift = Correction((0.2,) * KNOT_COUNT)
    begin = beginning(chip, "BF16", constants, lift)
    problem = gemm_fit_set("h100-sxm", "BF16", groups, table.numbers["time_s"] * np.exp(0.2), None, begin)
    assert problem.surface is None
    start = {constant.name: constant.start for constant in problem.free}
    errors = accuracy(problem.predict_s(start, np.arange(40)), problem.measured_s)
    assert errors.mape_ratio < 0.01


def test_intervals_fill_every_regime_and_are_rounded_outwards():
    table = gemm_intervals({"": (0.91234567, 1.0987654), "m16-floor": (0.8, 1.3)})
    assert table.pairs()["m16-floor"] == (0.8, 1.3)
    assert table.pairs()["large-body"] == (0.9123, 1.0988)
    assert len(table.low) == len(REGIMES)
