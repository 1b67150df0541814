"""NVML, the driver's sensors: every reading is a number or None, never an exception.

A chip may refuse any call (GB10 reports neither memory totals nor memory clock); a refusal is remembered so that a
background sampler does not pay for it again. Passing trouble (a timeout, a busy driver) is asked again later; a lost
GPU answers None for ever. Values no GPU can have (0 W, 2³²−1 mW) count as not told. The module `pynvml` comes from the
package nvidia-ml-py; versions without a function or constant answer None for it.

An H200 answered every reading but the application clock. GB10's refusals are tested with a fake that has the
library's own error classes and structures.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any

from plugin.sensors.gpu_processes import other_processes
from plugin.sensors.nvml_fields import (
    POWER_AVERAGE,
    POWER_INSTANT,
    SCOPE_GPU,
    SCOPE_MODULE,
    THROTTLE_CANDIDATES,
    VIOLATION_POLICIES,
    FieldError,
    read_field,
    read_fields,
    throttle_fields,
)
from plugin.timers.clock import time
from roofline_model.core.finding import Finding, finding

ORDER_VARIABLE = "CUDA_DEVICE_ORDER"
THROTTLE_REASONS = {
    0x1: "idle", 0x2: "application clocks", 0x4: "power cap", 0x8: "hardware slowdown", 0x10: "sync boost",
    0x20: "software thermal", 0x40: "hardware thermal", 0x80: "hardware power brake", 0x100: "display clocks",
    0x200: "board limit", 0x400: "reliability",
}  # fmt: skip
_IDLE, _APPLICATION_CLOCKS = 0x1, 0x2

# NVML_ERROR_* by number: constants of nvml.h that never change, while older pynvml versions lack some of their names.
_PASSING = frozenset({1, 7, 10, 11, 17, 19, 20, 21, 23, 27, 999})
"""Uninitialized, insufficient size, timeout, interrupt, operating system, in use, memory, no data, resources, not
ready, unknown.
"""
_LOST = frozenset({9, 15, 16, 18, 28})
"""Driver not loaded, GPU is lost, reset required, library and driver differ, GPU not found."""
_PATIENCE_COUNT = 10
_RETRY_AFTER_S = 1.0
"""After ten failures in a row a reading is asked only once a second."""

# What a real device can report; anything else is the driver's sign for "unknown", or garbage.
_POWER_MW = (1, 20e6)
_ENERGY_MJ = (0, 2**62)
_CLOCK_MHZ = (1, 20e3)
_TEMPERATURE_C = (1, 200)
_COUNTER_NS = (0, 2**62)


@dataclass(slots=True, eq=False, weakref_slot=True)
class NvmlDevice:
    """One GPU as NVML sees it: the `Sensors` of a GPU, and the facts of its environment."""

    library: Any
    handle: Any
    power_basis: str | None = None
    """What `power_w` last gave: instant, one-second-average, driver (PowerUsage: instant up to Volta and on GA100, a
    one-second average since), module."""
    sustained_clock_hz: float | None = None
    """The SM clock that this chip holds under load, from its description; None where that is not known."""
    is_lost: bool = False
    """Whether the GPU has fallen off the bus or the driver is gone: every reading is then None."""
    counter_source: str = field(default="nvml-energy-counter", init=False)
    samples_source: str = field(default="nvml-power-samples", init=False)
    _refused: set[str] = field(default_factory=set, init=False)
    _failures: dict[str, int] = field(default_factory=dict, init=False)
    _retry_at_s: dict[str, float] = field(default_factory=dict, init=False)
    _throttle_ids: dict[str, int] | None = field(default=None, init=False)
    _lock_hz: float | None = field(default=None, init=False)

    # Asking ------------------------------------------------------------------------------------------------------

    def _read(self, name: str, call: Callable[[], Any]) -> Any:
        if self.is_lost or name in self._refused or time.monotonic() < self._retry_at_s.get(name, 0.0):
            return None
        try:
            value = call()
        except Exception as error:  # NVMLError subclasses are made at run time; anything else is a broken driver
            self._note_failure(name, getattr(error, "value", None))
            return None
        self._failures.pop(name, None)
        return value

    def _note_failure(self, name: str, code: Any) -> None:
        if code in _LOST:
            self.is_lost = True
        elif code not in _PASSING:
            self._refused.add(name)
        else:
            self._failures[name] = self._failures.get(name, 0) + 1
            if self._failures[name] >= _PATIENCE_COUNT:
                self._retry_at_s[name] = time.monotonic() + _RETRY_AFTER_S

    def _ask(self, function: str, *arguments: Any) -> Any:
        """Return the answer of one library function for this device, or None."""
        return self._read(f"{function}{arguments}", lambda: getattr(self.library, function)(self.handle, *arguments))

    def _number(self, limits: tuple[float, float], function: str, *arguments: Any) -> float | None:
        return _within(limits, self._ask(function, *arguments))

    def _constant(self, name: str, otherwise: int) -> int:
        return int(getattr(self.library, name, otherwise))

    # Identity ----------------------------------------------------------------------------------------------------

    def name(self) -> str | None:
        """Return the product name, e.g. `NVIDIA H200`."""
        return _text(self._ask("nvmlDeviceGetName"))

    def compute_capability(self) -> str | None:
        """Return the compute capability as text, e.g. `9.0`."""
        pair = self._ask("nvmlDeviceGetCudaComputeCapability")
        return f"{pair[0]}.{pair[1]}" if isinstance(pair, tuple | list) and len(pair) == 2 else None

    # Power and energy --------------------------------------------------------------------------------------------

    @property
    def scope(self) -> str:
        """Scope of power and energy: gpu, or module where the chip has only that (Grace)."""
        return "module" if self.power_basis == "module" else "gpu"

    @property
    def power_lag_s(self) -> float:
        """Lag of `power_w` behind a change: 1 s, or 0 for an instantaneous reading."""
        return 0.0 if self.power_basis in ("instant", "module") else 1.0

    def power_w(self) -> float | None:
        """Return the instantaneous board power, or the one-second average where the chip has only that.

        The module's power is used only where the chip tells neither its own power nor its own energy, so that one run
        never mixes two scopes.
        """
        for basis, number in (("instant", POWER_INSTANT), ("one-second-average", POWER_AVERAGE)):
            milliwatts = self._power_field_mw(number, SCOPE_GPU)
            if milliwatts is not None:
                return self._power(basis, milliwatts)
        milliwatts = self._number(_POWER_MW, "nvmlDeviceGetPowerUsage")
        if milliwatts is not None:
            return self._power("driver", milliwatts)
        if self.power_basis in (None, "module") and self.total_energy_j() is None:
            milliwatts = self._power_field_mw(POWER_INSTANT, SCOPE_MODULE)
        return None if milliwatts is None else self._power("module", milliwatts)

    def _power(self, basis: str, milliwatts: float) -> float:
        self.power_basis = basis
        return milliwatts / 1e3

    def _power_field_mw(self, number: int, scope: int) -> float | None:
        value = self._read(f"field {number} {scope}", lambda: read_field(self.library, self.handle, number, scope))
        return _within(_POWER_MW, value)

    def total_energy_j(self) -> float | None:
        """Return the energy counter since the driver was loaded (Volta and later)."""
        if self.power_basis == "module":
            return None
        millijoules = self._number(_ENERGY_MJ, "nvmlDeviceGetTotalEnergyConsumption")
        return None if millijoules is None else millijoules / 1e3

    # Clocks ------------------------------------------------------------------------------------------------------

    def sm_clock_hz(self) -> float | None:
        """Return the current SM clock."""
        return self._clock_hz("nvmlDeviceGetClockInfo", "NVML_CLOCK_SM", 1)

    def memory_clock_hz(self) -> float | None:
        """Return the current memory clock."""
        return self._clock_hz("nvmlDeviceGetClockInfo", "NVML_CLOCK_MEM", 2)

    def max_clock_hz(self) -> float | None:
        """Return the highest SM clock of the chip."""
        return self._clock_hz("nvmlDeviceGetMaxClockInfo", "NVML_CLOCK_SM", 1)

    def _clock_hz(self, function: str, constant: str, otherwise: int) -> float | None:
        megahertz = self._number(_CLOCK_MHZ, function, self._constant(constant, otherwise))
        return None if megahertz is None else megahertz * 1e6

    def application_clock_hz(self) -> float | None:
        """Return the application clock (`nvidia-smi -ac`) where one other than the default is set, else None."""
        graphics = self._constant("NVML_CLOCK_GRAPHICS", 0)
        clock_mhz = self._number(_CLOCK_MHZ, "nvmlDeviceGetApplicationsClock", graphics)
        usual = self._number(_CLOCK_MHZ, "nvmlDeviceGetDefaultApplicationsClock", graphics)
        return clock_mhz * 1e6 if clock_mhz is not None and usual is not None and clock_mhz != usual else None

    def clock_lock_hz(self) -> float | None:
        """Return the SM clock the user has set, or None where none shows.

        NVML has no reading for `nvidia-smi -lgc`: such a lock shows only while the chip works and names it as the one
        thing that holds the clock (reason bit 0x2). It is then remembered, so ask under load first.
        """
        set_hz = self.application_clock_hz()
        if set_hz is not None:
            return set_hz
        if self._reason_bits() == _APPLICATION_CLOCKS:
            self._lock_hz = self.sm_clock_hz() or self._lock_hz
        return self._lock_hz

    def rated_clock_hz(self) -> float | None:
        """Return the SM clock the chip should hold: a lock or application clock that shows, else sustained load's.

        NVML's maximum stands in where the chip is not known; some chips never reach it under load (GB10: 3003 MHz, held
        are 2418).
        """
        known_hz = [clock_hz for clock_hz in (self.sustained_clock_hz, self.max_clock_hz()) if clock_hz is not None]
        return self.clock_lock_hz() or min(known_hz, default=None)

    # Heat, load, throttling --------------------------------------------------------------------------------------

    def temperature_c(self) -> float | None:
        """Return the GPU temperature in °C."""
        return self._number(_TEMPERATURE_C, "nvmlDeviceGetTemperature", self._constant("NVML_TEMPERATURE_GPU", 0))

    def utilization_ratio(self) -> float | None:
        """Return the share of the last sensor period in which a kernel was running."""
        percent = _within((0, 100), getattr(self._ask("nvmlDeviceGetUtilizationRates"), "gpu", None))
        return None if percent is None else percent / 100

    def memory_used_bytes(self) -> float | None:
        """Return the device memory in use; None on chips with unified memory."""
        return _within((0, 2**50), getattr(self._ask("nvmlDeviceGetMemoryInfo"), "used", None))

    def memory_total_bytes(self) -> int | None:
        """Return the device memory in all; None on chips with unified memory."""
        value = _within((1, 2**50), getattr(self._ask("nvmlDeviceGetMemoryInfo"), "total", None))
        return None if value is None else int(value)

    def throttle_s(self) -> Mapping[str, float] | None:
        """Return the cumulative seconds per reason since the driver was loaded, or None where unreadable.

        From the field counters, else from the policies' violation times; they advance in steps of about 100 ms.
        """
        gained = self._read("throttle fields", self._throttle_fields_s)
        if gained is not None:
            return gained or None
        facts = {}
        for reason, policy in VIOLATION_POLICIES.items():
            status = self._ask("nvmlDeviceGetViolationStatus", policy)
            nanoseconds = _within(_COUNTER_NS, getattr(status, "violationTime", None))
            if nanoseconds is not None:
                facts[reason] = nanoseconds / 1e9
        return facts or None

    def _throttle_fields_s(self) -> dict[str, float]:
        """Return the field counters in seconds; raises `FieldError` where the driver has none."""
        if self._throttle_ids is None:
            answers = read_fields(self.library, self.handle, THROTTLE_CANDIDATES)
            ids = throttle_fields(answers)
            if not ids:
                raise FieldError(
                    next((a.return_code for a in answers.values() if a.return_code in _PASSING | _LOST), 3)
                )
            self._throttle_ids = ids
        answers = read_fields(self.library, self.handle, list(self._throttle_ids.values()))
        if any(answer.return_code in _LOST for answer in answers.values()):
            raise FieldError(15)
        throttle_fields_s = {
            reason: _within(_COUNTER_NS, answers[number].value) for reason, number in self._throttle_ids.items()
        }
        return {reason: value / 1e9 for reason, value in throttle_fields_s.items() if value is not None}

    def _reason_bits(self) -> int | None:
        for name in ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"):
            bits = _within((0, 2**32), self._ask(name))
            if bits is not None:
                return int(bits)
        return None

    def throttle_reasons(self) -> tuple[str, ...] | None:
        """Return the reasons active now for a clock below the maximum, or None where they cannot be read."""
        bits = self._reason_bits()
        return None if bits is None else tuple(text for bit, text in THROTTLE_REASONS.items() if bits & bit)

    def other_process_count(self) -> int | None:
        """Return how many other processes have a compute context on the device (`gpu_processes.count_others`)."""
        listed = self._ask("nvmlDeviceGetComputeRunningProcesses")
        try:
            return None if listed is None else other_processes(int(entry.pid) for entry in listed)
        except (AttributeError, TypeError, ValueError):
            return None

    # Environment -------------------------------------------------------------------------------------------------

    def facts(self) -> dict[str, Any]:
        """Return the facts of comparability: driver, limits, clocks, ECC, MIG, link. None where refused."""
        ecc = self._ask("nvmlDeviceGetEccMode")
        mig = self._ask("nvmlDeviceGetMigMode")
        cuda = self._read("cuda-version", lambda: self.library.nvmlSystemGetCudaDriverVersion())
        lock_hz = self.clock_lock_hz()
        return {
            "driver": _text(self._read("driver-version", lambda: self.library.nvmlSystemGetDriverVersion())),
            "cuda_driver": f"{cuda // 1000}.{cuda % 1000 // 10}" if isinstance(cuda, int) and cuda > 0 else None,
            "gpu_uuid": _text(self._ask("nvmlDeviceGetUUID")),
            "vbios": _text(self._ask("nvmlDeviceGetVbiosVersion")),
            "power_limit_w": _watts(self._number(_POWER_MW, "nvmlDeviceGetPowerManagementLimit")),
            "power_limit_default_w": _watts(self._number(_POWER_MW, "nvmlDeviceGetPowerManagementDefaultLimit")),
            "power_limit_enforced_w": _watts(self._number(_POWER_MW, "nvmlDeviceGetEnforcedPowerLimit")),
            "persistence": _switch(self._ask("nvmlDeviceGetPersistenceMode")),
            "clock_lock_hz": lock_hz,
            "max_clock_hz": self.max_clock_hz(),
            "ecc": _switch(ecc, 0),
            "ecc_pending": _switch(ecc, 1),
            "mig": _switch(mig, 0),
            "pcie_generation": _whole(self._number((1, 16), "nvmlDeviceGetCurrPcieLinkGeneration")),
            "pcie_generation_max": _whole(self._number((1, 16), "nvmlDeviceGetMaxPcieLinkGeneration")),
            "pcie_width": _whole(self._number((1, 64), "nvmlDeviceGetCurrPcieLinkWidth")),
            "pcie_width_max": _whole(self._number((1, 64), "nvmlDeviceGetMaxPcieLinkWidth")),
        }


def number_like_nvml(environ: MutableMapping[str, str]) -> None:
    """Let CUDA count GPUs like NVML and nvidia-smi, by PCI bus, unless the user chose an order or CUDA has started.

    CUDA's own order is by speed: on a machine with unlike GPUs, device 0 would be timed on one and its power, clock and
    throttling read from another.
    """
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        environ.setdefault(ORDER_VARIABLE, "PCI_BUS_ID")


def open_nvml_device() -> tuple[NvmlDevice | None, Finding | None]:
    """Return the first visible GPU, or why there is none. Honours CUDA_VISIBLE_DEVICES (index or UUID)."""
    try:
        import pynvml
    except ImportError:
        return None, finding("sensors-missing", package="nvidia-ml-py")
    try:
        pynvml.nvmlInit()
        visible = [part.strip() for part in os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")]
        if not visible[0] or visible[0] == "-1":
            return None, finding("sensors-absent", kind="hidden")
        if visible[0].isdecimal():
            handle = pynvml.nvmlDeviceGetHandleByIndex(int(visible[0]))
        else:
            handle = pynvml.nvmlDeviceGetHandleByUUID(visible[0])
        return NvmlDevice(pynvml, handle), None
    except Exception as error:
        return None, finding("sensors-missing", error=f"NVML: {error}")


def device_count() -> int | None:
    """Return how many GPUs the driver has, whatever CUDA_VISIBLE_DEVICES says; None where NVML does not tell."""
    try:
        import pynvml

        pynvml.nvmlInit()
        return int(pynvml.nvmlDeviceGetCount())
    except Exception:  # no package, no driver, a driver that refuses
        return None


def _within(limits: tuple[float, float], value: Any) -> float | None:
    """Return a number if a real device can report it, else None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if limits[0] <= value <= limits[1] else None


def _text(value: Any) -> str | None:
    if isinstance(value, bytes):
        value = value.decode(errors="replace")
    return value if isinstance(value, str) and value else None


def _switch(value: Any, position: int | None = None) -> bool | None:
    """Return an on/off setting; `position` picks it from a (current, pending) pair."""
    if position is not None:
        value = value[position] if isinstance(value, tuple | list) and len(value) > position else None
    return bool(value) if isinstance(value, int) and value in (0, 1) else None


def _watts(milliwatts: float | None) -> float | None:
    return None if milliwatts is None else milliwatts / 1e3


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)
