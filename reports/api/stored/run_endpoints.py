"""Stored runs: listed, shown, their cases, their report. Each look is a thread and a connection of its own."""

from __future__ import annotations

import hashlib
import html
import re
from dataclasses import fields
from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal

import anyio
from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import HTMLResponse, Response

from reports.api.answer_models import answer_bytes
from reports.api.base_models import CACHE_TEXT, NAME_PATTERN, CacheName
from reports.api.http.entity_tag import tagged
from reports.api.http.problem import MOST_CHARACTERS, FieldProblem, Location, ProblemError
from reports.api.http.service import Service
from reports.api.http.strict_route import StrictRoute
from reports.api.stored.run_cache import ReadRun
from reports.api.stored.store_access import without_place
from reports.text.display_text import shown, stored_text
from roofline_model.core.errors import UnknownNameError
from roofline_model.operators.product import MAX_DIMENSION

# What reads the database is imported by the first request for it (or by the warm-up): SQLAlchemy and numpy take longer
# to load than everything else of the server together.
if TYPE_CHECKING:
    from reports.cases.summary import CaseSummary
    from results.records.records import Record, RunInfo
    from results.store.store import ResultStore

router = APIRouter(tags=["stored runs"], route_class=StrictRoute)

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
Size = Annotated[int, Query(ge=1, le=MAX_DIMENSION, description="size of the product, count")]
CacheOf = Annotated[CacheName, Query(description=CACHE_TEXT)]
CaseKeyOf = Annotated[
    str | None, Query(pattern="^[0-9a-fA-F]{16}$", description="the case of this key only: sixteen hex digits")
]
Words = Annotated[str | None, Query(max_length=200, description="each word has to be in the case's id or operator")]
StatusName = Annotated[
    Literal["measured", "predicted", "skipped", "failed"] | None, Query(description="cases of this status only")
]

KEPT_PAGES = 4
_DRAWN: dict[str, str] = {}
"""The newest pages by the content they were drawn from, oldest first. One request at a time has its turn with it."""


@router.get("/api/runs", response_model="reports.api.stored.pages:RunList", summary="List the runs")
def runs(request: Request, limit: Limit = DEFAULT_PAGE, offset: Offset = 0) -> Response:
    """The runs of the database, newest first."""
    from reports.api.stored.pages import RunList, page_of

    service = _service(request)
    check_limit(service, limit)
    with service.store.reading() as store:
        total_count, page_runs = store.query(partial(_runs_page, limit=limit, offset=offset))
    answer = RunList(page_of(total_count, offset, limit), tuple(page_runs))
    return tagged(request, answer_bytes(answer, stored_text))


@router.get("/api/runs/{run}", response_model="reports.answers.run_answer:RunDetail", summary="Show a run")
def run_detail(request: Request, run: RunName) -> Response:
    """One run: when, where, how many cases of which status, and what the canary says of the machine."""
    from reports.answers.run_answer import run_detail

    stored_run = read_run(_service(request), run)
    answer = run_detail(stored_run.run, stored_run.cases, stored_run.state_sentence)
    return tagged(request, answer_bytes(answer, stored_text))


