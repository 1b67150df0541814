"""Arrays and tensors of any library in place: compared as they are, copied, and changed for a moment.

Torch is never imported here. `leaves` reads them as numbers of numpy instead.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from plugin.samples.leaves import raw_leaves

PLAIN_PACKAGES = ("builtins", "numpy", "torch", "ml_dtypes")
"""Whose numbers, arrays and tensors hold their values when they are returned."""


def is_array(leaf: Any) -> bool:
    """Whether a leaf is a tensor or an array, with memory of its own or another's."""
    return hasattr(leaf, "untyped_storage") or hasattr(leaf, "__array_interface__")


def arrays(value: Any) -> Iterator[Any]:
    """Yield the arrays and tensors of a structure."""
    return filter(is_array, raw_leaves(value))


def is_plain(leaf: Any) -> bool:
    """Whether a leaf holds its values already: not a promise, nor a tensor whose class computes when it is read.

    A class that switches `__torch_function__` off, as PyTorch's own Parameter does, computes nothing.
    """
    kind = type(leaf)
    if kind.__module__.partition(".")[0] in PLAIN_PACKAGES:
        return True
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(leaf, torch.Tensor):
        return False
    hooks = {"__torch_dispatch__", "__torch_function__", "detach", "numpy"}
    switched_off = torch._C._disabled_torch_function_impl
    return not any(
        name in hooks and hook is not switched_off
        for base in kind.__mro__[: kind.__mro__.index(torch.Tensor)]
        for name, hook in vars(base).items()
    )


