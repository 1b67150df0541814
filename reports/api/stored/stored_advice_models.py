"""Answers that rank what the stored runs say: those of `reports.present.answers.rankings`, with the paths of this API
to their evidence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from reports.api.answer_models import answer_model, document_model
from reports.api.base_models import Answer
from reports.api.stored.pages import Page
from reports.present.answers.rankings import StoredAnswer, StoredAnswers, StoredConfiguration
from roofline_model.core.answer import Evidence

if TYPE_CHECKING:
    PageModel = Answer
    EvidenceModel = Answer
    ConfigurationModel = Answer
    RankingModel = Answer
    RankingsModel = Answer
else:
    PageModel = answer_model(Page)
    EvidenceModel = answer_model(Evidence)
    ConfigurationModel = answer_model(StoredConfiguration)
    RankingModel = answer_model(StoredAnswer)
    RankingsModel = document_model(StoredAnswers)


class EvidenceBody(EvidenceModel):
    """One run that a configuration rests on."""

    run_url: str = Field(description="path of this API: the run")
    case_url: str | None = Field(description="path of this API: the very case in that run; null where it has no key")


class StoredRowBody(ConfigurationModel):
    """One configuration with its time, its loss, its confidence and its evidence."""

    evidence: list[EvidenceBody] = Field(description="runs behind it, oldest first; empty for what nobody ran")
    history_url: str | None = Field(
        description="path of this API: the case over its runs; null for what was not measured"
    )


class StoredRankingBody(RankingModel):
    """The configurations of one shape, or of one phase of a model, on one chip."""

    rows: list[StoredRowBody] = Field(description="best first")


class StoredRecommendationList(RankingsModel):
    """Rankings by chip, models before shapes."""

    page: PageModel = Field(description="which part of the list this is")
    rankings: list[StoredRankingBody] = Field(description="the rankings of this page")
