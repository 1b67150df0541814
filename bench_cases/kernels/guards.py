"""Why a case does not run here; the reason is stored with the skipped case.

Decided in order: shape rule, compute capability, functions of the installed torch, memory.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType

from bench_cases.kernels.spec import CaseSpec, Kernel, capability_gap
from roofline_model.chips.free_memory import free_device_bytes, free_system_bytes
from roofline_model.chips.hardware import Device
from roofline_model.core.finding import Finding, finding
from roofline_model.kernels.known_kernels import missing_unit

MEMORY_SHARE = 0.8
"""Share of the free memory that a case may plan to use."""


@dataclass(frozen=True, slots=True)
class MachineFacts:
    """Machine facts that decide which kernels run."""

    device: str
    torch_version: str
    has: Callable[[str], bool]
    """Whether torch has a function (`torch.…`) or a module is installed, by dotted name."""
    capability: tuple[int, int] | None = None
    """Compute capability of the CUDA device."""
    free_bytes: int | None = None


def skip_reason(spec: CaseSpec, facts: MachineFacts) -> Finding | None:
    """Return why the case cannot run here, or None."""
    if spec.kernel.device != facts.device:  # a simulated or replayed timer on a machine without the device
        return finding(
            "kernel-not-here", spec.kernel.name, kind="device", device=spec.kernel.device, own_device=facts.device
        )
    return (
        spec.kernel.reason_against(spec.case)
        or capability_reason(spec.kernel, facts.capability)
        or torch_reason(spec.kernel, facts)
        or memory_reason(spec, facts)
    )


def capability_reason(
    kernel: Kernel, capability: tuple[int, int] | None, hardware: str | None = None
) -> Finding | None:
    """Return why a compute capability, of a chip or else of this device, rules the kernel out, or None."""
    if capability is None:
        return None
    is_too_new = kernel.max_capability is not None and capability > kernel.max_capability
    name = f"{kernel.name} with {kernel.chosen_format}" if is_too_new else kernel.name
    return capability_gap(name, (kernel.min_capability or (0, 0), kernel.max_capability), capability, hardware)


def chip_reason(kernel: Kernel, formats: Mapping[str, str], chip: Device) -> Finding | None:
    """Return why a chip that is only predicted has no such kernel, or None: nobody may be promised what cannot run
    there. `formats`: operand → format key.

    A chip without a compute capability is held to the units that its file declares.
    """
    if kernel.device != "cuda":
        return None
    if chip.match.capability is None:
        key = formats.get("b", "")
        return missing_unit(chip, key) if formats.get("a") == key else None
    return capability_reason(kernel, chip.match.capability, chip.key)


def torch_reason(kernel: Kernel, facts: MachineFacts) -> Finding | None:
    """Return which function the installed torch lacks, or which package is not installed, or None."""
    for need in kernel.needs:
        if facts.has(need):
            continue
        if not need.startswith("torch."):
            return finding("kernel-not-here", kernel.name, kind="package", package=need)
        return finding(
            "kernel-not-here", kernel.name, kind="functions", functions=(need,), torch_version=facts.torch_version
        )
    return None


def memory_reason(spec: CaseSpec, facts: MachineFacts) -> Finding | None:
    """Return the arithmetic when preparing the case and holding two operand sets cannot fit, or None.

    How many more sets a cold case rotates through depends on the cache, and is checked where they are made.
    """
    if facts.free_bytes is None:
        return None
    preparing = spec.kernel.preparing_bytes(spec.case)
    operands = 2 * (spec.work.cost.total_read_bytes + spec.work.cost.total_write_bytes)
    needed = preparing + operands
    if needed <= MEMORY_SHARE * facts.free_bytes:
        return None
    return finding(
        "operands-exceed-memory",
        needed_bytes=needed,
        preparing_bytes=preparing,
        operand_bytes=operands,
        usable_bytes=MEMORY_SHARE * facts.free_bytes,
        free_bytes=facts.free_bytes,
    )


def read_machine_facts(device: str) -> MachineFacts:
    """Ask torch and the system. Raises nothing: what cannot be read is None."""
    import torch

    if device != "cuda":
        return MachineFacts(device, torch.__version__, _has(torch), None, free_system_bytes())
    free = free_device_bytes(torch.cuda)
    return MachineFacts(device, torch.__version__, _has(torch), torch.cuda.get_device_capability(), free)


def _has(torch: object) -> Callable[[str], bool]:
    def has(name: str) -> bool:
        first, *parts = name.split(".")
        if first != "torch":
            return importlib.util.find_spec(name) is not None
        member, path = torch, first
        for part in parts:
            path = f"{path}.{part}"
            member = getattr(member, part, None) or _submodule(path, member)
        return member is not None

    return has


def _submodule(path: str, parent: object) -> object | None:
    """Return a submodule that `import torch` does not load by itself (torch.nn.attention.flex_attention), or None."""
    if not isinstance(parent, ModuleType):
        return None
    try:
        return importlib.import_module(path)
    except ImportError:
        return None
