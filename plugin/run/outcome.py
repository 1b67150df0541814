"""How a test that did not succeed is stored: failed or skipped, and why in one line."""

from __future__ import annotations

from typing import Any

import pytest


def failure(report: Any, call: pytest.CallInfo[None]) -> tuple[str, str] | None:
    """Return (status, one-line reason) of a test that ended without success, else None."""
    if call.excinfo is None:
        return None
    # An error that a mark expects: pytest reports it as skipped, but the kernel ran and was wrong.
    is_expected = hasattr(report, "wasxfail") and not call.excinfo.errisinstance(pytest.xfail.Exception)
    if report.skipped and not is_expected:
        return "skipped", clean(str(getattr(call.excinfo.value, "msg", call.excinfo.value)))
    kind = call.excinfo.typename
    try:
        text = str(call.excinfo.value).strip()
    except Exception:  # an exception that cannot even say what it is
        text = "(its message cannot be printed)"
    if isinstance(call.excinfo.value, MemoryError) or kind == "OutOfMemoryError":
        return "failed", clean(f"out of memory: {text}")
    return "failed", clean(text if kind == "WrongResultError" else f"{kind}: {text}")


def clean(text: str) -> str:
    """Return the first line of a text, printable and short enough to store and show."""
    first = text.strip().splitlines()[0] if text.strip() else ""
    return "".join(ch if ch.isprintable() else "?" for ch in first)[:300]
