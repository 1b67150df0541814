"""Predictions of the expected-time models, their 80 % interval and their terms: of one call, or of many as arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import reduce
from operator import add

from roofline_model.core.answer import Estimate
from roofline_model.core.elementwise import Numbers, choose, larger, smaller
from roofline_model.core.finding import Finding
from roofline_model.core.units import format_time

NORM_PARTS = ("tensor", "dram", "l2", "sm", "latency", "exp", "widen_kv")
"""Terms that overlap: the model joins them by a p-norm. The seconds of each are what it would take by itself."""


@dataclass(frozen=True, slots=True)
class ExpectedBatch:
    """Expected times with their 80 % interval and what they are made of, in seconds: arrays with one entry per row.

    One call whose sizes were numbers has numbers in their place, and lists of one entry.
    """

    time_s: Numbers
    low_s: Numbers
    high_s: Numbers
    parts: Mapping[str, Numbers]
    """Part → seconds. Parts of `NORM_PARTS` overlap each other (each as if alone); the others add to the time.

    launch: floor; tensor: tensor pipe; dram; l2: operand refetch and output; sm: load path of one SM; latency: serial
    k loop; waves: cost of further waves; split: fixed cost and traffic of split-K; serial: the loop of a GEMV kernel;
    cast: quantising the activations; dequantize: a kernel that decodes the weight before the product; exp: softmax of
    attention; widen_kv: widening a narrow cache inside attention; library: what this chip's library takes beyond the
    formulas (`with_library`).
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
    is_kernel_alone: bool = False
    """Of attention: whether rotation and append to the cache are not inside."""

    def __len__(self) -> int:
        return len(self.binding)

    def additive_parts(self) -> dict[str, Numbers]:
        """Return parts that sum to the time: overlapping ones share their joint time by their p-th powers."""
        import numpy as np

        plain = {name: value for name, value in self.parts.items() if name not in NORM_PARTS}
        names = [name for name in self.parts if name in NORM_PARTS]
        if not names:
            return plain
        # numpy's power of numbers, too: Python's own rounds in another way.
        raised = np.array([self.parts[name] for name in names]) ** self.norm_order
        powers: list[Numbers] = raised.tolist() if raised.ndim == 1 else list(raised)
        total, joint = reduce(add, powers), self.time_s - reduce(add, plain.values(), 0.0)
        scale = choose(total > 0, joint, 0.0) / choose(total > 0, total, 1.0)
        return {**plain, **{name: power * scale for name, power in zip(names, powers, strict=True)}}


def with_library(
    parts: Mapping[str, Numbers], formula_s: Numbers, time_s: Numbers, least_s: Mapping[str, Numbers]
) -> dict[str, Numbers]:
    """Return the parts of a time that a library surface changed; numbers or arrays.

    What a library takes beyond the formulas is a part of its own. One that takes less does the same work in less time:
    what follows the launch is as much shorter, so that nothing is negative, but not beyond `least_s`, the roof of its
    own unit.
    """
    launch_s = smaller(parts["launch"], time_s)
    ratio = smaller((time_s - launch_s) / (formula_s - parts["launch"]), 1.0)
    shortened = {name: value * ratio for name, value in parts.items()}
    for name, roof_s in least_s.items():
        shortened[name] = larger(shortened[name], smaller(parts[name], roof_s))
    return {**shortened, "launch": launch_s, "library": larger(time_s - formula_s, 0.0)}


def binding_of(parts: Mapping[str, Numbers], time_s: Numbers) -> list[str]:
    """Return the name of the part that explains each time: `launch` where it is at least half, else the longest
    other.
    """
    names = [name for name in parts if name not in ("launch", "library")]
    if isinstance(time_s, float):
        is_launch = parts.get("launch", 0.0) >= 0.5 * time_s
        return ["launch" if is_launch else max(names, key=lambda name: parts[name])]
    import numpy as np

    longest = np.array(names, dtype=object)[np.array([parts[name] for name in names]).argmax(axis=0)]
    if "launch" in parts:
        longest[parts["launch"] >= 0.5 * time_s] = "launch"
    result: list[str] = longest.tolist()
    return result


