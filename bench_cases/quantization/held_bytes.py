"""Bytes that tensors really hold, packed tensor subclasses included."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from torch import Tensor, nn


def inner_tensors(tensor: Tensor) -> Iterator[Tensor]:
    """Yield the plain tensors a tensor is made of: itself, or the data of a subclass (codes, scales, zero points)."""
    flatten = getattr(tensor, "__tensor_flatten__", None)
    if flatten is None:
        yield tensor
        return
    names, _ = flatten()
    for name in names:
        yield from inner_tensors(getattr(tensor, name))


def held_bytes(tensors: Iterable[Tensor]) -> int:
    """Return the bytes of memory that the tensors occupy together; memory they share counts once.

    Counts: each plain tensor's elements, or its whole storage if that is less (an expanded scale).
    """
    seen: dict[tuple[object, int, int], int] = {}
    for tensor in tensors:
        for part in inner_tensors(tensor):
            size_bytes = min(part.numel() * part.element_size(), part.untyped_storage().nbytes())
            seen[part.device, part.data_ptr(), size_bytes] = size_bytes
    return sum(seen.values())


def model_bytes(model: nn.Module) -> int:
    """Return the bytes of a model's parameters and buffers; tied weights count once."""
    return held_bytes([*model.parameters(), *model.buffers()])
