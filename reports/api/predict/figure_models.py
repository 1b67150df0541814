"""Request and answer of the figures: what is drawn, and the JSON that a browser hands to Plotly."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from reports.api.predict.base_models import NAME_PATTERN, RATE_TEXT, Answer, Request

MOST_OPTIONS = 64

Label = Annotated[str, Field(min_length=1, max_length=120)]
Word = Annotated[str, Field(max_length=60)]
Positive = Annotated[float, Field(gt=1e-30, lt=1e30)]


class FigureOption(Request):
    """One format of a question, as the answer to it has it."""

    key: Label = Field(description="comes back as `customdata` of its points")
    label: Label = Field(description="name of the option: `INT4 W4A16`; decides its colour")
    compute_format: Word = Field(description="format key of the unit that computes it")
    path: Word = Field(default="", description="native, dequantize, emulated; may be empty")
    memory_level: Word = Field(default="DRAM", description="where its operands come from")
    peak_flops_per_s: Positive = Field(description=RATE_TEXT)
    bandwidth_bytes_per_s: Positive = Field(description="bytes per second")
    intensity_flop_per_byte: Positive = Field(description="FLOP per byte moved")
    flops: Positive = Field(description="work, FLOP")
    time_s: Positive = Field(description="ideal time, seconds")
    bound: Word = Field(description="memory or compute")
    expected_s: Positive | None = Field(default=None, description="expected time, seconds")
    expected_low_s: Positive | None = Field(default=None, description="lower end of its 80 % interval, seconds")
    expected_high_s: Positive | None = Field(default=None, description="upper end of its 80 % interval, seconds")


class RooflineFigureRequest(Request):
    """Options and measured cases for one roofline; what a field leaves out is not drawn."""

    model_config = ConfigDict(
        **Request.model_config,
        json_schema_extra={
            "examples": [
                {
                    "options": [
                        {
                            "key": "FP16",
                            "label": "FP16",
                            "compute_format": "FP16",
                            "peak_flops_per_s": 125e12,
                            "bandwidth_bytes_per_s": 273e9,
                            "intensity_flop_per_byte": 1.0,
                            "flops": 33_554_432,
                            "time_s": 123e-6,
                            "bound": "memory",
                        }
                    ]
                }
            ]
        },
    )

    options: list[FigureOption] = Field(default=[], max_length=MOST_OPTIONS, description="formats to draw")
    focus: Label | None = Field(default=None, description="key of the option that is drawn larger")
    run: Annotated[str, Field(max_length=200, pattern=NAME_PATTERN)] | None = Field(
        default=None, description="run whose measured cases are drawn: id, label, latest"
    )
    words: str = Field(default="", max_length=200, description="each word has to be in the case's id or operator")


class FigureAnswer(Answer):
    """A figure for Plotly. A colour `$3` is the fourth of `palette`, `$3/0.5` the same at half opacity."""

    data: list[dict[str, Any]] = Field(
        description="traces; `customdata`: option's key, `case:` and a case key, or a line"
    )
    layout: dict[str, Any] = Field(description="axes, fonts, ground")
    margin: dict[str, Any] = Field(description="room around the plane, pixels of a `wide` figure and of a `narrow` one")
    brief_titles: dict[str, str] = Field(description="titles of the axes where there is little room")
    notes: list[str] = Field(description="what the figure cannot show")
    labels: list[dict[str, Any]] = Field(description="texts whose place depends on the size of the figure")
    legend: list[dict[str, Any]] = Field(description="looks and what they mean")
    cards: dict[str, Any] = Field(description="what is told of a thing pointed at, where no text of its trace does")
    ground: str = Field(description="colour of the ground")
    palette: list[list[str]] = Field(description="[on a light page, on a dark page] of every colour")
    colours: dict[str, list[str]] = Field(description="label of a format → [on a light page, on a dark page]")


class FigureName(Answer):
    """A figure of a run's report."""

    name: str = Field(description="its name, as of its file")
    title: str = Field(description="its title")
    alternative: str = Field(description="what it shows, for those who do not see it")
    kind: Literal["plane", "rows"] = Field(description="planes with axes, or a row per name")


class RunFigures(Answer):
    """The figures of a run's report, in the order of its sections."""

    figures: list[FigureName] = Field(description="figures that have something to show")


class RunFigure(FigureName):
    """A figure of a run's report."""

    figure: dict[str, Any] = Field(
        description="data, layout, palette and legend as of `FigureAnswer`; one with rows has rows, orders and totals besides"
    )
