"""The machine and software of a run, captured once: everything as facts, and the subset that decides comparability.

Two results are compared over time only where their *class* is equal: the facts below, each of which changes the time of an
unchanged kernel. A class must be the same for two runs on an unchanged machine, so nothing volatile may be in it.

==========================  =========================================================================================
in the class                why
==========================  =========================================================================================
device, cpu, cpu_count,     the hardware, and how much of it kernels use (OMP_NUM_THREADS is in threads)
threads, cpu_quota_ratio,
numa_node_count
hypervisor, microcode       both change memory latency and system calls; a microcode update can cost per cent. Inside a
                            virtual machine the number is the host's invention, and hosts of one farm differ: left out
governor, boost, smt,       the CPU's clock and who shares a core with us
energy_preference,
cpu_max_clock_hz
transparent_huge_pages,     page size and allocator move every kernel that touches fresh memory
malloc_preload
torch, torch_build,         the kernels themselves
torchao, triton,
kernel_libraries,
cuda_runtime, cublas,
cudnn, cusparselt
driver, vbios,              the GPU's firmware, and the limits that it works under. A lock by `nvidia-smi -lgc` shows
power_limit_w,              only under load, so it is a fact and not in the class: the canary and the clock of each
application_clock_hz,       sample tell it
ecc, mig
speed_variables             `host_facts.SPEED_VARIABLES` that are set, without OMP_NUM_THREADS
==========================  =========================================================================================

Facts that are not in the class: host, kernel release, container and image, Python and its packages, memory size, persistence
mode (it moves first calls only), PCIe link, the load of the moment; the commit, because it is what is being compared; the
plugin's and the method's version, which a history key carries on its own.
"""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import plugin
from plugin.machine.cpu_state import cpu_facts
from plugin.machine.facts import Machine
from plugin.machine.host_facts import host_facts
from plugin.machine.software_facts import software_facts
from plugin.sensors.nvml import open_nvml_device
from results.records.records import EnvironmentInfo
from results.store.target import mask_passwords

_COMMAND_CHARACTERS = 4000
_CLASS_FACTS = (
    "device",
    "cpu",
    "cpu_count",
    "threads",
    "cpu_quota_ratio",
    "numa_node_count",
    "hypervisor",
    "microcode",
    "governor",
    "boost",
    "smt",
    "energy_preference",
    "cpu_max_clock_hz",
    "transparent_huge_pages",
    "malloc_preload",
    "torch",
    "torch_build",
    "torchao",
    "triton",
    "kernel_libraries",
    "cuda_runtime",
    "cublas",
    "cudnn",
    "cusparselt",
    "driver",
    "vbios",
    "power_limit_w",
    "application_clock_hz",
    "ecc",
    "mig",
)


def capture_environment(machine: Machine, device: str) -> EnvironmentInfo:
    """Return the facts of this machine and process. `device` is where kernels run, cpu or cuda."""
    facts: dict[str, Any] = {
        "device": machine.facts.name if device == "cuda" and machine.facts else machine.cpu_name,
        "cpu": machine.cpu_name,
        "cpu_count": machine.cpu_count,
        "cpu_cache_bytes": machine.cache_bytes,
        "memory_bytes": machine.memory_bytes,
        "host": platform.node(),
        "os": platform.platform(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "plugin_version": plugin.__version__,
        "method_version": plugin.METHOD_VERSION,
        "threads": machine.thread_count,
        "load_1min": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        **cpu_facts(),
        **host_facts(),
        **software_facts(),
    }
    if device == "cuda":
        facts.update(_gpu_facts(machine))
    return EnvironmentInfo(facts=facts, class_facts=class_facts(facts))


def class_facts(facts: dict[str, Any]) -> dict[str, Any]:
    """Return the facts that decide comparability; unknown ones are left out, so that learning a new fact is a change."""
    chosen = {name: facts[name] for name in _CLASS_FACTS if facts.get(name) is not None}
    if "hypervisor" in chosen:
        chosen.pop("microcode", None)
    # The number of threads is a fact of its own: asking for what torch does by itself changes nothing.
    variables = {
        name: value for name, value in (facts.get("speed_variables") or {}).items() if name != "OMP_NUM_THREADS"
    }
    return chosen | ({"speed_variables": variables} if variables else {})


def _gpu_facts(machine: Machine) -> dict[str, Any]:
    nvml, _ = open_nvml_device()
    return {
        **(nvml.facts() | {"application_clock_hz": nvml.application_clock_hz()} if nvml else {}),
        "compute_capability": machine.facts.compute_capability if machine.facts else None,
        "cuda_visible_devices": os.environ.get("CUDA_VISIBLE_DEVICES"),
    }


def git_state(folder: Path) -> tuple[str | None, str | None, bool | None]:
    """Return (commit, branch, dirty) of the checkout around `folder`, all None outside one or without git."""
    commit = _git(folder, "rev-parse", "HEAD")
    if commit is None:
        return None, None, None
    branch = _git(folder, "rev-parse", "--abbrev-ref", "HEAD")
    status = _git(folder, "status", "--porcelain", "--untracked-files=no")
    return commit, None if branch == "HEAD" else branch, None if status is None else bool(status)


def command_line() -> str:
    """Return the command of this process, quoted so that a shell takes it again; at most `_COMMAND_CHARACTERS` of it.

    Without the path of the interpreter's scripts and without a URL's password. `python -m pytest` is `pytest`; another
    module is `python -m NAME`.
    """
    program = Path(sys.argv[0])
    words = [program.name]
    if program.name == "__main__.py":
        words = ["pytest"] if program.parent.name == "pytest" else ["python", "-m", program.parent.name]
    return shlex.join([*words, *map(mask_passwords, sys.argv[1:])])[:_COMMAND_CHARACTERS]


def _git(folder: Path, *arguments: str) -> str | None:
    if shutil.which("git") is None:
        return None
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=5, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
