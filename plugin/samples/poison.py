"""Poison for outputs: what a kernel does not write again is then found by its check.

A kernel that is silently missing from a graph leaves the last, right result behind, and a stale result passes every
check (flashinfer-bench issue 414). So outputs are overwritten in place before the checked replay.
"""

from __future__ import annotations

import sys
from typing import Any

from plugin.samples.operand_data import arrays

SENTINEL_BYTE = 0x5A
"""Every byte of a poisoned integer: 90 in int8, 0x5A5A5A5A in int32."""


def poison(outputs: Any, inputs: Any = ()) -> int:
    """Overwrite every array and tensor in the nested outputs in place; return how many were.

    Floating and complex numbers become NaN (formats without NaN: all bits set), integers `SENTINEL_BYTE`s, truth values
    are inverted. An output in memory that an input shows is left alone: overwriting it would change the question. So is
    what cannot be written to (read-only, an opaque packed layout). Neither torch nor numpy is imported.
    """
    input_memory = memories(inputs)
    poisoned: set[int] = set()
    count = 0
    for leaf in arrays(outputs):
        memory = memory_of(leaf)
        if memory is None or memory in input_memory or id(leaf) in poisoned:
            continue
        poisoned.add(id(leaf))
        count += _poison_tensor(leaf) if hasattr(leaf, "untyped_storage") else _poison_array(leaf)
    return count


def holds_poison(output: Any) -> bool:
    """Return whether a floating-point array or tensor of the output is NaN throughout: nobody has written to it."""
    for leaf in arrays(output):
        if hasattr(leaf, "untyped_storage"):
            if leaf.is_floating_point() and leaf.numel() and bool(leaf.float().isnan().all()):
                return True
        elif leaf.dtype.kind == "f" and leaf.size and bool((leaf != leaf).all()):
            return True
    return False


def memories(value: Any) -> set[tuple[str, int]]:
    """Return the memory behind all arrays and tensors of a structure."""
    return {memory for leaf in arrays(value) if (memory := memory_of(leaf)) is not None}


def memory_of(leaf: Any) -> tuple[str, int] | None:
    """Return the identity of the memory behind an array or tensor, equal for all views of it; None if it has none."""
    try:
        if hasattr(leaf, "untyped_storage"):
            address = int(leaf.untyped_storage().data_ptr())
            return (str(leaf.device), address) if address else None  # empty, or on the meta device
        while type(leaf.base) is type(leaf) or hasattr(leaf.base, "__array_interface__"):
            leaf = leaf.base
        # A tensor and its .numpy() share memory, and both are asked for its address.
        owner = leaf.base if hasattr(leaf.base, "untyped_storage") else None
        return "cpu", int(owner.untyped_storage().data_ptr()) if owner is not None else int(leaf.ctypes.data)
    except (AttributeError, NotImplementedError, RuntimeError, TypeError):
        return None


def _poison_tensor(tensor: Any) -> bool:
    torch = sys.modules["torch"]  # a tensor exists, so that torch is loaded
    try:
        # Inference mode may write to its own tensors and to others alike; outside of it the former are refused.
        with torch.inference_mode():
            target = tensor.detach()
            dtype = target.dtype
            if dtype.is_floating_point and target.element_size() == 1:
                target.view(torch.uint8).fill_(0xFF)  # NaN in E4M3, E5M2 and E8M0, whose fill_ is not everywhere
            elif dtype.is_floating_point or dtype.is_complex:
                target.fill_(float("nan"))
            elif dtype == torch.bool:
                target.logical_not_()
            else:
                target.fill_(_sentinel(target.element_size()))
    except (NotImplementedError, RuntimeError, TypeError):
        return False
    return True


def _poison_array(array: Any) -> bool:
    if not array.flags.writeable:
        return False
    dtype_kind = array.dtype.kind
    if dtype_kind in "fc":
        array[...] = float("nan")
    elif dtype_kind == "b":
        array[...] = ~array
    elif dtype_kind in "iu":
        array[...] = _sentinel(array.dtype.itemsize)
    else:  # ml_dtypes and other types of one's own: all bits set is NaN in every small float that has one
        try:
            array.view("u1")[...] = 0xFF
        except (TypeError, ValueError):
            return False
    return True


def _sentinel(size_bytes: int) -> int:
    return int.from_bytes(bytes([SENTINEL_BYTE] * size_bytes), "little")
