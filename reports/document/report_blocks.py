"""The blocks of a report, from its view: the verdict first, then what was recommended, every case, errors, the machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from reports.advice.recommend import RankedRow, ShapeRecommendation
from reports.cases.calibration_doubt import doubtful_words
from reports.cases.energy import case_energy
from reports.cases.error_summary import ErrorSummary
from reports.cases.gap import LABELS, NAMES, expected_gap
from reports.cases.summary import CaseSummary
from reports.document.advice_blocks import action_blocks, matrix_blocks, stored_blocks
from reports.document.blocks import Block, Bullets, FigureBlock, Heading, Paragraph, TableBlock, TableColumn, table
from reports.formats.figure_files import figure_suffix, pareto_name
from reports.ranking.model_results import model_sentences, model_title
from reports.text.display_text import counted, prefixed, shown
from reports.text.environment_words import environment_words
from reports.text.regime import regime_words
from reports.view.views import ChipView, ReportView
from results.records.flags import DOUBTFUL_FLAGS
from results.statistics.replication import width_text
from results.text.model_text import model_notes, model_tables
from results.verdicts.gain import times_faster
from results.verdicts.model_results import ModelResult
from roofline_model.core.finding import code_text, finding, short_text
from roofline_model.core.units import format_percent, format_time
from roofline_model.expected.gap import Gap
from roofline_model.recommend.loss import loss_text

if TYPE_CHECKING:
    from reports.stored.answer import StoredRecommendations
    from reports.view.comparison import Comparison

MODEL_COLUMN_DROPS: Mapping[str, int] = {
    "process": 8, "±": 7, "peak prefill": 6, "share": 5, "perplexity ratio": 5, "same top-1": 4, "J/1k tokens": 3, "ideal": 2, "ideal tokens/s": 2, "tokens/s": 1, "exp. tokens/s": 1,
}  # fmt: skip
"""Columns of a model's tables that leave a narrow screen, the highest number first."""

LEAST_SHARE_RATIO = 0.0005
"""Parts of a time that are nowhere larger have no column."""
MOST_RANKED_ROWS = 6
"""Rows of one shape's ranking; the page has them all."""
RANKING_NOTE = (
    f"Measured configurations come first, {short_text(finding('order-of-measured'))}. ± is that of the table of all cases. ! marks a time in doubt, at a "
    "speed-up that of the baseline."
)


def report_blocks(
    view: ReportView, comparison: Comparison | None = None, stored: StoredRecommendations | None = None
) -> Iterator[Block]:
    """Yield the blocks of a report in reading order, what changed since a baseline first. A section without content is left out."""
    yield Heading(1, view.title)
    yield Paragraph(_byline(view), "quiet")
    if comparison is not None:
        # Imported by a report that has one: it brings the diff and the database along.
        from reports.document.comparison_blocks import comparison_blocks, verdict_blocks

        yield from verdict_blocks(comparison)
    yield Bullets(view.headlines, "verdict")
    if view.findings:
        yield Bullets(view.findings)
    if view.warnings:
        yield Bullets(view.warnings, "warning")
    yield from action_blocks(view)
    if comparison is not None:
        yield from comparison_blocks(comparison)
    if stored is not None:
        yield from stored_blocks(stored)
    for chip in view.chips:
        yield from _chip_blocks(view, chip)
    yield from _machine_blocks(view)
    if view.reasons:
        rows = [
            (reason.status, reason.reason, str(len(reason.case_ids)), _first(reason.case_ids))
            for reason in view.reasons
        ]
        columns = (
            TableColumn("status"),
            TableColumn("reason", is_prose=True),
            TableColumn("cases", True),
            TableColumn("which", is_prose=True, drop=1),
        )
        yield Heading(2, "What was not measured, and why")
        yield table("", columns, rows)
    if view.missing:
        yield Heading(2, "What this report cannot say")
        yield Bullets(view.missing)
    yield from _words(view)
    yield Heading(2, "Environment")
    yield TableBlock(
        "", (TableColumn("fact"), TableColumn("value", is_prose=True)), tuple(run_facts(view)), is_folded=True
    )


def _byline(view: ReportView) -> str:
    chips = ", ".join(
        f"{chip.hardware_name} ({chip.hardware_key})" if chip.hardware_key else chip.hardware_name
        for chip in view.chips
    )
    parts = (
        view.date,
        view.machine and f"measured on {view.machine}",
        f"predicted for {chips}",
        f"run {view.run.run_id[:8]}",
    )
    return " · ".join(shown(part, 200) for part in parts if part)


