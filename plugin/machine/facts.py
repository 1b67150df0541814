"""Identity of this machine, read without importing torch: a GPU through NVML or the kernel's files, else the CPU."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from plugin.machine.kernel_files import cpuinfo, read_file
from plugin.sensors.nvml import open_nvml_device
from roofline_model.chips.hardware import Device, DeviceFacts, match_device
from roofline_model.core.finding import Finding, finding

_PROC_GPUS = Path("/proc/driver/nvidia/gpus")
_DEVICE_TREE_MODEL = Path("/proc/device-tree/model")
_CACHE_FOLDER = Path("/sys/devices/system/cpu/cpu0/cache")


@dataclass(frozen=True, slots=True)
class Machine:
    """The device kernels would run on here, and how it was found."""

    kind: Literal["cpu", "cuda"]
    reason: Finding
    """How the GPU was found, or why there is none."""
    cpu_name: str
    cpu_count: int
    """Logical CPUs this process may use."""
    cache_bytes: int | None
    """Last-level cache of the CPU."""
    memory_bytes: int | None
    facts: DeviceFacts | None = None
    """The GPU's own facts when kind is cuda."""
    torch_version: str | None = None
    """Installed torch, read without importing it; `+cpu` builds cannot use a GPU."""
    cpu_model: str = ""
    """Family, model, stepping and instruction sets of the CPU: one name stands for several generations."""

    @property
    def thread_count(self) -> int:
        """Threads that torch uses for one kernel on the CPU: OMP_NUM_THREADS, else every usable CPU."""
        threads_text = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
        return int(threads_text) if threads_text.isdecimal() and int(threads_text) > 0 else self.cpu_count

    def match(self) -> tuple[Device | None, Finding]:
        """Return the registry chip this machine's GPU is, and why (or why none)."""
        if self.facts is None:
            return None, self.reason
        return match_device(self.facts)


@cache
def find_machine() -> Machine:
    """Look at this machine once per process."""
    facts, reason = _find_gpu()
    return Machine(
        kind="cpu" if facts is None else "cuda",
        reason=reason,
        cpu_name=cpu_name(),
        cpu_count=usable_cpus(),
        cache_bytes=last_level_cache_bytes(),
        memory_bytes=_memory_bytes(),
        facts=facts,
        torch_version=installed_version("torch"),
        cpu_model=cpu_model(),
    )


def installed_version(package: str) -> str | None:
    """Return the version of an installed distribution without importing it."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _find_gpu() -> tuple[DeviceFacts | None, Finding]:
    device, why_not = open_nvml_device()
    if device is not None:
        name = device.name()
        if name:
            facts = DeviceFacts(name, device.compute_capability(), None, device.memory_total_bytes())
            return facts, finding("gpu-found", kind="nvml")
    why_not = why_not or finding("sensors-missing", error="no device name")
    for information in sorted(_PROC_GPUS.glob("*/information")):
        match = re.search(r"^Model:\s*(.+)$", information.read_text(errors="replace"), re.MULTILINE)
        if match:
            error = why_not.value("error")
            return DeviceFacts(match.group(1).strip()), finding("gpu-found", kind="driver-files", error=error)
    model = read_file(_DEVICE_TREE_MODEL)
    if model and "jetson" in model.lower():
        return DeviceFacts(model, memory_bytes=_memory_bytes()), finding("gpu-found", kind="device-tree")
    return None, why_not


def cpu_name() -> str:
    """Return the processor's model name as the system reports it."""
    names = (value for name, value in cpuinfo() if name in ("model name", "Model name", "Hardware", "cpu model"))
    return next(names, None) or _lscpu_name() or platform.processor() or platform.machine()


_MODEL_FACTS = (
    "cpu family",
    "model",
    "stepping",
    "flags",
    "CPU implementer",
    "CPU variant",
    "CPU part",
    "CPU revision",
    "Features",
)


def cpu_model() -> str:
    """Return what tells CPUs of one name apart, of each kind of core once; empty where the system does not say it."""
    return "; ".join(dict.fromkeys(f"{name}={value}" for name, value in cpuinfo() if name in _MODEL_FACTS))


def _lscpu_name() -> str | None:
    """Return the core types as lscpu decodes them, joined by +: 64-bit Arm kernels print part numbers only."""
    try:
        process = subprocess.run(
            ["lscpu"], capture_output=True, text=True, timeout=5, check=False, env={**os.environ, "LC_ALL": "C"}
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    names = re.findall(r"^\s*Model name:\s*(\S.*?)\s*$", process.stdout, re.MULTILINE)
    return "+".join(dict.fromkeys(name for name in names if name != "-")) or None


def usable_cpus() -> int:
    """Return how many logical CPUs this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def last_level_cache_bytes() -> int | None:
    """Return the size of the CPU's last-level cache from the kernel's files, or None where it is not told."""
    sizes = []
    for index in _CACHE_FOLDER.glob("index*"):
        level, size = read_file(index / "level"), read_file(index / "size")
        match = re.fullmatch(r"(\d+)([KMG])", size or "")
        if level and match:
            sizes.append((int(level), int(match[1]) * {"K": 1024, "M": 1024**2, "G": 1024**3}[match[2]]))
    return max(sizes)[1] if sizes else None


def _memory_bytes() -> int | None:
    match = re.search(r"^MemTotal:\s*(\d+) kB", read_file(Path("/proc/meminfo")) or "", re.MULTILINE)
    return int(match[1]) * 1024 if match else None
