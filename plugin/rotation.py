"""Cold operands by rotation: enough distinct copies that each call finds its operands pushed out of the cache.

Rule (CUTLASS's measurement guideline, and the bug of FlashInfer issue 4468): `R · bytes ≥ 2 · cache`, and successive
calls go round all R sets. A kernel whose arguments cannot be rotated is never labelled cold.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from roofline_model.errors import UnsupportedError
from roofline_model.units import format_bytes

Arguments = tuple[Any, ...]
MakeArgs = Callable[[int], Arguments]

CACHE_MULTIPLE = 2
MAX_SETS = 20_000


@dataclass(frozen=True, slots=True)
class Rotation:
    """The operand sets of one case and what they amount to."""

    sets: tuple[Arguments, ...]
    bytes_per_set: int

    @property
    def working_set_bytes(self) -> int:
        """Bytes of all sets together."""
        return self.bytes_per_set * len(self.sets)

    def schedule(self, start: int, calls: int) -> list[Arguments]:
        """Return the arguments of `calls` successive calls, the first being call number `start`."""
        count = len(self.sets)
        return [self.sets[index % count] for index in range(start, start + calls)]

    def defeats(self, cache_bytes: float | None) -> bool:
        """Return whether going round the sets leaves nothing of a set in a cache of that size."""
        return cache_bytes is not None and self.working_set_bytes >= CACHE_MULTIPLE * cache_bytes


def sets_needed(bytes_per_set: int, cache_bytes: float | None) -> int:
    """Return how many distinct sets make a case cold; 1 when the cache is unknown or one set is already too big for it."""
    if not cache_bytes or bytes_per_set <= 0:
        return 1
    return max(1, math.ceil(CACHE_MULTIPLE * cache_bytes / bytes_per_set))


def build_rotation(make_args: MakeArgs, first: Arguments, count: int, free_bytes: float | None) -> Rotation:
    """Make the remaining sets after `first`; raises `UnsupportedError` when they would not fit in memory."""
    size = operand_bytes(first)
    if count > MAX_SETS:
        raise UnsupportedError(
            f"cold operands would need {count} copies of {format_bytes(size)}: the case is too small to be cold; measure it warm"
        )
    if free_bytes is not None and size * count > 0.5 * free_bytes:
        raise UnsupportedError(
            f"cold operands need {count} × {format_bytes(size)} = {format_bytes(size * count)}, more than half of the {format_bytes(free_bytes)} free"
        )
    return Rotation((first, *(tuple(make_args(i)) for i in range(1, count))), size)


def operand_bytes(arguments: Iterable[Any]) -> int:
    """Return the bytes of every array and tensor among the arguments, each storage once."""
    seen: dict[int, int] = {}
    for leaf in _leaves(arguments):
        size = getattr(leaf, "nbytes", None)
        if isinstance(size, int) and not isinstance(leaf, bytes | bytearray):
            seen[id(leaf)] = size
    return sum(seen.values())


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for item in value.values():
            yield from _leaves(item)
    elif isinstance(value, list | tuple | set | frozenset):
        for item in value:
            yield from _leaves(item)
    elif not isinstance(value, str | int | float | complex | bool | type(None)):
        yield value
