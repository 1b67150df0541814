"""The report: its sections in reading order, each a function. Page, Markdown, paper and terminal print the same blocks.

To add a section, write a function that returns it, and name it in `CHIP_SECTIONS` or in `report_blocks`.
"""

from __future__ import annotations

from collections.abc import Iterator

from reports.document.advice_blocks import advice_section, stored_section, trade_off_section
from reports.document.answer_blocks import answer_section
from reports.document.case_blocks import (
    cases_section,
    energy_section,
    errors_section,
    gaps_section,
    kernels_section,
    roofline_blocks,
    samples_section,
)
from reports.document.model_blocks import models_section
from reports.document.report import Report, case_column, origin_text
from reports.present.blocks import (
    Block,
    Bullets,
    Cell,
    Column,
    FigureBlock,
    Folded,
    Heading,
    Live,
    Medium,
    Paragraph,
    Section,
    Span,
    table,
)
from reports.present.cases import clock_text, clocks_text, load_text, throttled_text
from reports.present.display_text import environment_words, shown
from reports.view.views import ReportView, utc_minutes
from results.cases.case_result import CaseResult
from results.cases.state import CaseState

MOST_SLOW_READINGS = 8
CHIP_SECTIONS = (
    advice_section,
    trade_off_section,
    errors_section,
    gaps_section,
    cases_section,
    samples_section,
    energy_section,
    kernels_section,
)
"""What the report says of each chip below its models, in reading order. A section of which the run holds nothing
returns None.
"""


def report_blocks(report: Report) -> Iterator[Block]:
    """Yield the blocks of a report in reading order, the verdict and what changed since a baseline first."""
    view = report.view
    yield Heading(1, view.title, medium="text")
    yield Paragraph(_byline(view), "quiet", medium="text")
    first, *others = report.chip_parts()
    yield answer_section(report, tuple(roofline_blocks(first)))
    if report.comparison is not None:
        # Imported by a report that has one: it brings the diff and the database along.
        from reports.document.comparison_blocks import comparison_sections

        yield from comparison_sections(report)
    if report.stored is not None:
        yield stored_section(report, report.stored)
    for part in (first, *others):
        if len(view.chips) > 1:
            yield Heading(2, part.chip.hardware_name, "chip", medium="page")
        if part.chip.models:
            yield models_section(part)
        if part is not first and (blocks := tuple(roofline_blocks(part))):
            yield Section(part.title("Dual roofline"), f"plot{part.suffix}", blocks)
        yield from (section for make in CHIP_SECTIONS if (section := make(part)) is not None)
    yield from _timeline(report)
    yield from _machine(report)
    yield _environment(view)


def _byline(view: ReportView) -> str:
    chips = ", ".join(
        f"{chip.hardware_name} ({chip.hardware_key})"
        if chip.hardware_key not in ("", chip.hardware_name)
        else chip.hardware_name
        for chip in view.chips
    )
    parts = (
        view.date,
        origin_text(view),
        f"predicted for {chips}" if view.counts["measured"] else chips,
        f"run {view.run.run_id[:8]}",
    )
    return " · ".join(shown(part, 200) for part in parts if part)


def _timeline(report: Report) -> Iterator[Section]:
    timeline = report.view.timeline
    if not timeline.channels and not (report.live and timeline.sentence):
        return
    title = "Power and clock over the run"
    alternative = (
        "Power, clock and temperature over the run, with the interval of each case. The numbers are in the tables."
    )
    figure = (FigureBlock("timeline", title, alternative),) if timeline.channels else ()
    live = Live("timeline", still=(*figure, Paragraph(timeline.sentence, "quiet", "page")))
    yield Section(title, "timeline", (live,))


def _machine(report: Report) -> Iterator[Section]:
    state = report.view.state
    states = [(case, own_state) for case in report.view.cases if (own_state := case.state) is not None]
    if not state.is_known and not states:
        return
    blocks: list[Block] = [Paragraph(state.canary_sentence, "bad" if state.slow else "plain")]
    if state.canaries:
        intro = (
            "A fixed kernel runs between groups of cases. When it is slow, the machine is in a slow state that clocks "
            "may "
            "not show, and the cases beside it are quarantined."
        )
        blocks.append(Paragraph(intro, "quiet", "page"))
        blocks.append(FigureBlock("canary", "Canary readings over the run", look="canary"))
    if state.slow:
        more = len(state.slow) - MOST_SLOW_READINGS
        texts = tuple(reading.text for reading in state.slow[:MOST_SLOW_READINGS])
        blocks.append(Bullets((*texts, *([f"{more} more"] if more > 0 else []))))
    for title, ids in (("Quarantined", state.quarantined), ("Clock held down in every try", state.capped)):
        if ids:
            names = [piece for name in ids for piece in (Span(name, "code"), ", ")][:-1]
            blocks += [Heading(3, title), Paragraph(tuple(names), look="ids")]
    sentences = (("Workers that did not end by themselves", state.restarts), ("Warned of at the start", state.warnings))
    for title, lines in sentences:
        if lines:
            blocks += [Heading(3, title), Bullets(tuple(shown(line, 300) for line in lines))]
    if states:
        blocks.append(_state_table(report, states))
    where: Medium = "any" if state.is_known else "page"
    yield Section("The machine over the run", "state", tuple(blocks), medium=where)


