"""The machine and software of a run, captured once: everything as facts, and the subset that decides comparability.

Two results are compared over time only where their *class* is equal: the facts below, each of which changes the time of
an unchanged kernel. A class must be the same for two runs on an unchanged machine, so nothing volatile may be in it.

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
speed_variables             `SPEED_VARIABLES` that are set, without OMP_NUM_THREADS
==========================  =========================================================================================

Facts that are not in the class: host, kernel release, container and image, Python and its packages, memory size,
persistence mode (it moves first calls only), PCIe link, the load of the moment; the commit, because it is what is being
compared; the plugin's and the method's version, which a history key carries on its own.

Facts of the host come from the kernel's files, versions of software from package metadata and torch's version file:
nothing is imported, and each is a value or None, never an exception. No secret can be among them: environment variables
are taken from a closed list of names, files from fixed places, images lose the place they came from.
"""

from __future__ import annotations

import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import plugin
from plugin.machine.cpu_state import cpu_facts
from plugin.machine.facts import Machine, installed_version
from plugin.machine.kernel_files import ROOT, cpuinfo, read_file
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
    """Return the facts that decide comparability; unknown ones are left out, so that learning a new fact is a
    change.
    """
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
    command = [program.name]
    if program.name == "__main__.py":
        command = ["pytest"] if program.parent.name == "pytest" else ["python", "-m", program.parent.name]
    return shlex.join([*command, *map(mask_passwords, sys.argv[1:])])[:_COMMAND_CHARACTERS]


def _git(folder: Path, *arguments: str) -> str | None:
    if shutil.which("git") is None:
        return None
    try:
        process = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=5, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return process.stdout.strip() if process.returncode == 0 else None


SPEED_VARIABLES = (
    "OMP_NUM_THREADS",
    "OMP_PROC_BIND",
    "OMP_PLACES",
    "OMP_SCHEDULE",
    "OMP_DYNAMIC",
    "OMP_WAIT_POLICY",
    "OMP_THREAD_LIMIT",
    "OMP_MAX_ACTIVE_LEVELS",
    "GOMP_CPU_AFFINITY",
    "GOMP_SPINCOUNT",
    "KMP_AFFINITY",
    "KMP_BLOCKTIME",
    "KMP_HW_SUBSET",
    "MKL_NUM_THREADS",
    "MKL_DYNAMIC",
    "MKL_ENABLE_INSTRUCTIONS",
    "MKL_DEBUG_CPU_TYPE",
    "MKL_THREADING_LAYER",
    "MKL_CBWR",
    "OPENBLAS_NUM_THREADS",
    "OPENBLAS_CORETYPE",
    "ONEDNN_MAX_CPU_ISA",
    "DNNL_MAX_CPU_ISA",
    "ONEDNN_CPU_ISA_HINTS",
    "ONEDNN_DEFAULT_FPMATH_MODE",
    "ONEDNN_PRIMITIVE_CACHE_CAPACITY",
    "ATEN_CPU_CAPABILITY",
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
    "TORCH_BLAS_PREFER_CUBLASLT",
    "TORCHDYNAMO_DISABLE",
    "TORCHINDUCTOR_MAX_AUTOTUNE",
    "TORCHINDUCTOR_COORDINATE_DESCENT_TUNING",
    "TORCHINDUCTOR_FREEZING",
    "PYTORCH_CUDA_ALLOC_CONF",
    "PYTORCH_ALLOC_CONF",
    "PYTORCH_NO_CUDA_MEMORY_CACHING",
    "CUBLAS_WORKSPACE_CONFIG",
    "CUBLASLT_WORKSPACE_SIZE",
    "NVIDIA_TF32_OVERRIDE",
    "CUDA_LAUNCH_BLOCKING",
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_MODULE_LOADING",
    "CUDA_FORCE_PTX_JIT",
    "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE",
    "MALLOC_CONF",
    "MALLOC_ARENA_MAX",
    "MALLOC_TOP_PAD_",
    "MALLOC_TRIM_THRESHOLD_",
    "MALLOC_MMAP_THRESHOLD_",
    "GLIBC_TUNABLES",
)
"""The only environment variables that are ever stored: each changes how fast the same kernel runs."""

