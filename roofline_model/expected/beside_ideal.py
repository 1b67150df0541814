"""How an expected time stands beside the ideal one, where the two are far apart: what most of the rest is.

A time of more than `FAR_RATIO` times the ideal one is not explained by bytes and FLOPs: something else decides, and it
has a name (`ExpectedPrediction.parts`). A time below the ideal one is no slip either: the ideal is at rated speed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from roofline_model.core.finding import Finding, finding
from roofline_model.expected.prediction import is_far

_KINDS = {
    "launch": "launch",
    "extra_launches": "launch",
    "host": "host",
    "page_faults": "host",
    "all_reduce": "exchange",
    "dram": "memory",
    "l2": "refetch",
    "append": "refetch",
    "tensor": "tiles",
    "waves": "waves",
    "sm": "few-blocks",
    "latency": "serial-loop",
    "serial": "serial-loop",
    "split": "split",
    "cast": "cast",
    "dequantize": "decoding",
    "exp": "softmax",
    "widen_kv": "widening",
    "library": "library",
    "kernel": "kernel",
}
"""Part of an expected time → kind of the finding that names it."""
BESIDE_IDEAL = frozenset(("far-from-ideal", "expected-below-ideal"))
"""Every code of `beside_ideal`."""

Parts = Iterable[tuple[str, float]]


def beyond_ideal(parts: Parts, memory_s: float, compute_s: float) -> dict[str, float]:
    """Return the parts of a time without the ideal one, seconds: the side that bounds it keeps what it takes longer.

    `memory_s`, `compute_s`: both sides of the ideal time.
    """
    beyond = dict(parts)
    side = "dram" if memory_s >= compute_s else "tensor"
    beyond[side] = max(0.0, beyond.get(side, 0.0) - max(memory_s, compute_s))
    return beyond


def beside_ideal(
    time_s: float, ideal_s: float, beyond_s: Mapping[str, float], *, clock_hz: float | None = None, kernel: str = ""
) -> Finding | None:
    """Return what the largest part of a time far above its ideal one is, or that it is below; None between.

    `beyond_s`: parts without the ideal time. `clock_hz`: the rated clock, where a time below the ideal one rests on a
    higher one. `kernel`: of several, the one that has more than half of the part.
    """
    if not is_far(time_s, ideal_s):
        return None
    if time_s < ideal_s:
        return finding("expected-below-ideal", time_s=time_s, ideal_s=ideal_s, clock_hz=clock_hz)
    seconds: dict[str, list[float]] = {}
    for part, part_s in beyond_s.items():
        seconds.setdefault(_KINDS[part], []).append(part_s)
    kind, part_s = max(((kind, math.fsum(each)) for kind, each in seconds.items()), key=lambda pair: pair[1])
    return finding(
        "far-from-ideal",
        kind=kind,
        time_s=time_s,
        ideal_s=ideal_s,
        part_s=part_s,
        slowdown_factor=time_s / ideal_s,
        kernel=kernel or None,
    )
