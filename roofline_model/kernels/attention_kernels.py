"""The catalog of attention kernels: name, versions, the chips that run each, and the model that answers for it there.

Two kinds of model answer (`expected/attention/predict.py`). `trtllm` is fitted to measured calls of TensorRT-LLM's
attention module, per chip. `fa1` … `fa4` are the analytical models of the FlashAttention kernels: work counted, a few
constants from published rates. cuDNN and FlashInfer have no model of their own: the model of the kernel they run, or of
the one that is written with the same matrix instruction, stands in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from roofline_model.chips.hardware import Device
from roofline_model.core.errors import UnknownNameError

Capability = tuple[int, int]

FITTED_MODEL = "trtllm"
FLASH_MODELS = ("fa1", "fa2", "fa3", "fa4")


@dataclass(frozen=True, slots=True)
class ChipRange:
    """Chips that run a kernel, by compute capability, and the model that answers for it on them."""

    lowest: Capability
    highest: Capability | None
    """Last compute capability; None: any newer one."""
    model: str
    """`FITTED_MODEL` or one of `FLASH_MODELS`."""

    def has(self, capability: Capability) -> bool:
        """Return whether a compute capability is in the range."""
        return self.lowest <= capability and (self.highest is None or capability <= self.highest)


@dataclass(frozen=True, slots=True)
class AttentionKernel:
    """One library's attention kernel: name, compute capabilities, source."""

    key: str
    """What a user types: `fa3`."""
    name: str
    versions: str
    """The releases that source and model speak of."""
    ranges: tuple[ChipRange, ...]
    """Oldest chips first."""
    source: str
    aliases: tuple[str, ...] = ()
    runs_elsewhere: bool = False
    """Whether GPUs of other vendors run a kernel of its class, too."""

    @property
    def has_own_model(self) -> bool:
        """Whether its model was made from this very kernel; else that of another one stands in."""
        return {chips.model for chips in self.ranges} == {self.key}

    def model_for(self, capability: Capability) -> str | None:
        """Return the model that answers on chips of a compute capability; None where the kernel does not run."""
        return next((chips.model for chips in self.ranges if chips.has(capability)), None)

    def model_on(self, device: Device) -> str | None:
        """Return the model that answers on a chip; None where the kernel does not run.

        A placeholder or custom chip does not say what it lacks: it runs every kernel, by the model of its compute
        capability where it states one, else by the first.
        """
        capability = device.match.capability
        here = None if capability is None else self.model_for(capability)
        if device.is_placeholder or device.kind == "custom":
            return here or self.ranges[0].model
        if device.kind == "cpu":
            return None
        if device.vendor != "nvidia":
            return self.ranges[0].model if self.runs_elsewhere else None
        return here


_DATA_CENTRE_BLACKWELL: tuple[Capability, Capability] = ((10, 0), (10, 9))
_FLASH_REPOSITORY = "Dao-AILab/flash-attention"

_CATALOG = (
    AttentionKernel(
        "trtllm",
        "TensorRT-LLM",
        "1.0.0 (A100) and 1.3.0rc20",
        (ChipRange((8, 0), None, FITTED_MODEL),),
        source="8,900 measured calls of its attention module (aiconfigurator tables, Apache-2.0)",
        aliases=("tensorrt-llm",),
    ),
    AttentionKernel(
        "fa1",
        "FlashAttention-1",
        "1.0.9",
        (ChipRange((7, 5), None, "fa1"),),
        f"arXiv:2205.14135; {_FLASH_REPOSITORY} v1.0.9",
    ),
    AttentionKernel(
        "fa2",
        "FlashAttention-2",
        "2.x",
        (ChipRange((8, 0), None, "fa2"),),
        f"arXiv:2307.08691; {_FLASH_REPOSITORY} csrc/flash_attn; README: ROCm through Composable Kernel or Triton",
        runs_elsewhere=True,
    ),
    AttentionKernel(
        "fa3",
        "FlashAttention-3",
        "hopper/",
        (ChipRange((9, 0), (9, 9), "fa3"),),
        f"arXiv:2407.08608; {_FLASH_REPOSITORY} hopper/",
    ),
    AttentionKernel(
        "fa4",
        "FlashAttention-4",
        "flash_attn/cute, tcgen05 kernels",
        (ChipRange((10, 0), (11, 9), "fa4"),),
        f"arXiv:2603.05451; {_FLASH_REPOSITORY} flash_attn/cute",
    ),
    AttentionKernel(
        "cudnn",
        "cuDNN",
        "9.x",
        (
            ChipRange((8, 0), (8, 9), "fa2"),
            ChipRange((9, 0), (9, 9), "fa3"),
            ChipRange(*_DATA_CENTRE_BLACKWELL, "fa4"),
            ChipRange((12, 0), None, "fa2"),
        ),
        "docs.nvidia.com/cudnn, operations/Attention, support matrix of 9.18.1: compute capability 8.0 on, "
        "FlashAttention-2's "
        "algorithm; the instruction is that of each generation",
    ),
    AttentionKernel(
        "flashinfer",
        "FlashInfer",
        "0.6",
        (
            ChipRange((8, 0), (8, 9), "fa2"),
            ChipRange((9, 0), (9, 9), "fa3"),
            ChipRange(*_DATA_CENTRE_BLACKWELL, FITTED_MODEL),
            ChipRange((12, 0), None, "fa2"),
        ),
        source=(
            "flashinfer-python 0.6, backends FlashAttention-2/3, cuDNN, CUTLASS and TensorRT-LLM; vLLM 0.24 on B200 "
            "calls its TensorRT-LLM kernels"
        ),
    ),
)

ATTENTION_KERNELS: Mapping[str, AttentionKernel] = MappingProxyType({kernel.key: kernel for kernel in _CATALOG})
"""Key → kernel."""
DEFAULT_KERNEL = "trtllm"
"""Whose time the expected time of attention is where no kernel is named."""


def newest_flash(capability: Capability) -> str | None:
    """Return the newest FlashAttention that runs on a compute capability; None where none does."""
    return next((key for key in reversed(FLASH_MODELS) if ATTENTION_KERNELS[key].model_for(capability)), None)


def find_attention_kernel(name: str) -> AttentionKernel:
    """Return the kernel of a key or alias, in any case. Raises `UnknownNameError` with the known ones.

    >>> find_attention_kernel("FA3").name
    'FlashAttention-3'
    """
    wanted = name.strip().lower()
    for kernel in ATTENTION_KERNELS.values():
        if wanted == kernel.key or wanted in kernel.aliases:
            return kernel
    raise UnknownNameError("attention kernel", name, ATTENTION_KERNELS)
