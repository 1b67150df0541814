"""Stored runs: listed, shown, their cases, their report. Each look is a thread and a connection of its own."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import HTMLResponse, Response

from reports.api.answer_models import answer_bytes, json_response
from reports.api.base_models import NAME_PATTERN
from reports.api.http.openapi import answered
from reports.api.http.problem import Location, wrong_field
from reports.api.http.service import Service, computed
from reports.api.stored.store_access import without_place
from reports.present.display_text import stored_text
from roofline_model.core.errors import UnknownNameError

# What reads the database is imported by the first request for it (or by the warm-up): SQLAlchemy and numpy take longer
# to load than everything else of the server together.
if TYPE_CHECKING:
    from results.cases.case_result import CaseResult
    from results.records.records import RunInfo
    from results.store.store import ResultStore

router = APIRouter(tags=["stored runs"])

DEFAULT_PAGE = 100
MOST_OFFSET = 10_000_000

RunName = Annotated[
    str,
    Path(
        max_length=200,
        pattern=NAME_PATTERN,
        description="id or its first four digits or more, label, latest, latest~1",
        examples=["latest"],
    ),
]
Limit = Annotated[int, Query(ge=1, description="most items of the page, count; the server's most is in /api/health")]
Offset = Annotated[int, Query(ge=0, le=MOST_OFFSET, description="items to skip, count")]
CaseKeyOf = Annotated[
    str | None, Query(pattern="^[0-9a-fA-F]{16}$", description="the case of this key only: sixteen hex digits")
]
Words = Annotated[str | None, Query(max_length=200, description="each word has to be in the case's id or operator")]
StatusName = Annotated[
    Literal["measured", "predicted", "skipped", "failed"] | None, Query(description="cases of this status only")
]


@dataclass(frozen=True, slots=True)
class ReadRun:
    """A run with its cases, their processes pooled; samples are not read."""

    run: RunInfo
    cases: tuple[CaseResult, ...]
    state_sentence: str
    """What the canary readings say; empty where there were none."""


@router.get("/api/runs", responses=answered("reports.api.stored.pages:RunList"), summary="List the runs")
def runs(request: Request, limit: Limit = DEFAULT_PAGE, offset: Offset = 0) -> Response:
    """The runs of the database, newest first."""
    from reports.api.stored.pages import RunList, page_of

    service = _service(request)
    check_limit(service, limit)
    with service.store.reading() as store:
        total_count, page_runs = store.query(partial(_runs_page, limit=limit, offset=offset))
    answer = RunList(page_of(total_count, offset, limit), tuple(page_runs))
    return json_response(answer_bytes(answer, stored_text))


@router.get("/api/runs/{run}", responses=answered("reports.present.answers.runs:RunDetail"), summary="Show a run")
def run_detail(request: Request, run: RunName) -> Response:
    """One run: when, where, how many cases of which status, and what the canary says of the machine."""
    from reports.present.answers.runs import RunDetail

    stored_run = read_run(_service(request), run)
    answer = RunDetail(stored_run.run, stored_run.cases, stored_run.state_sentence)
    return json_response(answer_bytes(answer, stored_text))


@router.get(
    "/api/runs/{run}/cases", responses=answered("reports.api.stored.pages:CaseList"), summary="List the cases of a run"
)
def cases(
    request: Request,
    run: RunName,
    limit: Limit = DEFAULT_PAGE,
    offset: Offset = 0,
    words: Words = None,
    status: StatusName = None,
    case_key: CaseKeyOf = None,
) -> Response:
    """Measured, ideal and expected time of every case side by side, with what follows from them."""
    from reports.api.stored.pages import CaseList, page_of

    service = _service(request)
    check_limit(service, limit)
    read = read_run(service, run)
    summaries = [
        case for case in cases_with(read, words or "", status) if case_key is None or case.case_key == case_key.lower()
    ]
    answer = CaseList(
        run=read.run,
        page=page_of(len(summaries), offset, limit),
        cases=tuple(summaries[offset : offset + limit]),
    )
    return json_response(answer_bytes(answer, stored_text))


def fastest_cases(read: ReadRun, shape: tuple[int, ...], cache: str) -> dict[tuple[str, str], CaseResult]:
    """Return (weight, activation) format → the fastest measured case of one product in a run. A
    disturbed time counts only where a pair has no other.
    """
    fastest: dict[tuple[str, str], CaseResult] = {}
    for case in cases_with(read, "", "measured"):
        formats, sizes = dict(case.case.formats), dict(case.case.shape)
        is_asked = tuple(map(sizes.get, "MNK")) == shape and case.case.cache == cache
        if not is_asked or case.measured_s is None or not {"a", "b"} <= formats.keys():
            continue
        key = formats["b"], formats["a"]
        if key not in fastest or _speed_order(case) < _speed_order(fastest[key]):
            fastest[key] = case
    return fastest


def _speed_order(case: CaseResult) -> tuple[bool, float]:
    """Return what the fastest case has least of: disturbance, then time."""
    from results.cases.gain import DISTURBING_FLAGS

    assert case.measured_s is not None
    return not set(case.flags).isdisjoint(DISTURBING_FLAGS), case.measured_s


@router.get(
    "/api/runs/{run}/report",
    response_class=HTMLResponse,
    summary="Read the report of a run",
    responses={200: {"content": {"text/html": {"schema": {"type": "string"}}}}},
)
async def report(request: Request, run: RunName) -> Response:
    """The page that `roofline report` writes: it stands by itself and loads nothing."""
    page = await computed(request, _page, _service(request), run)
    return HTMLResponse(page, headers={"Content-Security-Policy": page_policy(page), "Cache-Control": "no-cache"})


def _page(service: Service, run: str) -> str:
    from reports.page.html import read_view, render_page

    def drawn(store: ResultStore) -> str:
        return render_page(read_view(store, resolved(store, run)), is_interactive=True)

    return service.store.answer(("report", run), drawn)


def page_policy(page: str) -> str:
    """Return the page's own policy as a header, with what a meta element cannot say: nobody may frame it.

    The policy stands in the template's head, before anything of the run. A page without one may run and load nothing.
    """
    match = re.search(
        r'<meta http-equiv="Content-Security-Policy" content="([^"<>]+)"', page[:4_000], flags=re.IGNORECASE
    )
    policy = "" if match is None else html.unescape(match[1])
    if not re.fullmatch(r"[\w ';:/=+.*-]+", policy, flags=re.ASCII):
        policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    directives = [directive.strip() for directive in policy.split(";") if directive.strip()]
    named = {
        directive.split()[0].lower() for directive in directives
    }  # a second directive of a name counts nothing, and browsers complain
    directives += [f"{name} 'none'" for name in ("base-uri", "form-action", "frame-ancestors") if name not in named]
    return "; ".join(directives)


def resolved(store: ResultStore, name: str, field: str = "run", location: Location = "path") -> RunInfo:
    """Return the run of a name; ends the request with 404 for a name that means no run, or more than one."""
    from results.store.run_names import NoSuchRunError

    try:
        return store.resolve_run(name)
    except (NoSuchRunError, UnknownNameError) as error:
        status = 422 if location == "query" and isinstance(error, UnknownNameError) else 404
        message = without_place(str(error), store.name)
        raise wrong_field(field, message, location, status=status, slug="unknown-run") from None


def read_run(service: Service, name: str, field: str = "run", location: Location = "path") -> ReadRun:
    """Return the run of a name with its cases; ends the request with a problem where `resolved` does."""
    return service.store.answer(("run", name), lambda store: _read(store, resolved(store, name, field, location)))


def _read(store: ResultStore, run: RunInfo) -> ReadRun:
    from reports.view.run_state import run_state
    from results.cases.case_result import run_cases

    records = store.records(run.run_id, with_samples=False)
    canaries = store.canaries(run.run_id)
    cases = run_cases(run, records, store.noise_floors(run.environment.class_hash))
    sentence = run_state(run, cases, records, canaries).canary_sentence if canaries else ""
    return ReadRun(run, cases, sentence)


def cases_with(run: ReadRun, words: str, status: str | None = None) -> list[CaseResult]:
    """Return the cases of a status that have each word in their id, operator or title."""
    from reports.present.cases import title_of

    wanted = words.lower().split()
    return [
        case
        for case in run.cases
        if (status is None or case.status == status)
        and all(word in f"{case.case.op} {case.case.id} {title_of(case.case)}".lower() for word in wanted)
    ]


def _runs_page(connection, *, limit: int, offset: int) -> tuple[int, list[RunInfo]]:
    from results.store.read import NEWEST_FIRST, count_runs, read_runs, select_runs

    statement = select_runs().order_by(*NEWEST_FIRST).limit(limit).offset(offset)
    return count_runs(connection), read_runs(connection, statement)


def check_limit(service: Service, limit: int) -> None:
    """End the request with a problem where a page would be longer than this server gives."""
    most = service.limits.max_page_count
    if limit > most:
        message = f"limit must be at most {most}, got {limit}; next_offset of a page leads to the next one"
        raise wrong_field("limit", message, "query")


def _service(request: Request) -> Service:
    return request.app.state.service
