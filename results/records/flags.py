"""The flags a measurement may carry: codes of the catalog of findings. A warning or caution puts the time in doubt."""

from __future__ import annotations

from collections.abc import Iterable

from roofline_model.core.finding import Finding, catalog_entry, short_text

FLAGS: tuple[str, ...] = (
    "noisy",
    "few-samples",
    "drift",
    "bimodal",
    "capped",
    "quarantined",
    "contended",
    "stolen",
    "shared-device",
    "cold-unproven",
    "above-roof",
    "clocks-disagree",
    "operand-unread",
    "sets-unchecked",
    "lazy-result",
    "launch-gaps",
    "not-steady",
    "wrong-later",
    "outliers",
    "autocorrelated",
    "energy-pace",
    "energy-disagrees",
    "not-attributed",
    "unchecked",
    "simulated",
    "forced",
)
"""Every flag as it is stored, in the order surfaces list them."""

DOUBTFUL_FLAGS = frozenset(flag for flag in FLAGS if catalog_entry(flag).severity != "info")
"""Flags that put the measured time in doubt."""

KERNEL_FLAGS = ("above-roof", "wrong-later", "operand-unread", "sets-unchecked", "lazy-result")
"""Flags that say that the kernel did not do its work, or not this work: no second run mends them."""

INVALIDATING_FLAGS = ("quarantined", "capped", "contended", "stolen", "shared-device", "above-roof", "clocks-disagree")
"""Flags of a process that no pooled value uses while a clean one is there, the gravest first: the state of the machine
or its clock, or a wrong count of work, not the code. The other doubtful flags (noisy, drift, bimodal, …) are in the
spread that every interval knows; traits of a kernel come back in every run, and without it there were nothing to watch.
"""


def doubts_text(doubts: Iterable[Finding]) -> str:
    """Return the doubts about a time: flags by key, other findings by their line."""
    return ", ".join(item.code if item.code in FLAGS else short_text(item) for item in doubts)
