"""Lists of the database: runs, and the cases of a run, page by page."""

from __future__ import annotations

from dataclasses import dataclass

from results.cases.case_result import CaseResult
from results.records.records import RunInfo


@dataclass(frozen=True, slots=True)
class Page:
    """Where a page lies in the whole list."""

    offset: int
    """Items before this page, count."""
    limit: int
    """Most items of a page, count."""
    total_count: int
    """Items in all, count."""
    next_offset: int | None
    """Offset of the next page, count; null on the last one."""


@dataclass(frozen=True, slots=True)
class RunList:
    """Runs, newest first."""

    page: Page
    """Which part of the list this is."""
    runs: tuple[RunInfo, ...]
    """The runs of this page, newest first."""


@dataclass(frozen=True, slots=True)
class CaseList:
    """Cases of a run in the order they were stored."""

    run: RunInfo
    """The run they are of."""
    page: Page
    """Which part of the list this is."""
    cases: tuple[CaseResult, ...]
    """The cases of this page."""


def page_of(total_count: int, offset: int, limit: int) -> Page:
    """Return where a page lies."""
    after = offset + limit
    return Page(offset=offset, limit=limit, total_count=total_count, next_offset=after if after < total_count else None)
