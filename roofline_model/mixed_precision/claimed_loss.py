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
    numbers = re.findall(r"\d+(?:\.\d+)?", text)
    return (max(float(one) for one in numbers) if numbers else None), f"claimed: {text}"
