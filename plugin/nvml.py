"""NVML, the driver's sensors: every reading is a number or None, never an exception.

A chip may refuse any call (GB10 reports neither memory totals nor memory clock); a refusal is remembered so that a
background sampler does not pay for it again. The module `pynvml` comes from the package nvidia-ml-py.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

FIELD_POWER_INSTANT = 186
"""NVML_FI_DEV_POWER_INSTANT, mW; nvmlDeviceGetPowerUsage is a one-second average on Ampere and later."""

THROTTLE_REASONS = {
    0x1: "idle", 0x2: "application clocks", 0x4: "power cap", 0x8: "hardware slowdown", 0x10: "sync boost",
    0x20: "software thermal", 0x40: "hardware thermal", 0x80: "hardware power brake", 0x100: "display clocks",
}  # fmt: skip


@dataclass(slots=True)
class NvmlDevice:
    """One GPU as NVML sees it."""

    library: Any
    handle: Any
    _refused: set[str] = field(default_factory=set)

    def _read(self, name: str, call: Callable[[], Any]) -> Any:
        if name in self._refused:
            return None
        try:
            return call()
        except Exception as error:  # NVMLError subclasses are made at run time; anything else is a broken driver
            transient = {
                getattr(self.library, "NVML_ERROR_TIMEOUT", 10),
                getattr(self.library, "NVML_ERROR_IN_USE", 19),
            }
            if getattr(error, "value", None) not in transient:
                self._refused.add(name)
            return None

    def name(self) -> str | None:
        """Return the product name, e.g. `NVIDIA H200`."""
        value = self._read("name", lambda: self.library.nvmlDeviceGetName(self.handle))
        return value.decode() if isinstance(value, bytes) else value

    def compute_capability(self) -> str | None:
        """Return the compute capability as text, e.g. `9.0`."""
        pair = self._read("capability", lambda: self.library.nvmlDeviceGetCudaComputeCapability(self.handle))
        return None if pair is None else f"{pair[0]}.{pair[1]}"

    def power_w(self) -> float | None:
        """Return the instantaneous board power, or the one-second average where the chip has only that."""
        instant = self._read("power-instant", self._instant_power_mw)
        milliwatts = (
            instant
            if instant is not None
            else self._read("power", lambda: self.library.nvmlDeviceGetPowerUsage(self.handle))
        )
        return None if milliwatts is None else milliwatts / 1e3

    def _instant_power_mw(self) -> int:
        value = self.library.nvmlDeviceGetFieldValues(self.handle, [FIELD_POWER_INSTANT])[0]
        if value.nvmlReturn != 0:
            raise RuntimeError("field refused")
        return int(value.value.uiVal)

    def total_energy_j(self) -> float | None:
        """Return the energy counter since the driver was loaded (Volta and later)."""
        millijoules = self._read("energy", lambda: self.library.nvmlDeviceGetTotalEnergyConsumption(self.handle))
        return None if millijoules is None else millijoules / 1e3

    def sm_clock_hz(self) -> float | None:
        """Return the current SM clock."""
        return self._clock("sm-clock", "NVML_CLOCK_SM")

    def memory_clock_hz(self) -> float | None:
        """Return the current memory clock."""
        return self._clock("memory-clock", "NVML_CLOCK_MEM")

    def _clock(self, name: str, constant: str) -> float | None:
        megahertz = self._read(
            name, lambda: self.library.nvmlDeviceGetClockInfo(self.handle, getattr(self.library, constant))
        )
        return None if megahertz is None else megahertz * 1e6

    def temperature_c(self) -> float | None:
        """Return the GPU temperature in °C."""
        value = self._read(
            "temperature",
            lambda: self.library.nvmlDeviceGetTemperature(self.handle, self.library.NVML_TEMPERATURE_GPU),
        )
        return None if value is None else float(value)

    def utilization_ratio(self) -> float | None:
        """Return the share of the last sensor period in which a kernel was running."""
        value = self._read("utilization", lambda: self.library.nvmlDeviceGetUtilizationRates(self.handle).gpu)
        return None if value is None else value / 100

    def memory_used_bytes(self) -> float | None:
        """Return the device memory in use; None on chips with unified memory."""
        value = self._read("memory", lambda: self.library.nvmlDeviceGetMemoryInfo(self.handle).used)
        return None if value is None else float(value)

    def memory_total_bytes(self) -> int | None:
        """Return the device memory in all; None on chips with unified memory."""
        value = self._read("memory", lambda: self.library.nvmlDeviceGetMemoryInfo(self.handle).total)
        return None if value is None else int(value)

    def throttle_reasons(self) -> tuple[str, ...] | None:
        """Return the active reasons for a clock below the maximum, or None where they cannot be read."""
        bits = self._read("throttle", lambda: self.library.nvmlDeviceGetCurrentClocksThrottleReasons(self.handle))
        return None if bits is None else tuple(text for bit, text in THROTTLE_REASONS.items() if bits & bit)

    def facts(self) -> dict[str, Any]:
        """Return what decides comparability: driver, VBIOS, power limit, persistence, ECC, MIG (None where refused)."""
        library, handle = self.library, self.handle
        limit = self._read("power-limit", lambda: library.nvmlDeviceGetPowerManagementLimit(handle))
        return {
            "driver": _text(self._read("driver", library.nvmlSystemGetDriverVersion)),
            "vbios": _text(self._read("vbios", lambda: library.nvmlDeviceGetVbiosVersion(handle))),
            "power_limit_w": None if limit is None else limit / 1e3,
            "persistence": self._read("persistence", lambda: bool(library.nvmlDeviceGetPersistenceMode(handle))),
            "ecc": self._read("ecc", lambda: bool(library.nvmlDeviceGetEccMode(handle)[0])),
            "mig": self._read("mig", lambda: bool(library.nvmlDeviceGetMigMode(handle)[0])),
        }


def open_nvml_device() -> tuple[NvmlDevice | None, str]:
    """Return the first visible GPU, and why there is none otherwise. Honours CUDA_VISIBLE_DEVICES (index or UUID)."""
    try:
        import pynvml
    except ImportError:
        return None, "nvidia-ml-py is not installed (pip install nvidia-ml-py)"
    try:
        pynvml.nvmlInit()
        visible = [part.strip() for part in os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")]
        if not visible[0] or visible[0] == "-1":
            return None, "CUDA_VISIBLE_DEVICES hides every GPU"
        if visible[0].isdecimal():
            handle = pynvml.nvmlDeviceGetHandleByIndex(int(visible[0]))
        else:
            handle = pynvml.nvmlDeviceGetHandleByUUID(visible[0])
        return NvmlDevice(pynvml, handle), ""
    except Exception as error:
        return None, f"NVML: {error}"


def _text(value: Any) -> str | None:
    return value.decode() if isinstance(value, bytes) else value