def _chip_blocks(view: ReportView, chip: ChipView) -> Iterator[Block]:
    suffix, where = figure_suffix(view, chip), f" on {chip.hardware_name}" if len(view.chips) > 1 else ""
    if not chip.cases:
        return
    yield Heading(2, f"Dual roofline{where}")
    yield FigureBlock(f"roofline{suffix}")
    yield Heading(2, f"All cases{where}")
    yield _case_table(chip)
    for model in chip.models:
        yield from _model(model, where)
    if chip.models:
        yield Bullets(tuple(shown(note, 300) for note in model_notes(chip.models)), "quiet")
    if chip.recommendations:
        yield Heading(2, f"What to use, shape by shape{where}")
        yield from matrix_blocks(chip)
        yield Paragraph(RANKING_NOTE, "quiet")
        for recommendation in chip.recommendations:
            yield from _recommendation(recommendation)
    if any(expected_gap(case) is not None for case in chip.cases):
        yield Heading(2, f"Where the time went{where}")
        yield FigureBlock(f"time{suffix}")
        yield _time_table(chip)
    if chip.errors:
        yield Heading(2, f"How good the predictions were{where}")
        if chip.doubtful_kinds:
            yield Paragraph(f"{doubtful_words(chip.doubtful_kinds)}.", "warning")
        yield FigureBlock(f"errors{suffix}")
        yield _error_table(chip.errors)
    yield Heading(2, f"Samples{where}")
    yield FigureBlock(f"samples{suffix}")


def _model(model: ModelResult, where: str) -> Iterator[Block]:
    yield Heading(2, f"Model {model_title(model)}{where}")
    yield Bullets(tuple(model_sentences(model)), "verdict")
    for phase in model.phases:
        yield FigureBlock(pareto_name(model, phase.phase))
    for part in model_tables(model):
        columns = [
            TableColumn(shown(name, 60), is_number=index > 0, drop=MODEL_COLUMN_DROPS.get(name, 0))
            for index, name in enumerate(part.headers)
        ]
        yield table(shown(part.title, 140), columns, [[shown(cell, 120) for cell in row] for row in part.rows])


def _recommendation(one: ShapeRecommendation) -> Iterator[Block]:
    regime = regime_words(one.cache, one.mode)
    yield Heading(3, f"{one.op} {one.shape_label}, {regime}" + (f" ({one.phase})" if one.phase else ""))
    yield Paragraph(one.summary, "verdict")
    columns = (
        TableColumn("#", True),
        TableColumn("configuration"),
        TableColumn("time", True),
        TableColumn("±", True, drop=3),
        TableColumn("known by", drop=2),
        TableColumn("speed-up", True),
        TableColumn("weights saved", True, drop=1),
        TableColumn("why", is_prose=True, drop=4),
        TableColumn("loss", is_prose=True, drop=5),
    )
    left = len(one.rows) - MOST_RANKED_ROWS
    note = f"{counted(left, 'further configuration')} left out." if left > 0 else ""
    if one.rows:
        yield table("", columns, [_ranked(row, one) for row in one.rows[:MOST_RANKED_ROWS]], note=note)
    if one.excluded:
        yield Bullets(tuple(f"not ranked: {name}: {reason}" for name, reason in one.excluded), "quiet")


def _ranked(row: RankedRow, of: ShapeRecommendation) -> tuple[str, ...]:
    doubt, over_doubt = (" !" if is_so else "" for is_so in (row.doubts, of.is_speedup_doubtful(row)))
    return (
        str(row.rank),
        shown(row.label, 80) + doubt,
        format_time(row.time_s),
        _plus_minus(row.interval_ratio),
        row.source,
        "–" if row.speedup is None else times_faster(row.speedup) + over_doubt,
        format_percent(row.memory_saved_ratio, 0),
        row.reason,
        loss_text(row.loss),
    )


def _case_table(chip: ChipView) -> TableBlock:
    columns = (
        TableColumn("case", is_prose=True),
        TableColumn("format"),
        TableColumn("kernel", drop=2),
        TableColumn("cache, mode", drop=6),
        TableColumn("measured", True),
        TableColumn("!"),
        TableColumn("±", True, drop=3),
        TableColumn("ideal", True, drop=1),
        TableColumn("error", True),
        TableColumn("expected", True, drop=4),
        TableColumn("error of it", True, drop=5),
        TableColumn("of roof", True, drop=9),
        TableColumn("bound", drop=7),
        TableColumn("energy", True, drop=8),
        TableColumn("flags", is_prose=True, drop=10),
    )
    return table("", columns, [_case(case) for case in chip.cases], note=_interval_note(chip.cases))


def _case(case: CaseSummary) -> tuple[str, ...]:
    row, energy = case.pooled, case_energy(case)
    mark = "*" if case.total_ratio is None and case.within_ratio is not None else ""
    return (
        row.title,
        row.precision,
        row.kernel,
        case.regime,
        row.status if row.measured_s is None else format_time(row.measured_s),
        "!" if case.doubts else "",
        _plus_minus(case.plus_minus_ratio) + mark,
        format_time(row.ideal_s),
        format_percent(row.error_ratio, signed=True),
        format_time(row.expected_s),
        format_percent(row.expected_error_ratio, signed=True),
        format_percent(row.roof_share_ratio, 0),
        row.bound or "–",
        prefixed(energy.energy_j if energy else None, "J"),
        ", ".join(case.flags),
    )


