"""Versions of the software that runs kernels, read from package metadata and torch's version file: nothing is imported."""

from __future__ import annotations

import re
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

from plugin.machine.facts import installed_version

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
    """Return what torch was built for (`cpu`, `cu130`, `rocm6.4`), from which commit, and its CPU libraries once loaded.

    Read from torch/version.py as text: importing torch takes two seconds. The libraries (MKL, oneDNN, OpenBLAS) are known
    to the loaded torch only, so they are None in a process that has not imported it.
    """
    text = _version_file()
    cuda, rocm, commit = (_assigned(text, name) for name in ("cuda", "hip", "git_version"))
    kind = None if not text else "cpu"
    if cuda:
        kind = "cu" + cuda.replace(".", "")
    elif rocm:
        kind = f"rocm{rocm}"
    return {"torch_build": kind, "torch_commit": commit, "torch_cuda": cuda, "blas": _loaded_blas()}


def _version_file() -> str:
    """Return torch/version.py of the installed distribution, else of a torch on the path without one (a source tree)."""
    try:
        files = [Path(str(metadata.distribution("torch").locate_file("torch/version.py")))]
    except metadata.PackageNotFoundError:
        files = [Path(place) / "torch/version.py" for place in sys.path if place]
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
        "MKL": r"Math Kernel Library Version (\S+)",
        "oneDNN": r"MKL-DNN v(\S+)",
        "OpenBLAS": r"OpenBLAS (\d\S*)",
    }
    loaded_blas = [f"{name} {match[1]}" for name, pattern in patterns.items() if (match := re.search(pattern, text))]
    kind = re.search(r"BLAS_INFO=(\w+)", text)
    return ", ".join([*([f"BLAS {kind[1]}"] if kind else []), *loaded_blas]) or None
