"""How wrong a transfer is: half-widths that cover left-out chips to 80 % on average, never from the chip that is
scored.
"""

from __future__ import annotations

import numpy as np
import pytest
from synthetic_kernels import write_rows

from roofline_model.expected.attention.fitted.library import shipped_attention
from roofline_model.expected.fitting.fit import FitPlan, TableFit, planned_sets
from roofline_model.expected.fitting.table import read_kernel_table
from roofline_model.expected.fitting.transfer_drift import (
    Transfer,
    drift_without,
    estimated,
    half_width,
    transfers,
)
from roofline_model.expected.intervals import DRIFT
from roofline_model.expected.products.fitted.library import shipped_gemm
from roofline_model.validation.crossed_table import chips_left_out

PLAN = FitPlan(date="", source="", is_generic=True)
Z = 1.2816  # 90 % of a normal distribution


def transfer(bias: float, spread: float, *, device="a", step="far", count=4000, seed=0) -> Transfer:
    """Return rows that are off by `bias` together and by `spread` each; the lender's interval is that of the spread."""
    errors = bias + np.random.default_rng(seed).normal(0, spread, count)
    half_widths = np.full(count, Z * spread)
    return Transfer(device, "products", step, errors, half_widths, half_widths)


def covered(transfer: Transfer, width: float) -> float:
    low, high = np.hypot(transfer.low_log_ratio, width), np.hypot(transfer.high_log_ratio, width)
    return float(((transfer.log_ratio >= -low) & (transfer.log_ratio <= high)).mean())


def test_a_transfer_without_an_error_of_its_own_adds_nothing():
    assert half_width([transfer(0.0, 0.1, count=40_000)]) < 0.03


def test_biases_of_many_chips_come_back_as_their_spread():
    biases = np.random.default_rng(3).normal(0, 0.15, 300)
    transfers = [transfer(bias, 0.1, count=400, seed=i) for i, bias in enumerate(biases)]
    width = half_width(transfers)
    assert width == pytest.approx(Z * 0.15, rel=0.1)
    fresh = [
        transfer(bias, 0.1, count=400, seed=i) for i, bias in enumerate(np.random.default_rng(4).normal(0, 0.15, 300))
    ]
    assert np.mean([covered(transfer, width) for transfer in fresh]) == pytest.approx(0.8, abs=0.04)


def test_each_transfer_counts_once_and_steps_apart():
    small, large = transfer(0.3, 0.05, device="b", count=50), transfer(0.0, 0.05, count=5000)
    assert half_width([small, large]) > 2 * half_width([large, large])
    estimates = estimated([small, large, transfer(0.4, 0.05, device="c", step="near")])
    assert set(estimates) == {("products", "far"), ("products", "near")}
    assert (estimates["products", "far"].transfer_count, estimates["products", "far"].device_count) == (2, 2)
    assert estimates["products", "near"].half_width_log_ratio > 0.3


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """Four chips in 16 bit and the library's own constants."""
    path = write_rows(
        tmp_path_factory.mktemp("drift") / "t.csv", 60, devices=("h100-sxm", "b200", "l40s", "a100-sxm-80gb")
    )
    table = read_kernel_table(path)
    return table, planned_sets(table, PLAN)[0], TableFit(shipped_gemm(), shipped_attention(), (), ())


def test_transfers_are_between_the_chips_of_the_table(world):
    _, sets, fitted = world
    fitted = TableFit(tuple(fit for fit in fitted.gemm if fit.chip.key != "rtx-pro-6000"), (), (), ())
    moved = transfers(sets, fitted)
    assert len(moved) == 4 * 3  # each from each other one
    assert {transfer.step for transfer in moved} == {"far"}
    assert not [transfer for transfer in transfers(sets, fitted, "b200") if transfer.device == "b200"]
    assert len(transfers(sets, fitted, "b200")) == 3 * 2


def test_a_chip_is_scored_with_what_the_others_say(world):
    table, sets, fitted = world
    products, attention = drift_without("b200", sets, fitted)
    others = [transfer for transfer in transfers(sets, fitted, "b200") if transfer.step == "far"]
    assert products["far"] == half_width(others)
    assert products["format"] == DRIFT["format"]  # no row of such a format: the shipped one
    assert attention["sibling"] == DRIFT["sibling"]
    # A chip that behaves oddly does not widen its own interval.
    odd = table.numbers["time_s"].copy()
    at_b200 = [i for i, name in enumerate(table.texts["device"]) if name == "b200"]
    table.numbers["time_s"][at_b200] *= 3
    try:
        again = planned_sets(table, PLAN)[0]
        assert drift_without("b200", again, fitted)[0] == products
        assert drift_without("h100-sxm", again, fitted)[0]["far"] > 2 * products["far"]
        unseen = {(out.device, out.part): out.unseen for out in chips_left_out(table, fitted)}
        assert unseen["b200", "BF16"].coverage_ratio < 0.1
        assert unseen["b200", "BF16"].bias_ratio == pytest.approx(-2 / 3, abs=0.15)
    finally:
        table.numbers["time_s"][:] = odd
