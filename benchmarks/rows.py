"""One line of the result: what was aimed at, what was measured, and what a rival needs in the same run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from roofline_model.units import format_time


@dataclass(frozen=True, slots=True)
class Row:
    """One figure of one benchmark. Times are medians over `rounds`; the rival was timed in turn with us, round by round."""

    name: str
    measured_s: float
    rounds: int
    aim_s: float | None = None
    """The most it may take; None: shown for information."""
    rival: str = ""
    rival_s: float | None = None
    note: str = ""
    others_ratio: float | None = None
    """Share of the CPUs that other processes used meanwhile; None where the system does not tell."""
    is_contended: bool | None = None

    @property
    def ratio(self) -> float | None:
        """Our time over the rival's; None without a rival."""
        return self.measured_s / self.rival_s if self.rival_s else None

    @property
    def verdict(self) -> str:
        """`pass` or `MISS` against the aim; empty without one."""
        if self.aim_s is None:
            return ""
        return "pass" if self.measured_s <= self.aim_s else "MISS"

    def to_dict(self) -> dict[str, Any]:
        """Return the row as JSON values, derived ones included."""
        return {**asdict(self), "ratio": self.ratio, "verdict": self.verdict}


_HEADERS = ("", "aim", "measured", "rival", "its time", "ratio", "")


def table_lines(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the rows as a table of at most 120 columns, then the notes; `!` marks a contended row."""
    cells = [_HEADERS, *(_cells(row) for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(_HEADERS))]
    for line in cells:
        parts = [
            text.ljust(width) if i in (0, 3, 6) else text.rjust(width)
            for i, (text, width) in enumerate(zip(line, widths, strict=True))
        ]
        yield "  ".join(parts).rstrip()
    yield ""
    for row in rows:
        if row.note:
            yield f"{row.name}: {row.note}"
    contended = [row for row in rows if row.is_contended]
    if contended:
        most = max(row.others_ratio or 0.0 for row in contended)
        yield (
            f"!: other processes used up to {most:.0%} of the CPUs meanwhile: times are too long, "
            "ratios to a rival still hold; run again on a quiet machine"
        )


def _cells(row: Row) -> tuple[str, ...]:
    mark = " !" if row.is_contended else ""
    return (
        row.name,
        "–" if row.aim_s is None else f"≤ {format_time(row.aim_s)}",
        format_time(row.measured_s),
        row.rival or "–",
        format_time(row.rival_s),
        "–" if row.ratio is None else f"{row.ratio:.3g}×",
        f"{row.verdict}{mark}".strip(),
    )
