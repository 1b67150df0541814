"""Entries of people's lists that are about nothing that is stored: a mistyped pattern or commit must not stay unseen. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from results.history.case_history import CaseHistory, HistoryOptions


def unused_entries(histories: Sequence[CaseHistory], options: HistoryOptions) -> tuple[str, ...]:
    """Return in words which annotations and quarantine entries match no case, have expired, or name a commit of no night.

    `histories`: of every case. An annotation that merely covers no change is not told: it outlives its step on purpose.
    """
    names = [(one.name, one.case.case_key) for one in histories]
    found = [
        f"annotation {one.match} (matches no case)"
        for one in options.annotations
        if not any(one.covers_case(*name) for name in names)
    ]
    commits = {
        night.git_commit
        for one in histories
        for segment in one.segments
        for night in segment.nights
        if night.git_commit is not None
    }
    found += [
        f"annotation {one.match} (no night is of commit {one.commit})"
        for one in options.annotations
        if one.commit and not any(known.startswith(one.commit) for known in commits)
    ]
    if options.quarantine is not None:
        found += [f"quarantine entry {text}" for text in options.quarantine.unused(names)]
    return tuple(found)
