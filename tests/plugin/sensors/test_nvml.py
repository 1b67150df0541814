from __future__ import annotations

import os
import sys
from types import SimpleNamespace

import fake_nvml as fake
import pynvml
import pytest

from plugin.sensors import gpu_processes, nvml
from plugin.sensors.gpu_processes import count_others
from plugin.sensors.nvml import NvmlDevice, open_nvml_device
from plugin.sensors.nvml_fields import FieldAnswer, throttle_fields
from plugin.sensors.throttle import is_capped
from roofline_model.core.finding import finding

FakeNvml, error, ULL, UINT = fake.FakeNvml, fake.error, fake.ULL, fake.UINT

READINGS = [
    "name",
    "compute_capability",
    "power_w",
    "total_energy_j",
    "sm_clock_hz",
    "memory_clock_hz",
    "rated_clock_hz",
    "temperature_c",
    "utilization_ratio",
    "memory_used_bytes",
    "memory_total_bytes",
    "throttle_reasons",
    "throttle_s",
    "other_process_count",
]


def device(library):
    return NvmlDevice(library, 0)


@pytest.mark.parametrize("reading", READINGS)
def test_refused_reading_is_none(reading):
    assert getattr(device(FakeNvml()), reading)() is None


def test_everything_refused_still_gives_facts():
    assert set(device(FakeNvml()).facts().values()) == {None}


def test_units_are_si():
    gpu = device(FakeNvml.h200())
    assert gpu.power_w() == 139.0
    assert gpu.total_energy_j() == 2500.0
    assert gpu.sm_clock_hz() == 1.83e9
    assert gpu.rated_clock_hz() == 1.98e9
    assert gpu.temperature_c() == 61.0
    assert gpu.utilization_ratio() == 0.97
    assert (gpu.memory_used_bytes(), gpu.memory_total_bytes()) == (5 * 2**30, 141 * 2**30)
    assert (gpu.name(), gpu.compute_capability()) == ("NVIDIA H200", "9.0")
    assert gpu.throttle_reasons() == ("power cap",)
    assert gpu.other_process_count() == 0


def test_facts_by_name():
    assert device(FakeNvml.h200(nvmlDeviceGetName=b"x", nvmlDeviceGetVbiosVersion=b"96.00")).facts() == {
        "driver": "580.65.06",
        "cuda_driver": "13.0",
        "gpu_uuid": "GPU-abc",
        "vbios": "96.00",
        "power_limit_w": 700.0,
        "power_limit_default_w": 700.0,
        "power_limit_enforced_w": 700.0,
        "persistence": True,
        "clock_lock_hz": None,
        "max_clock_hz": 1.98e9,
        "ecc": True,
        "ecc_pending": True,
        "mig": False,
        "pcie_generation": 5,
        "pcie_generation_max": 5,
        "pcie_width": 16,
        "pcie_width_max": 16,
    }


# Power: which reading it is, and of what -------------------------------------------------------------------------


def test_instant_power_first_then_the_average_then_the_driver_then_the_module():
    library = FakeNvml({"nvmlDeviceGetPowerUsage": 50_000}, {186: (UINT, 90_000), 185: (UINT, 80_000)})
    gpu = device(library)
    assert (gpu.power_w(), gpu.power_basis, gpu.power_lag_s, gpu.scope) == (90.0, "instant", 0.0, "gpu")
    del library.fields[186]
    gpu = device(library)
    assert (gpu.power_w(), gpu.power_basis, gpu.power_lag_s) == (80.0, "one-second-average", 1.0)
    del library.fields[185]
    gpu = device(library)
    assert (gpu.power_w(), gpu.power_basis, gpu.power_lag_s) == (50.0, "driver", 1.0)
    del library.answers["nvmlDeviceGetPowerUsage"]
    library.fields[186, 1] = (UINT, 400_000)
    gpu = device(library)
    assert (gpu.power_w(), gpu.power_basis, gpu.scope) == (400.0, "module", "module")


def test_two_scopes_are_never_mixed():
    library = FakeNvml({"nvmlDeviceGetTotalEnergyConsumption": 1000}, {(186, 1): (UINT, 400_000)})
    gpu = device(library)
    assert (gpu.power_w(), gpu.total_energy_j(), gpu.scope) == (None, 1.0, "gpu")  # the counter is the GPU's own
    library.answers.clear()
    gpu = device(library)
    assert gpu.power_w() == 400.0
    library.answers["nvmlDeviceGetTotalEnergyConsumption"] = 1000
    assert gpu.total_energy_j() is None


@pytest.mark.parametrize(
    ("kind", "raw"), [(0, 90_000.0), (1, 90_000), (2, 90_000), (3, 90_000), (4, 90_000), (5, 90_000), (6, 60_000)]
)
def test_every_value_type_is_decoded(kind, raw):
    assert device(FakeNvml(fields={186: (kind, raw)})).power_w() == raw / 1e3


