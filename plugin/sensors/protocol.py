"""Sensor interface of a device, implemented by NVML, a CPU's files and the simulated device.

Every reading is a number or None, never an exception: a chip may refuse any of them, and a class leaves out what its
devices do not have.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class Sensors(Protocol):
    """Sensors of one device (a GPU, or a CPU package)."""

    @property
    def scope(self) -> str:
        """Scope of power and energy: gpu, module, cpu-package."""
        return "gpu"

    def power_w(self) -> float | None:
        """Return the instantaneous power."""
        return None

    def total_energy_j(self) -> float | None:
        """Return the energy used since some fixed moment; the counter steps (about every 20–100 ms on NVIDIA)."""
        return None

    def sm_clock_hz(self) -> float | None:
        """Return the current SM clock; None on a CPU."""
        return None

    def memory_clock_hz(self) -> float | None:
        """Return the current memory clock."""
        return None

    def rated_clock_hz(self) -> float | None:
        """Return the SM clock the chip should hold: the lock where one is set, else that of sustained load."""
        return None

    def temperature_c(self) -> float | None:
        """Return the temperature in °C."""
        return None

    def utilization_ratio(self) -> float | None:
        """Return the share of the last sensor period in which a kernel ran."""
        return None

    def memory_used_bytes(self) -> float | None:
        """Return the device memory in use."""
        return None

    def throttle_s(self) -> Mapping[str, float] | None:
        """Return the cumulative seconds per throttle reason since the driver was loaded, or None where unreadable."""
        return None

    def throttle_reasons(self) -> tuple[str, ...] | None:
        """Return the reasons active now for a clock below the maximum, or None where they cannot be read."""
        return None

    def other_process_count(self) -> int | None:
        """Return how many other processes have a compute context on the device."""
        return None


READINGS = tuple(name for name in vars(Sensors) if name[0] != "_" and name != "scope")
"""Names of all readings."""