_IMAGE_VARIABLES = (
    "CONTAINER_IMAGE",
    "CONTAINER_IMAGE_DIGEST",
    "IMAGE_DIGEST",
    "APPTAINER_CONTAINER",
    "SINGULARITY_CONTAINER",
)
_PRELOAD = re.compile(r"malloc|[gik]omp|libomp", re.IGNORECASE)
_SETTING = re.compile(r"[A-Za-z0-9_.,:;=+*/{}\[\]()<>-]{1,200}")


def host_facts(environment: Mapping[str, str] = os.environ, root: Path = ROOT) -> dict[str, Any]:
    """Return everything this module knows; None where the host does not tell."""
    return {
        "microcode": next((value for name, value in cpuinfo(root) if name == "microcode"), None),
        "transparent_huge_pages": _chosen(read_file(root / "sys/kernel/mm/transparent_hugepage/enabled")),
        "container": container(environment, root),
        "container_image": container_image(environment, root),
        "speed_variables": speed_variables(environment) or None,
        "malloc_preload": preloaded(environment) or None,
    }


def container(environment: Mapping[str, str] = os.environ, root: Path = ROOT) -> str | None:
    """Return docker, podman, kubernetes, systemd-nspawn, lxc …, or None where no sign of a container is seen."""
    if environment.get("KUBERNETES_SERVICE_HOST"):
        return "kubernetes"
    container_name = read_file(root / "run/systemd/container") or environment.get("container", "")
    if re.fullmatch(r"[a-z0-9-]{1,40}", container_name):
        return container_name
    if (root / "run/.containerenv").exists():
        return "podman"
    if (root / ".dockerenv").exists():
        return "docker"
    return "apptainer" if environment.get("APPTAINER_CONTAINER") or environment.get("SINGULARITY_CONTAINER") else None


def container_image(environment: Mapping[str, str] = os.environ, root: Path = ROOT) -> str | None:
    """Return the image's digest or its name without the registry, where the container tells; None otherwise."""
    marker = read_file(root / "run/.containerenv") or ""
    images = [
        match[1] for key in ("imageid", "image") if (match := re.search(rf'^{key}="([^"]+)"', marker, re.MULTILINE))
    ]
    images += [environment[name] for name in _IMAGE_VARIABLES if environment.get(name)]
    for text in images:
        name = text.strip().rpartition("/")[2]
        if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._:@-]{0,199}", name):
            return name
    return None


