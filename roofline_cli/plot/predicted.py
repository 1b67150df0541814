"""What a text plot draws of predictions: small letters at the ideal rates, capitals at the expected ones. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from roofline_cli.plot.drawing import PlotPoint, PlotRoof, PlotSlope, RooflinePlot
from roofline_cli.plot.sources import highest_first, letter_of
from roofline_model.core.errors import RooflineError
from roofline_model.core.units import format_bandwidth
from roofline_model.formats.catalog import short_name
from roofline_model.operators.product import product_of_pair

if TYPE_CHECKING:
    from roofline_model.chips.hardware import Device
    from roofline_model.formats.catalog import NumberFormat
    from roofline_model.ideal.roofline import Prediction
    from roofline_model.predictions.attention import AttentionPrediction
    from roofline_model.predictions.product import ProductPrediction

_SWEPT_ROWS = tuple(2**power for power in range(15))


@dataclass(frozen=True, slots=True)
class PlottedPrediction:
    """One kernel."""

    letter: str
    label: str
    """What the letter stands for."""
    roof: str
    """What its roof is called."""
    prediction: Prediction
    expected_s: float | None


def plotted_rows(
    rows: Sequence[ProductPrediction | AttentionPrediction], names: Sequence[str]
) -> list[PlottedPrediction]:
    """Return the kernel of each row of a table, under the row's letter and name."""
    return [
        PlottedPrediction(
            letter_of(index),
            name,
            short_name(row.compute_format),
            row,
            row.expected.time_s if row.expected else None,
        )
        for index, (row, name) in enumerate(zip(rows, names, strict=True))
    ]


def predicted_plot(
    items: Sequence[PlottedPrediction], expected_roof: Sequence[tuple[float, float]] = ()
) -> RooflinePlot:
    """Return the plot; what has no bytes or no FLOPs has no place on it."""
    points, roofs = [], []
    for item in items:
        prediction = item.prediction
        if not prediction.flops or not prediction.read_bytes + prediction.write_bytes:
            continue
        reached = None if not item.expected_s else prediction.flops / item.expected_s
        points.append(PlotPoint(item.letter, prediction.intensity_flop_per_byte, prediction.rate_flops_per_s, reached))
        roofs.append(PlotRoof(item.roof, prediction.bandwidth_bytes_per_s, prediction.peak_flops_per_s))
    return RooflinePlot(highest_first(roofs), _memory_of(items), (), tuple(expected_roof), tuple(points))


def expected_roof(
    columns: int, inner: int, pair: tuple[NumberFormat, NumberFormat], hardware: Device
) -> tuple[tuple[float, float], ...]:
    """Return (intensity, expected rate) of the product with M from 1 to 16,384 rows; empty where nothing is
    expected.
    """
    from roofline_model.expected.predict import predict_expected
    from roofline_model.ideal.roofline import predict

    times: dict[float, float] = {}
    for rows in _SWEPT_ROWS:
        work = product_of_pair(rows, columns, inner, weight=pair[0], activation=pair[1])
        try:
            ideal, likely = predict(work, hardware), predict_expected(work, hardware)
        except RooflineError:  # beyond what the model has for this chip: the curve ends
            break
        if likely is not None:
            times[ideal.intensity_flop_per_byte] = ideal.flops / likely.time_s
    return tuple(sorted(times.items()))


def _memory_of(items: Sequence[PlottedPrediction]) -> PlotSlope | None:
    first = next(iter(items), None)
    if first is None:
        return None
    bandwidth = first.prediction.bandwidth_bytes_per_s
    return PlotSlope(f"{first.prediction.memory_level} {format_bandwidth(bandwidth, 3)}", bandwidth)
