"""Which formats have no known kernel on a chip, in a line for each reason: the words that the API has in `kernel_gap` and `engine_gap`."""

from __future__ import annotations

from collections.abc import Iterable

from roofline_cli.screen.tables import show_line


def print_gaps(rows: Iterable[tuple[str, str, str]], *, rank: str = "") -> None:
    """Print why no kernel is known for formats; `rows`: name, kernel gap, engine gap, both empty where one is known.

    `rank`: where such a format stands because of it, for a ranking.
    """
    by_reason: dict[str, list[str]] = {}
    of_engines: dict[str, list[str]] = {}
    for name, kernel_gap, engine_gap in rows:
        found, reason = (by_reason, kernel_gap) if kernel_gap else (of_engines, engine_gap)
        if reason and name not in found.setdefault(reason, []):
            found[reason].append(name)
    for reason, names in by_reason.items():
        what = "it" if len(names) == 1 else "them"
        show_line(f"  {', '.join(names)}{rank}: no kernel is known to run {what} here: {reason}", "yellow")
    for reason, names in of_engines.items():
        show_line(f"  {', '.join(names)}: {reason}", "yellow")


def gap_json(kernel_gap: str, engine_gap: str) -> dict[str, str | None]:
    """Return both as JSON fields; null where no gap is known."""
    return {"kernel_gap": kernel_gap or None, "engine_gap": engine_gap or None}
