"""Runs that no ranking uses because `roofline diff` would not compare them: named once, with the reason."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from reports.display_text import counted, shown
from reports.environment_words import change_words
from reports.stored.levels import CaseLevel
from results.diff.environments import differences, method_difference
from results.diff.sentences import run_name
from results.records import Record, RunInfo

_SHOWN_FACTS = 2
_SHOWN_RUNS = 3


def left_out_notes(levels: Iterable[CaseLevel], runs: Mapping[str, RunInfo]) -> tuple[str, ...]:
    """Return one line for all runs that are left out for the same reason, the newest first."""
    levels = tuple(levels)
    used: dict[str, int] = {}
    lost: dict[str, list[tuple[CaseLevel, Record]]] = {}
    for level in levels:
        for run in level.runs:
            used[run.run_id] = used.get(run.run_id, 0) + 1
        for record in level.set_aside:
            lost.setdefault(record.run_id, []).append((level, record))
    alike: dict[str, list[str]] = {}
    for run_id in sorted(lost, key=lambda one: (runs[one].started_at, one), reverse=True):
        level, record = lost[run_id][0]
        why = _why(runs[run_id], record, level)
        if why:
            part = f" for {counted(len(lost[run_id]), 'case')}" if run_id in used else ""
            alike.setdefault(f"{part}: {why}", []).append(shown(run_name(runs[run_id]), 60))
    return tuple(_line(names, why) for why, names in alike.items())


def _line(names: list[str], why: str) -> str:
    told, more = ", ".join(names[:_SHOWN_RUNS]), len(names) - _SHOWN_RUNS
    which = f"run {told} is" if len(names) == 1 else f"runs {told}{f' and {more} more' if more > 0 else ''} are"
    return f"{which} left out{why}"


def _why(run: RunInfo, record: Record, level: CaseLevel) -> str:
    """Return what makes a run incomparable with a level; empty where nothing that is stored does."""
    facts = [
        change_words(one.name, one.before, one.after) for one in differences([run], [level.newest]) if one.is_blocking
    ]
    found = {
        "measured by another method": method_difference(record.method, level.records[0].method),
        "on another machine or with other software": facts,
    }
    told = [f"{what} ({_first(texts)})" for what, texts in found.items() if texts]
    if not told:
        return ""
    return shown(
        f"not comparable with run {run_name(level.newest)}, {' and '.join(told)}; `roofline diff` lists all", 400
    )


def _first(texts: Iterable[str]) -> str:
    listed = list(texts)
    more = f" and {len(listed) - _SHOWN_FACTS} more" if len(listed) > _SHOWN_FACTS else ""
    return f"{', '.join(listed[:_SHOWN_FACTS])}{more}"
