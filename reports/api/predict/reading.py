"""The explorer's own: /api/explorer/reading and /api/explorer/verdicts, what the explorer says of the answers that it
shows, in words; and the names of all pairs of formats.

The page's own: it hands the numbers of its answers back, as it does for its figure, and places the words. Whoever wants
the answers themselves has them with their findings.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import APIRouter
from pydantic import Field

from reports.api.base_models import RequestBody
from reports.present.encoder import SCHEMA_VERSION, command_json
from reports.text.answer_words import AnswerFacts, ChipFacts, ChosenFormat, reading, verdicts
from roofline_model.formats.catalog import FORMATS, attention_name, format_name, format_pair

router = APIRouter(include_in_schema=False)

MOST_CHIPS = 8


class ReadingRequest(RequestBody):
    """One prediction of the page."""

    answer: AnswerFacts
    is_misfit: bool = Field(default=False, description="whether nothing meets the limits of the recommendation")


class VerdictsRequest(RequestBody):
    """The chips of the page, the chosen one first."""

    chips: list[ChipFacts] = Field(min_length=1, max_length=MOST_CHIPS)
    focus: ChosenFormat | None = Field(default=None, description="the format that is looked at")


@router.get("/api/explorer/names")
async def format_names() -> dict[str, Any]:
    """The one name of every pair of formats: of a product's or a model's (weight.activation), and of an attention's
    (cache.query). `alone`: the pair that one name stands for.
    """
    alone = {key: f"{weight.key}.{activation.key}" for key in FORMATS for weight, activation in [format_pair(key)]}
    return {
        "schema_version": SCHEMA_VERSION,
        "product": _names(format_name),
        "attention": _names(attention_name),
        "alone": alone,
    }


def _names(name: Callable[[str, str], str]) -> dict[str, str]:
    return {f"{first}.{second}": name(first, second) for first in FORMATS for second in FORMATS}


@router.post("/api/explorer/reading")
async def read_answer(body: ReadingRequest) -> dict[str, Any]:
    """The prediction in words: its time, what binds it, what to know of it."""
    return command_json(reading(body.answer, is_misfit=body.is_misfit))


@router.post("/api/explorer/verdicts")
async def compare_chips(body: VerdictsRequest) -> dict[str, Any]:
    """Which chip is the fastest, each as recommended, then all in one format."""
    return {"schema_version": SCHEMA_VERSION, "sentences": verdicts(body.chips, body.focus)}