@router.get(
    "/api/runs/{run}/cases", response_model="reports.api.stored.pages:CaseList", summary="List the cases of a run"
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
    from reports.answers.run_answer import stored_case
    from reports.api.stored.pages import CaseList, page_of

    service = _service(request)
    check_limit(service, limit)
    read = read_run(service, run)
    summaries = [
        case
        for case in cases_with(read, words or "", status)
        if case_key is None or case.lead.case_key == case_key.lower()
    ]
    answer = CaseList(
        run=read.run,
        page=page_of(len(summaries), offset, limit),
        cases=tuple(map(stored_case, summaries[offset : offset + limit])),
    )
    return tagged(request, answer_bytes(answer, stored_text))


@router.get(
    "/api/runs/{run}/fastest",
    response_model="reports.api.stored.pages:FastestCases",
    summary="Find the fastest measured case of each pair of formats",
)
def fastest_cases(request: Request, run: RunName, M: Size, N: Size, K: Size, cache: CacheOf = "cold") -> Response:
    """Of one product in one run; a disturbed time counts only where a pair of formats has no other, and says so by its
    flags.
    """
    from reports.answers.run_answer import stored_case
    from reports.api.stored.pages import FastestCases

    read = read_run(_service(request), run)
    fastest: dict[tuple[str, str], CaseSummary] = {}
    for case in cases_with(read, "", "measured"):
        stored = case.lead.record.case
        formats, sizes = dict(stored.formats), dict(stored.shape)
        is_asked = (sizes.get("M"), sizes.get("N"), sizes.get("K")) == (M, N, K) and stored.cache == cache
        if not is_asked or case.measured_s is None or not {"a", "b"} <= formats.keys():
            continue
        pair = formats["b"], formats["a"]
        if pair not in fastest or _speed_order(case) < _speed_order(fastest[pair]):
            fastest[pair] = case
    answer = FastestCases(run=read.run, cases=tuple(map(stored_case, fastest.values())))
    return tagged(request, answer_bytes(answer, stored_text))


def _speed_order(case: CaseSummary) -> tuple[bool, float]:
    """Return what the fastest case has least of: disturbance, then time."""
    from results.verdicts.gain import DISTURBING_FLAGS

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
    async with _service(request).drawing.taken(request):  # seconds of a core; who waits for it holds no thread
        return await anyio.to_thread.run_sync(_report, request, run)


def _report(request: Request, run: str) -> Response:
    page = _page(_service(request), run)
    policy = {"Content-Security-Policy": page_policy(page)}
    return tagged(request, page, "text/html; charset=utf-8", policy)


def _page(service: Service, run: str) -> str:
    """Return the page of a run, drawn anew where what it is drawn from has changed."""
    from reports.page.html import ADVICE_LIMIT, SAMPLED_CASES, SHAPE_FLAGS, render_page, stored_profiles
    from reports.view.views import report_view

    with service.store.reading() as store:
        info = resolved(store, run)
        records = store.records(info.run_id, with_samples=False)
        is_flagged = any(record.measurement and set(SHAPE_FLAGS) & set(record.measurement.flags) for record in records)
        if is_flagged or len(records) <= SAMPLED_CASES:
            records = store.records(info.run_id)  # their samples are drawn
        profiles = stored_profiles(store, records)
        canaries = store.canaries(info.run_id)
        floors = store.noise_floors(info.environment.class_hash)
    # What a page is drawn from says whether it was drawn before; samples are in no repr, but they may have been pruned.
    samples = [record.measurement and len(record.measurement.samples_s) for record in records]
    # The prompt shows a run and a record in one line, so their fields are named here.
    drawn: list[RunInfo | Record] = [info, *records]
    values = [tuple(getattr(value, each.name) for each in fields(value)) for value in drawn]
    key = hashlib.sha256(repr((values, canaries, floors, samples)).encode(errors="replace")).hexdigest()
    page = _DRAWN.get(key)
    if page is None:
        view = report_view(info, records, profiles, canaries=canaries, floors=floors, most_ranked=ADVICE_LIMIT)
        page = render_page(view, is_interactive=True)
        _DRAWN[key] = page
        if len(_DRAWN) > KEPT_PAGES:
            _DRAWN.pop(next(iter(_DRAWN)), None)
    return page


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
        message = shown(without_place(str(error), store.name), MOST_CHARACTERS)
        status = 422 if location == "query" and isinstance(error, UnknownNameError) else 404
        raise ProblemError(
            status, "unknown-run", message, fields=(FieldProblem(field=field, location=location, message=message),)
        ) from None


def read_run(service: Service, name: str, field: str = "run", location: Location = "path") -> ReadRun:
    """Return the run of a name with its cases; ends the request with a problem where `resolved` does."""
    with service.store.reading() as store:
        mark = service.store.change_mark()
        return service.read_runs.read(store, resolved(store, name, field, location), mark)


def cases_with(run: ReadRun, words: str, status: str | None = None) -> list[CaseSummary]:
    """Return the cases of a status that have each word in their id, operator or title."""
    wanted = words.lower().split()
    return [
        case
        for case in run.cases
        if (status is None or case.status == status)
        and all(word in f"{case.lead.op} {case.lead.case_id} {case.lead.title}".lower() for word in wanted)
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
        raise ProblemError(
            422, "invalid-value", message, fields=(FieldProblem(field="limit", location="query", message=message),)
        )


def _service(request: Request) -> Service:
    return request.app.state.service
