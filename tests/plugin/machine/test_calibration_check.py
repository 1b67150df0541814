"""A canary that a calibration cannot explain is a finding; without either nothing is said."""

from __future__ import annotations

from dataclasses import replace

import pytest

from plugin.calibrate.cpu_calibration import build_device, cpu_fingerprint
from plugin.machine.canary import calibration_mismatch
from plugin.machine.facts import Machine
from results.records.state_records import CanaryReading
from roofline_model.chips.hardware import get_hardware
from roofline_model.chips.machine_constants import Calibration, Constant

CPU = Machine("cpu", "no NVML", "Fake CPU", 2, 2**25, 2**34, torch_version="2.13.0+cpu")
READ = Constant("B/s", 6e10, 5.4e10, 3e10, 0.1, 9, "sum")
PEAK = Constant("FLOP/s", 5e11, 4e11, 3e11, None, 1)
PEAKS = {"FP32": PEAK, "BF16": PEAK}
OWN = build_device(CPU, Calibration("2026-11-21T12:00:00+00:00", CPU.cpu_name, "cpu", {"read": READ}, PEAKS))
IDEAL_S = 4096 * 4096 * 4 / OWN.bandwidth.value


def reading(time_s, kernel="gemv-fp32-4096x4096-torch"):
    return CanaryReading(0, 0, "2026-11-26T09:00:00+00:00", kernel, time_s, time_s, False)


@pytest.mark.parametrize(("ratio", "is_said"), [(0.5, True), (1.0, False), (2.4, False), (20.0, True)])
def test_only_what_no_healthy_machine_does_is_said(ratio, is_said):
    item = calibration_mismatch([reading(99.0), reading(ratio * IDEAL_S)], OWN)
    assert (item is not None) == is_said
    if item is not None:
        assert (item.code, item.value("time_s")) == ("calibration-of-other-machine", ratio * IDEAL_S)


def test_nothing_is_said_of_gpus_other_canaries_and_chips_without_a_calibration():
    assert calibration_mismatch([reading(9.0)], get_hardware("gb10")) is None
    assert calibration_mismatch([reading(9.0, "copy-64MiB-numpy")], OWN) is None
    assert calibration_mismatch([], OWN) is None


def test_another_silicon_of_the_same_name_has_a_calibration_of_its_own():
    assert cpu_fingerprint(replace(CPU, cpu_model="25/17/1")) != cpu_fingerprint(replace(CPU, cpu_model="23/49/0"))
