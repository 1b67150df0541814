"""Values worked out once for objects that cannot be keys of a dict: a `Device` holds mappings, a fit hundreds of numbers."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Kept(Generic[T]):
    """The newest values, found by the identity of what they were made from. Any number of threads may ask.

    An entry holds the objects it belongs to, so no other object can have their identity while it lasts. They must not be
    changed afterwards.
    """

    def __init__(self, most_count: int) -> None:
        self._most_count = most_count
        self._entries: dict[tuple[int, ...], tuple[tuple[object, ...], T]] = {}
        self._changing = threading.Lock()

    def of(self, objects: tuple[object, ...], make: Callable[[], T]) -> T:
        """Return the value of these very objects: the kept one, else what `make` returns. What `make` raises is raised."""
        key = tuple(map(id, objects))
        entry = self._entries.get(key)
        if entry is not None:
            return entry[1]
        value = make()
        with self._changing:
            self._entries[key] = (objects, value)
            while len(self._entries) > self._most_count:
                del self._entries[next(iter(self._entries))]
        return value
