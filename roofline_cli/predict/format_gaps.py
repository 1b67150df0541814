"""Which formats have no known kernel on a chip: a line for each reason."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from roofline_cli.screen.tables import show_line
from roofline_model.core.finding import Finding, optional_json, short_text


def print_gaps(rows: Iterable[tuple[str, Finding | None]], *, rank: str = "") -> None:
    """Print why no kernel is known for formats; `rows`: name, and its `kernel-gap` or `engine-gap`.

    `rank`: where a format without any kernel stands because of it, for a ranking.
    """
    names_by_gap: dict[Finding, list[str]] = {}
    for name, gap in rows:
        if gap is not None:
            names = names_by_gap.setdefault(replace(gap, subject=""), [])
            names += [name] if name not in names else []
    for gap, names in sorted(names_by_gap.items(), key=lambda pair: pair[0].code == "engine-gap"):
        place = rank if gap.code == "kernel-gap" else ""
        show_line(f"  {', '.join(names)}{place}: {short_text(gap)}", "yellow")


def gap_json(kernel_gap: Finding | None, engine_gap: Finding | None) -> dict[str, dict[str, Any] | None]:
    """Return both as fields of JSON; null where no gap is known."""
    return {"kernel_gap": optional_json(kernel_gap), "engine_gap": optional_json(engine_gap)}
