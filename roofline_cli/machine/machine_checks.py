"""The checks of `roofline doctor`. Each looks, never changes anything, and says how to mend what is wrong."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from roofline_cli.machine.packages import EXTRAS, PURPOSES, install_command, installed_packages, installed_version
from roofline_cli.shared.database import reading, shown_target
from roofline_model.core.errors import OldSchemaError, RooflineError, StoreError
from roofline_model.core.finding import short_text
from roofline_model.core.units import counted, format_bandwidth, format_bytes, format_memory

if TYPE_CHECKING:
    from plugin.machine.facts import Machine

State = Literal["ok", "info", "warn", "error"]

CUDA_TORCH_COMMAND = "pip install --force-reinstall torch"
"""On Linux the default build of torch is the CUDA one (x86-64 and aarch64); a `+cpu` build was chosen explicitly."""

_ASK_TORCH = "import torch; print(torch.cuda.is_available(), torch.version.cuda, torch.cuda.device_count())"


@dataclass(frozen=True, slots=True)
class Check:
    """One thing looked at. error: broken, warn: something useful is missing, info: only said."""

    name: str
    status: State
    detail: str
    fix: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the check as JSON values."""
        return asdict(self)


def run_checks(database: str | None, timeout_s: float) -> list[Check]:
    """Look at everything; importing torch is left to a subprocess and only done where an NVIDIA device is present."""
    from plugin.machine.facts import find_machine
    from roofline_cli.machine.state_checks import state_checks

    machine = find_machine()
    return [
        *_system(machine),
        *(_extra(extra) for extra in EXTRAS),
        _device(machine),
        _torch(machine, timeout_s),
        _chip(machine),
        *state_checks(machine),
        _database(database),
        _compiler(),
        _triton(machine),
    ]


def _system(machine: Machine) -> list[Check]:
    is_linux = sys.platform.startswith("linux")
    cache = f", last-level cache {_both_units(machine.cache_bytes)}" if machine.cache_bytes else ""
    python_ok = sys.version_info >= (3, 11)
    return [
        Check(
            "system",
            "ok" if is_linux else "warn",
            f"{_distribution_name()}, {platform.machine()}, kernel {platform.release()}",
            "" if is_linux else "measuring is made for Linux; predictions and reports work anywhere",
        ),
        Check("cpu", "ok", f"{machine.cpu_name}, {counted(machine.cpu_count, 'thread')} usable{cache}"),
        Check(
            "memory",
            "ok",
            _both_units(machine.memory_bytes) if machine.memory_bytes else "size not reported by the system",
        ),
        Check(
            "python",
            "ok" if python_ok else "error",
            f"{platform.python_version()} ({sys.executable})",
            "" if python_ok else "roofline-bench needs Python 3.11 or newer",
        ),
    ]


def _both_units(size_bytes: int) -> str:
    """Return a size in GB, as everywhere, and in GiB as systems report it: `16.77 GB (15.6 GiB)`."""
    return f"{format_memory(size_bytes)} ({format_bytes(size_bytes)})"


def _extra(extra: str) -> Check:
    packages = installed_packages(extra)
    usable, lacking = (
        ", ".join(package.label for package in packages if package.is_usable is state) for state in (True, False)
    )
    if not lacking:
        return Check(f"extra {extra}" if extra != "core" else "core", "ok", usable)
    status: State = "error" if extra == "core" else "warn"
    return Check(
        f"extra {extra}" if extra != "core" else "core",
        status,
        f"{lacking}; installed: {usable}" if usable else lacking,
        f"for {PURPOSES[extra]}: {install_command(extra)}",
    )


def _device(machine: Machine) -> Check:
    if machine.facts is not None:
        facts = machine.facts
        parts = [facts.name]
        parts += [f"compute capability {facts.compute_capability}"] if facts.compute_capability else []
        parts += [format_memory(facts.memory_bytes)] if facts.memory_bytes else []
        return Check("nvidia device", "ok", f"{', '.join(parts)}; {short_text(machine.reason)}")
    nodes = sorted(str(node) for node in Path("/dev").glob("nvidia*"))
    if nodes:
        return Check(
            "nvidia device",
            "warn",
            f"device files exist ({', '.join(nodes[:3])}), but no GPU answers: {short_text(machine.reason)}",
            "check the driver with nvidia-smi; the NVML binding is in nvidia-ml-py: " + install_command("measure"),
        )
    return Check("nvidia device", "info", f"none ({short_text(machine.reason)}); kernels run on the CPU")


