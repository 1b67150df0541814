"""One line of the result: what was aimed at, what was measured, and what a rival needs (or says) in the same run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from roofline_model.core.units import format_time


@dataclass(frozen=True, slots=True)
class Row:
    """One figure of one benchmark. Times are medians over `rounds`; the rival was timed in turn with us, round by
    round.
    """

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


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure that is no time: a share, a ratio or a mean count, with the range it should lie in."""

    name: str
    value: float
    rounds: int
    unit: Literal["share", "ratio", "count"]
    aim_low: float | None = None
    """The least it may be; None: no lower end."""
    aim_high: float | None = None
    """The most it may be; without both ends it is shown for information."""
    rival: str = ""
    rival_value: float | None = None
    note: str = ""
    others_ratio: float | None = None
    is_contended: bool | None = None

    @property
    def verdict(self) -> str:
        """`pass` or `MISS` against the aim; empty without one."""
        if self.aim_low is None and self.aim_high is None:
            return ""
        is_inside = (self.aim_low is None or self.value >= self.aim_low) and (
            self.aim_high is None or self.value <= self.aim_high
        )
        return "pass" if is_inside else "MISS"

    def to_dict(self) -> dict[str, Any]:
        """Return the figure as JSON values, derived ones included."""
        return {**asdict(self), "verdict": self.verdict}

    def shown(self, value: float | None) -> str:
        """Return a value of this figure as text."""
        if value is None:
            return "–"
        if self.unit == "count":
            return f"{value:.3g}"
        return f"{value:.1%}" if self.unit == "share" else f"{value:.2f}×"

    @property
    def aim(self) -> str:
        """The range as text."""
        if self.aim_low is None:
            return "–" if self.aim_high is None else f"≤ {self.shown(self.aim_high)}"
        if self.aim_high is None:
            return f"≥ {self.shown(self.aim_low)}"
        return f"{self.shown(self.aim_low)} to {self.shown(self.aim_high)}"


_HEADERS = ("", "aim", "measured", "rival", "its value", "ratio", "")


def table_lines(rows: Sequence[Row | Figure]) -> Iterator[str]:
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


def _cells(row: Row | Figure) -> tuple[str, ...]:
    mark = " !" if row.is_contended else ""
    if isinstance(row, Figure):
        verdict = f"{row.verdict}{mark}".strip()
        return (row.name, row.aim, row.shown(row.value), row.rival or "–", row.shown(row.rival_value), "–", verdict)
    return (
        row.name,
        "–" if row.aim_s is None else f"≤ {format_time(row.aim_s)}",
        format_time(row.measured_s),
        row.rival or "–",
        format_time(row.rival_s),
        "–" if row.ratio is None else f"{row.ratio:.3g}×",
        f"{row.verdict}{mark}".strip(),
    )
