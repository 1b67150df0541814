"""NVTX ranges, the names a profiler shows and filters by. They cost nothing measurable when no profiler is attached.

torch is never imported here: a range is pushed only where a CUDA build of it is loaded already.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

CALL_RANGE = "roofline-call"
"""The range around the one call that a profiler is to look at; see `profiler_command`."""
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_MAX_CHARACTERS = 200


def range_name(text: str) -> str:
    r"""Return a name for `text` that Nsight Compute's filter takes literally.

    The filter gives @ , [ ] / * + and \ a meaning (Nsight Compute CLI manual, "NVTX Filtering") and NVTX takes ASCII.
    """
    return "roofline-" + (_UNSAFE.sub("_", text)[:_MAX_CHARACTERS].strip("_") or "case")


@contextmanager
def case_range(name: str) -> Iterator[None]:
    """Push the NVTX range of a case for the length of the `with`; does nothing where torch has no CUDA loaded."""
    with _pushed(range_name(name)):
        yield


@contextmanager
def call_range() -> Iterator[None]:
    """Push `CALL_RANGE`: what Nsight Compute profiles when it runs the command of `profiler_command`."""
    with _pushed(CALL_RANGE):
        yield


@contextmanager
def _pushed(message: str) -> Iterator[None]:
    nvtx = _nvtx()
    if nvtx is None:
        yield
        return
    nvtx.range_push(message)
    try:
        yield
    finally:
        nvtx.range_pop()


def _nvtx() -> Any:
    """Return torch.cuda.nvtx where it works: a torch without CUDA has only stubs that raise."""
    torch = sys.modules.get("torch")
    if torch is None or getattr(getattr(torch, "version", None), "cuda", None) is None:
        return None
    return getattr(torch.cuda, "nvtx", None)
