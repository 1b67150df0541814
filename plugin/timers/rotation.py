"""Cold operands by rotation: enough distinct copies that each call finds its operands pushed out of the cache.

Rule (CUTLASS's measurement guideline, and the bug of FlashInfer issue 4468): `R · bytes ≥ 2 · cache`, and successive
calls go round all R sets. A kernel whose arguments cannot be rotated is never labelled cold.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from roofline_model.core.errors import UnsupportedError
from roofline_model.core.units import format_memory

Arguments = tuple[Any, ...]
MakeArgs = Callable[[int], Arguments]

CACHE_MULTIPLE = 2
MAX_SETS = 20_000
_OF_ROWS, _OF_COLUMNS = ("crow_indices", "col_indices", "values"), ("ccol_indices", "row_indices", "values")
_SPARSE_PARTS = {
    "coo": ("_indices", "_values"),
    "csr": _OF_ROWS,
    "bsr": _OF_ROWS,
    "csc": _OF_COLUMNS,
    "bsc": _OF_COLUMNS,
}
"""What a sparse tensor of torch consists of, by its layout."""


@dataclass(frozen=True, slots=True)
class Rotation:
    """The operand sets of one case and what they amount to."""

    sets: tuple[Arguments, ...]

    @property
    def working_set_bytes(self) -> int:
        """Bytes of all sets together, memory that sets share counted once: a rotation over one tensor is no
        rotation.
        """
        return operand_bytes(self.sets)

    def schedule(self, start: int, calls: int) -> list[Arguments]:
        """Return the arguments of `calls` successive calls, the first being call number `start`."""
        count = len(self.sets)
        return [self.sets[index % count] for index in range(start, start + calls)]

    def defeats(self, cache_bytes: float | None) -> bool:
        """Return whether going round the sets leaves nothing of a set in a cache of that size."""
        return cache_bytes is not None and self.working_set_bytes >= CACHE_MULTIPLE * cache_bytes


def sets_needed(bytes_per_set: int, cache_bytes: float | None) -> int:
    """Return how many distinct sets make a case cold; 1 when the cache is unknown or one set is already too big for
    it.
    """
    if not cache_bytes or bytes_per_set <= 0:
        return 1
    return max(1, math.ceil(CACHE_MULTIPLE * cache_bytes / bytes_per_set))


def build_rotation(make_args: MakeArgs, first: Arguments, count: int, free_bytes: float | None) -> Rotation:
    """Make the remaining sets after `first`; raises `UnsupportedError` when they would not fit in memory."""
    size = operand_bytes(first)
    if count > MAX_SETS:
        raise UnsupportedError(
            f"cold operands would need {count} copies of {format_memory(size)}: the case is too small to be cold; "
            "measure it warm"
        )
    if free_bytes is not None and size * count > 0.5 * free_bytes:
        raise UnsupportedError(
            f"cold operands need {count} × {format_memory(size)} = {format_memory(size * count)}, more than half of "
            f"the {format_memory(free_bytes)} free"
        )
    return Rotation((first, *(tuple(make_args(i)) for i in range(1, count))))


def operand_bytes(arguments: Iterable[Any]) -> int:
    """Return the bytes of memory behind every array and tensor among the arguments, each piece of memory once."""
    total, end = 0, 0
    for low, high in sorted(filter(None, map(_interval, _leaves(arguments)))):
        total += max(0, high - max(low, end))
        end = max(end, high)
    return total


def _interval(leaf: Any) -> tuple[int, int] | None:
    """Return the first and the past-the-last address that an array or tensor shows, or None for anything else.

    An expanded tensor spans only what it stands on; a strided view spans the gaps too, as its cache lines do.
    """
    size = getattr(leaf, "nbytes", None)
    if not isinstance(size, int) or size == 0 or isinstance(leaf, bytes | bytearray):
        return None
    try:
        if hasattr(leaf, "data_ptr"):  # a torch tensor, without importing torch
            step_bytes = [step * leaf.element_size() for step in leaf.stride()]
            address, item_bytes = leaf.data_ptr(), leaf.element_size()
        else:
            address, item_bytes, step_bytes = leaf.__array_interface__["data"][0], leaf.itemsize, leaf.strides
        reach = [(count - 1) * step for count, step in zip(leaf.shape, step_bytes, strict=True)]
        return address + sum(min(0, r) for r in reach), address + sum(max(0, r) for r in reach) + item_bytes
    except (
        AttributeError,
        RuntimeError,
        TypeError,
        ValueError,
    ):  # packed in a layout of its own: it has no address to ask for
        return id(leaf), id(leaf) + size


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for item in value.values():
            yield from _leaves(item)
    elif isinstance(value, list | tuple | set | frozenset):
        for item in value:
            yield from _leaves(item)
    elif str(getattr(value, "layout", "")).startswith("torch.sparse"):
        # A sparse tensor has no memory of its own, but that of its indices and values.
        for name in _SPARSE_PARTS[str(value.layout).removeprefix("torch.sparse_")]:
            yield getattr(value, name)()
    elif not isinstance(value, str | int | float | complex | bool | type(None)):
        yield value
