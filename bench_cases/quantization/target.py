"""Target of torchao recipes: device type, compute capability, kernel packages."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from dataclasses import dataclass
from typing import TYPE_CHECKING

from roofline_model.core.errors import UnsupportedError

if TYPE_CHECKING:
    import torch

    from roofline_model.chips.hardware import Device

DEVICES = ("cpu", "cuda")
DA8W4_KERNEL = "torchao::da8w4_linear_cpu"
"""CPU kernel of INT4 weights × INT8 activations; only some builds of torchao have it."""


@dataclass(frozen=True, slots=True)
class Target:
    """A device as the choice of a recipe sees it. Make one by hand to ask what another machine would run."""

    device: str
    """cpu or cuda."""
    capability: tuple[int, int] | None = None
    """CUDA compute capability; None on a CPU."""
    packages: tuple[str, ...] = ()
    """Kernel packages and kernels found: `mslk`, `torchao::da8w4_linear_cpu`."""

    def __post_init__(self) -> None:
        if self.device not in DEVICES:
            raise UnsupportedError(
                f"no torchao recipe is known for device {self.device!r}. Known: {', '.join(DEVICES)}. Move the model "
                "there first."
            )

    def __str__(self) -> str:
        if self.capability is None:
            return self.device
        return f"{self.device} {self.capability[0]}.{self.capability[1]}"


def read_target(device: str | torch.device = "auto") -> Target:
    """Describe a device of this machine; `auto` is the first CUDA device if torch sees one, else the CPU."""
    import torch

    name = str(device)
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    device_kind = name.partition(":")[0]
    if device_kind != "cuda":
        return Target(device_kind, None, _kernels_of_torchao())
    if not torch.cuda.is_available():
        raise UnsupportedError(
            "device 'cuda' was asked for, and torch sees no CUDA device here (`roofline doctor` says why)"
        )
    packages = ("mslk",) if _has_mslk() else ()
    return Target("cuda", torch.cuda.get_device_capability(name), packages)


def target_of_chip(chip: Device) -> Target:
    """Describe the CUDA target of a chip file, without kernel packages: what would be chosen on that chip."""
    capability = chip.match.capability
    if capability is None:
        raise UnsupportedError(
            f"{chip.key} declares no CUDA compute capability: torchao recipes are known for cpu and cuda"
        )
    return Target("cuda", capability)


def _has_mslk() -> bool:
    """Whether a real mslk is installed: what registries hold under that name below 1.0 is a placeholder."""
    try:
        return int(importlib.metadata.version("mslk").partition(".")[0]) >= 1
    except (importlib.metadata.PackageNotFoundError, ValueError):
        return False


def _kernels_of_torchao() -> tuple[str, ...]:
    """Return the optional CPU kernels that the installed torchao registered; asks torch's dispatcher, not a version."""
    import torch

    if importlib.util.find_spec("torchao") is None:
        return ()
    from bench_cases.quantization.torchao_library import load_torchao

    load_torchao("choosing a recipe")
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    try:
        return (DA8W4_KERNEL,) if has_kernel(DA8W4_KERNEL, "CPU") else ()
    except RuntimeError:  # the operator is not even declared
        return ()