def _state_table(report: Report, states: list[tuple[CaseResult, CaseState]]) -> Folded:
    """Return the clocks, load and retries of each case; of what no case knows there is no column."""
    case_states = [state for _, state in states]
    is_gpu = any(
        state.clock_hz is not None
        or state.rated_clock_hz is not None
        or state.throttled_s
        or state.device_process_count
        for state in case_states
    )
    counts = [state.retry_count for state in case_states if state.retry_count is not None]
    has_range = any(state.clock_low_hz is not None for state in case_states)
    plain = ["No case was measured again."] if counts and not any(counts) else []
    plain += ["No temperature is stored."] if all(state.temperature_c is None for state in case_states) else []
    columns = [case_column(lambda item: item[0].case)]
    if is_gpu:
        columns += [
            Column(
                "SM clock (range)" if has_range else "SM clock",
                lambda item: Cell(clocks_text(item[1]), item[1].clock_hz),
                "number",
            ),
            Column("Rated", lambda item: Cell(clock_text(item[1].rated_clock_hz), item[1].rated_clock_hz), "number"),
            Column("Throttled", lambda item: throttled_text(item[1]), "brief"),
        ]
    if any(counts):
        columns.append(Column("Retries", lambda item: _count(item[1].retry_count), "number"))
    columns += [
        Column("CPU clock", lambda item: Cell(clock_text(item[1].cpu_clock_hz), item[1].cpu_clock_hz), "number"),
        Column("CPU time taken by", lambda item: load_text(item[1])),
        Column("Others on GPU", lambda item: _count(item[1].device_process_count if is_gpu else None), "number"),
        Column(
            "Temp.",
            lambda item: "–" if item[1].temperature_c is None else f"{item[1].temperature_c:.0f} °C",
            "number",
        ),
    ]
    note = (Paragraph(" ".join(plain), "quiet"),) if plain else ()
    made = table("State of the machine per case", columns, states[: report.most_rows_count])
    return Folded(f"Clocks, load and retries of each case ({len(states)})", (*note, made), medium="page")


def _count(value: int | None) -> Cell:
    return Cell("–" if value is None else str(value), value)


def _environment(view: ReportView) -> Section:
    facts = run_facts(view)
    given = [(name, text) for name, text in facts if text != "–"]
    unknown = [name for name, text in facts if text == "–"]
    columns = (
        Column("fact", lambda fact: fact[0], is_head=True),
        Column("value", lambda fact: fact[1], "prose"),
    )
    blocks: list[Block] = [table("Run and environment", columns, given, look="facts", is_folded=True)]
    if unknown:
        blocks.append(Paragraph(f"Not set, or nothing found: {', '.join(unknown)}.", "quiet", "page"))
    return Section("Where it ran", "environment", tuple(blocks))


def run_facts(view: ReportView) -> list[tuple[str, str]]:
    """Return (fact, value) of the run and its environment, printable and bounded; `–` where there is none."""
    run = view.run
    dirty = " (with uncommitted changes)" if run.git_is_dirty else ""
    facts = [
        ("run", shown(run.run_id)),
        ("label", shown(run.label) or "–"),
        ("started", utc_minutes(run.started_at)),
        ("finished", utc_minutes(run.finished_at)),
        ("status", run.status if run.exit_code is None else f"{run.status}, exit code {run.exit_code}"),
        ("hardware asked for", shown(run.hardware_key) or "–"),
        ("command", shown(run.command) or "–"),
        ("git", f"{shown(run.git_branch or '–', 80)} {shown(run.git_commit or '', 40)}{dirty}".strip()),
        ("plugin version", shown(run.plugin_version) or "–"),
        ("hardware profiles", ", ".join(f"{chip.hardware_name} ({chip.hardware_key})" for chip in view.chips)),
    ]
    named = {name for name, _ in facts}
    return [*facts, *(fact for fact in environment_words(view.environment) if fact[0] not in named)]
