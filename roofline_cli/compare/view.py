"""What `roofline compare` shows of a measured run: one row per kernel, then the ranking."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reports.answers.short_answer import ROLES, expected_words, is_carried_over
from roofline_cli.recommend.model_view import LOSS_COLUMNS, loss_cells
from roofline_cli.screen.tables import (
    MISSING,
    Cell,
    Column,
    Styled,
    common_time,
    show_line,
    show_more,
    show_next,
    show_notes,
    show_table,
)
from roofline_cli.shared.group import typed
from roofline_model.core.units import (
    format_achieved,
    format_percent,
    format_speedup,
    in_prefix,
    sentence,
    shared_prefix,
)

if TYPE_CHECKING:
    from reports.cases.rows import CaseRow
    from reports.cases.summary import CaseSummary
    from reports.ranking.case_ranking import CaseRanking
    from results.records.records import RunInfo
    from results.store.store import ResultStore


@dataclass(frozen=True, slots=True)
class ComparedRow:
    """One case with its speed-ups over the run's own 16-bit baseline."""

    summary: CaseSummary
    predicted_speedup: float | None
    """Ideal against ideal."""
    measured_speedup: float | None
    expected_speedup: float | None = None
    """Expected against expected; None where either has none."""

    @property
    def case(self) -> CaseRow:
        """The case as one row, its processes pooled."""
        return self.summary.pooled


@dataclass(frozen=True, slots=True)
class Comparison:
    """A measured run of one shape, ready to be shown."""

    run: RunInfo
    hardware_name: str
    baseline_label: str | None
    rows: tuple[ComparedRow, ...]
    """Fastest measured first, then predicted, then skipped and failed."""
    verdicts: tuple[str, ...]
    recommendations: tuple[CaseRanking, ...]

    @property
    def is_measured(self) -> bool:
        """True when at least one kernel was timed."""
        return any(row.case.measured_s is not None for row in self.rows)


def comparison_from_store(store: ResultStore, run_name: str) -> Comparison:
    """Read one run and put measured, predicted and recommended side by side."""
    from reports.cases.rows import option_label
    from reports.cases.summary import run_summaries
    from reports.ranking.shape_ranking import recommend_from_run
    from reports.ranking.shape_results import shape_results
    from results.verdicts.shape_verdict import speedups

    run = store.resolve_run(run_name)
    records = store.records(run.run_id, with_samples=False)
    floors = store.noise_floors(run.environment.class_hash)
    cases = run_summaries(run, records, floors)
    by_key = {case.result.case_key: case for case in cases}
    hashes = (case.result.ideal.profile_hash for case in cases if case.result.ideal is not None)
    profile = next(map(store.profile, hashes), None)
    device = None if profile is None else profile.device
    results = shape_results(case.result for case in cases)
    compared = [
        ComparedRow(
            by_key[option.key],
            *speedups(option, result.baseline),
            _ratio(result.baseline.times.expected_s if result.baseline else None, option.times.expected_s),
        )
        for result in results
        for option in result.ranked
    ]
    shown = {id(row.summary) for row in compared}
    compared += [ComparedRow(case, None, None) for case in cases if id(case) not in shown]
    baseline = next((result.baseline for result in results if result.baseline is not None), None)
    return Comparison(
        run=run,
        hardware_name=profile.name if profile is not None else run.hardware_key,
        baseline_label=None if baseline is None else option_label(baseline),
        rows=tuple(compared),
        verdicts=tuple(result.verdict for result in results),
        recommendations=tuple(recommend_from_run((case.result for case in cases), device)),
    )


def _ratio(baseline_s: float | None, time_s: float | None) -> float | None:
    return baseline_s / time_s if baseline_s and time_s else None


ANSWER_ROW_COUNT = 5
"""Rows of the answer's table: the first options of the ranking, and the baseline."""
_ANSWER_COLUMNS = (
    Column("", hide_empty=True),
    Column("Format"),
    Column("Kernel", drop=3),
    Column("Measured", "right", hide_empty=True),
    Column("Expected", "right", drop=1, hide_empty=True),
    Column("Ideal", "right", drop=4),
    Column("Error", "right", hide_empty=True),
    Column("Gain", "right", hide_empty=True),
    *(Column(column.header, "right", drop=2, hide_empty=True) for column in LOSS_COLUMNS),
)


