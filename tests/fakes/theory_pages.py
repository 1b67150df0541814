"""The pages under docs/ as tests read them: text under a heading, rows of a table."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"


@dataclass(frozen=True)
class Page:
    """One page by its file name."""

    name: str

    @cached_property
    def lines(self) -> list[str]:
        return (DOCS / self.name).read_text(encoding="utf-8").splitlines()

    def section(self, title: str) -> str:
        """Return the text under a heading whose title starts so, up to the next heading; line breaks become spaces."""
        starts = [i for i, line in enumerate(self.lines) if re.match(rf"#+ {re.escape(title)}", line)]
        assert len(starts) == 1, f"{len(starts)} headings start with {title!r}"
        rest = self.lines[starts[0] + 1 :]
        end = next((i for i, line in enumerate(rest) if re.match("#+ ", line)), len(rest))
        return re.sub(r"\s+", " ", "\n".join(rest[:end]))

    def table(self, header: str) -> list[list[str]]:
        """Return the rows of the only table whose header line starts so."""
        starts = [i for i, line in enumerate(self.lines) if line.startswith(f"| {header} |")]
        assert len(starts) == 1, f"{len(starts)} tables start with {header!r}"
        return [cells(line) for line in self._table_lines(starts[0] + 2)]

    def tables_under(self, title: str) -> list[str]:
        """Return every table line from a heading on to the end of the page."""
        start = next(i for i, line in enumerate(self.lines) if line.startswith(title))
        return [line for line in self.lines[start:] if line.startswith("| ")]

    def _table_lines(self, begin: int) -> list[str]:
        rest = self.lines[begin:]
        return rest[: next((i for i, line in enumerate(rest) if not line.startswith("|")), len(rest))]


def cells(line: str) -> list[str]:
    """Return the cells of a table line."""
    return [cell.strip() for cell in line.strip().strip("|").split("|")]
