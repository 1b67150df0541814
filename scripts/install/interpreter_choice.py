"""Decide which Python the project's virtual environment stands on, and which torch it gets.

Pure: probes in, a plan out. `make_venv.py` starts the interpreters, builds the environment and calls pip.
The rule behind it: on a machine with an NVIDIA GPU the torch that works is often the vendor's own build
(DGX OS, Jetson, containers), and pip must never put another one in front of it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

MODES = ("auto", "system", "cpu", "cuda")
OLDEST_PYTHON = (3, 11)
NEWEST_TESTED_PYTHON = (3, 13)
OLDEST_TESTED_TORCH = (2, 11)

_NAMES_ON_PATH = ("python3", "python3.13", "python3.12", "python3.11", "python3.14", "python")
# Where containers and cloud images keep the interpreter that carries their torch, when PATH does not name it.
_VENDOR_PATHS = (
    "/usr/bin/python3",
    "/usr/local/bin/python3",
    "/opt/conda/bin/python",
    "/opt/venv/bin/python",
    "/opt/pytorch/bin/python",
    "/venv/main/bin/python",
)
_VENDOR_PATHS_AT_HOME = ("miniforge3/bin/python", "miniconda3/bin/python", "anaconda3/bin/python")
_NVIDIA_FILES = (
    "/dev/nvidiactl",
    "/dev/nvidia0",
    "/proc/driver/nvidia/version",
    "/dev/nvhost-gpu",
    "/dev/nvgpu",
)


class ChoiceError(Exception):
    """No interpreter fits what was asked; the text is one line that says what to do."""


class Probe(NamedTuple):
    """What one interpreter said about itself."""

    path: str
    error: str = ""
    """Why it did not answer; empty when it did."""
    python: tuple[int, ...] = ()
    is_venv: bool = False
    has_ensurepip: bool = False
    has_pip: bool = False
    torch_version: str | None = None
    """None: no torch there, or nobody asked."""
    sees_gpu: bool = False
    site_folders: tuple[str, ...] = ()
    """Its own site-packages first; what stands on it needs them when it is a virtual environment itself."""
    distributions: Mapping[str, str] = {}
    """Normalized name → version of what is installed there; empty when nobody asked."""


class Plan(NamedTuple):
    """The environment to build."""

    base: Probe
    source: str
    """registry: pip installs the torch that constraints.txt pins; system: the base's own torch, as it is."""
    must_see_gpu: bool
    """Fail when the finished environment's torch sees no GPU."""
    why: str
    warning: str = ""


def candidate_paths(
    environ: Mapping[str, str], which: Callable[[str], str | None], is_file: Callable[[str], bool], venv: str
) -> list[str]:
    """Return the interpreters to ask, best first and each once.

    $PYTHON is the user's own choice, so it stands alone. `venv` is the folder about to be built: an
    interpreter inside it is no candidate, because it may be deleted on the way.
    """
    inside = os.path.join(os.path.abspath(venv), "")
    wanted_python = asked_python(environ, which)
    if wanted_python and not wanted_python.startswith(inside):
        return [wanted_python]
    active = [environ[name] for name in ("VIRTUAL_ENV", "CONDA_PREFIX") if environ.get(name)]
    home = environ.get("HOME", "")
    paths = [os.path.join(prefix, "bin", "python") for prefix in active]
    paths += [path for name in _NAMES_ON_PATH if (path := which(name))]
    paths += _VENDOR_PATHS
    paths += [os.path.join(home, path) for path in _VENDOR_PATHS_AT_HOME if home]
    return [path for path in dict.fromkeys(paths) if is_file(path) and not os.path.abspath(path).startswith(inside)]


def asked_python(environ: Mapping[str, str], which: Callable[[str], str | None]) -> str:
    """Return the absolute path of $PYTHON, the name itself when PATH does not know it, or ""."""
    wanted_python = environ.get("PYTHON", "").strip()
    if os.sep in wanted_python:
        return os.path.abspath(wanted_python)
    return (which(wanted_python) or wanted_python) if wanted_python else ""


def has_nvidia_device(exists: Callable[[str], bool], which: Callable[[str], str | None]) -> bool:
    """Say whether this machine has an NVIDIA GPU (driver files, Jetson nodes, or nvidia-smi on PATH)."""
    return any(exists(path) for path in _NVIDIA_FILES) or which("nvidia-smi") is not None


def choose_plan(mode: str, probes: Iterable[Probe], has_gpu: bool) -> Plan:
    """Choose the base interpreter and the source of torch.

    Args:
        mode: TORCH=…: "auto", "system" (the torch that is there), "cpu" or "cuda" (from the registry).
        probes: Interpreters, best first; read lazily, because asking one for its torch takes seconds.
        has_gpu: Whether the machine has an NVIDIA GPU.

    Raises:
        ChoiceError: Unknown mode, no usable Python, or TORCH=system without a torch.
    """
    if mode not in MODES:
        raise ChoiceError(f"TORCH={mode} is unknown; use one of {', '.join(MODES)}")
    wants_system = mode == "system" or (mode == "auto" and has_gpu)
    seen: list[Probe] = []
    for probe in probes:
        seen.append(probe)
        if not _is_usable(probe):
            continue
        if not wants_system:
            return _registry_plan(mode, probe, has_gpu)
        if probe.torch_version and (probe.sees_gpu or not has_gpu):
            return _system_plan(probe, has_gpu)
    return _second_best(mode, seen, has_gpu)


def _is_usable(probe: Probe) -> bool:
    return not probe.error and probe.python >= OLDEST_PYTHON and (probe.has_ensurepip or probe.has_pip)


