"""Ids of foreign runs and records: the same content has the same id on every machine, so that nothing is imported twice."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from results.records.json_values import tag


def record_id(kind: str, content: Mapping[str, Any], stated: Mapping[str, Any]) -> str:
    """Return 32 hex digits of a measurement's content and of what the user said that changes its case."""
    return _digest(["record", kind, dict(content), dict(stated)])


def run_id(kind: str, first_record_id: str) -> str:
    """Return 32 hex digits for the run of a file: those of its first record, so that a file that grew stays one run."""
    return _digest(["run", kind, first_record_id])


def _digest(value: Any) -> str:
    import json

    text = json.dumps(tag(value), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]
