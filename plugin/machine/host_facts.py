"""Facts of the host that move a timing: microcode, container, memory settings, environment variables.

What the CPUs are set to is in `cpu_state.py`. Read from the kernel's own files, each a value or None, never an exception. No secret can be among them: environment
variables are taken from a closed list of names, files from fixed places, images lose the place they came from.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path("/")

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
        "microcode": _cpuinfo_field("microcode", root),
        "transparent_huge_pages": _chosen(_read(root / "sys/kernel/mm/transparent_hugepage/enabled")),
        "container": container(environment, root),
        "container_image": container_image(environment, root),
        "speed_variables": speed_variables(environment) or None,
        "malloc_preload": preloaded(environment) or None,
    }


def container(environment: Mapping[str, str] = os.environ, root: Path = ROOT) -> str | None:
    """Return docker, podman, kubernetes, systemd-nspawn, lxc …, or None where no sign of a container is seen."""
    if environment.get("KUBERNETES_SERVICE_HOST"):
        return "kubernetes"
    container_name = _read(root / "run/systemd/container") or environment.get("container", "")
    if re.fullmatch(r"[a-z0-9-]{1,40}", container_name):
        return container_name
    if (root / "run/.containerenv").exists():
        return "podman"
    if (root / ".dockerenv").exists():
        return "docker"
    return "apptainer" if environment.get("APPTAINER_CONTAINER") or environment.get("SINGULARITY_CONTAINER") else None


def container_image(environment: Mapping[str, str] = os.environ, root: Path = ROOT) -> str | None:
    """Return the image's digest or its name without the registry, where the container tells; None otherwise."""
    marker = _read(root / "run/.containerenv") or ""
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
    """Return those of `SPEED_VARIABLES` that are set; a value that does not look like a setting is only said to be set."""
    variables = {name: environment[name].strip() for name in SPEED_VARIABLES if environment.get(name, "").strip()}
    return {name: value if _SETTING.fullmatch(value) else "(set)" for name, value in variables.items()}


def preloaded(environment: Mapping[str, str] = os.environ) -> list[str]:
    """Return the names of preloaded allocators and thread runtimes, without their folders."""
    names = [Path(part).name for part in re.split(r"[\s:]+", environment.get("LD_PRELOAD", "")) if part]
    return [name for name in names if _PRELOAD.search(name)]


def _cpuinfo_field(name: str, root: Path = ROOT) -> str | None:
    """Return the first value of a field of /proc/cpuinfo."""
    for line in (_read(root / "proc/cpuinfo") or "").splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip() or None
    return None


def _chosen(text: str | None) -> str | None:
    """Return the choice in brackets: `always [madvise] never` → madvise."""
    match = re.search(r"\[([a-z_]+)\]", text or "")
    return match[1] if match else None


def _read(path: Path) -> str | None:
    try:
        return path.read_text(errors="replace").strip("\0\n ") or None
    except (OSError, ValueError):
        return None
