"""A ranking as one line for a Python prompt, and as a table for a notebook."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import TYPE_CHECKING

from roofline_model.core.units import counted, format_memory, format_speedup, format_time

if TYPE_CHECKING:
    from roofline_model.core.answer import Option, Ranking

OPTION_NAMES: dict[str, Callable[[Option], str]] = {}
"""Subject of a question → the name that people are shown for an option's formats; `recommend` enters its own."""
PICTURES: dict[str, Callable[[Ranking], str]] = {}
"""Subject of a question → the picture of a ranking as SVG, drawn for a notebook; `recommend` enters its own."""
_MOST_ROWS = 8
_HEADERS = ("", "Format", "Time", "Source", "Gain", "Memory", "Loss")
_MISSING = "–"


def ranking_line(ranking: Ranking) -> str:
    """Return question, choice and counts: `<ModelRanking llama-3.1-8b on gb10: FP8 (W8A8) 37.47 ms, 6 options, 9
    excluded>`.
    """
    question, choice = ranking.question, ranking.choice
    took = "no choice" if choice is None else f"{_name(choice, ranking)} {format_time(choice.estimate.time_s)}"
    return (
        f"<{type(ranking).__name__} {question.name} on {question.hardware}: {took}, "
        f"{counted(len(ranking.options), 'option')}, {len(ranking.excluded)} excluded>"
    )


def ranking_html(ranking: Ranking) -> str:
    """Return the ranking as an HTML table, best first; the option to take is bold."""
    rows = "".join(_row(option, ranking) for option in ranking.options[:_MOST_ROWS])
    headers = "".join(f"<th>{header}</th>" for header in _HEADERS)
    hidden_count = len(ranking.options) - _MOST_ROWS
    more = f"<p>{hidden_count} more in <code>.options</code></p>" if hidden_count > 0 else ""
    draw = PICTURES.get(ranking.question.subject)
    picture = "" if draw is None else draw(ranking)
    title = f"<p>{escape(ranking_line(ranking))}</p>"
    return f"{title}<table><thead><tr>{headers}</tr></thead><tbody>{rows}</tbody></table>{more}{picture}"


def _row(option: Option, ranking: Ranking) -> str:
    role = next((alternative.role for alternative in ranking.alternatives if alternative.option == option), "")
    is_choice = ranking.choice is not None and option.key == ranking.choice.key
    cells = (
        "take" if is_choice else role,
        _name(option, ranking),
        format_time(option.estimate.time_s),
        option.estimate.source,
        format_speedup(option.speedup_ratio),
        _MISSING if option.memory is None else format_memory(option.memory.total_bytes),
        _MISSING if option.loss.pct is None else f"{option.loss.pct:.1f} %",
    )
    style = ' style="font-weight: bold"' if is_choice else ""
    return f"<tr{style}>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>"


def _name(option: Option, ranking: Ranking) -> str:
    naming = OPTION_NAMES.get(ranking.question.subject)
    return option.label or (option.key if naming is None else naming(option))
