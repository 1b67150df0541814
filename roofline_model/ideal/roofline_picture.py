"""A small roofline as SVG, for notebooks: the roof of each compute format and a point per prediction.

Both axes are logarithmic. The roof is the chip's; a point lies on it, because the time of a prediction is ideal.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING

from roofline_model.core.units import format_memory, format_quantity, format_time

if TYPE_CHECKING:
    from roofline_model.ideal.roofline import Prediction

_WIDTH, _HEIGHT = 460, 240
_LEFT, _RIGHT, _TOP, _BOTTOM = 14, 150, 16, 30
_ROW = 15
_COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#8c564b", "#17becf", "#7f7f7f")
_MARGIN_DECADES = 0.7
"""Free space around points and ridge, decades."""


def roofline_svg(predictions: Mapping[str, Prediction]) -> str:
    """Return the picture of predictions by name, of one chip; empty where none has both work and bytes."""
    drawn = {name: each for name, each in predictions.items() if each.flops and math.isfinite(_intensity(each))}
    if not drawn:
        return ""
    ridges = [each.critical_intensity_flop_per_byte for each in drawn.values()]
    spots = [*map(_intensity, drawn.values()), *ridges]
    first, last = math.log10(min(spots)) - _MARGIN_DECADES, math.log10(max(spots)) + _MARGIN_DECADES
    peaks = [each.peak_flops_per_s for each in drawn.values()]
    slope = next(iter(drawn.values())).bandwidth_bytes_per_s
    low, high = math.log10(slope) + first, math.log10(max(peaks)) + 0.3

    def place(intensity: float, flops_per_s: float) -> tuple[float, float]:
        across = (math.log10(intensity) - first) / (last - first)
        up = (math.log10(flops_per_s) - low) / (high - low)
        return (
            _LEFT + across * (_WIDTH - _LEFT - _RIGHT),
            _HEIGHT - _BOTTOM - up * (_HEIGHT - _TOP - _BOTTOM),
        )

    shapes = []
    for peak in dict.fromkeys(peaks):
        corner, end = place(peak / slope, peak), place(10**last, peak)
        shapes.append(_line(place(10**first, slope * 10**first), corner, end))
    for index, (name, each) in enumerate(drawn.items()):
        x, y = place(_intensity(each), each.flops / each.time_s)
        colour = _COLOURS[index % len(_COLOURS)]
        row = _TOP + 12 + _ROW * index
        shapes.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"/>')
        shapes.append(f'<circle cx="{_WIDTH - _RIGHT + 14}" cy="{row - 4}" r="4" fill="{colour}"/>')
        shapes.append(f'<text x="{_WIDTH - _RIGHT + 24}" y="{row}">{escape(name[:24])}</text>')
    title = f"{format_quantity(slope, 'B/s')}, up to {format_quantity(max(peaks), 'FLOP/s')}"
    shapes.append(f'<text x="{_LEFT}" y="{_TOP - 4}">{escape(title)}</text>')
    shapes.append(f'<text x="{_LEFT}" y="{_HEIGHT - 8}">FLOP per byte: {_range(first, last)}</text>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="roofline" width="{_WIDTH}" '
        f'height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif" font-size="11" '
        f'fill="currentColor">{"".join(shapes)}</svg>'
    )


def prediction_html(prediction: Prediction) -> str:
    """Return a prediction for a notebook: its time and what bounds it as a table, and its place on the roof."""
    cells = {
        "Ideal": format_time(prediction.time_s),
        "Bound": prediction.bound,
        "Work": format_quantity(prediction.flops, "FLOP"),
        "Bytes": format_memory(prediction.read_bytes + prediction.write_bytes),
        "FLOP/byte": f"{_intensity(prediction):.4g}",
        "Path": f"{prediction.compute_format} {prediction.path}".strip(),
    }
    head = "".join(f"<th>{name}</th>" for name in cells)
    row = "".join(f"<td>{escape(text)}</td>" for text in cells.values())
    table = f"<table><thead><tr>{head}</tr></thead><tbody><tr>{row}</tr></tbody></table>"
    name = prediction.formats_name or prediction.compute_format or "copy"
    return f"<p>{escape(repr(prediction))}</p>{table}{roofline_svg({name: prediction})}"


def _intensity(prediction: Prediction) -> float:
    return prediction.intensity_flop_per_byte


def _line(*places: tuple[float, float]) -> str:
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    return f'<polyline points="{points}" fill="none" stroke="currentColor" stroke-width="1.5"/>'


def _range(first: float, last: float) -> str:
    return f"{10**first:.2g} to {10**last:.3g}, logarithmic"
