"""`roofline recommend --hw gb10,h100,…`: what to take on each of several chips, side by side, the fastest first."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from reports.present.encoder import SCHEMA_VERSION, answer_json
from reports.present.screen import present
from roofline_cli.shared.group import typed_pairs
from roofline_cli.shared.options import find_chip
from roofline_model.core.errors import InvalidValueError

if TYPE_CHECKING:
    from reports.present.predicted.words import Asked
    from roofline_model.chips.hardware import Device
    from roofline_model.core.answer import Ranking

CHIP_COUNT = 12
"""Chips that one answer may compare."""

Ranked = TypeVar("Ranked", bound="Ranking")


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


def show_chips(
    names: Sequence[str],
    ranking_on: Callable[[Device], Ranked],
    answer: Callable[[Ranked, Device, Asked], Any],
    subject: Callable[[Ranked], str],
    option_name: Callable[[Any], str],
    *,
    as_json: bool,
) -> None:
    """Show the choice on each of several chips; exits 1 when nothing meets the limits on any.

    `names`: the chips as they were typed, which may be files; `answer`: what --json prints of one.
    """
    from reports.present.predicted.details import chip_blocks
    from reports.present.predicted.words import option_words

    chips = {find_chip(name).key: (find_chip(name), name) for name in names}
    rankings = {key: ranking_on(chip) for key, (chip, _) in chips.items()}
    asked = [pair for pair in typed_pairs() if pair[0] != "--hw"]

    def document() -> dict[str, Any]:
        answers = [
            answer(ranking, chips[key][0], [*asked, ("--hw", chips[key][1])]) for key, ranking in rankings.items()
        ]
        return {"schema_version": SCHEMA_VERSION, "answers": list(map(answer_json, answers))}

    def next_command(key: str) -> str:
        return f"roofline recommend{option_words(asked)} --hw {shlex.quote(chips[key][1])}"

    first = next(iter(rankings.values()))
    present(document, lambda: chip_blocks(subject(first), rankings, option_name, next_command), as_json=as_json)
    if all(ranking.choice is None for ranking in rankings.values()):
        raise typer.Exit(1)
