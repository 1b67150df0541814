"""What `roofline pipeline` prints: the candidates with predictions beside the clock, then the verdict in sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from reports.present.screen import Cell, Column, Styled, show_line, show_table
from roofline_model.core.finding import Finding, findings_text, short_text
from roofline_model.core.units import column_times, format_memory

if TYPE_CHECKING:
    from bench_cases.pipeline.records import MeasuredCase
    from bench_cases.pipeline.result import PipelineResult
    from bench_cases.pipeline.verdict import MeasuredSpeedup

_COLUMNS = (
    Column("Model"),
    Column("Ideal", "right", drop=4),
    Column("Expected", "right"),
    Column("Measured"),
    Column("Pass", "right"),
    Column("Tokens/s", "right", drop=5),
    Column("Weights", "right", drop=2),
    Column("Loss", "right", drop=1),
    Column("Verdict", is_prose=True, least=20),
)
_STYLES = {"recommended": "green", "slower": "red"}


def print_pipeline(result: PipelineResult, notes: Sequence[str]) -> None:
    """Print the table, the sentences, and where everything lies."""
    settings = result.settings
    show_line(
        f"{result.facts.name} on {result.hardware}: {settings.phase}, batch {settings.batch_count}, context "
        f"{result.context_count}"
    )
    show_table(_COLUMNS, _rows(result))
    of_seed = " (weights of a seed: see below)" if result.facts.is_seeded else ""
    show_line(f"speed-ups against 16 bit; loss: rise of the perplexity{of_seed}")
    show_line()
    for index, sentence in enumerate(result.sentences):
        show_line(sentence, style="bold" if not index else "")
    for reason, names in _left_out(result).items():
        show_line(f"not measured: {', '.join(names)}: {reason}", style="dim")
    for note in notes:
        show_line(note)
    show_line(f"report: {result.folder / 'report.md'}")


def _rows(result: PipelineResult) -> list[list[Cell]]:
    from bench_cases.pipeline.recommend import memory_bytes
    from bench_cases.pipeline.report import judgement

    verdict, recommendation = result.verdict, result.recommendation
    missed = findings_text(miss.finding for miss in verdict.baseline_misses)
    cases = [verdict.baseline, *(candidate.measured for candidate in verdict.judged)]
    base_pass, *passes = column_times([case.median_s for case in cases])
    rows: list[list[Cell]] = [
        [result.wide, "1", "1", "1", base_pass, *_figures(verdict.baseline), missed or _baseline_note(result)]
    ]
    for candidate, pass_text in zip(verdict.judged, passes, strict=True):
        text = judgement(candidate, result)
        speedups = [
            _times(recommendation.speedup(candidate.option, "ideal")),
            _times(recommendation.speedup(candidate.option, "expected")),
        ]
        measured = "–" if candidate.speedup is None else _measured(candidate.speedup)
        cell: Cell = Styled(text, _STYLES[text]) if text in _STYLES else text
        rows.append([candidate.name, *speedups, measured, pass_text, *_figures(candidate.measured), cell])
    for large in recommendation.too_large:
        cells = [_times(recommendation.speedup(large, "ideal")), _times(recommendation.speedup(large, "expected"))]
        cell = f"too large: {(memory_bytes(large) or 0.0) / 1e9:.3g} GB"
        rows.append([large.label, *cells, "–", "–", "–", "–", "–", cell])
    return rows


def _left_out(result: PipelineResult) -> dict[str, list[str]]:
    """Return reason → precisions; notes on single ones are in the report."""
    from bench_cases.pipeline.recommend import precision_label

    by_reason: dict[str, list[str]] = {}
    for name, reason in result.recommendation.left_out:
        by_reason.setdefault(_without_note(reason), []).append(precision_label(name))
    return by_reason


def _without_note(reason: Finding) -> str:
    return short_text(Finding(reason.code, reason.subject, tuple(pair for pair in reason.values if pair[0] != "note")))


def _measured(speedup: MeasuredSpeedup) -> str:
    return str(speedup) if speedup.low_value is not None else f"{speedup.value:.2f}× [?]"


def _baseline_note(result: PipelineResult) -> str:
    return "recommended" if result.verdict.outcome == "nothing-helps" else "–"


def _figures(case: MeasuredCase) -> list[str]:
    rate, loss = case.tokens_per_s, case.quality.loss_pct
    return [
        "–" if rate is None else f"{rate:.4g}",
        format_memory(case.held_bytes),
        "0" if case.quality.source == "reference" else "–" if loss is None else f"{loss.value:.3g} %",
    ]


def _times(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}×"
