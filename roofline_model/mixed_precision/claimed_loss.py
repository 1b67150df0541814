"""The loss a document claims for a strategy, as a number that a limit can be held against."""

from __future__ import annotations

import re

from roofline_model.mixed_precision.config import StrategyClaims


def claimed_loss(claims: StrategyClaims | None) -> tuple[float | None, str]:
    """Return a claim's loss in percent (the larger end of a range; None where nobody claims one), and how to show it.

    `<1%` → (1.0, "claimed: <1%"), `2-5%` → (5.0, …), `none` → (0.0, "reference").
    """
    if claims is None:
        return None, "unknown: neither measured nor claimed"
    text = claims.quality_loss
    if text == "none":
        return 0.0, "reference"
    return claimed_pct(text), f"claimed: {text}"


def claimed_pct(text: str) -> float | None:
    """Return the percentage that a claim names, the larger end of a range: `<1%` → 1.0, `2-5 % loss` → 5.0; None without one."""
    numbers = re.findall(r"\d+(?:\.\d+)?", text)
    return max(float(one) for one in numbers) if numbers else None