def _registry_plan(mode: str, base: Probe, has_gpu: bool) -> Plan:
    why = {
        "cpu": "TORCH=cpu: the torch that constraints.txt pins",
        "cuda": "TORCH=cuda: the torch that constraints.txt pins, which must see the GPU",
    }.get(mode, "no NVIDIA device: the torch that constraints.txt pins")
    if mode == "auto" and has_gpu:
        why = "NVIDIA device present, but no torch here sees it: installing the one that constraints.txt pins"
    return Plan(base, "registry", mode == "cuda", why, _python_warning(base))


def _system_plan(base: Probe, has_gpu: bool) -> Plan:
    seen = "which sees the GPU" if base.sees_gpu else "as asked"
    warning = _python_warning(base)
    if release(base.torch_version or "") < OLDEST_TESTED_TORCH:
        oldest = ".".join(map(str, OLDEST_TESTED_TORCH))
        warning = f"torch {base.torch_version} is older than {oldest}, the oldest we test: kernels will be skipped"
    why = f"torch {base.torch_version} of {base.path}, {seen}; it stays as it is"
    return Plan(base, "system", has_gpu, why, warning)


def _second_best(mode: str, seen: list[Probe], has_gpu: bool) -> Plan:
    usable = [probe for probe in seen if _is_usable(probe)]
    if not usable:
        raise ChoiceError(_no_python_message(seen))
    if mode == "system":
        with_torch = [probe for probe in usable if probe.torch_version]
        if not with_torch:
            usable_paths = ", ".join(probe.path for probe in usable)
            raise ChoiceError(
                f"TORCH=system: no torch in {usable_paths}. Name the interpreter that has it: "
                "PYTHON=/path/to/python, or let pip install one: TORCH=cpu or TORCH=cuda"
            )
        # The user insists, and a torch is there: take it, say what is wrong, and measure on the CPU.
        chosen = with_torch[0]
        return _system_plan(chosen, False)._replace(
            warning=f"torch {chosen.torch_version} of {chosen.path} does not see the NVIDIA device: "
            "only the CPU will be measured"
        )
    return _registry_plan(mode, usable[0], has_gpu)


def _no_python_message(seen: list[Probe]) -> str:
    oldest = ".".join(map(str, OLDEST_PYTHON))
    if not seen:
        return f"no Python found; install Python {oldest} or newer, or name one: PYTHON=/path/to/python"
    if any(not probe.error and probe.python >= OLDEST_PYTHON for probe in seen):
        fitting = next(probe for probe in seen if not probe.error and probe.python >= OLDEST_PYTHON)
        version = ".".join(map(str, fitting.python[:2]))
        return (
            f"{fitting.path} (Python {version}) has neither ensurepip nor pip; install them "
            f"(Debian and Ubuntu: apt install python{version}-venv), or name another: PYTHON=/path/to/python"
        )
    listed = "; ".join(f"{p.path}: {p.error or 'Python ' + '.'.join(map(str, p.python))}" for p in seen)
    fix = "Install one, or name it: PYTHON=/path/to/python"
    return f"Python {oldest} or newer is needed. Found {listed}. {fix}"


def _python_warning(probe: Probe) -> str:
    if probe.python[:2] <= NEWEST_TESTED_PYTHON:
        return ""
    newest = ".".join(map(str, NEWEST_TESTED_PYTHON))
    return f"Python {'.'.join(map(str, probe.python[:2]))} is newer than {newest}, the newest we test"


def release(version: str) -> tuple[int, ...]:
    """Return major and minor of a version; vendors' builds such as 2.11.0a0+nv26.01 count as 2.11."""
    match = re.match(r"(\d+)\.(\d+)", version)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def normalized(name: str) -> str:
    """Return a distribution name as package indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def requirement_name(requirement: str) -> str:
    """Return the normalized distribution name of a requirement or constraint line."""
    match = re.match(r"\s*([A-Za-z0-9._-]+)", requirement)
    return normalized(match[1]) if match else ""


def system_constraints(pinned: str, base: Probe) -> str:
    """Return the constraint file for an environment on top of a vendor's Python.

    torch is held at the vendor's exact version. What the vendor has already is left alone (no pin), so that
    pip has no reason to put a second numpy before the one their torch was built with; the rest is pinned as
    everywhere.
    """
    lines = [f"torch=={base.torch_version}"]
    for line in pinned.splitlines():
        text = line.split("#")[0].strip()
        if text and requirement_name(text) != "torch" and requirement_name(text) not in base.distributions:
            lines.append(text)
    return "\n".join(lines) + "\n"


def requirements_without_torch(project: Mapping[str, Any], extras: Iterable[str]) -> list[str]:
    """Return what `[project]` and the named extras require, torch left out and extras of our own resolved."""
    optional: Mapping[str, list[str]] = project.get("optional-dependencies", {})
    torch: dict[str, None] = {}
    waiting = [*project["dependencies"], *(line for extra in extras for line in optional[extra])]
    while waiting:
        requirement = waiting.pop(0)
        inner = own_extras(project["name"], [requirement])
        for extra in inner:
            waiting += optional[extra]
        if not inner and requirement_name(requirement) != "torch":
            torch.setdefault(requirement)
    return list(torch)


def own_extras(project_name: str, requirements: Iterable[str]) -> list[str]:
    """Return the extras that requirements on the project itself name: `name[a,b]` gives a and b."""
    extras_named: list[str] = []
    for requirement in requirements:
        extras = re.search(r"\[([^\]]*)\]", requirement)
        if extras and requirement_name(requirement) == normalized(project_name):
            extras_named += [extra.strip() for extra in extras[1].split(",")]
    return extras_named
