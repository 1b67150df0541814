"""What `roofline compare` shows of a measured run: one row per kernel, then the ranking."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reports.present.blocks import (
    Block,
    Cell,
    Column,
    Command,
    Paragraph,
    Span,
    TableBlock,
    more,
    notes,
    percent_cell,
    table,
    time_cell,
)
from reports.present.cases import case_label, case_precision, option_label, regime_of, title_of
from reports.present.display_text import shown
from reports.present.predicted.words import (
    LOSS_METRICS,
    ROLES,
    expected_words,
    is_carried_over,
    is_loss_known,
    loss_texts,
)
from roofline_model.core.units import format_speedup, sentence
from roofline_model.operators.case import sizes_text

if TYPE_CHECKING:
    from results.cases.case_result import CaseResult
    from results.cases.shape_verdict import ShapeVerdict
    from results.records.records import RunInfo
    from results.store.store import ResultStore
    from roofline_model.core.answer import Option, Ranking


@dataclass(frozen=True, slots=True)
class Comparison:
    """A measured run of one shape, ready to be shown."""

    run: RunInfo
    hardware_name: str
    cases: tuple[CaseResult, ...]
    """Fastest measured first, then predicted, then skipped and failed."""
    results: tuple[ShapeVerdict, ...]
    recommendations: tuple[Ranking, ...]

    @property
    def options(self) -> dict[str, Option]:
        """The cases with a time by their key, with their speed-ups over the run's own 16-bit baseline."""
        return {option.key: option for result in self.results for option in result.options}

    @property
    def baseline_label(self) -> str | None:
        """What speed-ups are counted against; None where no 16-bit kernel ran."""
        baselines = (result.baseline for result in self.results if result.baseline is not None)
        return next(map(option_label, baselines), None)

    @property
    def is_measured(self) -> bool:
        """True when at least one kernel was timed."""
        return any(case.measured_s is not None for case in self.cases)


def comparison_from_store(store: ResultStore, run_name: str) -> Comparison:
    """Read one run and put measured, predicted and recommended side by side."""
    from results.cases.case_result import run_cases
    from results.cases.shape_verdict import shape_verdicts
    from results.rankings.shape import recommend_from_run

    run = store.resolve_run(run_name)
    records = store.records(run.run_id, with_samples=False)
    cases = run_cases(run, records, store.noise_floors(run.environment.class_hash))
    hashes = (case.ideal.profile_hash for case in cases if case.ideal is not None)
    profile = next(map(store.profile, hashes), None)
    results = shape_verdicts(cases)
    places = [option.key for result in results for option in result.options]
    return Comparison(
        run=run,
        hardware_name=run.hardware_key if profile is None else profile.name,
        cases=tuple(
            sorted(
                cases,
                key=lambda case: places.index(case.case_key) if case.case_key in places else len(places),
            )
        ),
        results=results,
        recommendations=tuple(recommend_from_run(cases, None if profile is None else profile.device)),
    )


ANSWER_ROW_COUNT = 5
"""Rows of the answer's table: the first options of the ranking, and the baseline."""


def comparison_blocks(comparison: Comparison, *, db_option: str, show_all: bool) -> Iterator[Block]:
    """Yield what to take, a row for each of the first options, up to two caveats, and what to type next: a dozen
    lines; with `show_all` every kernel, the reasons of what did not run, and the ranking.
    """
    from reports.present.words.ranking_text import shape_summary

    run = comparison.run.run_id[:8]
    ranking = comparison.recommendations[0] if comparison.recommendations else None
    if ranking is None or ranking.first is None:
        yield Paragraph("Nothing was measured or predicted.", "bad")
    else:
        yield Paragraph(sentence(shape_summary(ranking)), "verdict")
        yield Paragraph(f"{_question(comparison)} on {comparison.hardware_name}.", "quiet")
        yield _answer_table(comparison, ranking)
        has_gain = comparison.baseline_label and ranking.gap is None
        over = f"Gain: over {comparison.baseline_label}. " if has_gain else ""
        has_error = any(case.error_ideal_ratio is not None for case in comparison.cases)
        error = "Error −50 %: the prediction is half the measured time. " if has_error else ""
        provenances = [option.estimate.provenance for option in ranking.options if not option.is_measured]
        carried = expected_words(*provenances) if any(map(is_carried_over, provenances)) else ""
        yield Paragraph(f"{over}{error}{carried}".rstrip(), "quiet")
    yield from notes(_caveats(comparison))
    yield Command(f"roofline report --run {run}{db_option}")
    yield from more(f"adds every kernel and why; so does `roofline show {run}`", is_shown=show_all)
    if show_all:
        yield from _details(comparison)


