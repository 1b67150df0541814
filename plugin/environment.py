"""The machine and software of a run, captured once: everything as facts, and the subset that decides comparability."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import plugin
from plugin.machine import Machine, installed_version
from plugin.nvml import open_nvml_device
from results.records import EnvironmentInfo

_PACKAGES = (
    "torch",
    "torchao",
    "triton",
    "transformers",
    "numpy",
    "pytest",
    "pytest-benchmark",
    "nvidia-ml-py",
)
# A different kernel release or hostname does not make two results incomparable; these do.
_CLASS_FACTS = (
    "device",
    "cpu",
    "cpu_count",
    "torch",
    "torchao",
    "triton",
    "driver",
    "power_limit_w",
    "ecc",
    "mig",
    "governor",
    "threads",
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
        "governor": _read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "threads": machine.thread_count,
        "load_1min": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "container": "container" if Path("/.dockerenv").exists() or Path("/run/.containerenv").exists() else None,
    }
    facts.update({name: installed_version(name) for name in _PACKAGES})
    if device == "cuda":
        nvml, _ = open_nvml_device()
        facts.update(nvml.facts() if nvml else {})
        facts["compute_capability"] = machine.facts.compute_capability if machine.facts else None
        facts["cuda_visible_devices"] = os.environ.get("CUDA_VISIBLE_DEVICES")
    return EnvironmentInfo(
        facts=facts, class_facts={name: facts[name] for name in _CLASS_FACTS if facts.get(name) is not None}
    )


def git_state(folder: Path) -> tuple[str | None, str | None, bool | None]:
    """Return (commit, branch, dirty) of the checkout around `folder`, all None outside one or without git."""
    commit = _git(folder, "rev-parse", "HEAD")
    if commit is None:
        return None, None, None
    branch = _git(folder, "rev-parse", "--abbrev-ref", "HEAD")
    status = _git(folder, "status", "--porcelain", "--untracked-files=no")
    return commit, None if branch == "HEAD" else branch, None if status is None else bool(status)


def command_line() -> str:
    """Return the command of this process, without the path of the interpreter's scripts."""
    return " ".join([Path(sys.argv[0]).name, *sys.argv[1:]])[:4000]


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


def _read(path: str) -> str | None:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return None
