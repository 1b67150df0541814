"""A driver that fails in every way it can: nothing raises, nothing waits for ever, what is unknown is None."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from types import SimpleNamespace

import fake_nvml as fake
import pynvml
import pytest

from plugin.machine.state_warnings import StateWatch, gpu_warnings, warnings
from plugin.run.observe import Telemetry
from plugin.sensors import bounded_sensors, energy, sensor_log
from plugin.sensors.bounded_sensors import BoundedSensors, bounded
from plugin.sensors.energy import measure_energy, measure_idle_power
from plugin.sensors.nvml import NvmlDevice
from plugin.sensors.throttle import ThrottleWatch

FakeNvml, error = fake.FakeNvml, fake.error

READINGS = (
    "name",
    "compute_capability",
    "power_w",
    "total_energy_j",
    "sm_clock_hz",
    "memory_clock_hz",
    "max_clock_hz",
    "rated_clock_hz",
    "clock_lock_hz",
    "temperature_c",
    "utilization_ratio",
    "memory_used_bytes",
    "memory_total_bytes",
    "throttle_s",
    "throttle_reasons",
    "other_process_count",
    "facts",
)
FUNCTIONS = (*fake.H200_ANSWERS, "nvmlDeviceGetFieldValues")


def read_all(gpu):
    return {name: getattr(gpu, name)() for name in READINGS}


def is_plausible(value):
    if isinstance(value, Mapping):
        return all(is_plausible(reading) for reading in value.values())
    if isinstance(value, bool | str | tuple) or value is None:
        return True
    return 0 <= value < 1e18


@pytest.mark.parametrize("function", FUNCTIONS)
def test_each_function_fails_with_each_code(function):
    assert len(fake.ERROR_CODES) > 20
    for code in fake.ERROR_CODES:
        library = FakeNvml.h200(**{function: error(code)})
        gpu = NvmlDevice(library, 0)
        for _ in range(2):
            readings = read_all(gpu)
        assert all(is_plausible(value) for value in readings.values()), code
        if code == pynvml.NVML_ERROR_GPU_IS_LOST:
            assert gpu.is_lost or function not in library.calls
        elif not gpu.is_lost and function != "nvmlDeviceGetClockInfo":
            assert readings["sm_clock_hz"] == 1.83e9, code  # one refusal leaves the other readings alone


@pytest.mark.parametrize("failure", [OSError("gone"), ValueError(), RuntimeError(), MemoryError(), ZeroDivisionError()])
def test_exceptions_that_are_not_nvmls_own(failure):
    library = FakeNvml(dict.fromkeys(FUNCTIONS, failure))
    readings = read_all(NvmlDevice(library, 0))
    assert set(readings.pop("facts").values()) == {None}
    assert set(readings.values()) == {None}


@pytest.mark.parametrize("garbage", [0, -1, 2**32 - 1, 2**64 - 1, float("nan"), "N/A", b"\xff", None, [], object()])
def test_garbage_is_never_a_reading(garbage):
    for function in FUNCTIONS:
        _check_garbage(function, garbage)


def _check_garbage(function, garbage):
    gpu = NvmlDevice(FakeNvml.h200(**{function: garbage}), 0)
    readings = read_all(gpu)
    assert all(is_plausible(value) for value in readings.values())
    reading = {
        "nvmlDeviceGetClockInfo": "sm_clock_hz",
        "nvmlDeviceGetMaxClockInfo": "max_clock_hz",
        "nvmlDeviceGetTemperature": "temperature_c",
        "nvmlDeviceGetUtilizationRates": "utilization_ratio",
    }.get(function)
    assert reading is None or readings[reading] is None


@pytest.mark.parametrize("value", [2**64 - 1, 2**63])
def test_garbage_in_the_counters(value):
    fields = dict.fromkeys(fake.H200_FIELDS, (fake.ULL, value))
    gpu = NvmlDevice(FakeNvml(fake.H200_ANSWERS | {"nvmlDeviceGetViolationStatus": error(3)}, fields), 0)
    assert gpu.throttle_s() is None
    assert gpu.power_w() == 140.5  # by the driver's own function


def test_too_few_field_values_come_back():
    gpu = NvmlDevice(FakeNvml.h200(nvmlDeviceGetFieldValues=lambda ids: []), 0)
    assert gpu.power_w() == 140.5
    assert gpu.throttle_s() == {"power cap": 3.0, "software thermal": 3.0, "sync boost": 3.0}


@pytest.mark.parametrize("after_calls", range(0, 40, 3))
def test_device_lost_in_the_middle(after_calls):
    library = FakeNvml.h200()
    gpu = NvmlDevice(library, 0)
    original, count = library._call, [0]

    def call(name, arguments):
        count[0] += 1
        if count[0] > after_calls:
            raise error(pynvml.NVML_ERROR_GPU_IS_LOST)
        return original(name, arguments)

    library._call = call
    read_all(gpu)
    read_all(gpu)
    assert gpu.is_lost
    readings = read_all(gpu)
    assert set(readings.pop("facts").values()) == {None}
    assert set(readings.values()) == {None}
    assert count[0] == after_calls + 1  # a lost device is not asked again


def test_a_lost_device_inside_the_field_values():
    fields = dict.fromkeys(fake.H200_FIELDS, pynvml.NVML_ERROR_GPU_IS_LOST)
    gpu = NvmlDevice(FakeNvml(fake.H200_ANSWERS, fields), 0)
    assert gpu.power_w() is None
    assert gpu.is_lost


@pytest.mark.parametrize(
    "missing",
    [
        *((name,) for name in FUNCTIONS),
        ("NVML_CLOCK_SM", "NVML_CLOCK_MEM", "NVML_CLOCK_GRAPHICS", "NVML_TEMPERATURE_GPU"),
        FUNCTIONS,
    ],
    ids=lambda names: names[0] if len(names) < 6 else "everything",
)
def test_an_old_pynvml_lacks_it(missing):
    gpu = NvmlDevice(FakeNvml(fake.H200_ANSWERS, fake.H200_FIELDS, missing), 0)
    readings = read_all(gpu)
    assert all(is_plausible(value) for value in readings.values())
    if missing[0].startswith("NVML_"):
        assert (readings["sm_clock_hz"], readings["temperature_c"]) == (1.83e9, 61.0)


def test_counters_that_run_backwards():
    library = FakeNvml.h200()
    watch = ThrottleWatch(NvmlDevice(library, 0), pause=lambda seconds: None)
    with watch:
        library.fields |= dict.fromkeys((74, 251), (fake.ULL, 0))
    assert watch.throttled_s == {}  # those two tell nothing; the others stood still
    with watch:
        library.fields = {74: fake.H200_FIELDS[74]}
    with watch:
        library.fields = {74: (fake.ULL, 0)}
    assert watch.throttled_s is None


def test_warnings_of_garbage_facts():
    assert gpu_warnings({}, "", None) == []
    assert gpu_warnings(NvmlDevice(FakeNvml(), 0).facts(), "NVIDIA GB10", None) == []


# A sensor that freezes -------------------------------------------------------------------------------------------


class FreezableDevice(NvmlDevice):
    """NvmlDevice with room for the two events of the fixture below."""


@pytest.fixture
def frozen(monkeypatch):
    """An H200 whose every call blocks from the moment `freeze` is set until the test ends."""
    monkeypatch.setattr(bounded_sensors, "LIMIT_S", 0.2)  # on a busy machine a thread that is not frozen waits, too
    monkeypatch.setattr(sensor_log, "JOIN_S", 0.02)
    monkeypatch.setattr("plugin.run.observe.JOIN_S", 0.02)
    freeze, thaw = threading.Event(), threading.Event()
    library = FakeNvml.h200()
    original = library._call

    def call(name, arguments):
        if freeze.is_set():
            assert thaw.wait(20), "the test did not end"
        return original(name, arguments)

    library._call = call
    gpu = FreezableDevice(library, 0)
    gpu.freeze, gpu.thaw = freeze, thaw
    yield gpu
    thaw.set()
    for thread in threading.enumerate():
        if thread.name.startswith("roofline-"):
            thread.join(5)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("roofline-")]


def test_a_frozen_reading_is_none_and_not_waited_for_twice(frozen):
    guard = BoundedSensors(frozen)
    assert guard.sm_clock_hz() == 1.83e9
    frozen.freeze.set()
    assert guard.sm_clock_hz() is None
    assert guard.is_frozen
    other = bounded(frozen)
    assert other.is_frozen  # seen by one, known to all
    before = threading.active_count()
    assert {other.temperature_c() for _ in range(100)} == {None}
    assert threading.active_count() == before  # no second thread is sent after the first
    frozen.thaw.set()
    guard.wait_for(guard.state.stuck, 5)
    assert other.sm_clock_hz() == 1.83e9


def test_a_freeze_does_not_hold_the_telemetry_up(frozen):
    first, second = Telemetry(frozen, period_s=0.001), Telemetry(frozen, period_s=0.001)
    with first:
        deadline = time.monotonic() + 20
        while not first.samples and time.monotonic() < deadline:
            time.sleep(0.001)
        frozen.freeze.set()
        time.sleep(0.01)
    samples = first.samples
    assert samples
    with second:  # the next case: nothing is started while the first one is stuck
        pass
    frozen.thaw.set()
    time.sleep(0.05)
    assert (first.samples, second.samples) == (samples, ())  # what was stuck adds nothing to a case that has ended


def test_a_freeze_does_not_hold_a_case_up(frozen):
    with StateWatch(frozen, "cuda") as watch:
        frozen.freeze.set()
    assert (watch.state.throttled_s, watch.state.rated_clock_hz, watch.state.device_process_count) == (None, None, 0)
    with StateWatch(frozen, "cuda") as watch:
        pass
    assert watch.state.device_process_count is None


def test_a_freeze_is_said_at_the_start_of_a_run(frozen):
    machine = SimpleNamespace(facts=SimpleNamespace(name="NVIDIA H200"), thread_count=1, cpu_count=1)
    frozen.freeze.set()
    (item,) = warnings(frozen, machine, "cuda")
    assert item.code == "sensors-frozen"


def test_a_freeze_ends_the_energy_measurement_with_none(frozen, monkeypatch):
    monkeypatch.setattr(energy, "FIRST_SETTLE_S", 0.02)
    monkeypatch.setattr(energy, "SETTLE_S", 0.01)
    calls = []

    def run():
        calls.append(1)
        if len(calls) == 3:
            frozen.freeze.set()
        time.sleep(0.002)
        return 1

    assert measure_energy(run, frozen, windows=2, window_s=0.02) is None
    assert len(calls) > 3
    assert measure_energy(run, frozen, windows=2, window_s=0.02) is None
    assert measure_idle_power(frozen) is None  # at once, without its window
