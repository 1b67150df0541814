"""`roofline explain`: what the code of a finding means."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from reports.present.blocks import Block, Column, Paragraph, brief, table
from reports.present.encoder import command_json
from reports.present.screen import present, screen_width
from roofline_cli.shared.options import JsonOption
from roofline_model.predictions.catalog import finding_list

if TYPE_CHECKING:
    from roofline_model.predictions.catalog import FindingEntry

COMMANDS = {
    "explain": ("explain", "Explain the code of a finding; without one, list all."),
}

_PIPED_WIDTH = 160
"""Characters of a line of the list where no screen limits it."""
_LEAST_ROOM = 20
"""Characters that the text of a finding gets in the list, at least."""


def explain(
    code: Annotated[
        str, typer.Argument(metavar="CODE", help="Code of a finding, e.g. kernel-gap; without one, list all.")
    ] = "",
    as_json: JsonOption = False,
) -> None:
    """Explain the code of a finding; without one, list all."""
    answer = finding_list([code] if code else None)
    present(
        lambda: command_json(answer),
        lambda: _entry_blocks(answer.codes[0]) if code else [_list(answer.codes)],
        as_json=as_json,
    )


def _entry_blocks(entry: FindingEntry) -> Iterator[Block]:
    yield Paragraph(f"{entry.code} ({entry.severity})", "verdict")
    yield from (Paragraph(_without_values(line)) for line in _lines(entry))
    yield Paragraph("")
    yield Paragraph(entry.explanation)
    if entry.fix:
        yield Paragraph(f"Fix: {_without_values(entry.fix)}")


def _list(entries: Sequence[FindingEntry]) -> Block:
    used = max(len(entry.code) for entry in entries) + len("  Severity  ")
    room = max((screen_width() or _PIPED_WIDTH) - used, _LEAST_ROOM)
    columns = (
        Column("Code", lambda entry: entry.code, is_head=True),
        Column("Severity", lambda entry: entry.severity),
        Column("Says", lambda entry: brief(_without_values(_lines(entry)[0]), room)),
    )
    return table("Codes", columns, entries)


def _lines(entry: FindingEntry) -> list[str]:
    """Return the line of a code, once for each circumstance that it has words for."""
    return [entry.text.replace("{kind}", words) for words in entry.kinds.values()] or [entry.text]


def _without_values(text: str) -> str:
    """Return a line of the catalog as it reads where no value is given: what is in brackets is left out, and `…` stands
    for a value that the line needs.

    >>> _without_values("{subject} was busy[ ({others_ratio})]: times are too long")
    '… was busy: times are too long'
    """
    return re.sub(r"\{\w+\}", "…", re.sub(r"\[[^\[\]]*\]", "", text))
