"""A report as Markdown, for chats, issues and pull requests: the verdict first, tables, the environment folded up.

Whatever a run holds is text: every character that Markdown or HTML would read is escaped. Commands of ours in
backticks stay code.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from reports.present.blocks import Block, Bullets, Heading, Paragraph, Rich, TableBlock, plain_text, text_blocks
from reports.present.display_text import counted, shown

MOST_ROWS = 60
"""Rows of one table: a pull request's comment holds 65,536 characters."""
MOST_CHARACTERS = 60_000

ESCAPED_CHARACTERS = 400
_CELL_CHARACTERS = 200
_COMMAND = re.compile(r"(`(?:roofline|pytest|-)[A-Za-z0-9 _.=/-]*`)")
"""No label is taken for code, unless it is such a command: nothing in it means anything to Markdown or HTML."""
_LEADS = {"warning": "⚠️ ", "bad": "⚠️ ", "failed": "❌ "}
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>()#+!|~@&])")
_ADDRESSED = re.compile(r"(@(?=\w)|#(?=\d)|://|www\.)", re.IGNORECASE)
_BREAK = "\u200b"
"""Zero-width space. GitHub reads `@name`, `#1` and bare addresses after Markdown is done, where no backslash helps: a
branch named after a person would notify them from every comment.
"""


def markdown(blocks: Iterable[Block]) -> str:
    """Return blocks as Markdown; figures are left out, their files are asked for with `--figures`."""
    parts: list[str] = []
    size = 0
    left: list[str] = []
    for block in text_blocks(blocks):
        text = _text(block)
        if not text:
            continue
        if size + len(text) > MOST_CHARACTERS:
            left.append(plain_text(block.text) if isinstance(block, Heading) else "")
            continue
        parts.append(text)
        size += len(text) + 2
    if left:
        named = ", ".join(escaped_sentence(name) for name in left if name)
        parts.append(
            f"*Left out, because a comment holds no more{f': {named}' if named else ''}; the page and the JSON have "
            "everything.*"
        )
    return _without_empty_sections(parts) + "\n"


def _text(block: Block) -> str:
    if isinstance(block, Heading):
        return f"{'#' * block.rank} {_escaped(block.text)}"
    if isinstance(block, Paragraph):
        text = _LEADS.get(block.tone, "") + _escaped(block.text)
        mark = {"verdict": "**", "good": "**", "quiet": "*"}.get(block.tone, "")
        return f"{mark}{text}{mark}"
    if isinstance(block, Bullets):
        mark = "**" if block.tone == "verdict" else ""
        return "\n".join(f"- {_LEADS.get(block.tone, '')}{mark}{_escaped(item)}{mark}" for item in block.items)
    return table_text(block) if isinstance(block, TableBlock) else ""


def _escaped(text: Rich) -> str:
    return escaped_sentence(plain_text(text))


def table_text(block: TableBlock) -> str:
    """Return a table, folded up where few read it."""
    rows = block.rows[:MOST_ROWS]
    lines = [f"**{_escaped(block.title)}**", ""] if block.title else []
    lines.append(f"| {' | '.join(_cell(column.header) for column in block.columns)} |")
    lines.append(f"|{'|'.join('--:' if column.kind == 'number' else '---' for column in block.columns)}|")
    lines += [f"| {' | '.join(_cell(cell.content) for cell in row.cells)} |" for row in rows]
    if len(block.rows) > len(rows):
        lines += ["", f"… and {counted(len(block.rows) - len(rows), 'more row')}; the page and the JSON have them."]
    if block.text_note:
        lines += ["", f"*{escaped_sentence(block.text_note)}*"]
    text = "\n".join(lines)
    return (
        f"<details><summary>{counted(len(block.rows), 'fact')}</summary>\n\n{text}\n\n</details>"
        if block.is_folded
        else text
    )


def _cell(content: Rich) -> str:
    text = plain_text(content)
    cut = text if len(text) <= _CELL_CHARACTERS else f"{text[: _CELL_CHARACTERS - 1]}…"
    return escaped_sentence(cut) or " "


def escaped(text: str) -> str:
    """Return text that Markdown shows as it is, on one line, and that names nobody: labels and case names come from
    outside.
    """
    return escaped_part(shown(text, ESCAPED_CHARACTERS))


def escaped_part(text: str) -> str:
    """Return the same of a part of a line that is `shown` already: spaces at its ends stay."""
    return _SPECIAL.sub(r"\\\1", _ADDRESSED.sub(rf"\1{_BREAK}", text))


def escaped_sentence(text: str) -> str:
    """Return text that Markdown shows as it is, and that reads well raw: signs that are harmless where they stand are
    left alone.
    """
    parts = _COMMAND.split(shown(text, ESCAPED_CHARACTERS))
    escaped = "".join(part if _COMMAND.fullmatch(part) else _escaped_words(part) for part in parts)
    if escaped[:1] == "#":
        return f"\\{escaped}"
    return f"\\{escaped}" if escaped[:1] in "+-" and escaped[1:2] == " " else escaped


def _escaped_words(text: str) -> str:
    # Brackets stay escaped, so that parentheses behind them open no link; `_` within a word is no emphasis.
    escaped = re.sub(r"\\([()+!#])", r"\1", escaped_part(text))
    return re.sub(r"(?<=[A-Za-z0-9])\\_(?=[A-Za-z0-9])", "_", escaped)


def _without_empty_sections(parts: list[str]) -> str:
    """Join the parts without headings that have nothing below them (a figure, or what was left out)."""
    without_empty_sections = []
    for part, following in zip(parts, [*parts[1:], "#"], strict=True):
        level, below = _level(part), _level(following)
        if not level or not below or below > level:
            without_empty_sections.append(part)
    return "\n\n".join(without_empty_sections)


def _level(part: str) -> int:
    return len(part) - len(part.lstrip("#")) if part.startswith("#") else 0
