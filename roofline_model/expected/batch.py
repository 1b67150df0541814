"""The answer of an expected-time model for many calls at once: arrays of seconds, one entry per row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any

from roofline_model.core.finding import Finding
from roofline_model.expected.gemm.elementwise import larger, smaller

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

NORM_PARTS = ("tensor", "dram", "l2", "sm", "latency", "exp", "dequantize")
"""Terms that run at the same time: the model joins them by a p-norm, so each alone says how long it would take alone."""


@dataclass(frozen=True, slots=True)
class ExpectedBatch:
    """Expected times with their 80 % interval and what they are made of. All arrays have one entry per row, in seconds."""

    time_s: Floats
    low_s: Floats
    high_s: Floats
    parts: Mapping[str, Floats]
    """Part → seconds. Parts of `NORM_PARTS` overlap each other (each as if alone); the others add to the time.

    launch: floor; tensor: tensor pipe; dram; l2: operand refetch and output; sm: load path of one SM; latency: serial
    k loop; waves: cost of further waves; split: fixed cost and traffic of split-K; serial: the loop of a GEMV kernel;
    cast: quantising the activations; library: what this chip's library takes beyond the formulas (`with_library`).
    """
    binding: list[str]
    """What takes longest: `launch` where the floor is at least half of the time, else the longest term."""
    provenance: str
    """fitted, measured-here, transferred-sibling, transferred-family, transferred-class or transferred-format."""
    findings: tuple[Finding, ...] = ()
    """Where the constants come from and how far to trust them."""
    kernel: list[str] = field(default_factory=list)
    """The candidate that won: `128x256x1` (tile rows × tile columns × split-K) or `gemv`."""
    norm_order: int = 4
    is_unsplit: list[bool] = field(default_factory=list)
    """Of attention: whether a decode kernel that could split the cache of a sequence reads it in one piece."""

    def __len__(self) -> int:
        return len(self.time_s)

    def additive_parts(self) -> dict[str, Floats]:
        """Return parts that sum to the time: overlapping ones share their joint time by their p-th powers."""
        import numpy as np

        plain = {name: value for name, value in self.parts.items() if name not in NORM_PARTS}
        powers = {name: value**self.norm_order for name, value in self.parts.items() if name in NORM_PARTS}
        if not powers:
            return plain
        total = sum(powers.values(), start=np.zeros_like(self.time_s))
        joint = self.time_s - sum(plain.values(), start=np.zeros_like(self.time_s))
        scale = np.divide(joint, total, out=np.zeros_like(joint), where=total > 0)
        return {**plain, **{name: power * scale for name, power in powers.items()}}


@dataclass(frozen=True, slots=True)
class ExpectedCall:
    """The same for one call, as numbers; fields as in `ExpectedBatch`."""

    time_s: float
    low_s: float
    high_s: float
    parts: Mapping[str, float]
    binding: str
    provenance: str
    findings: tuple[Finding, ...]
    kernel: str
    norm_order: int

    @classmethod
    def of_batch(cls, batch: ExpectedBatch) -> ExpectedCall:
        """Return the only row of a batch."""
        return cls(
            float(batch.time_s[0]),
            float(batch.low_s[0]),
            float(batch.high_s[0]),
            {name: float(value[0]) for name, value in batch.parts.items()},
            batch.binding[0],
            batch.provenance,
            batch.findings,
            batch.kernel[0] if batch.kernel else "",
            batch.norm_order,
        )

    def additive_parts(self) -> dict[str, float]:
        """Return what `ExpectedBatch.additive_parts` does, to the bit."""
        import numpy as np

        plain = {name: value for name, value in self.parts.items() if name not in NORM_PARTS}
        names = [name for name in self.parts if name in NORM_PARTS]
        if not names:
            return plain
        # numpy's power: Python's own rounds in another way.
        powers = (np.array([self.parts[name] for name in names]) ** self.norm_order).tolist()
        # One after the other, as arrays are added: `sum` of numbers compensates its rounding from Python 3.12 on.
        total, joint = reduce(add, powers, 0.0), self.time_s - reduce(add, plain.values(), 0.0)
        scale = joint / total if total > 0 else 0.0
        return {**plain, **{name: power * scale for name, power in zip(names, powers, strict=True)}}


def with_library(parts: Mapping[str, Any], formula_s: Any, time_s: Any, least_s: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parts of a time that a library surface changed; numbers or arrays.

    What a library takes beyond the formulas is a part of its own. One that takes less does the same work in less time: what
    follows the launch is as much shorter, so that nothing is negative, but not beyond `least_s`, the roof of its own unit.
    """
    launch_s = smaller(parts["launch"], time_s)
    ratio = smaller((time_s - launch_s) / (formula_s - parts["launch"]), 1.0)
    found = {name: value * ratio for name, value in parts.items()}
    for name, roof_s in least_s.items():
        found[name] = larger(found[name], smaller(parts[name], roof_s))
    return {**found, "launch": launch_s, "library": larger(time_s - formula_s, 0.0)}


def binding_part(parts: Mapping[str, float], time_s: float) -> str:
    """Return what `binding_of` does, of one call."""
    if parts.get("launch", 0.0) >= 0.5 * time_s:
        return "launch"
    return max((name for name in parts if name not in ("launch", "library")), key=lambda name: parts[name])


def binding_of(parts: Mapping[str, Floats], time_s: Floats) -> list[str]:
    """Return the name of the part that explains each time: `launch` where it is at least half, else the longest other."""
    import numpy as np

    names = [name for name in parts if name not in ("launch", "library")]
    longest = np.array(names, dtype=object)[np.array([parts[name] for name in names]).argmax(axis=0)]
    if "launch" in parts:
        longest[parts["launch"] >= 0.5 * time_s] = "launch"
    result: list[str] = longest.tolist()
    return result