def print_comparison(comparison: Comparison, *, show_all: bool) -> None:
    """Print what to take, a row for each of the first options, up to two caveats, and what to type next: a dozen
    lines.
    """
    from reports.ranking.words import shape_summary

    run = comparison.run.run_id[:8]
    ranking = comparison.recommendations[0] if comparison.recommendations else None
    if ranking is None or ranking.first is None:
        show_line("Nothing was measured or predicted.", "bold red")
    else:
        show_line(sentence(shape_summary(ranking)), "bold")
        show_line(f"{_question(comparison)} on {comparison.hardware_name}.", "dim")
        show_table(_ANSWER_COLUMNS, _answer_rows(comparison, ranking), says_what_is_left_out=False)
        has_gain = comparison.baseline_label and ranking.gap is None
        over = f"Gain: over {comparison.baseline_label}. " if has_gain else ""
        has_error = any(row.case.error_ratio is not None for row in comparison.rows)
        error = "Error −50 %: the prediction is half the measured time. " if has_error else ""
        lent = [option.estimate.provenance for option in ranking.options if not option.is_measured]
        carried = expected_words(*lent) if any(map(is_carried_over, lent)) else ""
        show_line(f"{over}{error}{carried}".rstrip(), "dim")
    show_notes(_caveats(comparison))
    show_next(f"roofline report --run {run}{typed('--db')}")
    show_more(f"adds every kernel and why; so does `roofline show {run}`", is_shown=show_all)


def _question(comparison: Comparison) -> str:
    """Return the shape and its cache state in a line."""
    if not comparison.rows:
        return f"run {comparison.run.run_id[:8]} (no case)"
    row = comparison.rows[0]
    return f"{row.case.op} {row.case.shape_label}, {row.summary.regime}"


def _answer_rows(comparison: Comparison, ranking: CaseRanking) -> list[list[Cell]]:
    roles = {key: ROLES[role] for key, role in ranking.roles.items()}
    named = [option for option in ranking.options if option.key in roles]
    named.sort(key=lambda option: list(roles).index(option.key))
    others = [option for option in ranking.options if option not in named]
    options = [*named, *others][:ANSWER_ROW_COUNT]
    if ranking.baseline is not None and not any(map(ranking.is_baseline, options)):
        options[-1] = ranking.baseline
    by_record = {row_id: row for row in comparison.rows for row_id in (each.record_id for each in row.summary.rows)}
    pairs = [(option, by_record[option.record_ids[0]]) for option in options if option.record_ids]
    prefix = shared_prefix(*([row.case.ideal_s, row.case.expected_s, row.case.measured_s] for _, row in pairs))
    return [
        [
            roles.get(option.key, ""),
            row.case.precision,
            row.case.kernel,
            f"{in_prefix(row.case.measured_s, prefix)}{' !' if doubts_of(row.case) else ''}",
            in_prefix(row.case.expected_s, prefix),
            in_prefix(row.case.ideal_s, prefix),
            format_percent(
                row.case.error_ratio if row.case.expected_error_ratio is None else row.case.expected_error_ratio,
                signed=True,
            ),
            MISSING if ranking.gap is not None else format_speedup(option.speedup_ratio),
            *loss_cells(option),
        ]
        for option, row in pairs
    ]


def _caveats(comparison: Comparison) -> list[str]:
    """Return what speed-ups lack, what failed, and which flags put times in doubt."""
    from roofline_model.core.finding import code_text

    notes = []
    if comparison.baseline_label is None:
        notes.append("no 16-bit kernel ran: speed-ups have nothing to refer to (add BF16 or FP16 to --formats)")
    failed = [row.case for row in comparison.rows if row.case.status == "failed"]
    if failed:
        others = f" and {len(failed) - 1} more" if len(failed) > 1 else ""
        notes.append(f"failed: {failed[0].label}{others}: {failed[0].reason or 'no reason stored'}")
    flags = dict.fromkeys(flag for row in comparison.rows for flag in sorted(doubts_of(row.case)))
    notes += [f"! {flag}: {code_text(flag)}" for flag in flags]
    if not comparison.is_measured:
        reasons = dict.fromkeys(row.case.reason for row in comparison.rows if row.case.status == "predicted")
        notes += [f"nothing was measured: {reason}" for reason in reasons if reason]
    return notes


