"""How many cases of a grid are tested: all of them by `make test-full`, an even sample by `make test`."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TypeVar

T = TypeVar("T")
FULL = bool(os.environ.get("ROOFLINE_FULL"))  # set by `make test-full`


def sampled(cases: Iterable[T], count: int) -> list[T]:
    """Return `count` cases at even distances, the first among them; all of them where everything is tested."""
    every = list(cases)
    return every if FULL or len(every) <= count else [every[place * len(every) // count] for place in range(count)]
