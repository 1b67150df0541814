"""What a search gave every layer of a model and why, and the front it chose from: `--layers` of `recommend --model`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from reports.present.blocks import Block, Column, Paragraph, table, time_cell
from roofline_model.core.finding import short_text
from roofline_model.core.units import counted, format_memory, format_time

if TYPE_CHECKING:
    from roofline_model.recommend.model import ModelRanking
    from roofline_model.recommend.search.front import FormatAssignment
    from roofline_model.recommend.search.search import GroupReason

FRONT_ROWS = 12
"""Points of the front that are shown, spread over it; `--json` has all."""


def layer_blocks(ranking: ModelRanking) -> Iterator[Block]:
    """Yield every search with its layers, then the front."""
    for search in ranking.searches:
        gap = search.choice.gap_value
        proof = (
            f"A plan may exist that loses up to {gap:.2g} less." if gap else "Proven best of all plans for these sums."
        )
        yield Paragraph("")
        yield Paragraph(f"{search.label}: {short_text(search.goal)}. {proof}", "verdict")
        yield table("Layers", _LAYERS, list(_runs(search.choice.reasons)))
    if ranking.front:
        yield from _front_blocks(
            ranking.front, len(ranking.searches[0].choice.problem.groups) if ranking.searches else 0
        )


def _front_blocks(front: Sequence[FormatAssignment], group_count: int) -> Iterator[Block]:
    count = min(FRONT_ROWS, len(front))
    picked = sorted({round(at * (len(front) - 1) / max(count - 1, 1)) for at in range(count)})
    whole = "the one plan" if len(front) == 1 else f"all {len(front)} plans"
    shown = f"{len(picked)} of the {len(front)} plans" if len(picked) < len(front) else whole
    groups = counted(group_count, "group")
    yield Paragraph("")
    yield Paragraph(f"Front: {shown} that no other beats in loss, time and memory ({groups}).", "verdict")
    yield table("Front", _FRONT, [front[at] for at in picked])


def _runs(reasons: Sequence[GroupReason]) -> Iterator[list[GroupReason]]:
    """Yield groups of one part whose neighbouring layers got the same format for the same kind of reason."""
    parts: dict[str, list[GroupReason]] = {}
    for reason in reasons:
        parts.setdefault(_part(reason), []).append(reason)
    for members in parts.values():
        for _, run in groupby(members, lambda reason: (reason.chosen.label, reason.constraint)):
            yield list(run)


def _part(reason: GroupReason) -> str:
    return reason.group.rpartition(".")[2]


def _layers(run: Sequence[GroupReason]) -> str:
    first, last = (reason.group.split(".")[1] if "." in reason.group else "" for reason in (run[0], run[-1]))
    return first if first == last else f"{first}-{last}"


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


def _formats(point: FormatAssignment) -> str:
    return ", ".join(f"{label} {number}" for label, number in Counter(point.labels).most_common())


_LAYERS = (
    Column("Part", lambda run: _part(run[0]), is_head=True),
    Column("Layers", _layers),
    Column("Format", lambda run: run[0].chosen.label),
    Column("Loss", lambda run: f"{sum(reason.chosen.loss_value for reason in run):.3g}", "number"),
    Column("Time", lambda run: time_cell(sum(reason.chosen.time_s for reason in run)), "number", drop=2),
    Column("Memory", lambda run: format_memory(sum(reason.chosen.memory_bytes for reason in run)), "number", drop=1),
    Column("Why the first of them", lambda run: _why(run[0]), "prose", least=24),
)
_FRONT = (
    Column("Loss", lambda point: f"{point.loss_value:.3g}", "number"),
    Column("Time", lambda point: time_cell(point.time_s), "number"),
    Column("Memory", lambda point: format_memory(point.memory_bytes), "number"),
    Column("Formats of the groups", _formats, "prose"),
)