@pytest.mark.parametrize(
    ("kind", "raw"),
    [(7, 90_000), (1, 2**32 - 1), (3, 2**64 - 1), (1, 0), (5, -5), (0, float("nan")), (0, float("inf"))],
)
def test_unknown_types_and_garbage_are_none(kind, raw):
    assert device(FakeNvml(fields={186: (kind, raw)})).power_w() is None


# Clocks ----------------------------------------------------------------------------------------------------------


def test_application_clock_is_the_rated_one_where_it_was_set():
    assert device(FakeNvml.h200(nvmlDeviceGetApplicationsClock=1410)).rated_clock_hz() == 1.41e9


def test_the_rated_clock_is_that_of_sustained_load_where_the_chip_is_known():
    gb10 = FakeNvml.gb10()
    clocks = {"sustained_clock_hz": 2.418e9}
    assert device(gb10).rated_clock_hz() == 3.003e9
    assert NvmlDevice(gb10, 0, **clocks).rated_clock_hz() == 2.418e9
    locked = FakeNvml.gb10(nvmlDeviceGetApplicationsClock=2000, nvmlDeviceGetDefaultApplicationsClock=2418)
    assert NvmlDevice(locked, 0, **clocks).rated_clock_hz() == 2.0e9
    slower = FakeNvml.gb10(nvmlDeviceGetMaxClockInfo=1500)  # a board whose maximum is below the chip's clock
    assert NvmlDevice(slower, 0, **clocks).rated_clock_hz() == 1.5e9


@pytest.mark.parametrize(("clock_hz", "capped"), [(2.411e9, False), (2.2e9, True)])
def test_gb10_is_capped_below_its_sustained_clock_only(clock_hz, capped):
    rated_hz = NvmlDevice(FakeNvml.gb10(), 0, sustained_clock_hz=2.418e9).rated_clock_hz()
    assert is_capped({"power cap": 0.1}, clock_hz, rated_hz, ("power cap",)) is capped


def test_a_lock_shows_under_load_and_is_remembered():
    library = FakeNvml.h200(nvmlDeviceGetCurrentClocksEventReasons=0x2, nvmlDeviceGetClockInfo=1500)
    gpu = device(library)
    assert gpu.rated_clock_hz() == 1.5e9
    library.answers |= {"nvmlDeviceGetCurrentClocksEventReasons": 0x1, "nvmlDeviceGetClockInfo": 345}
    assert gpu.rated_clock_hz() == 1.5e9
    library.answers |= {"nvmlDeviceGetCurrentClocksEventReasons": 0x6, "nvmlDeviceGetClockInfo": 1200}
    assert gpu.rated_clock_hz() == 1.5e9  # the power cap holds it there, not the lock
    assert device(library).rated_clock_hz() == 1.98e9


def test_older_drivers_name_the_reasons_otherwise():
    library = FakeNvml(
        {"nvmlDeviceGetCurrentClocksThrottleReasons": 0x24}, missing=["nvmlDeviceGetCurrentClocksEventReasons"]
    )
    assert device(library).throttle_reasons() == ("power cap", "software thermal")


# Throttle counters -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", [251, 269])
def test_counters_are_found_under_either_numbering(first):
    fields = {74: (ULL, 2 * 10**9), 76: (ULL, 0), first: (ULL, 5 * 10**8), first + 1: (ULL, 0), first + 2: (ULL, 10**9)}
    assert device(FakeNvml(fields=fields)).throttle_s() == {
        "power cap": 2.0,
        "sync boost": 0.0,
        "software thermal": 0.5,
        "hardware thermal": 0.0,
        "hardware power brake": 1.0,
    }


def test_power_smoothing_flags_are_not_taken_for_counters():
    """Where CUDA 13's numbers hold, 251 to 253 are settings of power smoothing: 32-bit, and no nanoseconds."""
    fields = {74: (ULL, 0), 251: (UINT, 1), 252: (UINT, 2), 253: (UINT, 0), 269: (ULL, 7 * 10**9)}
    assert device(FakeNvml(fields=fields)).throttle_s() == {"power cap": 0.0, "software thermal": 7.0}


def test_where_both_numberings_answer_neither_is_believed():
    answers = {number: FieldAnswer(0, ULL, 0) for number in (74, 75, 76, 251, 252, 253, 269, 270, 271)}
    assert throttle_fields(answers) == {"power cap": 74, "sync boost": 76, "software thermal": 75}


