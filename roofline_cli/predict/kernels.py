"""How the commands of `roofline predict` for one kernel show what was predicted: blocks or JSON, and a drawing."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from reports.present.blocks import Paragraph
from reports.present.encoder import command_json
from reports.present.screen import present
from roofline_cli.shared.options import float_or_nan
from roofline_model.core.errors import InvalidValueError
from roofline_model.core.finding import Finding, advice_text, finding_json
from roofline_model.core.units import sentence
from roofline_model.predictions.kernel import judge_time

if TYPE_CHECKING:
    from reports.present.blocks import Block
    from roofline_model.chips.hardware import Device
    from roofline_model.predictions.kernel import PredictionTable

LEAST_MEASURED_US = 1e-6
"""A shorter time is none that a clock shows."""


def judged_time(table: PredictionTable[Any], measured_us: str | None, chip: Device) -> Finding | None:
    """Return how the time of --measured-us stands to the one row it can be of; None where none was given."""
    if measured_us is None:
        return None
    own_us = float_or_nan(measured_us)
    if not LEAST_MEASURED_US <= own_us < math.inf:
        raise InvalidValueError(
            f"--measured-us must be a number of microseconds from {LEAST_MEASURED_US:g} on, got {measured_us[:40]!r}"
        )
    if len(table.predictions) != 1:
        raise InvalidValueError("--measured-us is the time of one format: name it, e.g. --formats BF16")
    return judge_time(table.predictions[0], own_us * 1e-6, chip)


def show_kernels(
    table: PredictionTable[Any], blocks: Iterable[Block], own_time: Finding | None = None, *, as_json: bool
) -> None:
    """Print a table of predictions, after the verdict on a time of the user's own where one was given."""

    def document() -> dict[str, Any]:
        return command_json(table) | ({} if own_time is None else {"own_time": finding_json(own_time)})

    def answer() -> Iterator[Block]:
        if own_time is not None:
            yield Paragraph(sentence(advice_text(own_time)), "verdict")
        yield from blocks

    present(document, answer, as_json=as_json)
