"""Metrics of a history: time, energy, memory, quality, prediction error; direction and least change that counts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from roofline_model.core.answer import NOT_IN_JSON
from roofline_model.core.errors import UnknownNameError

MetricKey = Literal["time", "energy", "memory", "quality", "error"]
Scale = Literal["log", "error", "plain"]


@dataclass(frozen=True, slots=True)
class Metric:
    """One figure of a case.

    Steps are looked for on a scale on which noise adds and a step is the same size up or down.
    """

    key: MetricKey
    """Its name."""
    unit: str
    """s, J, B, nats/token; empty for a ratio."""
    scale: Scale = field(metadata=NOT_IN_JSON)
    """log: natural logarithm; error: of 1 + error, which is predicted over measured; plain: as it is."""
    least: float = field(metadata=NOT_IN_JSON)
    """The smallest step that counts, on that scale."""
    meaning: str
    """What its values are."""

    def scaled(self, value: float) -> float | None:
        """Return a value on the scale of the metric; None for one that is not on it (0 s, −100 %)."""
        if self.scale == "plain":
            return value if math.isfinite(value) else None
        number = 1 + value if self.scale == "error" else value
        return math.log(number) if 0 < number < math.inf else None

    def unscaled(self, scaled: float) -> float:
        """Return the value of a number on the scale."""
        if self.scale == "plain":
            return scaled
        return math.exp(scaled) - (1.0 if self.scale == "error" else 0.0)

    def badness(self, scaled: float) -> float:
        """Return how bad a level is, on the scale: higher is worse. An error is bad in both directions."""
        return abs(scaled) if self.scale == "error" else scaled

    def change(self, before: float, after: float) -> float:
        """Return the change between two values: relative for a log scale, the difference for the others."""
        return after / before - 1 if self.scale == "log" else after - before


_ALL = (
    Metric("time", "s", "log", math.log1p(0.01), "the time of a call: geometric mean of the process medians of a run"),
    Metric("energy", "J", "log", math.log1p(0.01), "energy of a call, gross"),
    Metric("memory", "B", "log", math.log1p(0.01), "weights and cache that a whole model holds"),
    Metric(
        "quality",
        "nats/token",
        "plain",
        0.01,
        "divergence of a quantised model from its original (KL); 0.01 is about 1 % of perplexity",
    ),
    Metric(
        "error",
        "",
        "error",
        math.log1p(0.05),
        "(predicted − measured) / measured of the expected time, else of the ideal one",
    ),
)

METRICS: Mapping[str, Metric] = {metric.key: metric for metric in _ALL}
"""Every metric by key."""


def get_metric(key: str) -> Metric:
    """Return the metric of this key. Raises `UnknownNameError`, naming the nearest."""
    metric = METRICS.get(key.strip().lower())
    if metric is None:
        raise UnknownNameError("metric", key, METRICS)
    return metric