def copied(value: Any) -> Any:
    """Return a nested structure with copies of its arrays and tensors, anything else as it is."""
    if isinstance(value, dict):
        return {key: copied(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [copied(item) for item in value]
    if hasattr(value, "untyped_storage"):
        return value.detach().clone()
    return value.copy() if hasattr(value, "__array_interface__") else value


def is_same(first: Any, second: Any, pick: Callable[[Any], Any] = lambda leaf: leaf) -> bool:
    """Whether two structures hold equal values, or equal ones in the part of each leaf that `pick` returns."""
    ours, theirs = list(raw_leaves(first)), list(raw_leaves(second))
    if len(ours) != len(theirs):
        return False
    try:
        return all(_is_leaf_same(a, b, pick) for a, b in zip(ours, theirs, strict=True))
    except (NotImplementedError, RuntimeError, TypeError, ValueError):  # a layout or type that cannot be compared
        return False


def _is_leaf_same(a: Any, b: Any, pick: Callable[[Any], Any]) -> bool:
    if not is_array(a) or not is_array(b):
        return type(a) is type(b) and bool(a == b)
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    first, second = pick(a), pick(b)
    if hasattr(first, "untyped_storage"):
        return bool(sys.modules["torch"].equal(first, second))
    return bool((first == second).all())


def is_close(
    first: Any, second: Any, tolerance: float, pick: Callable[[Any], Any], *, of_typical: bool = False
) -> bool:
    """Whether the picked floating-point numbers of two structures differ by at most `tolerance` of themselves, or of
    their mean size where that is more.
    """
    if tolerance <= 0:
        return False
    try:
        for a, b in zip(raw_leaves(first), raw_leaves(second), strict=True):
            if not is_array(a) or not is_array(b) or a.shape != b.shape:
                return False
            ours, theirs = wide(pick(a)), wide(pick(b))
            if ours is None or theirs is None:
                return False
            size = abs(theirs)
            allowed = tolerance * (size.clip(size.mean()) if of_typical else size)
            if not bool((abs(ours - theirs) <= allowed).all()):
                return False
    except (NotImplementedError, RuntimeError, TypeError, ValueError):
        return False
    return True


def wide(leaf: Any) -> Any:
    """Return a floating-point leaf in 64 bits; None for another."""
    if hasattr(leaf, "untyped_storage"):
        return leaf.double() if leaf.is_floating_point() else None
    return leaf.astype("f8") if leaf.dtype.kind == "f" else None


def spread(leaf: Any, count: int, at: float) -> Any:
    """Return about `count` numbers of a leaf, evenly apart, the first by `at` (0 to 1) of the distance in.

    A view where the memory is in one piece; else some of its first dimension.
    """
    size = int(leaf.numel()) if hasattr(leaf, "untyped_storage") else int(leaf.size)
    step = size // count
    if step < 2:
        return leaf
    is_whole = leaf.is_contiguous() if hasattr(leaf, "untyped_storage") else leaf.flags.c_contiguous
    if is_whole:
        return leaf.reshape(-1)[int(at * step) :: step]
    rows = max(1, count * len(leaf) // size)
    first = int(at * (len(leaf) - rows + 1))
    return leaf[first : first + rows]


@contextmanager
def changed(block: Any, *, is_reversed: bool) -> Iterator[bool]:
    """Halve every number of a block of an array in place, and reverse their order too; the block is as it was after.

    Yields whether it was changed. Halving leaves a contract whole wherever the scale does not matter to it: signs,
    ranges of indices into something else, definiteness and zeros stay.
    """
    with _writing(block):
        original = copied(block)
        try:
            is_changed = _halve(block, is_reversed)
        except (NotImplementedError, RuntimeError, TypeError, ValueError):
            is_changed = False
    try:
        yield is_changed
    finally:
        with _writing(block):
            overwrite(block, original)


def _halve(block: Any, is_reversed: bool) -> bool:
    is_tensor = hasattr(block, "untyped_storage")
    target = block.detach() if is_tensor else block
    if is_reversed and target.shape:
        overwrite(
            target,
            target.flip(tuple(range(target.dim())))
            if is_tensor
            else target[(slice(None, None, -1),) * target.ndim].copy(),
        )
    if is_tensor:
        if target.element_size() == 1 and target.is_floating_point():
            target.copy_((target.float() * 0.5).to(target.dtype))
        elif target.is_floating_point() or target.is_complex():
            target.mul_(0.5)
        else:
            target.copy_(target >> 1)
    elif target.dtype.kind in "iu":
        target >>= 1
    else:
        target[...] = (target * 0.5).astype(target.dtype)
    return True


def is_data(leaf: Any) -> bool:
    """Whether the numbers of an array are data that may be changed: no offsets or indices, and not read-only."""
    if hasattr(leaf, "untyped_storage"):
        names_ok = leaf.is_floating_point() or leaf.is_complex() or str(leaf.dtype) in ("torch.int8", "torch.uint8")
        return bool(names_ok) and str(leaf.layout) == "torch.strided" and leaf.numel() > 0
    kind, size = leaf.dtype.kind, leaf.dtype.itemsize
    return bool(leaf.flags.writeable) and leaf.size > 0 and (kind in "fcV" or (kind in "iu" and size == 1))


def block_of(leaf: Any, most_bytes: float, at: float) -> Any:
    """Return a view of successive rows of an array that take at most so many bytes, the first at `at` (0 to 1)."""
    if not leaf.shape or leaf.nbytes <= most_bytes:
        return leaf[...]
    count = len(leaf)
    rows = max(1, math.floor(count * most_bytes / leaf.nbytes))
    first = int(at * (count - rows + 1))
    return leaf[first : first + rows]


def overwrite(target: Any, values: Any) -> None:
    """Copy an array's values into another of the same shape."""
    if hasattr(target, "untyped_storage"):
        target.detach().copy_(values)
    else:
        target[...] = values


@contextmanager
def _writing(leaf: Any) -> Iterator[None]:
    """Inference mode may write to its own tensors and to others alike; outside of it the former are refused."""
    if hasattr(leaf, "untyped_storage"):
        with sys.modules["torch"].inference_mode():
            yield
    else:
        yield


def fill(target: Any, values: Any) -> None:
    """Copy a structure's values into the arrays of another of the same shape, where they can be written to."""
    for leaf, value in zip(raw_leaves(target), raw_leaves(values), strict=True):
        if is_array(leaf) and (hasattr(leaf, "untyped_storage") or leaf.flags.writeable):
            with _writing(leaf), suppress(NotImplementedError, RuntimeError, TypeError):  # a packed layout of its own
                overwrite(leaf, value)