EXPECTED_VERSION = "expected-6"
"""Changes whenever the same case and constants would get another expected time; stored with every such prediction.

expected-6: prefill attention on mma.sync chips without rows of their own takes FlashAttention-2's rate; slow library
kernels of sm89 and sm120 go by the product of the sizes and are of 16-bit formats alone; lent intervals are those of
chips left out.
"""


@dataclass(frozen=True, slots=True)
class ExpectedPrediction:
    """The expected time of one call, its 80 % interval, and what it is made of. All SI."""

    hardware: str
    """Key of the chip."""
    time_s: float
    """Expected time, launch included, seconds."""
    low_s: float
    """Lower end of the 80 % interval, seconds: one measured time in ten is expected below."""
    high_s: float
    """Upper end of the 80 % interval, seconds: one measured time in ten is expected above."""
    parts: tuple[tuple[str, float], ...]
    """Part → seconds; they sum to `time_s`. Terms that overlap share their joint time: the side of the roof that binds
    gets its ideal time at least, the others what they add.
    """
    binding: str
    """What takes longest: launch where that is at least half of the time, else the longest of the `terms`: dram,
    tensor, l2, sm, latency, …
    """
    kernel: str
    """The kernel that the model chose: `128x256x1` (tile and split-K), `gemv`, …"""
    provenance: str
    """fitted, transferred-sibling, transferred-family, transferred-class, transferred-format, or measured-here."""
    findings: tuple[Finding, ...] = ()
    """Where the constants come from, and what else to know about it."""
    terms: tuple[tuple[str, float], ...] = ()
    """Term → seconds, each as if alone; overlapping ones do not sum (`roofline_model.expected.gap` reads them)."""
    model_version: str = EXPECTED_VERSION
    """Changes when the same question would get another expected time."""
    covered_ops: tuple[str, ...] = ()
    """Operators of a layer that the timed kernel does besides its own: `rope` and `kv_write` inside an attention
    module.
    """
    is_cache_unsplit: bool = False
    """Whether an attention kernel that reads a narrow cache without splitting it binds: few sequences leave most SMs
    idle.
    """
    beside_ideal: Finding | None = None
    """What most of a time of more than three times the ideal one is, or that it is below; null between."""

    @classmethod
    def of(cls, hardware: str, batch: ExpectedBatch) -> ExpectedPrediction:
        """Return the only call of a batch."""

        def present(parts: Mapping[str, Numbers]) -> tuple[tuple[str, float], ...]:
            return tuple((name, value_s) for name, value in parts.items() if (value_s := single(value)) > 0)

        return cls(
            hardware,
            single(batch.time_s),
            single(batch.low_s),
            single(batch.high_s),
            parts=present(batch.additive_parts()),
            binding=batch.binding[0],
            kernel=batch.kernel[0],
            provenance=batch.provenance,
            findings=batch.findings,
            terms=present(batch.parts),
        )

    @property
    def estimate(self) -> Estimate:
        """The time with its interval."""
        return Estimate(self.time_s, self.low_s, self.high_s, "expected", self.provenance)

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__} {self.kernel} on {self.hardware}: expected {format_time(self.time_s)} "
            f"({format_time(self.low_s)} to {format_time(self.high_s)}), {self.provenance}>"
        )


FAR_RATIO = 3.0
"""From here on most of a time is neither its bytes nor its FLOPs, nor a bandwidth a little below the rated one."""
_ROUNDING = 1e-9


def is_far(time_s: float, ideal_s: float) -> bool:
    """Return whether something is to be said of a time beside its ideal one (`beside_ideal.py`)."""
    return time_s > FAR_RATIO * ideal_s or time_s < ideal_s * (1 - _ROUNDING)


def single(values: Numbers) -> float:
    """Return the only one of some numbers, which may be a number itself."""
    return values if isinstance(values, float) else float(values[0])
