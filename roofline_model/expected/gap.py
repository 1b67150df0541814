"""Where the time went: the difference between the ideal and a measured time, split into named parts that add up
exactly.

The parts telescope. Each step makes the model a little more real and is credited with what that adds:

    ideal roof → achieved bandwidth → tensor pipe with tiles and waves → exp bound → launch floor → widening and casting
    → the framework on the host (whole models) → operand supply, latency and imperfect overlap, or what a kernel timed
    on this machine takes beyond its ceilings (= the expected time) → clock below nominal → unexplained

so that a part depends on those before it, as in any such split. The last step is what the model does not know.

The clock part is the model's own answer to a lower SM clock. At a clock of r times the nominal one the terms that SMs
bind take 1/r times as long, and the others (DRAM, launches) as long as before. With C^p and D^p the sums of the p-th
powers of the overlapping terms of either kind, J their joint time (D^p + C^p)^(1/p) and s = C^p / (C^p + D^p):

    clock = J · ((1 − s + s · r^−p)^(1/p) − 1) + (terms of SMs that add) · (1/r − 1)

which is J·(1/r − 1) for a kernel bound by its SMs alone, and nothing for one bound by its DRAM alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from roofline_model.expected.prediction import NORM_PARTS

PARTS = (
    "ideal",
    "memory",
    "tiles",
    "exp",
    "launch",
    "widening",
    "host",
    "supply",
    "kernel",
    "clock",
    "unexplained",
)
"""The parts of a measured time, in the order of the split. Their names for readers: `reports/present/cases.py`."""

PASS_PART = "part:"
"""Terms of a whole model's pass that begin so are its kernels' own times (and the host's): they add up to the expected
time, and a gap is not split by them.
"""

_ADDED = ("cast", "split", "waves", "dequantize")
"""Terms of the expected model that add to the time of the kernel's main loop: widening and casting, with `widen_kv`,
which overlaps and counts only as far as the softmax warps that widen a cache take longer than all else.
"""

CLOCK_BOUND = ("tensor", "exp", "widen_kv", "l2", "sm", "latency", "serial", "waves")
"""Terms whose constants the model keeps per clock of the SMs (transferred constants of products and attention)."""

NORM_ORDER = 4
"""p of the norm that joins overlapping terms. Stored predictions do not keep theirs: it is 4 everywhere but in FP8
products (3), where this moves at most 1 % of the time between `clock` and `unexplained` down to a clock of 0.9.
"""


@dataclass(frozen=True, slots=True)
class Gap:
    """The split of one measured time. Seconds; parts may be negative where reality is faster than the step assumed."""

    measured_s: float
    expected_s: float | None
    parts: tuple[tuple[str, float], ...]
    """Part → seconds, in the order of `PARTS`; they sum to `measured_s`."""

    @property
    def largest(self) -> str:
        """The part beyond the ideal that costs most."""
        return max((part for part in self.parts if part[0] != "ideal"), key=lambda part: part[1])[0]


def explain_gap(
    *,
    measured_s: float,
    ideal_memory_s: float,
    ideal_compute_s: float,
    ideal_s: float | None = None,
    expected_s: float | None = None,
    terms_s: Mapping[str, float] | None = None,
    clock_ratio: float | None = None,
) -> Gap:
    """Return the split of a measured time.

    `ideal_memory_s`, `ideal_compute_s`: the two sides of the ideal roof; `ideal_s`: the roof itself, where it is more
    than the higher of them (kernels one after the other, some bound by the one, some by the other). `expected_s` with
    `terms_s`: the expected time and its terms, each as if alone (`dram`, `tensor`, `exp`, `launch`, `cast`, …); None:
    only ideal and unexplained remain. `clock_ratio`: clock of the SMs while measuring over the nominal one, where
    known. It is credited with what a lower clock adds to the terms that SMs bind, and with no more than the expected
    time leaves unexplained. Raises nothing: sizes that are not finite count as unknown.
    """
    ideal_s = max(ideal_memory_s, ideal_compute_s) if ideal_s is None else ideal_s
    parts = {"ideal": ideal_s}
    reached = ideal_s
    terms: Mapping[str, float] = {"dram": ideal_memory_s, "tensor": ideal_compute_s}
    if expected_s is not None and terms_s is not None and math.isfinite(expected_s):
        steps = _steps(terms_s, ideal_memory_s, ideal_compute_s, ideal_s, expected_s)
        for name, total_s in steps:
            parts[name] = total_s - reached
            reached = total_s
        terms = terms_s
    left = measured_s - reached
    if clock_ratio is not None and 0 < clock_ratio < 1:
        parts["clock"] = min(max(left, 0.0), _clock_s(terms, reached, clock_ratio))
        left -= parts["clock"]
    parts["unexplained"] = left
    present = tuple((name, parts[name]) for name in PARTS if parts.get(name))
    return Gap(measured_s, expected_s, present)


def _steps(
    terms: Mapping[str, float], memory_s: float, compute_s: float, ideal_s: float, expected_s: float
) -> tuple[tuple[str, float], ...]:
    """Return (part, time with all steps up to this one), ending at the expected time."""
    dram, tensor, exp = terms.get("dram", memory_s), terms.get("tensor", compute_s), terms.get("exp", 0.0)
    # The roof of several kernels is above both of its sides, and no step of theirs stands below it.
    with_memory = max(dram, compute_s, ideal_s if ideal_s > max(memory_s, compute_s) else 0.0)
    with_tiles = max(with_memory, tensor)
    with_exp = max(with_tiles, exp)
    with_launch = with_exp + terms.get("launch", 0.0)
    # One group of warps computes the exponentials and widens the cache, one after the other.
    widened_s = max(0.0, exp + terms.get("widen_kv", 0.0) - with_exp)
    with_widening = with_launch + widened_s + math.fsum(terms.get(name, 0.0) for name in _ADDED)
    with_host = with_widening + terms.get("host", 0.0)
    return (
        ("memory", with_memory),
        ("tiles", with_tiles),
        ("exp", with_exp),
        ("launch", with_launch),
        ("widening", with_widening),
        ("host", with_host),
        ("kernel" if "kernel" in terms else "supply", expected_s),
    )


def _clock_s(terms: Mapping[str, float], time_s: float, clock_ratio: float) -> float:
    """Return what a clock of `clock_ratio` times the nominal one adds to `time_s`, the time of `terms` (module
    docstring).
    """
    together = {name: terms[name] for name in NORM_PARTS if terms.get(name, 0.0) > 0}
    alone = {name: seconds for name, seconds in terms.items() if name not in together}
    stretch = 1 / clock_ratio - 1
    added_s = stretch * math.fsum(seconds for name, seconds in alone.items() if name in CLOCK_BOUND)
    longest_s = max(together.values(), default=0.0)
    if not longest_s:
        return added_s
    powers = {name: (seconds / longest_s) ** NORM_ORDER for name, seconds in together.items()}
    share = math.fsum(power for name, power in powers.items() if name in CLOCK_BOUND) / math.fsum(powers.values())
    joint_s = max(0.0, time_s - math.fsum(alone.values()))
    longer: float = (1 - share + share * clock_ratio**-NORM_ORDER) ** (1 / NORM_ORDER)
    return added_s + joint_s * (longer - 1)
