"""What changes over time: a case over its nights, two runs against each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import Response

from reports.api.answer_models import answer_bytes, json_response
from reports.api.base_models import NAME_PATTERN
from reports.api.http.openapi import answered
from reports.api.http.problem import naming
from reports.api.stored.run_endpoints import resolved
from reports.present.display_text import stored_text
from roofline_model.core.errors import UnknownNameError

if TYPE_CHECKING:  # heavy: see run_endpoints
    from results.diff.suites import SuiteSide
    from results.records.records import RunInfo
    from results.store.store import ResultStore

router = APIRouter(tags=["over time"])

CaseKey = Annotated[str, Path(pattern="^[0-9a-fA-F]{16}$", description="case_key of a case: sixteen hex digits")]
MetricName = Annotated[Literal["time", "energy", "memory", "quality", "error"], Query(description="what to watch")]
Branch = Annotated[
    str | None,
    Query(
        min_length=1,
        max_length=200,
        pattern=NAME_PATTERN,
        description="whose nights count, or all; default: the branch with most nights",
    ),
]
Since = Annotated[
    str | None,
    Query(
        pattern=r"^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])$",
        description="only nights from this day on, UTC, e.g. 2026-11-01",
    ),
]
SideName = Annotated[
    str, Query(max_length=200, pattern=NAME_PATTERN, description="run: id, its first digits, label, latest, latest~1")
]


@router.get(
    "/api/cases/{case_key}/history",
    responses=answered("reports.present.answers.history:HistoryAnswer"),
    summary="A case over its runs",
)
def history(
    request: Request, case_key: CaseKey, metric: MetricName = "time", branch: Branch = None, since: Since = None
) -> Response:
    """The nights of a case in comparable segments, the levels between its steps, and the changes."""
    from reports.present.answers.history import HistoryAnswer
    from results.history.case_history import case_history

    with request.app.state.service.store.reading() as store:
        with naming("case_key", "path"):
            _check_is_stored(store, case_key.lower())
        with naming("metric", "query"):
            case_points = case_history(store, case_key.lower(), metric=metric, since=since, branch=branch)
    return json_response(answer_bytes(case_points, stored_text, HistoryAnswer))


@router.get("/api/diff", responses=answered("reports.present.answers.diff:DiffAnswer"), summary="Compare two runs")
def diff(request: Request, before: SideName = "latest~1", after: SideName = "latest") -> Response:
    """What got slower or faster by more than noise: the verdict of `roofline diff` with its usual rules."""
    from reports.present.answers.diff import DiffAnswer
    from results.diff.gate import gate, parse_fail_on
    from results.diff.rules import DiffRules
    from results.diff.suites import compare_suites

    with request.app.state.service.store.reading() as store:
        sides = [resolved(store, name, field, "query") for name, field in ((before, "before"), (after, "after"))]
        noise = store.noise_floors(sides[1].environment.class_hash)
        suites = [_side(store, run) for run in sides]
    with naming("after", "query"):
        comparison = compare_suites(suites[0], suites[1], noise, DiffRules())
    fail_on = parse_fail_on(["slower"])
    return json_response(answer_bytes(DiffAnswer(comparison, gate(comparison, fail_on), fail_on), stored_text))


def _check_is_stored(store: ResultStore, case_key: str) -> None:
    """Raise `UnknownNameError` for a key of no stored case."""
    from results.history.reading import find_case

    case = find_case(store, case_key)
    if case.case_key != case_key:
        raise UnknownNameError("case", case_key, [case.case_key])


def _side(store: ResultStore, run: RunInfo) -> SuiteSide:
    from results.diff.suites import SuiteSide

    return SuiteSide((run,), tuple(store.records(run.run_id, with_samples=False)))
