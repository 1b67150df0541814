"""What a text plot draws of predictions: small letters at the ideal rates, capitals at the expected ones. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from roofline_cli.plot.figure import letter_of
from roofline_model.core.errors import RooflineError
from roofline_model.formats.catalog import short_name
from roofline_model.operators.product import product_of_pair

if TYPE_CHECKING:
    from roofline_model.chips.hardware import Device
    from roofline_model.formats.catalog import NumberFormat
    from roofline_model.ideal.roofline import Prediction
    from roofline_model.predictions.attention import AttentionPrediction
    from roofline_model.predictions.product import ProductPrediction

_SWEPT_ROWS = tuple(2**power for power in range(15))


class PlottedPrediction(NamedTuple):
    """One kernel."""

    letter: str
    label: str
    """What the letter stands for."""
    prediction: Prediction
    expected_s: float | None

    @property
    def roof(self) -> str:
        """What its roof is called."""
        return short_name(self.prediction.compute_format)

    @property
    def has_place(self) -> bool:
        """What has no bytes or no FLOPs has no place on a roofline."""
        return bool(self.prediction.flops and self.prediction.read_bytes + self.prediction.write_bytes)


def plotted_rows(
    rows: Sequence[ProductPrediction | AttentionPrediction], names: Sequence[str]
) -> list[PlottedPrediction]:
    """Return the kernel of each row of a table, under the row's letter and name."""
    return [
        PlottedPrediction(letter_of(index), name, row, row.expected.time_s if row.expected else None)
        for index, (row, name) in enumerate(zip(rows, names, strict=True))
    ]


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
