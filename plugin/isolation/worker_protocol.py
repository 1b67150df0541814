"""Protocol between a worker and pytest's own process: JSON messages prefixed by their length, over two pipes.

Each message is an object with a `kind`. From the worker, each with the `test` it runs: hello, ready, declared, record,
canary, canary-times, flag, report, warning, note, internal-error, done. To the worker: start, times, run, stop. Records
travel as export documents do (`results.records.plain_form`), reports and warnings in the form pytest and xdist give
them.
"""

from __future__ import annotations

import importlib
import json
import os
import struct
import warnings
from typing import Any

import pytest

Message = dict[str, Any]

_LENGTH = struct.Struct(">I")
MAX_MESSAGE_BYTES = 512 * 1024 * 1024
"""A longer one is garbage that was written into the pipe."""


class ProtocolError(Exception):
    """Raised for bytes on the pipe that are no message of this protocol."""


def encode(message: Message) -> bytes:
    """Return the bytes of a message. A value JSON does not know (a user's property) becomes its text."""
    body = json.dumps(message, default=_text_of).encode("ascii")
    return _LENGTH.pack(len(body)) + body


def send(descriptor: int, message: Message) -> None:
    """Write a message whole. Raises `OSError` when nobody reads any more."""
    unsent = memoryview(encode(message))
    while unsent:
        unsent = unsent[os.write(descriptor, unsent) :]


def receive(descriptor: int) -> Message | None:
    """Wait for the next message; None when the other side is gone. Reads no byte beyond it."""
    head = _read_exactly(descriptor, _LENGTH.size)
    if head is None:
        return None
    body = _read_exactly(descriptor, _LENGTH.unpack(head)[0])
    return None if body is None else _decode(body)


def _read_exactly(descriptor: int, count: int) -> bytes | None:
    parts: list[bytes] = []
    while count:
        part = os.read(descriptor, min(count, 1 << 20))
        if not part:
            return None
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


class MessageBuffer:
    """Bytes as they arrive on one side, whole messages out on the other."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def feed(self, data: bytes) -> list[Message]:
        """Take what was read and return the messages that are whole now. Raises `ProtocolError` for garbage."""
        self._bytes += data
        messages = []
        while len(self._bytes) >= _LENGTH.size:
            length = _LENGTH.unpack_from(self._bytes)[0]
            if length > MAX_MESSAGE_BYTES:
                raise ProtocolError("something else was written into the worker's pipe")
            end = _LENGTH.size + length
            if len(self._bytes) < end:
                break
            body = bytes(self._bytes[_LENGTH.size : end])
            del self._bytes[:end]
            messages.append(_decode(body))
        return messages


def _decode(body: bytes) -> Message:
    try:
        message = json.loads(body)
    except (ValueError, RecursionError):
        raise ProtocolError("something else was written into the worker's pipe") from None
    if not isinstance(message, dict) or not isinstance(message.get("kind"), str):
        raise ProtocolError("something else was written into the worker's pipe")
    return message


def _text_of(value: Any) -> str:
    try:
        return repr(value)[:1000]
    except Exception:
        return f"<{type(value).__name__} that cannot be shown>"


def report_from(config: pytest.Config, plain: dict[str, Any]) -> Any:
    """Return the test report that `pytest_report_to_serializable` made `plain` of, with the tuples that JSON lost."""
    plain = dict(plain)
    if isinstance(plain.get("longrepr"), list):  # a skip's (path, line, reason)
        plain["longrepr"] = tuple(plain["longrepr"])
    if plain.get("location") is not None:
        plain["location"] = tuple(plain["location"])
    for name in ("sections", "user_properties"):
        plain[name] = [tuple(pair) for pair in plain.get(name) or ()]
    report = config.hook.pytest_report_from_serializable(config=config, data=plain)
    if report is None:
        raise ProtocolError("the worker sent a report that pytest does not know")
    return report


def warning_to_plain(warning: warnings.WarningMessage) -> dict[str, Any]:
    """Return a warning as JSON values."""
    return {
        "text": str(warning.message),
        "module": warning.category.__module__,
        "category": warning.category.__qualname__,
        "filename": warning.filename,
        "line": warning.lineno,
    }


def warning_from(plain: dict[str, Any]) -> warnings.WarningMessage:
    """Return the warning; one of a class that is not importable here becomes a UserWarning of the same text."""
    category: Any = None
    try:
        category = getattr(importlib.import_module(plain["module"]), plain["category"], None)
        message = category(plain["text"])
    except Exception:
        category, message = UserWarning, UserWarning(plain["text"])
    if not (isinstance(category, type) and issubclass(category, Warning)):
        category, message = UserWarning, UserWarning(plain["text"])
    return warnings.WarningMessage(message, category, plain["filename"], plain["line"])
