"""What an error of torch, torchao or transformers says, in a line of a message of this project."""

from __future__ import annotations

import torch

LINE_CHARS = 160


def one_line(error: BaseException) -> str:
    """Return the first line of an error's text, of bounded length; its class's name when it has none."""
    said = (getattr(error, "strerror", None) or str(error)).strip()
    return said.splitlines()[0].strip()[:LINE_CHARS] if said else type(error).__name__


def cause_of(error: BaseException) -> str:
    """Return an error's class and first line: for code that fails in classes of no meaning of their own (`AssertionError`)."""
    name, said = type(error).__name__, one_line(error)
    return name if said == name else f"{name}: {said}"


def is_memory_short(error: BaseException) -> bool:
    """Whether an error says that memory ran out: that is no fault of a layer or a file."""
    return isinstance(error, (MemoryError, torch.OutOfMemoryError)) or "allocate memory" in str(error)
