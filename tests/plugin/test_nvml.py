from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from plugin.nvml import NvmlDevice, open_nvml_device


class NvmlError(Exception):
    def __init__(self, value):
        super().__init__(f"error {value}")
        self.value = value


NOT_SUPPORTED, TIMEOUT = 3, 10


class FakeLibrary:
    """NVML with the functions a test gives it; anything else is not supported, as GB10 says of memory."""

    NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU = 1, 2, 0
    NVML_ERROR_TIMEOUT, NVML_ERROR_IN_USE = TIMEOUT, 19

    def __init__(self, **answers):
        self.answers = answers
        self.calls = []

    def __getattr__(self, name):
        if not name.startswith("nvml"):
            raise AttributeError(name)

        def function(*_):
            self.calls.append(name)
            answer = self.answers.get(name, NvmlError(NOT_SUPPORTED))
            if isinstance(answer, Exception):
                raise answer
            return answer

        return function


READINGS = [
    "name", "compute_capability", "power_w", "total_energy_j", "sm_clock_hz", "memory_clock_hz", "temperature_c",
    "utilization_ratio", "memory_used_bytes", "memory_total_bytes", "throttle_reasons",
]  # fmt: skip


@pytest.mark.parametrize("reading", READINGS)
def test_refused_reading_is_none(reading):
    assert getattr(NvmlDevice(FakeLibrary(), 0), reading)() is None


def test_everything_refused_still_gives_facts():
    assert set(NvmlDevice(FakeLibrary(), 0).facts().values()) == {None}


def test_units_are_si():
    library = FakeLibrary(
        nvmlDeviceGetPowerUsage=140_500, nvmlDeviceGetTotalEnergyConsumption=2_500, nvmlDeviceGetClockInfo=2418,
        nvmlDeviceGetTemperature=61, nvmlDeviceGetUtilizationRates=SimpleNamespace(gpu=97),
        nvmlDeviceGetMemoryInfo=SimpleNamespace(used=5, total=10), nvmlDeviceGetCudaComputeCapability=(12, 1),
        nvmlDeviceGetName=b"NVIDIA GB10", nvmlDeviceGetCurrentClocksThrottleReasons=0x24,
    )  # fmt: skip
    device = NvmlDevice(library, 0)
    assert device.power_w() == 140.5
    assert device.total_energy_j() == 2.5
    assert device.sm_clock_hz() == 2.418e9
    assert device.temperature_c() == 61.0
    assert device.utilization_ratio() == 0.97
    assert (device.memory_used_bytes(), device.memory_total_bytes()) == (5.0, 10)
    assert (device.name(), device.compute_capability()) == ("NVIDIA GB10", "12.1")
    assert device.throttle_reasons() == ("power cap", "software thermal")


def test_instant_power_is_preferred_over_the_one_second_average():
    field = SimpleNamespace(nvmlReturn=0, value=SimpleNamespace(uiVal=90_000))
    library = FakeLibrary(nvmlDeviceGetFieldValues=[field], nvmlDeviceGetPowerUsage=50_000)
    assert NvmlDevice(library, 0).power_w() == 90.0
    field.nvmlReturn = NOT_SUPPORTED
    assert NvmlDevice(library, 0).power_w() == 50.0


def test_permanent_refusal_is_asked_once_and_a_transient_one_again():
    library = FakeLibrary()
    device = NvmlDevice(library, 0)
    assert [device.temperature_c() for _ in range(3)] == [None] * 3
    assert library.calls.count("nvmlDeviceGetTemperature") == 1
    library.answers["nvmlDeviceGetClockInfo"] = NvmlError(TIMEOUT)
    assert device.sm_clock_hz() is None
    library.answers["nvmlDeviceGetClockInfo"] = 1000
    assert device.sm_clock_hz() == 1e9


def test_opening_without_a_driver_gives_the_reason(monkeypatch):
    library = SimpleNamespace(nvmlInit=lambda: (_ for _ in ()).throw(NvmlError(12)))
    monkeypatch.setitem(sys.modules, "pynvml", library)
    assert open_nvml_device() == (None, "NVML: error 12")
    monkeypatch.setitem(sys.modules, "pynvml", None)
    device, reason = open_nvml_device()
    assert device is None
    assert "pip install nvidia-ml-py" in reason


@pytest.mark.parametrize(
    ("visible", "opened"), [("1,0", ("index", 1)), ("GPU-abc", ("uuid", "GPU-abc")), ("-1", None), ("", None)]
)
def test_visible_devices_are_honoured(monkeypatch, visible, opened):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    library = SimpleNamespace(
        nvmlInit=lambda: None,
        nvmlDeviceGetHandleByIndex=lambda i: ("index", i),
        nvmlDeviceGetHandleByUUID=lambda u: ("uuid", u),
    )
    monkeypatch.setitem(sys.modules, "pynvml", library)
    device, reason = open_nvml_device()
    assert (device.handle if device else None) == opened
    assert opened or "hides" in reason
