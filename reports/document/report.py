"""What a report is composed from: the view of a run, what it is compared with, and how much of it a page lists."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from reports.present.blocks import Cell, Column, Span
from reports.present.cases import name_of
from reports.present.display_text import counted, shown
from reports.view.views import ChipView, ReportView, case_anchors, record_anchors
from roofline_model.operators.case import Case, is_model_case

if TYPE_CHECKING:
    from reports.view.comparison import Comparison
    from results.rankings import StoredRecommendations


@dataclass(frozen=True, slots=True)
class Report:
    """A report before it is composed."""

    view: ReportView
    comparison: Comparison | None = None
    stored: StoredRecommendations | None = None
    live: Mapping[str, Any] | None = None
    """The data of the page's scripts; None: nothing has scripts."""
    most_rows_count: int | None = None
    """Rows of one table on a page whose scripts show them all."""
    most_open_count: int | None = None
    """Rankings of one chip that are not folded away."""
    anchors: Mapping[str, str] = field(default_factory=dict)
    """Record → the place of its case on the page."""
    case_places: Mapping[tuple[str, str, str], str] = field(default_factory=dict)
    """(case id, cache state, mode) → the place of the case on the page."""

    def with_places(self) -> Report:
        """Return the report with the places that the page's links lead to."""
        return replace(
            self,
            anchors=record_anchors(self.view, self.most_rows_count),
            case_places=case_anchors(self.view, self.most_rows_count),
        )

    def chip_parts(self) -> Iterator[ChipPart]:
        """Yield the parts of the chips; cases are numbered through."""
        first_ordinal = 1
        for index, chip in enumerate(self.view.chips):
            yield ChipPart(self, chip, index, first_ordinal)
            first_ordinal += len(chip.cases)

    def place(self, record_ids: tuple[str, ...]) -> str:
        """Return the place of the first of some records that has one on the page; empty where none has."""
        return next((self.anchors[key] for key in record_ids if key in self.anchors), "")


@dataclass(frozen=True, slots=True)
class ChipPart:
    """What a report says of one chip."""

    report: Report
    chip: ChipView
    index: int
    first_ordinal: int
    """Of its first case on the page."""

    @property
    def suffix(self) -> str:
        """What tells its places on the page from those of another chip: nothing for the first."""
        return "" if self.index == 0 else f"-{self.index + 1}"

    @property
    def live(self) -> Mapping[str, Any] | None:
        """The scripts' data of this chip."""
        return None if self.report.live is None else self.report.live["chips"][self.index]

    def title(self, *pieces: str | Span) -> tuple[str | Span, ...]:
        """Return the title of a section; texts name the chip where there are several, a page has a heading for it."""
        where = (Span(f" on {self.chip.hardware_name}", medium="text"),) if len(self.report.view.chips) > 1 else ()
        return (*pieces, *where)


def origin_text(view: ReportView) -> str:
    """Return where the times of a run come from: `measured on NVIDIA GB10`, simulated, or predicted alone."""
    if not view.counts["measured"]:
        return "predicted, nothing was measured"
    if view.is_simulated:
        return "simulated times, no kernel ran"
    is_named = not view.machine or view.machine in view.chips[0].hardware_name
    return "measured" if is_named else f"measured on {view.machine}"


def case_column(case_of: Callable[[Any], Case]) -> Column:
    """Return the column that names a case: by its id, a pass of a whole model by its title."""

    def cell(item: Any) -> Cell:
        case = case_of(item)
        if is_model_case(case):
            return Cell(name_of(case), title=shown(case.id, 160), look="named")
        return Cell(Span(name_of(case), "code"))

    return Column("Case", cell, "brief", is_head=True)


def left_out(count: int, noun: str, where: str) -> str:
    """Return that some are not listed, and where they are."""
    return f"{counted(count, f'more {noun}')} not listed here: {where}."
