"""What goes into the `roofline` fixture and comes out of it: the work that is declared, the outcome, names and facts."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from results.records.flags import DOUBTFUL_FLAGS
from results.records.records import Measurement
from roofline_model.core.cost import OpCost
from roofline_model.core.errors import InvalidValueError
from roofline_model.ideal.roofline import Prediction
from roofline_model.models.model_pass import ModelPass
from roofline_model.operators.product import Operator

Work = Operator | OpCost | ModelPass
"""What a case does: an operator, a plain cost, or a whole pass of a model."""

_MARKER_KEYS = ("work", "name", "tolerance", "threshold")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What `measure` returns: the record's measurement and prediction, for a test's own assertions."""

    measurement: Measurement
    prediction: Prediction | None

    @property
    def median_s(self) -> float:
        """Median seconds per call."""
        return self.measurement.median_s

    @property
    def doubts(self) -> tuple[str, ...]:
        """Flags that put the time in doubt (contended, noisy, drift, …); empty for a time to rely on."""
        return tuple(flag for flag in self.measurement.flags if flag in DOUBTFUL_FLAGS)

    @property
    def error_ratio(self) -> float | None:
        """(predicted − measured) / measured, or None without a prediction."""
        if self.prediction is None:
            return None
        return (self.prediction.time_s - self.median_s) / self.median_s

    @property
    def roof_ratio(self) -> float | None:
        """Share of the roof reached: ideal time over measured time."""
        return None if self.prediction is None else self.prediction.time_s / self.median_s


def json_values(where: str, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return facts as a dict of their own; raises `InvalidValueError` beginning with `where` for what JSON cannot hold."""
    try:
        json.dumps(dict(facts), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InvalidValueError(f"{where} must hold JSON values only: {error}") from None
    return dict(facts)


def kernel_name(label: str) -> str:
    """Return a name that may stand in a test id; raises `InvalidValueError` when nothing of it may."""
    kernel = re.sub(r"[^A-Za-z0-9._]+", "_", label).strip("_")[:120]
    if not kernel:
        raise InvalidValueError(f"kernel name {label[:60]!r} has no letter or digit of ASCII; give another name=")
    return kernel


def marker_defaults(node: pytest.Item) -> dict[str, Any]:
    """Return the arguments of a test's `roofline` marker; raises `InvalidValueError` for one that it does not have."""
    marker = node.get_closest_marker("roofline")
    if marker is None:
        return {}
    if marker.args:
        raise InvalidValueError(
            "the roofline marker takes keyword arguments only: work=, name=, tolerance=, threshold="
        )
    for key in marker.kwargs:
        if key not in _MARKER_KEYS:
            raise InvalidValueError(f"the roofline marker has no argument {key!r}; known: {', '.join(_MARKER_KEYS)}")
    return dict(marker.kwargs)


def threshold_facts(defaults: Mapping[str, Any]) -> dict[str, float]:
    """Return what a marker's `threshold` stores with each record of the test; empty without one.

    `0.05` or `"5%"`: the smallest change of this case's time that counts in a diff. Raises `InvalidValueError` for anything else.
    """
    value = defaults.get("threshold")
    if value is None:
        return {}
    text = value.strip() if isinstance(value, str) else ""
    if re.fullmatch(r"[0-9]{1,2}(\.[0-9]{1,6})? ?%", text):
        value = float(text.rstrip("% ")) / 100
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1:
        raise InvalidValueError(
            f"the roofline marker's threshold must be a share such as 0.05, or a text such as '5%', got {str(value)[:40]!r}"
        )
    return {"threshold_ratio": float(value)}
