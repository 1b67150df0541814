"""Errors of torch, torchao or transformers as one line of a message."""

from __future__ import annotations

import torch

LINE_CHARS = 160


def one_line(error: BaseException) -> str:
    """Return the first line of an error's text, of bounded length; its class's name when it has none."""
    message = (getattr(error, "strerror", None) or str(error)).strip()
    return message.splitlines()[0].strip()[:LINE_CHARS] if message else type(error).__name__


def cause_of(error: BaseException) -> str:
    """Return an error's class and first line: for code that fails in classes of no meaning of their own
    (`AssertionError`).
    """
    name, message = type(error).__name__, one_line(error)
    return name if message == name else f"{name}: {message}"


def is_memory_short(error: BaseException) -> bool:
    """Whether an error says that memory ran out: that is no fault of a layer or a file."""
    return isinstance(error, (MemoryError, torch.OutOfMemoryError)) or "allocate memory" in str(error)
