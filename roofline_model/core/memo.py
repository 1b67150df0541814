"""Memoised values of objects that cannot be keys of a dict: a `Device` holds mappings, a fit hundreds of numbers."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Memo(Generic[T]):
    """The newest values, keyed by the identity of the objects they were made from. Safe in threads.

    An entry holds its objects, so that no other object can have their identity while it lasts. They must not be changed
    afterwards.
    """

    def __init__(self, max_count: int) -> None:
        self._max_count = max_count
        self._entries: dict[tuple[int, ...], tuple[tuple[object, ...], T]] = {}
        self._changing = threading.Lock()

    def of(self, objects: tuple[object, ...], make: Callable[[], T]) -> T:
        """Return the stored value of these very objects, else what `make` returns; raises what `make` raises."""
        key = tuple(map(id, objects))
        entry = self._entries.get(key)
        if entry is not None:
            return entry[1]
        value = make()
        with self._changing:
            self._entries[key] = (objects, value)
            while len(self._entries) > self._max_count:
                del self._entries[next(iter(self._entries))]
        return value
