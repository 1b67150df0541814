"""What the database holds for the explorer: a run's measured cases, and what all stored runs say of the question."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from reports.present.blocks import Block, Bullets, Column, FigureBlock, Folded, Heading, Paragraph, Span, table
from reports.present.cases import CASES, title_of
from reports.present.display_text import shown, utc_minutes
from reports.present.stored import ranked_answer_blocks, stored_notes
from roofline_model.core.units import counted, sentence

if TYPE_CHECKING:
    from reports.api.stored.run_endpoints import ReadRun
    from results.cases.case_result import CaseResult
    from results.rankings import StoredRecommendations
    from results.records.records import RunInfo

MOST_CASES = 500
MOST_OPEN = 12
"""Cases whose table is open at once."""
MOST_STORED = 4


def run_title(run: RunInfo) -> str:
    """Return a run as the list of runs names it."""
    name = shown(run.label, 60) or run.run_id[:8]
    return f"{utc_minutes(run.started_at)} · {run.hardware_key} · {name}{_status(run)}"


def _status(run: RunInfo) -> str:
    return "" if run.status == "complete" else f" ({run.status})"


def runs_text(runs: Sequence[RunInfo]) -> str:
    """Return how many runs there are, of which chips."""
    if not runs:
        return "No run is stored yet. Measure some with `pytest bench_cases -k gemv` and reload this page."
    chips = ", ".join(dict.fromkeys(run.hardware_key for run in runs))
    return f"{counted(len(runs), 'run')} stored, of {chips}. Choose one to lay its measured points over the roofline."


def run_blocks(read: ReadRun, cases: Sequence[CaseResult], *, chip_key: str, has_words: bool) -> Iterator[Block]:
    """Yield a run in a line, where its points are drawn, and the table of its measured `cases`."""
    run = read.run
    facts = (
        shown(run.label) or "no label",
        run.hardware_key,
        shown(run.machine, 80),
        utc_minutes(run.started_at),
        shown(run.git_branch or "", 80),
        _status(run).strip(" ()"),
        "forced: measured on another machine than its chip" if run.is_forced else "",
    )
    yield Paragraph(
        (f"{' · '.join(filter(None, facts))} · ", Span("Open its report", anchor=f"api/runs/{run.run_id}/report"))
    )
    if not cases:
        none = "No measured case has all these words." if has_words else "This run measured nothing."
        yield Paragraph(none)
        return
    if any("simulated" in case.flags for case in cases):
        yield Paragraph("Simulated: these times come from an imaginary device, not from hardware.", "warning")
    first = f", the first {MOST_CASES} shown; narrow them down by words" if len(cases) > MOST_CASES else ""
    is_here = run.hardware_key == chip_key
    where = (
        "They lie on the roofline above."
        if is_here
        else f"They are of {run.hardware_key}, so they are drawn under its own roofs, not over those of {chip_key}."
    )
    kind = "simulated case" if all("simulated" in case.flags for case in cases) else "measured case"
    yield Paragraph(f"{counted(len(cases), kind)}{first}. {where}", "quiet")
    if not is_here:
        yield FigureBlock("measured", f"Roofline of {run.hardware_key} with {counted(len(cases), kind)}")
    columns = (Column("Case", lambda case: title_of(case.case), is_head=True), *CASES)
    members = list(islice(cases, MOST_CASES))
    body = table("Cases of the run", columns, members, anchor=lambda case: f"case-{case.case_key}", look="stacks dense")
    yield Folded(f"Table of {counted(len(members), 'case')}", (body,), is_open=len(members) <= MOST_OPEN)


def asked_blocks(answer: StoredRecommendations, cache: str) -> Iterator[Block]:
    """Yield what the stored runs recommend for the question, where any measured it, and what moved since the run
    before. Of several, the one of that cache state in eager calls.
    """
    asked = {"mode": "eager", "cache": cache}
    ranking = max(
        answer.rankings,
        key=lambda each: [getattr(each.question, name) == value for name, value in asked.items()],
        default=None,
    )
    if ranking is not None and any(option.is_measured for option in ranking.options):
        yield Heading(3, "What the stored runs say")
        yield from ranked_answer_blocks(ranking)
        yield Bullets(tuple(map(sentence, stored_notes(answer, ranking))), "quiet")