def _torch(machine: Machine, timeout_s: float) -> Check:
    version = installed_version("torch")
    if version is None:
        return Check("torch", "warn", "not installed: predictions work, measuring does not", install_command("measure"))
    if machine.kind != "cuda":
        return Check("torch", "ok", f"{version}, for this CPU")
    if version.endswith("+cpu"):
        return Check("torch", "error", f"{version} has no CUDA, but an NVIDIA device is present", CUDA_TORCH_COMMAND)
    return _torch_sees_gpu(version, timeout_s)


def _torch_sees_gpu(version: str, timeout_s: float) -> Check:
    """Ask torch in a process of its own: importing it takes seconds, and a broken driver can hang it."""
    try:
        answer = subprocess.run(
            [sys.executable, "-c", _ASK_TORCH], capture_output=True, text=True, timeout=timeout_s, check=False
        )
    except subprocess.TimeoutExpired:
        return Check(
            "torch", "error", f"{version} did not answer within {timeout_s:g} s", "check the driver with nvidia-smi"
        )
    if answer.returncode != 0:
        lines = answer.stderr.strip().splitlines()
        return Check(
            "torch",
            "error",
            f"{version} cannot be imported: {lines[-1] if lines else 'no message'}",
            CUDA_TORCH_COMMAND,
        )
    is_available, cuda, count = (answer.stdout.split() + ["?"] * 3)[:3]
    if is_available == "True":
        return Check("torch", "ok", f"{version}, CUDA {cuda}, sees {count} GPU")
    if cuda == "None":
        return Check("torch", "error", f"{version} has no CUDA, but an NVIDIA device is present", CUDA_TORCH_COMMAND)
    return Check(
        "torch",
        "error",
        f"{version} is built for CUDA {cuda}, but finds no GPU",
        "the driver may be older than that CUDA: compare with nvidia-smi",
    )


def _chip(machine: Machine) -> Check:
    if machine.kind == "cuda":
        chip, why = machine.match()
        if chip is None:
            return Check(
                "chip",
                "warn",
                short_text(why),
                "describe it in a TOML file (start: `roofline hardware show gb10 --toml`) and pass --hw FILE.toml",
            )
        return Check("chip", "ok", f"{chip.key}: {short_text(why)}")
    from plugin.calibrate.cpu_calibration import cached_cpu_device

    profile = cached_cpu_device(machine)
    if profile is None:
        return Check(
            "chip",
            "info",
            "this CPU; its ceilings have not been measured yet: the first measuring run does it",
            "measure it: roofline calibrate",
        )

    return Check("chip", "ok", f"{profile.key}: measured here, {format_bandwidth(profile.bandwidth.value)}")


def _database(target: str | None) -> Check:
    """Say where results go, whether they can be written there, and what is there already."""

    try:
        shown, path = shown_target(target)
    except StoreError as error:
        return Check("database", "error", str(error))
    if path is None:
        return _existing_database(target, shown, path)
    try:
        path.stat()
        return _existing_database(target, shown, path)
    except (FileNotFoundError, NotADirectoryError):
        folder = next(parent for parent in path.absolute().parents if parent.exists())
    except OSError as error:
        why = f"{shown} cannot be opened: {error.strerror}"
        return Check("database", "error", why, "choose another place with --db or ROOFLINE_DB")
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        return Check(
            "database",
            "error",
            f"{shown} cannot be created: {folder} is not writable",
            "choose another place with --db or ROOFLINE_DB",
        )
    return Check("database", "ok", f"{shown} (not there yet; the first run creates it)")


def _existing_database(target: str | None, shown: str, path: Path | None) -> Check:
    try:
        with reading(target) as store:
            detail = f"{shown}, schema {store.schema_version()}, {counted(len(store.runs()), 'run')}"
    except OldSchemaError:
        return Check(
            "database", "warn", f"{shown} is of an older version; reports cannot read it yet", "roofline db upgrade"
        )
    except RooflineError as error:
        return Check("database", "error", str(error))
    if path is not None and not os.access(path, os.W_OK):
        return Check(
            "database",
            "error",
            f"{detail}, but it is read-only",
            "make it writable, or choose another place with --db or ROOFLINE_DB",
        )
    return Check("database", "ok", detail)


def _compiler() -> Check:
    compiler = shutil.which("g++") or shutil.which("c++")
    if compiler is None:
        return Check("g++", "info", "not found: torch.compile kernels are skipped", "apt-get install g++")
    return Check("g++", "ok", compiler)


def _triton(machine: Machine) -> Check:
    version = installed_version("triton")
    if version is not None:
        return Check("triton", "ok", version)
    needed = machine.kind == "cuda"
    return Check(
        "triton", "info", f"not installed: Triton kernels are skipped{'' if needed else ' (they need a GPU anyway)'}"
    )


def _distribution_name() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", platform.system())
    except OSError:
        return platform.system()
