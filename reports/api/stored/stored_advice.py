"""GET /api/recommendations: what all stored runs together recommend, with links to the evidence of every row."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from pydantic_core import to_json

from reports.api.answer_models import json_response
from reports.api.base_models import NAME_PATTERN, PhaseName
from reports.api.catalog.chip_lookup import asked_chip, find_chip
from reports.api.catalog.this_machine import AUTO
from reports.api.http.openapi import answered
from reports.api.http.problem import ProblemError, naming, wrong_field
from reports.api.http.service import Service, computed
from reports.api.stored.run_endpoints import DEFAULT_PAGE, Limit, Offset, check_limit
from reports.present.display_text import stored_text
from reports.present.encoder import SCHEMA_VERSION, cleaned
from roofline_model.core.errors import UnknownNameError
from roofline_model.operators.product import MAX_DIMENSION

if TYPE_CHECKING:  # heavy: see run_endpoints
    from results.rankings import StoredQuestion
    from results.store.store import ResultStore

router = APIRouter(tags=["stored runs"])

_CASE_KEY = re.compile(r"[0-9a-f]{16}")

StoredChip = Annotated[
    str | None,
    Query(
        min_length=1,
        max_length=60,
        pattern=NAME_PATTERN,
        description="chip that runs are stored of: key, alias or auto; default: each of them",
    ),
]
StoredModel = Annotated[
    str | None, Query(min_length=1, max_length=100, pattern=NAME_PATTERN, description="passes of this model only")
]
StoredOperator = Annotated[
    str | None,
    Query(
        min_length=1, max_length=60, pattern=NAME_PATTERN, description="this operator only: gemv, gemm, attention, …"
    ),
]
Phase = Annotated[PhaseName | None, Query(description="decode or prefill only")]
Size = Annotated[
    int | None, Query(ge=1, le=MAX_DIMENSION, description="with the other two sizes: this product only, count")
]
MemoryLimit = Annotated[
    float | None,
    Query(gt=0, le=1e9, allow_inf_nan=False, description="refuse what needs more; decimal gigabytes (1e9 bytes)"),
]
LossLimit = Annotated[
    float | None, Query(ge=0, lt=1e6, allow_inf_nan=False, description="refuse what raises perplexity by more, percent")
]

Force = Annotated[
    bool, Query(description="name a result although the times behind it were disturbed or are implausible")
]


@router.get(
    "/api/recommendations",
    responses=answered(
        "reports.api.stored.stored_advice_models:StoredRecommendationList"
    ),  # it brings half of `reports` along
    summary="Rank what the stored runs measured",
)
async def recommendations(
    request: Request,
    hardware_key: StoredChip = None,
    model: StoredModel = None,
    phase: Phase = None,
    op: StoredOperator = None,
    M: Size = None,
    N: Size = None,
    K: Size = None,
    memory_limit_gb: MemoryLimit = None,
    max_loss_pct: LossLimit = None,
    force: Force = False,
    limit: Limit = DEFAULT_PAGE,
    offset: Offset = 0,
) -> Response:
    """Measured times where they exist, else expected, else ideal; reason, confidence, evidence, and what changed since
    the run before.
    """
    service: Service = request.app.state.service
    check_limit(service, limit)
    sizes = _sizes({"M": M, "N": N, "K": K}, model)

    def ranked() -> bytes:
        from results.rankings import StoredQuestion

        with service.store.reading() as store, naming("hardware_key", "query"):
            chip = "" if hardware_key is None else _stored_chip(hardware_key, store, partial(asked_chip, request))
        question = StoredQuestion(
            hardware_key=chip,
            model=model or "",
            phase=phase or "",
            op=op or "",
            shape=sizes,
            memory_limit_bytes=None if memory_limit_gb is None else memory_limit_gb * 1e9,
            max_loss_pct=max_loss_pct,
            is_forced=force,
        )
        answer = service.store.answer(question, partial(recommendations_answer, question=question))
        return to_json(_page(answer, limit, offset), inf_nan_mode="null")

    return json_response(await computed(request, ranked))


def recommendations_answer(store: ResultStore, question: StoredQuestion) -> dict[str, Any]:
    """Return all rankings as the API tells them: the document of the command line, its texts cleaned, with links."""
    from reports.present.answers.rankings import recommendations_json
    from results.rankings import recommend_from_store

    recommendations = recommend_from_store(store, question)
    answer: dict[str, Any] = cleaned(recommendations_json(recommendations), stored_text)
    for ranking, body in zip(recommendations.rankings, answer["rankings"], strict=True):
        for row, row_body in zip(ranking.options, body["rows"], strict=True):
            case_key = row.key if _CASE_KEY.fullmatch(row.key) else ""
            row_body["history_url"] = f"/api/cases/{case_key}/history" if case_key and row.is_measured else None
            for run in row_body["evidence"]:
                run_url = f"/api/runs/{run['run_id']}"
                run["run_url"] = run_url
                run["case_url"] = f"{run_url}/cases?case_key={case_key}" if case_key else None
    return answer


def _page(answer: dict[str, Any], limit: int, offset: int) -> dict[str, Any]:
    from reports.api.stored.pages import page_of

    rankings = answer["rankings"]
    page = asdict(page_of(len(rankings), offset, limit))
    return {"schema_version": SCHEMA_VERSION, **answer, "page": page, "rankings": rankings[offset : offset + limit]}


def _sizes(given: dict[str, int | None], model: str | None) -> tuple[int, ...]:
    missing = [name for name, size in given.items() if size is None]
    if len(missing) == len(given):
        return ()
    if missing:
        message = (
            f"a shape is M, N and K together: {' and '.join(missing)} missing; leave all three out for every stored "
            "shape"
        )
        raise wrong_field(missing[0], message, "query")
    if model is not None:
        message = "model asks about a whole model and M, N, K about one product: give one of the two"
        raise wrong_field("model", message, "query")
    return tuple(size for size in given.values() if size is not None)


def _stored_chip(name: str, store: ResultStore, asked_chip: Callable[[str], str]) -> str:
    """Return the key of the chip that a request means; raises as `stored_chip`.

    `asked_chip`: name → handle of `asked_chip`.
    """
    from results.rankings.stored_chip import stored_chip

    def find_key(text: str) -> str:
        try:
            return find_chip(asked_chip(text)).key
        except ProblemError as problem:
            if text.strip().lower() == AUTO:
                raise  # it says why this machine has none
            raise UnknownNameError("hardware", text, ()) from problem

    stored = {run.hardware_key for run in store.runs() if run.hardware_key}
    all_of_them = "Leave hardware_key out for all of them; POST /api/recommend says what is predicted of it"
    return stored_chip(name, stored, find_key, all_of_them=all_of_them)
