"""A machine's own read bandwidth replaces a relative's share, and only where nothing was fitted on that chip."""

from __future__ import annotations

from dataclasses import replace

import pytest
from typer.testing import CliRunner

from roofline_cli.main import app
from roofline_model import get_hardware
from roofline_model.chips.machine_constants import Calibration, Constant
from roofline_model.expected.calibrated import known_dram
from roofline_model.expected.fitting.table import read_kernel_table
from roofline_model.validation.table_prediction import KnownConstants, predict_table

HEADER = "device,op,phase,m,n,k,batch,q_len,kv_len,heads,kv_heads,head_dim,weight_format,activation_format,weight_copies,time_s"
ROWS = (
    "{chip},gemm,decode,1,16384,16384,,,,,,,BF16,BF16,1000,1e-3",
    "{chip},attention,decode,,,,64,1,16384,32,8,128,,BF16,,1e-3",
)


def calibrated(name: str, share: float, disturbed_by=()):
    chip = get_hardware(name)
    best = chip.bandwidth.value * min(1.0, share * 1.1)
    read = Constant("B/s", best, chip.bandwidth.value * share, best / 2, 0.02, 20)
    calibration = Calibration(
        "2026-11-21T12:00:00+00:00", chip.name, "cuda", dram={"read": read}, disturbed_by=disturbed_by
    )
    return replace(chip, calibration=calibration)


@pytest.fixture
def table(tmp_path):
    def write(chip):
        path = tmp_path / "t.csv"
        path.write_text("\n".join([HEADER, *(row.format(chip=chip) for row in ROWS)]) + "\n", encoding="utf-8")
        return path

    return write


def predicted(path, machine=None):
    machines = {} if machine is None else {machine.key: machine}
    return predict_table(read_kernel_table(path), KnownConstants(machines=machines))


def test_transferred_constants_take_this_machines_bandwidth(table):
    path = table("gb10")
    plain, slow = predicted(path), predicted(path, calibrated("gb10", 0.6))
    bandwidth = get_hardware("gb10").bandwidth.value
    for i, moved in enumerate((2 * 16384 * 16384, 2 * 64 * 8 * 16384 * 128 * 2)):
        assert plain.provenance[i].startswith("transferred")
        assert slow.provenance[i] == "measured-here"
        assert slow.expected_s[i] == pytest.approx(moved / (0.6 * bandwidth), rel=0.1)
        assert slow.expected_s[i] > 1.1 * plain.expected_s[i]


def test_fitted_constants_stay(table):
    path = table("h100-sxm")
    plain, slow = predicted(path), predicted(path, calibrated("h100-sxm", 0.6))
    assert slow.expected_s.tolist() == plain.expected_s.tolist()
    assert slow.provenance == ["fitted", "fitted"]


def test_what_a_busy_machine_showed_changes_nothing(table):
    path = table("gb10")
    plain, busy = predicted(path), predicted(path, calibrated("gb10", 0.6, ("contended",)))
    assert list(busy.expected_s) == list(plain.expected_s)
    assert list(busy.provenance) == list(plain.provenance)


def test_the_option_leaves_the_machine_out(table, monkeypatch):
    machine = calibrated("gb10", 0.5)
    monkeypatch.setattr("roofline_cli.model_fit.validate.calibrated_machines", lambda: {"gb10": machine})
    path, runner = table("gb10"), CliRunner()
    result = runner.invoke(app, ["validate", str(path), "--predictions", str(path.with_name("own.csv"))])
    without = runner.invoke(
        app, ["validate", str(path), "--no-local-calibration", "--predictions", str(path.with_name("none.csv"))]
    )
    assert result.exit_code == without.exit_code == 0, result.output + without.output
    assert "measured-here" in path.with_name("own.csv").read_text(encoding="utf-8")
    assert "measured-here" not in path.with_name("none.csv").read_text(encoding="utf-8")


def test_a_published_bandwidth_limits_a_lent_share():
    dram = known_dram(get_hardware("gb10"), 273.06e9, ("rtx-pro-6000",))
    assert (dram.is_measured, dram.lender_ratio) == (False, None)  # nobody published one for the lender
    assert dram.share_ratio == pytest.approx(232 / 273.06)
    assert dram.applied(0.95, (0.4, 0.97)) == dram.share_ratio
    assert dram.applied(0.7, (0.4, 0.97)) == 0.7  # a limit, not a replacement
    assert known_dram(get_hardware("l4"), 300e9, ("l40s",)) is None


def test_a_lender_that_beats_what_was_published_for_it_lends_that_too():
    h200, h100 = get_hardware("h200"), get_hardware("h100")
    dram = known_dram(h200, h200.bandwidth.value, ("h100-sxm", "a chip of the user"))
    assert dram.lender_ratio == pytest.approx(h100.bandwidth_achieved.value / h100.bandwidth.value)
    better = 1.05 * dram.lender_ratio
    assert dram.applied(better, (0.4, 0.97)) == pytest.approx(min(better, 1.05 * dram.share_ratio))
    assert dram.applied(dram.lender_ratio, (0.4, 0.97)) == pytest.approx(min(dram.lender_ratio, dram.share_ratio))


def test_a_measured_share_replaces_a_lent_one_within_bounds():
    dram = known_dram(calibrated("gb10", 0.6), 273.06e9, ("rtx-pro-6000",))
    assert dram.is_measured
    assert dram.applied(0.8, (0.4, 0.97)) == pytest.approx(0.6, rel=1e-3)
    assert dram.applied(0.8, (0.7, 0.97)) == 0.7