def _question(comparison: Comparison) -> str:
    """Return the shape and its cache state in a line."""
    if not comparison.cases:
        return f"run {comparison.run.run_id[:8]} (no case)"
    case = comparison.cases[0].case
    return f"{title_of(case)}, {regime_of(case)}"


def _answer_table(comparison: Comparison, ranking: Ranking) -> TableBlock:
    roles = {key: ROLES[role] for key, role in ranking.roles.items()}
    named = [option for option in ranking.options if option.key in roles]
    named.sort(key=lambda option: list(roles).index(option.key))
    others = [option for option in ranking.options if option not in named]
    options = [*named, *others][:ANSWER_ROW_COUNT]
    if ranking.baseline is not None and not any(map(ranking.is_baseline, options)):
        options[-1] = ranking.baseline
    by_record = {record.record_id: case for case in comparison.cases for record in case.records}

    def error(item: tuple[Option, CaseResult]) -> Cell:
        expected, ideal = item[1].error_expected_ratio, item[1].error_ideal_ratio
        return percent_cell(ideal if expected is None else expected, signed=True)

    def gain(item: tuple[Option, CaseResult]) -> str:
        return "–" if ranking.gap is not None else format_speedup(item[0].speedup_ratio)

    def loss_column(place: int, header: str) -> Column:
        def cell(item: tuple[Option, CaseResult]) -> Span:
            return Span(loss_texts(item[0])[place], "" if place or is_loss_known(item[0]) else "warning")

        return Column(header, cell, "number", drop=2)

    columns = (
        Column("", lambda item: roles.get(item[0].key, "")),
        Column("Format", lambda item: case_precision(item[1].case), is_head=True),
        Column("Kernel", lambda item: shown(item[1].case.kernel, 60), drop=3),
        Column("Measured", lambda item: time_cell(item[1].measured_s), "number"),
        Column("!", lambda item: "!" if item[1].doubts else ""),
        Column("Expected", lambda item: time_cell(item[1].expected_s), "number", drop=1),
        Column("Ideal", lambda item: time_cell(item[1].ideal_s), "number", drop=4),
        Column("Error", error, "number"),
        Column("Gain", gain, "number"),
        *(loss_column(place, header) for place, header in enumerate(LOSS_METRICS.values())),
    )
    items = [(option, by_record[option.record_ids[0]]) for option in options if option.record_ids]
    return table("Options", columns, items, says_what_is_left_out=False)


_NO_BASELINE = "no 16-bit kernel ran: speed-ups have nothing to refer to (add BF16 or FP16 to --formats)"


def _caveats(comparison: Comparison) -> list[str]:
    """Return what speed-ups lack, what failed, and which flags put times in doubt."""
    from roofline_model.core.finding import code_text

    texts = [_NO_BASELINE] if comparison.baseline_label is None else []
    failed = [case for case in comparison.cases if case.status == "failed"]
    if failed:
        others = f" and {len(failed) - 1} more" if len(failed) > 1 else ""
        texts.append(f"failed: {case_label(failed[0].case)}{others}: {shown(failed[0].reason) or 'no reason stored'}")
    flags = dict.fromkeys(flag for case in comparison.cases for flag in sorted(case.doubts))
    texts += [f"! {flag}: {code_text(flag)}" for flag in flags]
    if not comparison.is_measured:
        reasons = dict.fromkeys(case.reason for case in comparison.cases if case.status == "predicted")
        texts += [f"nothing was measured: {shown(reason)}" for reason in reasons if reason]
    return texts


