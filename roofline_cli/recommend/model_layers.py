"""`--layers` of `roofline recommend --model`: what a search gave every layer and why, and the front it chose from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from reports.present.screen import Column, decimal_bytes, show_line, show_table
from roofline_model.core.finding import short_text
from roofline_model.core.units import column_times, counted, format_time

if TYPE_CHECKING:
    from roofline_model.recommend.model import ModelRanking
    from roofline_model.recommend.search.front import FormatAssignment
    from roofline_model.recommend.search.plan_search import FormatSearch
    from roofline_model.recommend.search.search import GroupReason

FRONT_ROWS = 12
"""Points of the front that are printed, spread over it; `--json` has all."""
_LAYER_COLUMNS = (
    Column("Part"),
    Column("Layers"),
    Column("Format"),
    Column("Loss", "right"),
    Column("Time", "right", drop=2),
    Column("Memory", "right", drop=1),
    Column("Why the first of them", is_prose=True, least=24),
)
_FRONT_COLUMNS = (
    Column("Loss", "right"),
    Column("Time", "right"),
    Column("Memory", "right"),
    Column("Formats of the groups", is_prose=True),
)


def print_layers(ranking: ModelRanking) -> None:
    """Print every search with its layers, then the front."""

    for search in ranking.searches:
        show_line()
        show_line(f"{search.label}: {short_text(search.goal)}. {_proof(search)}", "bold")
        runs = list(_runs(search.choice.reasons))
        times = column_times([sum(reason.chosen.time_s for reason in run) for run in runs])
        show_table(_LAYER_COLUMNS, [_row(run, time) for run, time in zip(runs, times, strict=True)])
    if ranking.front:
        _print_front(ranking.front, len(ranking.searches[0].choice.problem.groups) if ranking.searches else 0)


def _proof(search: FormatSearch) -> str:
    gap = search.choice.gap_value
    if not gap:
        return "Proven best of all plans for these sums."
    return f"A plan may exist that loses up to {gap:.2g} less."


def _runs(reasons: Sequence[GroupReason]) -> Iterator[list[GroupReason]]:
    """Yield groups of one part whose neighbouring layers got the same format for the same kind of reason."""
    parts: dict[str, list[GroupReason]] = {}
    for reason in reasons:
        parts.setdefault(_part(reason.group), []).append(reason)
    for members in parts.values():
        run = [members[0]]
        for reason in members[1:]:
            if (reason.chosen.label, reason.constraint) == (run[0].chosen.label, run[0].constraint):
                run.append(reason)
                continue
            yield run
            run = [reason]
        yield run


def _row(run: Sequence[GroupReason], time: str) -> list[str]:
    loss = sum(reason.chosen.loss_value for reason in run)
    return [
        _part(run[0].group),
        _layers(run),
        run[0].chosen.label,
        f"{loss:.3g}",
        time,
        decimal_bytes(sum(reason.chosen.memory_bytes for reason in run)),
        _why(run[0]),
    ]


def _print_front(front: Sequence[FormatAssignment], group_count: int) -> None:
    count = min(FRONT_ROWS, len(front))
    picked = sorted({round(at * (len(front) - 1) / max(count - 1, 1)) for at in range(count)})
    show_line()
    whole = "the one plan" if len(front) == 1 else f"all {len(front)} plans"
    shown = f"{len(picked)} of the {len(front)} plans" if len(picked) < len(front) else whole
    show_line(f"Front: {shown} that no other beats in loss, time and memory ({counted(group_count, 'group')}).", "bold")
    rows = []
    times = column_times([front[at].time_s for at in picked])
    for at, time in zip(picked, times, strict=True):
        point = front[at]
        counts = Counter(point.labels).most_common()
        listed = ", ".join(f"{label} {number}" for label, number in counts)
        rows.append([f"{point.loss_value:.3g}", time, decimal_bytes(point.memory_bytes), listed])
    show_table(_FRONT_COLUMNS, rows)


def _why(reason: GroupReason) -> str:
    """Say what the next format of less loss would have cost, and which budget that is over."""

    if reason.better is None or reason.better_time_s is None or reason.better_bytes is None:
        return "nothing loses less here"
    more_s = f"{'-' if reason.better_time_s < 0 else '+'}{format_time(abs(reason.better_time_s))}"
    saved = reason.chosen.loss_value - reason.better.loss_value
    change = f"{reason.better.label} would lose {saved:.3g} less, take {more_s} and {reason.better_bytes / 1e6:+.3g} MB"
    if reason.constraint == "gap":
        return f"{change} and stay within the budgets: the search was cut short"
    return f"{change}, over the {reason.constraint} budget"


def _part(group: str) -> str:
    return group.rpartition(".")[2]


def _layers(run: Sequence[GroupReason]) -> str:
    first, last = (reason.group.split(".")[1] if "." in reason.group else "" for reason in (run[0], run[-1]))
    return first if first == last else f"{first}-{last}"
