"""JSON that any parser can read and that gives every float back: NaN and the infinities are tagged, not written bare.

Bare `NaN` is not JSON: PostgreSQL, jq and browsers refuse it. Inside free-form values (facts, settings, extra) such a
number becomes `{"$float": "NaN"}`; a user's own object with the single key `$float` is wrapped once more, so that
nothing is ambiguous.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

TAG = "$float"
NON_FINITE: dict[str, float] = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def float_name(value: float) -> str:
    """Return the name of a float that JSON cannot write: NaN, Infinity or -Infinity."""
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def tag(value: Any) -> Any:
    """Return `value` with every non-finite float tagged; tuples become lists, as in JSON."""
    if isinstance(value, float):
        return value if math.isfinite(value) else {TAG: float_name(value)}
    if isinstance(value, Mapping):
        tagged = {key: tag(item) for key, item in value.items()}
        return {TAG: tagged} if tagged.keys() == {TAG} else tagged
    if isinstance(value, list | tuple):
        return [tag(item) for item in value]
    return value


def untag(value: Any) -> Any:
    """Return the value that `tag` encoded."""
    if isinstance(value, list):
        return [untag(item) for item in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {TAG}:
        inner = value[TAG]
        if isinstance(inner, str) and inner in NON_FINITE:
            return NON_FINITE[inner]
        if isinstance(inner, dict) and inner.keys() == {TAG}:
            return {TAG: untag(inner[TAG])}
    return {key: untag(item) for key, item in value.items()}


def dumps(value: Any) -> str:
    """Return `value` as strict ASCII JSON. Raises TypeError for what JSON does not know, ValueError for a cycle."""
    # Mappings that are not dicts (a mapping proxy, say) are unknown to json: `tag` makes dicts of them.
    try:
        text = json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        text = TAG
    if TAG not in text:
        return text
    try:
        return json.dumps(tag(value), allow_nan=False)
    except RecursionError:
        raise ValueError("the value contains itself or is nested too deeply") from None


def loads(text: str | bytes) -> Any:
    """Return the value that `dumps` wrote."""
    value = json.loads(text)
    marker: Any = TAG if isinstance(text, str) else TAG.encode()
    return untag(value) if marker in text else value