def _details(comparison: Comparison) -> Iterator[Block]:
    """Yield every kernel, the reasons of what did not run, and the ranking."""
    from reports.present.cases import CASES, flag_blocks, interval_blocks, reason_blocks

    cases, options = comparison.cases, comparison.options

    def speedup(kind: str) -> Callable[[CaseResult], str]:
        return lambda case: format_speedup(_speedups(options.get(case.case_key))[kind])

    columns = (
        *CASES,
        Column("Pred.", speedup("predicted_speedup_ratio"), "number"),
        Column("Exp. gain", speedup("expected_speedup_ratio"), "number", drop=6),
        Column("Meas.", speedup("measured_speedup_ratio"), "number"),
    )
    listed = [case for case in cases if case.ideal_s is not None or case.status == "measured"]
    yield table("Kernels", columns, listed, title="Every kernel")
    if comparison.baseline_label is None:
        yield Paragraph(_NO_BASELINE, "warning")
    else:
        baseline = f"Pred. (ideal against ideal) and Meas. are speed-ups over {comparison.baseline_label}"
        yield Paragraph(f"{baseline}; error = (predicted − measured) / measured.", "quiet")
    yield from interval_blocks(cases)
    if any(case.doubts for case in cases):
        yield Paragraph("! marks a time in doubt. Of single rows:", "warning")
    yield from reason_blocks(cases)
    yield from flag_blocks(cases)
    yield from map(_ranking_table, comparison.recommendations)


def _speedups(option: Option | None) -> dict[str, float | None]:
    """Return the speed-ups of a case over the run's 16-bit baseline, each time over one of its own kind."""
    return {
        "predicted_speedup_ratio": None if option is None else option.ideal_speedup_ratio,
        "expected_speedup_ratio": None if option is None else option.expected_speedup_ratio,
        "measured_speedup_ratio": option.speedup_ratio if option is not None and option.is_measured else None,
    }


def _ranking_table(ranking: Ranking) -> TableBlock:
    from reports.present.display_text import saved_share
    from reports.present.words.ranking_text import shape_reason
    from results.cases.saved_bytes import saved_ratio

    columns = (
        Column("", lambda option: str(ranking.rank_of(option)), "number"),
        Column("Configuration", lambda option: option_label(option), "prose", least=26, is_head=True),
        Column("Time", lambda option: time_cell(option.estimate.time_s), "number"),
        Column("From", lambda option: "measured" if option.is_measured else Span(option.estimate.source, "warning")),
        Column("Gain", lambda option: format_speedup(option.speedup_ratio), "number"),
        Column("W saved", lambda option: saved_share(saved_ratio(option)), "number"),
        Column("Method", lambda option: option.method or "–", drop=2),
        Column("Why", lambda option: shape_reason(option, ranking), "prose", least=36, drop=1),
    )
    title = f"Ranking, {ranking.question.phase or ranking.question.op} {shown(sizes_text(ranking.question.sizes), 60)}"
    return table("Ranking", columns, ranking.options, title=title)


def comparison_json(comparison: Comparison) -> dict[str, Any]:
    """Return the measured comparison as JSON; every key ends in its unit."""
    from reports.present.display_text import stored_text
    from reports.present.encoder import answer_json
    from reports.present.shapes import shape_sentence

    first, options = next(iter(comparison.recommendations), None), comparison.options
    return {
        "run_id": comparison.run.run_id,
        "hardware": comparison.run.hardware_key,
        "hardware_name": comparison.hardware_name,
        "baseline": comparison.baseline_label,
        "cases": [
            {**answer_json(case, stored_text), **_speedups(options.get(case.case_key))} for case in comparison.cases
        ],
        "verdicts": list(map(shape_sentence, comparison.results)),
        "recommendation": None if first is None else {**_ranking_json(first), "doubts": _doubts(first)},
    }


def _ranking_json(recommendation: Ranking) -> dict[str, Any]:
    from reports.present.answers.rankings import RunRanking
    from reports.present.display_text import stored_text
    from reports.present.encoder import answer_json

    answer = answer_json(recommendation, stored_text, RunRanking)
    return {
        "phase": recommendation.question.phase,
        "cache": recommendation.question.cache,
        "summary": answer["summary"],
        "candidates": answer["ranked"],
        "excluded": [
            {"format": exclusion["configuration"], "reason": exclusion["reason"]} for exclusion in answer["excluded"]
        ],
    }


def _doubts(ranking: Ranking) -> list[str]:
    """Return the flags that put the measured time of the choice, or of what it is compared with, in doubt."""
    choice = ranking.choice or ranking.first
    if choice is None or not choice.is_measured:
        return []
    return sorted({*choice.trust.doubts, *(() if ranking.baseline is None else ranking.baseline.trust.doubts)})
