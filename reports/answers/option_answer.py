"""What every answer in JSON says of a predicted option: a format of a product or of a cache, a plan of a model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from roofline_model.core.answer import Option, Source
from roofline_model.core.finding import Finding, first_with


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionAnswer:
    """One option with its times and its reason."""

    path: str
    """native, emulated or dequantize; of a plan how the chip runs it."""
    time_s: float
    """Time of the option, seconds: that it is ranked by, of a plan its mean."""
    time_source: Source
    """expected, ceilings or ideal."""
    low_s: float | None
    """Lower end of the 80 % interval, seconds; null for an ideal time."""
    high_s: float | None
    """Upper end of the 80 % interval, seconds; null for an ideal time."""
    time_provenance: str | None
    """Of an expected time: fitted, transferred-sibling, …"""
    ideal_s: float
    """Speed of light, seconds."""
    speedup_ratio: float
    """16-bit time over this one, from times of the same source; ideal against ideal where one has no expected time."""
    bound: str
    """memory or compute, of the ideal time."""
    reason: str
    """Why it stands where it stands."""
    kernel_gap: Finding | None
    """Why no kernel is known to run it on this chip: it is ranked last, and a plan that was named is never the one to
    take; null where none is known to be missing.
    """


def option_figures(option: Option) -> dict[str, Any]:
    """Return the fields of an `OptionAnswer` that need no words."""
    estimate, ideal_s = option.estimate, option.times.ideal_s
    assert ideal_s is not None  # of whatever is predicted it is known
    return {
        "path": option.path,
        "time_s": estimate.time_s,
        "time_source": estimate.source,
        "low_s": estimate.low_s,
        "high_s": estimate.high_s,
        "time_provenance": estimate.provenance or None,
        "ideal_s": ideal_s,
        "speedup_ratio": 1.0 if option.speedup_ratio is None else option.speedup_ratio,
        "bound": option.bound,
        "kernel_gap": first_with(option.findings, "kernel-gap"),
    }