def speed_variables(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the `SPEED_VARIABLES` that are set; any other value is only recorded as set."""
    variables = {name: environment[name].strip() for name in SPEED_VARIABLES if environment.get(name, "").strip()}
    return {name: value if _SETTING.fullmatch(value) else "(set)" for name, value in variables.items()}


def preloaded(environment: Mapping[str, str] = os.environ) -> list[str]:
    """Return the names of preloaded allocators and thread runtimes, without their folders."""
    names = [Path(part).name for part in re.split(r"[\s:]+", environment.get("LD_PRELOAD", "")) if part]
    return [name for name in names if _PRELOAD.search(name)]


def _chosen(text: str | None) -> str | None:
    """Return the choice in brackets: `always [madvise] never` → madvise."""
    match = re.search(r"\[([a-z_]+)\]", text or "")
    return match[1] if match else None


PACKAGES = (
    "torch",
    "torchao",
    "triton",
    "transformers",
    "numpy",
    "pytest",
    "pytest-benchmark",
    "nvidia-ml-py",
    "cupti-python",
)

KERNEL_LIBRARIES = (
    "flash-attn",
    "flash-attn-3",
    "flashinfer-python",
    "nvidia-cutlass",
    "nvidia-cutlass-dsl",
    "xformers",
    "vllm",
    "deep-gemm",
    "sgl-kernel",
    "transformer-engine",
    "bitsandbytes",
    "fbgemm-gpu",
    "intel-extension-for-pytorch",
    "mkl",
    "intel-openmp",
)
"""Distributions whose kernels a case may run."""

_CUDA_COMPONENTS = {
    "cuda_runtime": ("nvidia-cuda-runtime", "nvidia-cuda-runtime-cu13", "nvidia-cuda-runtime-cu12"),
    "cublas": ("nvidia-cublas", "nvidia-cublas-cu13", "nvidia-cublas-cu12"),
    "cudnn": ("nvidia-cudnn-cu13", "nvidia-cudnn-cu12", "nvidia-cudnn"),
    "cusparselt": ("nvidia-cusparselt-cu13", "nvidia-cusparselt-cu12", "nvidia-cusparselt"),
}
"""Component → the wheels that carry it. A vendor's torch brings its own and has none of them."""


def software_facts() -> dict[str, Any]:
    """Return every version, None where it is not installed."""
    libraries = {name: version for name in KERNEL_LIBRARIES if (version := installed_version(name))}
    return {
        **{name: installed_version(name) for name in PACKAGES},
        **torch_build(),
        **{
            component: next((version for wheel in wheels if (version := installed_version(wheel))), None)
            for component, wheels in _CUDA_COMPONENTS.items()
        },
        "kernel_libraries": libraries or None,
    }


def torch_build() -> dict[str, str | None]:
    """Return the build of torch (`cpu`, `cu130`, `rocm6.4`), its commit, and its CPU libraries once loaded.

    Read from torch/version.py as text: importing torch takes two seconds. The libraries (MKL, oneDNN, OpenBLAS) are
    known to the loaded torch only, so they are None in a process that has not imported it.
    """
    text = _version_file()
    cuda, rocm, commit = (_assigned(text, name) for name in ("cuda", "hip", "git_version"))
    backend = None if not text else "cpu"
    if cuda:
        backend = "cu" + cuda.replace(".", "")
    elif rocm:
        backend = f"rocm{rocm}"
    return {"torch_build": backend, "torch_commit": commit, "torch_cuda": cuda, "blas": _loaded_blas()}


def _version_file() -> str:
    """Return torch/version.py of the installed distribution, else of a torch on the path without one (a source
    tree).
    """
    try:
        files = [Path(str(metadata.distribution("torch").locate_file("torch/version.py")))]
    except metadata.PackageNotFoundError:
        files = [Path(search_path) / "torch/version.py" for search_path in sys.path if search_path]
    for file in files:
        try:
            return file.read_text(encoding="utf-8")
        except (OSError, ValueError):
            continue
    return ""


def _assigned(text: str, name: str) -> str | None:
    match = re.search(rf"^{name}\b[^=\n]*=\s*['\"]([^'\"]+)['\"]", text, re.MULTILINE)
    return match[1] if match else None


def _loaded_blas() -> str | None:
    """Return the math libraries that the loaded torch names, in one line."""
    torch = sys.modules.get("torch")
    try:
        text = str(torch.__config__.show()) if torch is not None else ""
    except Exception:  # a torch that is half loaded, or somebody's replacement of it
        return None
    patterns = {
        "MKL": re.compile(r"Math Kernel Library Version (\S+)"),
        "oneDNN": re.compile(r"MKL-DNN v(\S+)"),
        "OpenBLAS": re.compile(r"OpenBLAS (\d\S*)"),
    }
    loaded_blas = [f"{name} {match[1]}" for name, pattern in patterns.items() if (match := pattern.search(text))]
    blas_match = re.search(r"BLAS_INFO=(\w+)", text)
    return ", ".join([*([f"BLAS {blas_match[1]}"] if blas_match else []), *loaded_blas]) or None
