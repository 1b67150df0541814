"""What micro-kernels found out about a device: the tables of a calibration, and the facts beside them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from roofline_model.chips.machine_constants import Constant

TABLES = ("dram", "cache", "peaks", "floors", "casts", "scaling")
"""Fields of `Readings` that a `Calibration` holds under the same name."""


@dataclass(frozen=True, slots=True)
class Readings:
    """Each figure with its spread. What could not be measured is missing, never a 0."""

    dram: Mapping[str, Constant]
    """Access mix → B/s; bytes read plus bytes written."""
    cache: Mapping[str, Constant]
    """Access mix → B/s; empty when the cache was not seen to be faster than memory."""
    peaks: Mapping[str, Constant]
    """Format key → FLOP/s (INT8: operations alike) of the best product tried."""
    floors: Mapping[str, Constant] = field(default_factory=dict)
    """Of `machine_constants.FLOORS` → seconds per call."""
    casts: Mapping[str, Constant] = field(default_factory=dict)
    """`FROM>TO` → seconds per element."""
    scaling: Mapping[str, Constant] = field(default_factory=dict)
    """Threads → B/s read, or SMs → B/s read and written; empty where nobody looked."""
    cache_bytes: int | None = None
    """Size of a GPU's L2 cache as the device tells it."""
    clock_hz: float | None = None
    """A GPU's SM clock, median over the products."""
    absent: Mapping[str, str] = field(default_factory=dict)
    """Figure → why it is missing."""
    seconds: float = 0.0
    """What all this took."""

    @property
    def tables(self) -> dict[str, Mapping[str, Constant]]:
        """The tables by the names that a `Calibration` gives them."""
        return {name: getattr(self, name) for name in TABLES}
