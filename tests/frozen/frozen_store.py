"""The frozen answers on disk: one xz file of JSON lines per family, and the list of differences that were allowed."""

from __future__ import annotations

import json
import lzma
import math
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

ANSWERS = Path(__file__).resolve().parent / "answers"
DECISION = Path(__file__).resolve().parents[2] / "docs" / "development" / "decisions" / "0010-frozen-answers.md"
_ALLOWED = re.compile(r"^\|\s*`([^`]+)`\s*\|\s*([^|]*\S)\s*\|\s*$")


def plain(value: Any) -> Any:
    """Return an answer as JSON keeps it: tuples as lists, infinite numbers as text, floats to 15 digits.

    Raises `TypeError` for what is no plain value: an answer must not hold the code's own types.
    """
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, bool) or value is None or isinstance(value, str | int):
        return str(value) if isinstance(value, str) else value
    if isinstance(value, float):
        return float(f"{float(value):.15g}") if math.isfinite(value) else str(float(value))
    raise TypeError(f"{type(value).__name__} in an answer: give numbers, text, lists and mappings")


def read_answers(family: str) -> dict[str, Any]:
    """Return question id → answer of one family; empty where none is stored."""
    path = ANSWERS / f"{family}.jsonl.xz"
    if not path.exists():
        return {}
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        return dict(json.loads(line) for line in lines)


def write_answers(family: str, answers: Iterable[tuple[str, Any]]) -> Path:
    """Write the answers of one family in the order given and return the file."""
    ANSWERS.mkdir(exist_ok=True)
    path = ANSWERS / f"{family}.jsonl.xz"
    text = "".join(json.dumps(pair, separators=(",", ":"), ensure_ascii=False) + "\n" for pair in answers)
    path.write_bytes(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))
    return path


def allowed_differences(path: Path = DECISION) -> dict[str, str]:
    """Return question id → reason of the differences that the decision's table lists."""
    rows = map(_ALLOWED.match, path.read_text(encoding="utf-8").splitlines())
    return {row[1]: row[2] for row in rows if row}
