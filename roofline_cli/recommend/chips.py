"""`roofline recommend --hw gb10,h100,…`: what to take on each of several chips, side by side, the fastest first."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from reports.answers.short_answer import (
    PHASES,
    SOURCES,
    borrowed_sentence,
    is_carried_over,
    option_words,
    phase_texts,
    tokens_text,
)
from reports.present.blocks import Cell, Column, Rich, table
from reports.present.cases import option_memory_cell
from reports.present.screen import MISSING, has_room_for, show, show_line, show_next
from roofline_cli.recommend.model_view import loss_columns
from roofline_cli.shared.group import typed_pairs
from roofline_model.core.answer import BOUNDS, is_comparable
from roofline_model.core.errors import InvalidValueError
from roofline_model.core.units import format_speedup, in_prefix, interval_in_prefix, shared_prefix
from roofline_model.recommend.ranking import are_level_predictions

if TYPE_CHECKING:
    from roofline_model.core.answer import Option, Ranking

CHIP_COUNT = 12
"""Chips that one answer may compare."""


def chip_names(text: str) -> list[str]:
    """Return the names of `--hw A,B,C`, each once; raises `InvalidValueError` for an empty one or too many."""
    if "," not in text or Path(text).exists():  # a file may have a comma in its name
        return [text]
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise InvalidValueError(f"--hw has an empty entry in {text[:60]!r}; name chips as in --hw gb10,h100")
    if len(names) > CHIP_COUNT:
        raise InvalidValueError(f"--hw names {len(names)} chips; at most {CHIP_COUNT} are compared at once")
    return list(dict.fromkeys(names))


def print_chips(
    subject: str,
    rankings: Mapping[str, Ranking],
    option_name: Callable[[Option], str],
    typed_names: Mapping[str, str],
) -> None:
    """Print the choice on each chip, the fastest first; ideal times come after others, chips without a choice last.

    `typed_names`: key of a chip → how it was typed, which may be a file.
    """
    ordered = sorted(rankings.items(), key=lambda item: _place(item[1]))
    chosen = [(chip, ranking) for chip, ranking in ordered if ranking.choice is not None]
    prefix = shared_prefix([ranking.choice.estimate.time_s for _, ranking in chosen if ranking.choice is not None])
    show_line(_answer(chosen, option_name, prefix), "bold" if chosen else "bold red")
    show_line(f"{subject}. Gain: over 16 bit on the same chip.", "dim")
    chips = table("chips", _columns(option_name, prefix), ordered, says_what_is_left_out=False)
    show(chips)
    sources = {ranking.choice.estimate.source for _, ranking in chosen if ranking.choice is not None}
    if len(sources) > 1:
        show_line("(ideal) is no kernel's time: it is not compared with an expected one.", "yellow")
    lent = [chip for chip, ranking in chosen if ranking.choice and is_carried_over(ranking.choice.estimate.provenance)]
    if lent:
        show_line(f"Carried over from other chips: the times of {', '.join(lent)}.", "dim")
    borrowed = borrowed_sentence(ranking.choice for _, ranking in chosen if ranking.choice is not None)
    if borrowed and has_room_for(chips, "PPL"):
        show_line(borrowed, "dim")
    chip = chosen[0][0] if chosen else ordered[0][0]
    show_next(
        f"roofline recommend{option_words(typed_pairs(), without=('--hw',))} --hw {shlex.quote(typed_names[chip])}",
        "says why",
    )


def _answer(chosen: Sequence[tuple[str, Ranking]], option_name: Callable[[Option], str], prefix: str | None) -> str:
    """Return the fastest chip in a sentence, with its lead over the next that it can be compared with."""
    if not chosen:
        return "Nothing keeps the limits on any of these chips."
    chip, ranking = chosen[0]
    choice = ranking.choice
    assert choice is not None
    time = choice.estimate
    took = f"{option_name(choice)}, {SOURCES[time.source]} {in_prefix(time.time_s, prefix)}"
    others = [(other, each.choice.estimate) for other, each in chosen[1:] if each.choice is not None]
    others = [(other, theirs) for other, theirs in others if is_comparable(time.source, theirs.source)]
    tied = [(other, theirs) for other, theirs in others if are_level_predictions(time, theirs)]
    if tied:
        names = [chip, *(other for other, _ in tied)]
        times = ", ".join(in_prefix(theirs.time_s, prefix) for _, theirs in tied)
        return f"{', '.join(names[:-1])} and {names[-1]} are tied: {took}; the others {times}."
    if others:
        other, theirs = others[0]
        return f"{chip} is fastest: {took}, {format_speedup(theirs.time_s / time.time_s)} as fast as {other}."
    return f"{chip}: {took}."


def _place(ranking: Ranking) -> tuple[bool, float]:
    """Return what chips are ordered by: a bound of a time comes after every time of a kernel."""
    if ranking.choice is None:
        return True, math.inf
    time = ranking.choice.estimate
    return time.source in BOUNDS, time.time_s


def _columns(option_name: Callable[[Option], str], prefix: str | None) -> list[Column]:
    """Return the columns of chips with their rankings, of which the choice is shown."""

    def of_choice(text: Callable[[Option], Cell | Rich]) -> Callable[[tuple[str, Ranking]], Cell | Rich]:
        return lambda row: MISSING if row[1].choice is None else text(row[1].choice)

    def time(choice: Option) -> str:
        text = in_prefix(choice.estimate.time_s, prefix)
        return text if choice.estimate.source == "expected" else f"{text} ({choice.estimate.source})"

    def interval(choice: Option) -> str:
        low_s, high_s = choice.estimate.interval_s
        if low_s is None or high_s is None:
            return MISSING
        return interval_in_prefix(low_s, high_s, prefix, in_prefix(choice.estimate.time_s, prefix))

    def of_phase(phase: str) -> Callable[[Option], str]:
        return lambda choice: phase_texts(choice, prefix, [phase])[0]

    return [
        Column("Chip", lambda row: row[0], is_head=True),
        Column("Take", lambda row: "nothing fits" if row[1].choice is None else option_name(row[1].choice)),
        Column("Time", of_choice(time), "number"),
        Column("80 %", of_choice(interval), "number", drop=3),
        Column("Tokens/s", of_choice(tokens_text), "number"),
        *(Column(phase.capitalize(), of_choice(of_phase(phase)), "number") for phase in PHASES),
        Column("Gain", of_choice(lambda choice: format_speedup(choice.speedup_ratio)), "number", drop=1),
        Column("Memory", of_choice(option_memory_cell), "number"),
        *loss_columns(lambda row: row[1].choice, (2, 4, 6)),
    ]