def _interval_note(cases: tuple[CaseSummary, ...]) -> str:
    words = ["error = (predicted − measured) / measured"]
    if any(case.total_ratio is not None for case in cases):
        words.append("± knows how far fresh processes differ")
    if any(case.total_ratio is None and case.within_ratio is not None for case in cases):
        words.append("* ± within one process only")
    if any(case.doubts for case in cases):
        words.append("! a flag puts the time in doubt")
    return f"{'; '.join(words)}."


def _time_table(chip: ChipView) -> TableBlock:
    split = [(case, gap) for case in chip.cases if (gap := expected_gap(case)) is not None]
    names = [name for name in LABELS if any(abs(_share(gap, name)) >= LEAST_SHARE_RATIO for _, gap in split)]
    # What leaves a narrow screen first is what explains least; the two ends of the split stay longest.
    sizes = {name: sum(abs(_share(gap, name)) for _, gap in split) for name in names}
    by_size = sorted(names, key=lambda name: (name in ("ideal", "unexplained"), sizes[name]))
    columns = [
        TableColumn("case", is_prose=True),
        TableColumn("measured", True),
        *(TableColumn(name, True, drop=len(names) - by_size.index(name)) for name in names),
    ]
    rows = [
        (
            f"{case.lead.title} {case.lead.label}",
            format_time(gap.measured_s),
            *(format_percent(_share(gap, name), 0) for name in names),
        )
        for case, gap in split
    ]
    meanings = "; ".join(f"{name}: {NAMES[name]}" for name in names if name not in ("ideal", "unexplained"))
    note = (
        f"Shares of the measured time, which they add up to; negative: faster than that step assumed. {meanings}.".strip(
            " ."
        )
        + "."
    )
    return table("", columns, rows, note=note)


def _share(gap: Gap, name: str) -> float:
    return dict(gap.parts).get(name, 0.0) / gap.measured_s


def _error_table(errors: tuple[ErrorSummary, ...]) -> TableBlock:
    columns = (
        TableColumn("operator", is_prose=True),
        TableColumn("format"),
        TableColumn("cache, mode", drop=4),
        TableColumn("cases", True, drop=3),
        TableColumn("ideal off by", True, drop=2 if any(error.expected_count for error in errors) else 0),
        TableColumn("signed", True, drop=6),
        TableColumn("worst", True, drop=5),
        TableColumn("of roof", True, drop=1),
        TableColumn("expected off by", True),
    )
    rows = [
        (
            error.op,
            error.precision,
            regime_words(error.cache, error.mode),
            str(error.case_count),
            format_percent(error.median_abs_error_ratio),
            format_percent(error.median_error_ratio, signed=True),
            format_percent(error.worst_error_ratio, signed=True),
            format_percent(error.median_roof_share_ratio, 0),
            format_percent(error.median_abs_expected_ratio),
        )
        for error in errors
    ]
    return table(
        "", columns, rows, note="Off by: the median of |error|; of roof: the median share that kernels reached."
    )


def _machine_blocks(view: ReportView) -> Iterator[Block]:
    state = view.state
    if not state.is_known:
        return
    yield Heading(2, "The machine over the run")
    if state.canaries:
        yield FigureBlock("canary")
    sentences = [state.canary_sentence, *state.restarts, *(shown(warning, 300) for warning in state.warnings)]
    sentences += [f"Quarantined: {_first(state.quarantined)}."] if state.quarantined else []
    sentences += [f"Clock held down: {_first(state.capped)}."] if state.capped else []
    yield Bullets(tuple(sentences))


def _words(view: ReportView) -> Iterator[Block]:
    meanings = [f"{word}: {text}" for word, text in view.regimes]
    meanings += [
        f"{flag}{' (the time is in doubt)' if flag in DOUBTFUL_FLAGS else ''}: {code_text(flag)}" for flag in view.flags
    ]
    if meanings:
        yield Heading(2, "Words")
        yield Bullets(tuple(meanings), "quiet")


def run_facts(view: ReportView) -> Iterator[tuple[str, str]]:
    """Yield (fact, value) of the run and its environment, printable and bounded."""
    from reports.view.views import utc_minutes

    run = view.run
    dirty = " (with uncommitted changes)" if run.git_is_dirty else ""
    yield from (
        ("run", shown(run.run_id)),
        ("label", shown(run.label) or "–"),
        ("started", utc_minutes(run.started_at)),
        ("finished", utc_minutes(run.finished_at)),
        ("status", run.status if run.exit_code is None else f"{run.status}, exit code {run.exit_code}"),
        ("hardware asked for", shown(run.hardware_key) or "–"),
        ("command", shown(run.command) or "–"),
        ("git", f"{shown(run.git_branch or '–', 80)} {shown(run.git_commit or '', 40)}{dirty}".strip()),
        ("plugin version", shown(run.plugin_version) or "–"),
    )
    yield from ((name, value) for name, value in environment_words(view.environment) if value != "–")


def _plus_minus(ratio: float | None) -> str:
    return "–" if ratio is None else f"±{width_text(ratio)}"


def _first(names: tuple[str, ...], count: int = 4) -> str:
    more = f" and {len(names) - count} more" if len(names) > count else ""
    return ", ".join(names[:count]) + more