def test_violation_times_stand_in_for_the_fields():
    def status(policy):
        if policy == pynvml.NVML_PERF_POLICY_SYNC_BOOST:
            raise error(fake.NOT_SUPPORTED)
        return pynvml.c_nvmlViolationTime_t(1, (policy + 1) * 10**9)

    library = FakeNvml({"nvmlDeviceGetViolationStatus": status})
    gpu = device(library)
    assert gpu.throttle_s() == {"power cap": 1.0, "software thermal": 2.0}
    library.reset()
    assert gpu.throttle_s() == {"power cap": 1.0, "software thermal": 2.0}
    assert library.calls.count("nvmlDeviceGetFieldValues") == 0  # asked once, refused for good


def test_a_passing_failure_of_the_fields_does_not_end_them():
    library = FakeNvml(fields=dict.fromkeys((74, 75, 76), pynvml.NVML_ERROR_TIMEOUT))
    gpu = device(library)
    assert gpu.throttle_s() is None
    library.fields = {74: (ULL, 10**9)}
    assert gpu.throttle_s() == {"power cap": 1.0}


# Refusals, lost devices ------------------------------------------------------------------------------------------


def test_permanent_refusal_is_asked_once_and_a_transient_one_again():
    library = FakeNvml()
    gpu = device(library)
    assert [gpu.temperature_c() for _ in range(3)] == [None] * 3
    assert library.calls.count("nvmlDeviceGetTemperature") == 1
    library.answers["nvmlDeviceGetClockInfo"] = error(pynvml.NVML_ERROR_TIMEOUT)
    assert gpu.sm_clock_hz() is None
    library.answers["nvmlDeviceGetClockInfo"] = 1000
    assert gpu.sm_clock_hz() == 1e9


def test_a_refused_memory_clock_leaves_the_sm_clock(monkeypatch):
    def clock(kind):
        if kind == pynvml.NVML_CLOCK_MEM:
            raise error(fake.NOT_SUPPORTED)
        return 2418

    gpu = device(FakeNvml({"nvmlDeviceGetClockInfo": clock}))
    assert (gpu.memory_clock_hz(), gpu.sm_clock_hz(), gpu.memory_clock_hz()) == (None, 2.418e9, None)


def test_a_long_row_of_failures_is_asked_seldom(monkeypatch):
    seconds = [100.0]
    monkeypatch.setattr(nvml.time, "monotonic", lambda: seconds[0])
    library = FakeNvml({"nvmlDeviceGetTemperature": error(pynvml.NVML_ERROR_TIMEOUT)})
    gpu = device(library)
    assert {gpu.temperature_c() for _ in range(50)} == {None}
    assert len(library.calls) == 10
    seconds[0] += 1.0
    library.answers["nvmlDeviceGetTemperature"] = 40
    assert gpu.temperature_c() == 40.0


# Other processes -------------------------------------------------------------------------------------------------


def others(pids, own_pid=10, alive=(10, 20), in_container=False, has_context=False):
    return count_others(pids, own_pid, set(alive).__contains__, in_container, has_context)


def test_other_processes_on_the_machine():
    assert others([10]) == 0
    assert others([10, 20, 20]) == 1
    assert others([30]) == 0  # a stale entry


def test_other_processes_in_a_container():
    assert others([500], in_container=True, has_context=True) == 0  # ourselves, under the machine's number
    assert others([500], in_container=True) == 1
    assert others([500, 501, 20], in_container=True, has_context=True) == 2
    assert others([10, 500], in_container=True, has_context=True) == 1  # we are listed under our own number
    assert others([], in_container=True, has_context=True) == 0


def test_processes_are_counted_with_the_real_pids(monkeypatch):
    monkeypatch.setattr(gpu_processes, "_in_container", lambda: False)
    parent, own_process = fake.process(os.getppid()), fake.process(os.getpid())
    gpu = device(
        FakeNvml(
            {"nvmlDeviceGetComputeRunningProcesses": [own_process, parent, fake.process(0), fake.process(2**31 + 7)]}
        )
    )
    assert gpu.other_process_count() == (1 if os.getppid() > 0 else 0)


# Opening ---------------------------------------------------------------------------------------------------------


def test_opening_without_a_driver_gives_the_reason(monkeypatch):
    library = FakeNvml({"nvmlInit": error(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)})
    monkeypatch.setitem(sys.modules, "pynvml", library)
    assert open_nvml_device() == (None, finding("sensors-missing", error="NVML: NVML Shared Library Not Found"))
    monkeypatch.setitem(sys.modules, "pynvml", None)
    opened_device, reason = open_nvml_device()
    assert opened_device is None
    assert reason == finding("sensors-missing", package="nvidia-ml-py")


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
    opened_device, reason = open_nvml_device()
    assert (opened_device.handle if opened_device else None) == opened
    assert opened or reason == finding("sensors-absent", kind="hidden")