def print_details(comparison: Comparison) -> None:
    """Print every kernel, the reasons of what did not run, and the ranking."""
    from roofline_cli.runs.show import plus_minus_cell, print_flag_meanings, print_interval_meaning, print_reasons

    doubtful = {row.case.record_id for row in comparison.rows if doubts_of(row.case)}
    rows = [row for row in comparison.rows if row.case.ideal_s is not None or row.case.status == "measured"]
    times_s = [[case.ideal_s, case.expected_s, case.measured_s] for case in (row.case for row in rows)]
    prefix = shared_prefix(*times_s)
    shown_times = [[in_prefix(time_s, prefix) for time_s in times] for times in times_s]
    columns = (
        Column("Format"),
        Column("Kernel", is_prose=True, least=13),
        Column("Ideal", "right"),
        Column("Expected", "right", drop=4, hide_empty=True),
        Column("Measured", "right", hide_empty=True),
        Column("!", hide_empty=True),
        Column("±", "right", drop=2, hide_empty=True),
        Column("Error", "right", hide_empty=True),
        Column("Exp. err.", "right", drop=5, hide_empty=True),
        Column("Bound", drop=3),
        Column("Rate", "right", drop=1, hide_empty=True),
        Column("Pred.", "right"),
        Column("Exp. gain", "right", drop=6, hide_empty=True),
        Column("Meas.", "right", hide_empty=True),
    )
    cells: list[list[Cell]] = [
        [
            row.case.precision,
            row.case.kernel,
            ideal,
            likely,
            time,
            _mark(row.case.record_id in doubtful, doubtful),
            plus_minus_cell(row.summary),
            format_percent(row.case.error_ratio, signed=True),
            format_percent(row.case.expected_error_ratio, signed=True),
            row.case.bound or "–",
            format_achieved(row.case.bound, row.case.achieved_bytes_per_s, row.case.achieved_flops_per_s),
            format_speedup(row.predicted_speedup),
            format_speedup(row.expected_speedup),
            format_speedup(row.measured_speedup),
        ]
        for row, (ideal, likely, time) in zip(rows, shown_times, strict=True)
    ]
    show_line()
    show_table(columns, cells)
    if comparison.baseline_label is None:
        show_line("no 16-bit kernel ran: speed-ups have nothing to refer to (add BF16 or FP16 to --formats)", "yellow")
    else:
        baseline = f"Pred. (ideal against ideal) and Meas. are speed-ups over {comparison.baseline_label}"
        show_line(f"{baseline}; error = (predicted − measured) / measured.", "dim")
    print_interval_meaning(row.summary for row in comparison.rows)
    if doubtful:
        show_line("! marks a time in doubt. Of single rows:", "yellow")
    print_reasons([row.case for row in comparison.rows])
    print_flag_meanings([row.summary for row in comparison.rows])
    for recommendation in comparison.recommendations:
        show_line()
        _print_ranking(recommendation)


def doubts_of(case: CaseRow) -> frozenset[str]:
    """Return the flags that put a measured time in doubt."""
    from results.records.flags import DOUBTFUL_FLAGS

    return DOUBTFUL_FLAGS & frozenset(case.flags) if case.measured_s is not None else frozenset()


def _mark(is_doubtful: bool, doubtful: set[str]) -> str:
    """Return `!` for a doubtful row; `–` everywhere when no row is, so that the column is left out."""
    return "!" if is_doubtful else "" if doubtful else "–"


def _print_ranking(recommendation: CaseRanking) -> None:
    from reports.cases.rows import saved_ratio
    from reports.ranking.words import shape_reason
    from reports.text.display_text import saved_share

    times = common_time([option.estimate.time_s for option in recommendation.options])
    columns = (
        Column("", "right"),
        Column("Configuration", is_prose=True, least=26),
        Column("Time", "right"),
        Column("From"),
        Column("Gain", "right"),
        Column("W saved", "right"),
        Column("Method", drop=2),
        Column("Why", is_prose=True, least=36, drop=1),
    )
    cells: list[list[Cell]] = [
        [
            str(recommendation.rank_of(option)),
            option.label,
            time,
            "measured" if option.is_measured else Styled(option.estimate.source, "yellow"),
            format_speedup(option.speedup_ratio),
            saved_share(saved_ratio(option)),
            option.method or "–",
            shape_reason(option, recommendation),
        ]
        for option, time in zip(recommendation.options, times, strict=True)
    ]
    show_table(
        columns, cells, title=f"Ranking, {recommendation.phase or recommendation.op} {recommendation.shape_label}"
    )


def comparison_json(comparison: Comparison) -> dict[str, Any]:
    """Return the measured comparison as JSON; every key ends in its unit."""
    from reports.answers.answer_json import answer_json
    from reports.answers.run_answer import stored_case

    first = comparison.recommendations[0] if comparison.recommendations else None
    return {
        "run_id": comparison.run.run_id,
        "hardware": comparison.run.hardware_key,
        "hardware_name": comparison.hardware_name,
        "baseline": comparison.baseline_label,
        "cases": [
            {
                **answer_json(stored_case(row.summary)),
                "predicted_speedup_ratio": row.predicted_speedup,
                "expected_speedup_ratio": row.expected_speedup,
                "measured_speedup_ratio": row.measured_speedup,
            }
            for row in comparison.rows
        ],
        "verdicts": list(comparison.verdicts),
        "recommendation": None if first is None else {**_ranking_json(first), "doubts": list(first.choice_doubts)},
    }


def _ranking_json(recommendation: CaseRanking) -> dict[str, Any]:
    from reports.answers.answer_json import answer_json
    from reports.answers.ranking_json import run_ranking

    answer = answer_json(run_ranking(recommendation))
    return {
        "phase": recommendation.phase,
        "cache": recommendation.cache,
        "summary": answer["summary"],
        "candidates": answer["ranked"],
        "excluded": [
            {"format": exclusion["configuration"], "reason": exclusion["reason"]} for exclusion in answer["excluded"]
        ],
    }
