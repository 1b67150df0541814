"""Energy of CPU packages: the kernel's powercap counters (RAPL, Intel and AMD), or AMD's energy driver; as `Sensors`.

The counters are in microjoules, wrap around at `max_energy_range_uj` and are readable by root only unless opened.
Domains counted: the packages. Not counted: memory outside them (the dram domain), the whole platform (psys), and the
second, memory-mapped interface to the same packages. Source: the kernel's Documentation/power/powercap.

Unproven on hardware: the machine this was written on is a virtual one without RAPL.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from plugin.machine import cpu_state
from plugin.machine.kernel_files import ROOT, read_file
from plugin.sensors.protocol import Sensors
from plugin.timers.clock import time
from roofline_model.core.finding import Finding, finding

MIN_POWER_INTERVAL_S = 0.02
"""Power is energy over time between two readings at least this far apart; the counter updates about every
millisecond.
"""
_CPU_HEAT = ("coretemp", "k10temp", "zenpower", "cpu_thermal")
_CPU_ZONES = ("x86_pkg_temp", "cpu-thermal", "cpu_thermal", "soc-thermal", "CPU-therm")


@dataclass(slots=True)
class _Counter:
    """One package's counter, unwrapped."""

    path: Path
    range_uj: int | None
    last_uj: int | None = None
    total_uj: int = 0

    def read_uj(self) -> int | None:
        """Return the energy since the first reading, or None where it cannot be read or a wrap cannot be undone."""
        now_uj = _number(self.path)
        if now_uj is None:
            return None
        if self.last_uj is not None:
            gained_uj = now_uj - self.last_uj
            if (
                gained_uj < 0
            ):  # wrapped around; once at most, or it was read too seldom (1 min at 1 kW in the worst case)
                if self.range_uj is None or now_uj > self.range_uj:
                    self.last_uj = now_uj
                    return None
                gained_uj += self.range_uj + 1
            self.total_uj += gained_uj
        self.last_uj = now_uj
        return self.total_uj


class CpuSensors(Sensors):
    """`Sensors` of the CPU packages. Power is derived from the energy counter, so it cannot check it.

    There is no SM and no device memory; `cpu_state` tells the frequency, `LoadWatch` the load of others.
    """

    scope = "cpu-package"
    counter_source = "rapl"
    samples_source = "rapl"
    power_is_derived = True
    reading_period_s = 0.1
    """For a background sampler: it runs on the CPUs that are measured, so it must cost nothing worth mentioning."""

    def __init__(self, counters: list[tuple[Path, int | None]], root: Path = ROOT) -> None:
        self._root = root
        self._counters = [_Counter(path, range_uj) for path, range_uj in counters]
        self._lock = threading.Lock()
        self._heat_paths = _heat_paths(root)
        self._power_from: tuple[float, float] | None = None
        self._power_w: float | None = None

    def total_energy_j(self) -> float | None:
        """Return the energy of all packages since the first reading."""
        with self._lock:  # a sampler and its owner both read
            return self._energy_j()

    def _energy_j(self) -> float | None:
        values = [counter.read_uj() for counter in self._counters]
        readings = [value for value in values if value is not None]
        return sum(readings) / 1e6 if readings and len(readings) == len(values) else None

    def power_w(self) -> float | None:
        """Return the mean power since the last reading 20 ms ago or earlier; None at the first."""
        with self._lock:
            energy_j, now_s = self._energy_j(), time.perf_counter()
            if energy_j is None:
                self._power_from, self._power_w = None, None
            elif self._power_from is None or energy_j < self._power_from[1]:
                self._power_from = (now_s, energy_j)
            elif now_s - self._power_from[0] >= MIN_POWER_INTERVAL_S:
                self._power_w = (energy_j - self._power_from[1]) / (now_s - self._power_from[0])
                self._power_from = (now_s, energy_j)
            return self._power_w

    def temperature_c(self) -> float | None:
        """Return the hottest reading of the CPU's own sensors, in °C."""
        readings = [_number(path) for path in self._heat_paths]
        return max((value / 1e3 for value in readings if value is not None and 0 < value < 200_000), default=None)

    def throttle_s(self) -> Mapping[str, float] | None:
        """Return the seconds for which a container's quota or heat held our CPUs back."""
        return cpu_state.throttle_s(self._root)


def open_cpu_sensors(root: Path = ROOT) -> tuple[CpuSensors | None, Finding | None]:
    """Return the CPU's sensors, and why they give no energy (None where they do).

    Without readable counters the sensors still tell throttling, frequency and temperature; None only where the system
    has no such files at all.
    """
    counters, reason = _find_counters(root)
    if not counters and not (root / "proc/stat").exists():
        return None, finding("sensors-absent", kind="cpu-of-linux")
    return CpuSensors(counters, root), reason


def _find_counters(root: Path) -> tuple[list[tuple[Path, int | None]], Finding | None]:
    """Return (counter file, range) of each package, and why there is none."""
    powercap = root / "sys/class/powercap"
    find_counters = []
    for folder in sorted(powercap.glob("intel-rapl:*")):
        is_package = (read_file(folder / "name") or "").startswith("package")
        if is_package and (folder / "energy_uj").exists():
            find_counters.append((folder / "energy_uj", _number(folder / "max_energy_range_uj")))
    if not find_counters:
        find_counters = _amd_energy(root)
    if not find_counters:
        return [], finding("sensors-absent", kind="cpu-energy")
    if any(_number(path) is None for path, _ in find_counters):
        return [], finding("cpu-energy-unreadable")
    return find_counters, None


def _amd_energy(root: Path) -> list[tuple[Path, int | None]]:
    """Return the socket counters of the amd_energy driver (64-bit accumulated: they do not wrap)."""
    zones: list[tuple[Path, int | None]] = []
    for folder in sorted((root / "sys/class/hwmon").glob("hwmon*")):
        if read_file(folder / "name") == "amd_energy":
            labels = [
                path for path in sorted(folder.glob("energy*_label")) if (read_file(path) or "").startswith("Esocket")
            ]
            zones.extend((label.with_name(label.name.replace("_label", "_input")), None) for label in labels)
    return zones


def _heat_paths(root: Path) -> list[Path]:
    """Return the files of the CPU's own temperature sensors: hwmon's, else the thermal zones'."""
    drivers = [
        folder for folder in (root / "sys/class/hwmon").glob("hwmon*") if read_file(folder / "name") in _CPU_HEAT
    ]
    paths = [path for folder in drivers for path in sorted(folder.glob("temp*_input"))]
    zones = sorted((root / "sys/class/thermal").glob("thermal_zone*"))
    return paths or [zone / "temp" for zone in zones if read_file(zone / "type") in _CPU_ZONES]


def _number(path: Path) -> int | None:
    text = read_file(path)
    try:
        return None if text is None else int(text)
    except ValueError:
        return None
