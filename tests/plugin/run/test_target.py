from __future__ import annotations

import pytest

from plugin.machine.facts import Machine
from plugin.run.options import BenchOptions
from plugin.run.target import resolve_target
from roofline_model import DeviceFacts, create_custom_asic
from roofline_model.core.errors import UnknownNameError, UnsupportedError
from roofline_model.core.finding import finding

NO_GPU, THROUGH_NVML = finding("sensors-missing", error="NVML: not found"), finding("gpu-found", kind="nvml")
CPU = Machine("cpu", NO_GPU, "Test CPU", 2, 1 << 25, 1 << 34, torch_version="2.13.0+cpu")
GB10 = Machine(
    "cuda",
    THROUGH_NVML,
    "Cortex-X925",
    20,
    1 << 24,
    1 << 37,
    DeviceFacts("NVIDIA GB10", "12.1"),
    "2.13.0+cu130",
)
UNKNOWN = Machine("cuda", THROUGH_NVML, "x", 2, None, None, DeviceFacts("NVIDIA Quadro 9999", "3.0"), "2.13.0")
OWN_CPU = create_custom_asic("own cpu", 50, {"FP32": 0.2})


def resolve(machine, **options):
    return resolve_target(BenchOptions(**options), lambda: OWN_CPU, machine)


def test_auto_on_a_cpu_measures_itself():
    target = resolve(CPU)
    assert (target.device, target.can_measure, target.hardware) == ("cpu", True, OWN_CPU)


def test_auto_on_a_known_gpu_is_that_chip():
    target = resolve(GB10)
    assert (target.device, target.can_measure, target.hardware.key) == ("cuda", True, "gb10")


def test_auto_with_device_cpu_measures_the_cpu_beside_a_gpu():
    assert resolve(GB10, device="cpu").hardware is OWN_CPU


def test_another_chip_is_only_predicted_and_never_measured():
    target = resolve(CPU, hw="gb10")
    assert (target.device, target.can_measure, target.hardware.key) == ("cuda", False, "gb10")
    assert target.why_not == finding("other-machine", cpu="Test CPU", hardware="gb10")
    assert resolve(GB10, hw="h200").why_not == finding("other-machine", own_hardware="gb10", hardware="h200-sxm")


def test_matching_chip_by_name_is_measured():
    assert resolve(GB10, hw="gb10").can_measure


def test_forced_measuring_is_marked():
    target = resolve(CPU, hw="gb10", force_measure=True)
    assert (target.can_measure, target.is_forced, target.device) == (True, True, "cpu")
    assert resolve(CPU, force_measure=True).is_forced is False  # nothing to force: it is this machine


def test_simulation_stands_in_for_any_chip():
    target = resolve(CPU, hw="b200", timer="simulated:noise=0.01")
    assert (target.device, target.can_measure, target.is_forced) == ("cuda", True, False)


def test_cuda_asked_for_and_absent():
    with pytest.raises(UnsupportedError, match="no NVIDIA device"):
        resolve(CPU, device="cuda")


def test_gpu_present_but_torch_cannot_use_it():
    machine = Machine("cuda", THROUGH_NVML, "x", 2, None, None, DeviceFacts("NVIDIA H200", "9.0"), "2.13.0+cpu")
    with pytest.raises(UnsupportedError, match="has no CUDA"):
        resolve(machine)


def test_unknown_gpu_asks_for_a_description():
    with pytest.raises(UnsupportedError, match=r"FILE\.toml"):
        resolve(UNKNOWN)


def test_unknown_name_gives_the_nearest():
    with pytest.raises(UnknownNameError, match="Did you mean"):
        resolve(CPU, hw="h20")
