"""Which processor the packed weights of a saved model are for, and whether this machine has it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from roofline_model.core.errors import DefinitionError, UnsupportedError

_CPU, _CUDA, _ANY = "cpu", "cuda", "any"
_PACKED_KINDS = {"Int4OpaqueTensor": _CPU, "Int4TilePackedTo4dTensor": _CUDA}
"""Tensor class → the kind of processor whose kernels alone read it."""


def packed_for(model: nn.Module) -> str:
    """Return the processor that opaque weights are packed for (`cpu AVX512`, `cuda`), or `any` when none is packed.

    torch packs CPU INT4 in blocks whose size depends on the vector unit, so the same bytes mean other weights
    elsewhere. Tried with torch 2.13: one weight packed under ATEN_CPU_CAPABILITY default, avx2 and avx512 gives three
    different results.
    """
    device_kinds = _kinds(model.parameters())
    return _this_cpu() if _CPU in device_kinds else _CUDA if _CUDA in device_kinds else _ANY


def refuse_other_packing(described: Mapping[str, Any], folder: Path) -> None:
    """Raise `UnsupportedError` when a folder's weights are packed for a processor this machine does not have.

    A report that does not say for which, or names an unknown one, is a `DefinitionError`.
    """
    saved_for = described.get("packed_for")
    if not isinstance(saved_for, str) or (saved_for not in (_ANY, _CUDA) and not saved_for.startswith(f"{_CPU} ")):
        raise DefinitionError(
            f"{folder} says packed_for {str(saved_for)[:60]!r}; known are 'any', 'cuda' and 'cpu' with its vector "
            "unit: save the model again"
        )
    if saved_for.startswith(f"{_CPU} ") and saved_for != _this_cpu():
        raise UnsupportedError(
            f"{folder} is packed for {saved_for}, this machine is {_this_cpu()}: the packed bytes would mean other "
            "weights; quantise the 16-bit model here"
        )
    if saved_for == _CUDA and not torch.cuda.is_available():
        raise UnsupportedError(
            f"{folder} is packed for CUDA tensor cores, and torch sees no CUDA device here: quantise the 16-bit model "
            "here"
        )


def refuse_untold_packing(described: Mapping[str, Any], values: Iterable[Tensor], folder: Path) -> None:
    """Raise `DefinitionError` when a folder holds packed weights that its report does not speak of."""
    packed_on = str(described["packed_for"]).partition(" ")[0]
    untold = _kinds(values) - {packed_on}
    if untold:
        raise DefinitionError(
            f"{folder} holds weights packed for {' and '.join(sorted(untold))}, its report says {packed_on}: save the "
            "model again"
        )


def _kinds(values: Iterable[Tensor]) -> set[str]:
    return {_PACKED_KINDS[name] for value in values if (name := type(value).__name__) in _PACKED_KINDS}


def _this_cpu() -> str:
    return f"{_CPU} {torch.backends.cpu.get_cpu_capability()}"
