"""The answer of a pipeline as blocks: what the terminal prints, and report.md to keep or to send."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from bench_cases.pipeline.recommend import memory_bytes, precision_label
from bench_cases.pipeline.result import PipelineResult, tokens_per_s
from bench_cases.pipeline.verdict import MeasuredOption, MeasuredSpeedup
from bench_cases.pipeline.words import misses_text, prediction_sentence
from reports.present.blocks import Block, Bullets, Cell, Column, Heading, Paragraph, Span, memory_cell, table, time_cell
from reports.present.markdown import markdown
from results.cases.case_result import CaseResult
from roofline_model.core.answer import Option
from roofline_model.core.finding import Finding, short_text
from roofline_model.core.whole_file import write_whole

_LEGEND = (
    "Speed-ups are against the 16-bit model. Ideal: bytes and FLOPs alone; expected: the kernels that the library runs "
    "here and the framework's own time; measured: geometric mean over processes with its 95 % interval."
)
_LOOKS = {"recommended": "good", "slower": "failed"}


@dataclass(frozen=True, slots=True)
class _Row:
    """A model with its predicted and measured speed-ups; None: not known."""

    name: str
    ideal_speedup: float | None
    expected_speedup: float | None
    speedup: MeasuredSpeedup | float | None
    measured: CaseResult | None
    judgement: str


def _loss_cell(row: _Row) -> Cell:
    figures = None if row.measured is None else row.measured.model
    if figures is not None and figures.quality_source == "reference":
        return Cell("0", 0.0)
    pct = None if figures is None else figures.loss_pct
    return Cell("–" if pct is None else f"{pct:.3g} %", pct)


def _rate_cell(row: _Row) -> Cell:
    rate = tokens_per_s(row.measured)
    return Cell("–" if rate is None else f"{rate:.4g}", rate)


def _measured_text(row: _Row) -> str:
    if isinstance(row.speedup, MeasuredSpeedup):
        return str(row.speedup) if row.speedup.low_value is not None else f"{row.speedup.value:.2f}× [?]"
    return _times(row.speedup)


def _held_bytes(row: _Row) -> float | None:
    return None if row.measured is None or row.measured.model is None else row.measured.model.held_bytes


MODELS = (
    Column("Model", lambda row: row.name, is_head=True),
    Column("Ideal", lambda row: _times(row.ideal_speedup), "number", drop=4),
    Column("Expected", lambda row: _times(row.expected_speedup), "number"),
    Column("Measured", _measured_text),
    Column("Pass", lambda row: time_cell(None if row.measured is None else row.measured.measured_s), "number"),
    Column("Tokens/s", _rate_cell, "number", drop=5),
    Column("Weights", lambda row: memory_cell(_held_bytes(row)), "number", drop=2),
    Column("Loss", _loss_cell, "number", drop=1),
    Column("Verdict", lambda row: Span(row.judgement, _LOOKS.get(row.judgement, "")), "prose", least=20),
)
ENGINES = (
    Column("Engine", lambda support: support[0], is_head=True),
    Column("Loads the saved model", lambda support: support[1]),
    Column("Why", lambda support: short_text(support[2]), "prose"),
)


def write_reports(result: PipelineResult) -> None:
    """Write report.md and report.json into the pipeline's folder, each as a whole. Raises `OSError`."""
    write_whole(result.folder / "report.json", json.dumps(result.plain(), indent=2, allow_nan=False) + "\n")
    write_whole(result.folder / "report.md", markdown((*result_blocks(result), *_details(result))))


def result_blocks(result: PipelineResult) -> Iterator[Block]:
    """Yield the answer: the verdict, the models with predictions beside the clock, and what is to be said of them."""
    settings, facts, count = result.settings, result.facts, result.settings.processes_count
    yield Heading(1, f"{facts.name} on {result.hardware}")
    yield Paragraph(f"{result.sentence[0].upper()}{result.sentence[1:]}.", "verdict")
    yield Paragraph(
        f"{settings.phase}, batch {settings.batch_count}, context {result.context_count}; {facts.class_name}, "
        f"{facts.parameters_count / 1e6:.4g} M parameters, {facts.linears_count} Linears; {count} fresh "
        f"process{'es' if count > 1 else ''} per candidate."
    )
    yield table("models", MODELS, _rows(result), text_note=_LEGEND)
    yield Bullets(result.sentences[1:])
    yield Bullets(tuple(f"not measured: {', '.join(names)}: {why}" for why, names in _left_out(result).items()))


def _details(result: PipelineResult) -> Iterator[Block]:
    """Yield what report.md has beyond the answer."""
    losers = (option for option in result.verdict.judged if option is not result.verdict.winner)
    predictions = (prediction_sentence(option, result.recommendation.baseline, result.wide) for option in losers)
    yield Bullets(tuple(sentence for sentence in predictions if sentence and sentence not in result.sentences))
    if result.saved is not None:
        yield table("engines", ENGINES, result.saved.engines)
    if result.run_ids:
        runs = ", ".join(f"{precision_label(precision)}: {run[:8]}" for precision, run in result.run_ids)
        yield Paragraph(f"Stored runs ({runs}): `roofline show RUN`, `roofline report --run RUN`.")


def _rows(result: PipelineResult) -> Iterator[_Row]:
    verdict, recommendation = result.verdict, result.recommendation
    judgement = "recommended" if verdict.outcome == "nothing-helps" else "–"
    yield _Row(result.wide, 1.0, 1.0, 1.0, verdict.baseline, misses_text(verdict.baseline_misses) or judgement)
    for option in verdict.judged:
        yield _row(result, option.option, option.name, option.speedup, option.measured, _judgement(option, result))
    for large in recommendation.too_large:
        yield _row(result, large, large.label, None, None, f"too large: {(memory_bytes(large) or 0.0) / 1e9:.3g} GB")


def _row(
    result: PipelineResult,
    option: Option,
    name: str,
    speedup: MeasuredSpeedup | None,
    measured: CaseResult | None,
    judgement: str,
) -> _Row:
    ideal, expected = (result.recommendation.speedup(option, kind) for kind in ("ideal", "expected"))
    return _Row(name, ideal, expected, speedup, measured, judgement)


def _judgement(option: MeasuredOption, result: PipelineResult) -> str:
    """Return in a few words what became of a candidate."""
    if option is result.verdict.winner:
        return "recommended"
    if not option.is_measured:
        return f"{option.status}: {option.reason}"
    if option.misses:
        return misses_text(option.misses)
    if option.speedup is None:
        return "the 16-bit model was not measured beside it"
    return (
        "slower" if option.speedup.is_slower else "faster" if option.speedup.is_faster else "no gain beyond the noise"
    )


def _left_out(result: PipelineResult) -> dict[str, list[str]]:
    """Return why precisions were not measured → which."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in result.recommendation.left_out:
        shared = Finding(reason.code, reason.subject, tuple(pair for pair in reason.values if pair[0] != "note"))
        by_reason.setdefault(short_text(shared), []).append(precision_label(name))
    return by_reason


def _times(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}×"
