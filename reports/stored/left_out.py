"""Runs that no ranking uses, because they are in doubt or `roofline diff` would not compare them: named once, with the
reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from reports.present.display_text import change_words, counted, shown
from reports.stored.answer import LeftOut
from reports.stored.rows.levels import CaseLevel, SetAside
from results.diff.environments import differences, method_difference
from results.records.flags import FLAGS
from results.records.records import RunInfo
from roofline_model.core.finding import Finding, short_text

_SHOWN_FACTS = 2
_SHOWN_RUNS = 3


def left_out_notes(levels: Iterable[CaseLevel], runs: Mapping[str, RunInfo]) -> tuple[str, ...]:
    """Return one line for all runs that are left out for the same reason, the newest first."""
    levels = tuple(levels)
    used, lost = _used(levels), _lost(levels, runs)
    alike: dict[str, list[str]] = {}
    for run_id in sorted(lost, key=lambda key: (runs[key].started_at, key), reverse=True):
        for why, count in lost[run_id].items():
            part = f" for {counted(count, 'case')}" if run_id in used or len(lost[run_id]) > 1 else ""
            alike.setdefault(f"{part}: {why}", []).append(shown(runs[run_id].short_name, 60))
    return tuple(_line(names, why) for why, names in alike.items())


def left_out_runs(levels: Iterable[CaseLevel], runs: Mapping[str, RunInfo]) -> dict[str, LeftOut]:
    """Return the runs that no level uses, by id."""
    levels = tuple(levels)
    used = _used(levels)
    return {
        run_id: LeftOut("; ".join(whys), _line([shown(runs[run_id].short_name, 60)], f": {next(iter(whys))}"))
        for run_id, whys in _lost(levels, runs).items()
        if run_id not in used
    }


def runs_text(names: list[str]) -> str:
    """Return `run a`, or `runs a, b, c and 2 more`."""
    names_text, more = ", ".join(names[:_SHOWN_RUNS]), len(names) - _SHOWN_RUNS
    return f"run {names_text}" if len(names) == 1 else f"runs {names_text}{f' and {more} more' if more > 0 else ''}"


def _used(levels: Iterable[CaseLevel]) -> frozenset[str]:
    return frozenset(run.run_id for level in levels for run in level.runs)


def _lost(levels: Iterable[CaseLevel], runs: Mapping[str, RunInfo]) -> dict[str, dict[str, int]]:
    """Return run id → reason → for how many cases."""
    lost: dict[str, dict[str, int]] = {}
    for level in levels:
        for exclusion in level.set_aside:
            why = _why(runs[exclusion.record.run_id], exclusion, level)
            if why:
                counts = lost.setdefault(exclusion.record.run_id, {})
                counts[why] = counts.get(why, 0) + 1
    return lost


def _line(names: list[str], why: str) -> str:
    return f"{runs_text(names)} {'is' if len(names) == 1 else 'are'} left out{why}"


def _why(run: RunInfo, exclusion: SetAside, level: CaseLevel) -> str:
    """Return what kept a run out of a level; empty where nothing that is stored did."""
    reasons = [_incomparable(run, exclusion, level)] if exclusion.is_incomparable else []
    reasons += map(_doubt_text, exclusion.doubts)
    return shown("; ".join(text for text in reasons if text), 400)


def _incomparable(run: RunInfo, exclusion: SetAside, level: CaseLevel) -> str:
    facts = [
        change_words(difference.name, difference.before, difference.after)
        for difference in differences([run], [level.newest])
        if difference.is_blocking
    ]
    texts_by_reason = {
        "measured by another method": method_difference(exclusion.record.method, level.records[0].method),
        "on another machine or with other software": facts,
    }
    reasons = [f"{what} ({_first(texts)})" for what, texts in texts_by_reason.items() if texts]
    if not reasons:
        return ""
    return f"not comparable with run {level.newest.short_name}, {' and '.join(reasons)}; `roofline diff` lists all"


def _doubt_text(item: Finding) -> str:
    """Return a doubt of a night, a flag with its key: `another process used the GPU: times are too long
    (shared-device)`.
    """
    return f"{short_text(item)} ({item.code})" if item.code in FLAGS else short_text(item)


def _first(texts: Iterable[str]) -> str:
    listed = list(texts)
    more = f" and {len(listed) - _SHOWN_FACTS} more" if len(listed) > _SHOWN_FACTS else ""
    return f"{', '.join(listed[:_SHOWN_FACTS])}{more}"
