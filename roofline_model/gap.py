"""Where the time went: the difference between the ideal and a measured time, split into named parts that add up exactly.

The parts telescope. Each step makes the model a little more real and is credited with what that adds:

    ideal roof → achieved bandwidth → tensor pipe with tiles and waves → exp bound → launch floor → widening and casting
    → operand supply, latency and imperfect overlap (= the expected time) → clock below nominal → unexplained

so that a part depends on those before it, as in any such split. The last step is what the model does not know.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

LABELS = {
    "ideal": "ideal roof",
    "memory": "memory efficiency: bandwidth that is reached, not printed",
    "tiles": "tiles and waves: tensor pipe with padding, tail and delivered rate",
    "exp": "exp bound: the softmax's unit, not the tensor pipe",
    "launch": "launch floor",
    "widening": "dequantising, casting, split-K sums",
    "supply": "operand supply from L2, latency, imperfect overlap",
    "clock": "clock below nominal",
    "unexplained": "unexplained",
}
"""Part → what it means, in the order of the split."""

_ADDED = ("cast", "split", "waves", "dequantize")
"""Terms of the expected model that add to the time of the kernel's main loop."""


@dataclass(frozen=True, slots=True)
class Gap:
    """The split of one measured time. Seconds; parts may be negative where reality is faster than the step assumed."""

    measured_s: float
    expected_s: float | None
    parts: tuple[tuple[str, float], ...]
    """Part → seconds, in the order of `LABELS`; they sum to `measured_s`."""

    @property
    def largest(self) -> str:
        """The part beyond the ideal that costs most."""
        return max((part for part in self.parts if part[0] != "ideal"), key=lambda part: part[1])[0]


def explain_gap(
    *,
    measured_s: float,
    ideal_memory_s: float,
    ideal_compute_s: float,
    expected_s: float | None = None,
    terms_s: Mapping[str, float] | None = None,
    clock_ratio: float | None = None,
) -> Gap:
    """Return the split of a measured time.

    `ideal_memory_s`, `ideal_compute_s`: the two sides of the ideal roof. `expected_s` with `terms_s`: the expected time and
    its terms, each as if alone (`dram`, `tensor`, `exp`, `launch`, `cast`, …); None: only ideal and unexplained remain.
    `clock_ratio`: clock while measuring over the nominal one, where known; it is credited only with what the expected time
    leaves unexplained. Raises nothing: sizes that are not finite count as unknown.
    """
    ideal_s = max(ideal_memory_s, ideal_compute_s)
    parts = {"ideal": ideal_s}
    reached = ideal_s
    if expected_s is not None and terms_s is not None and math.isfinite(expected_s):
        steps = _steps(terms_s, ideal_memory_s, ideal_compute_s, expected_s)
        for name, total_s in steps:
            parts[name] = total_s - reached
            reached = total_s
    left = measured_s - reached
    if clock_ratio is not None and 0 < clock_ratio < 1:
        # Time that a lower clock costs a kernel whose time is all cycles; memory-bound kernels lose less.
        parts["clock"] = min(max(left, 0.0), measured_s * (1 - clock_ratio))
        left -= parts["clock"]
    parts["unexplained"] = left
    known = tuple((name, parts[name]) for name in LABELS if parts.get(name))
    return Gap(measured_s, expected_s, known)


def _steps(
    terms: Mapping[str, float], memory_s: float, compute_s: float, expected_s: float
) -> tuple[tuple[str, float], ...]:
    """Return (part, time with all steps up to this one), ending at the expected time."""
    dram, tensor, exp = terms.get("dram", memory_s), terms.get("tensor", compute_s), terms.get("exp", 0.0)
    with_memory = max(dram, compute_s)
    with_tiles = max(with_memory, tensor)
    with_exp = max(with_tiles, exp)
    with_launch = with_exp + terms.get("launch", 0.0)
    with_widening = with_launch + math.fsum(terms.get(name, 0.0) for name in _ADDED)
    return (
        ("memory", with_memory),
        ("tiles", with_tiles),
        ("exp", with_exp),
        ("launch", with_launch),
        ("widening", with_widening),
        ("supply", expected_s),
    )
