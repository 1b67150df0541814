"""report.md: the answer of a pipeline as a page to keep or to send."""

from __future__ import annotations

import json
from collections.abc import Iterator

from bench_cases.pipeline.recommend import memory_bytes, precision_label
from bench_cases.pipeline.records import MeasuredCase
from bench_cases.pipeline.result import PipelineResult
from bench_cases.pipeline.verdict import MeasuredOption
from bench_cases.pipeline.words import misses_text, prediction_sentence
from roofline_model.core.answer import Option
from roofline_model.core.finding import short_text
from roofline_model.core.units import format_memory, format_time
from roofline_model.core.whole_file import write_whole

_HEADER = (
    "model",
    "ideal",
    "expected",
    "measured",
    "time of a pass",
    "tokens/s",
    "weights",
    "KL (nats/token)",
    "verdict",
)

_LEGEND = (
    "Speed-ups are against the 16-bit model. *ideal*: bytes and FLOPs alone; *expected*: the kernels that the library "
    "runs here "
    "and the framework's own time; *measured*: geometric mean over processes with its 95 % interval."
)


def write_reports(result: PipelineResult) -> None:
    """Write report.md and report.json into the pipeline's folder, each as a whole. Raises `OSError`."""
    write_whole(result.folder / "report.json", json.dumps(result.plain(), indent=2, allow_nan=False) + "\n")
    write_whole(result.folder / "report.md", report_text(result))


def report_text(result: PipelineResult) -> str:
    """Return the page as Markdown."""
    settings = result.settings
    work = f"{settings.phase}, batch {settings.batch_count}, context {result.context_count}"
    facts, count = result.facts, settings.processes_count
    about = (
        f"{facts.class_name}, {facts.parameters_count / 1e6:.4g} M parameters, {facts.linears_count} Linears; {work}; "
    )
    about += f"{count} fresh process{'es' if count > 1 else ''} per candidate."
    lines = [
        f"# {_cell(facts.name)} on {result.hardware}",
        "",
        f"**{result.sentence[0].upper()}{result.sentence[1:]}.**",
        "",
        about,
        "",
        *_table(result),
        "",
        *(f"- {_cell(sentence)}" for sentence in result.sentences[1:]),
        *_others(result),
        *_engines(result),
        "",
        _LEGEND,
    ]
    if result.run_ids:
        runs = ", ".join(f"{precision_label(precision)}: {run[:8]}" for precision, run in result.run_ids)
        lines += ["", f"Stored runs ({runs}): `roofline show RUN`, `roofline report --run RUN`."]
    return "\n".join(lines) + "\n"


def _table(result: PipelineResult) -> Iterator[str]:
    yield "| " + " | ".join(_HEADER) + " |"
    yield "|" + "---|" * len(_HEADER)
    verdict = result.verdict
    yield _row([result.wide, "1", "1", "1", *_figures(verdict.baseline), misses_text(verdict.baseline_misses)])
    for judged in verdict.judged:
        recommendation = result.recommendation
        speedups = [
            _times(recommendation.speedup(judged.option, "ideal")),
            _times(recommendation.speedup(judged.option, "expected")),
        ]
        measured = str(judged.speedup) if judged.speedup is not None else "–"
        yield _row([judged.name, *speedups, measured, *_figures(judged.measured), judgement(judged, result)])


def judgement(judged: MeasuredOption, result: PipelineResult) -> str:
    """Return in a few words what became of a candidate."""
    if judged is result.verdict.winner:
        return "recommended"
    if not judged.measured.is_measured:
        return f"{judged.measured.status}: {judged.measured.reason}"
    if judged.misses:
        return misses_text(judged.misses)
    if judged.speedup is None:
        return "the 16-bit model was not measured beside it"
    return (
        "slower" if judged.speedup.is_slower else "faster" if judged.speedup.is_faster else "no gain beyond the noise"
    )


def _figures(case: MeasuredCase) -> list[str]:
    rate = case.tokens_per_s
    kl = case.quality.kl
    return [
        format_time(case.median_s),
        "–" if rate is None else f"{rate:.4g}",
        format_memory(case.held_bytes),
        "0" if case.quality.source == "reference" else "–" if kl is None else f"{kl.value:.3g}",
    ]


def _others(result: PipelineResult) -> Iterator[str]:
    losers = [
        judged for judged in result.verdict.judged if judged is not result.verdict.winner and judged.speedup is not None
    ]
    shown = result.sentences
    prediction_lines = [
        sentence
        for judged in losers
        if (sentence := prediction_sentence(judged, result.recommendation.baseline, result.wide)) not in shown
    ]
    yield from (f"- {_cell(sentence)}" for sentence in prediction_lines)
    large = [f"{option.label} ({_gigabytes(option)})" for option in result.recommendation.too_large]
    if large:
        yield f"- too large for the limit: {', '.join(large)}"
    for name, reason in result.recommendation.left_out:
        yield f"- not measured: {precision_label(name)}: {_cell(short_text(reason))}"


def _engines(result: PipelineResult) -> Iterator[str]:
    if result.saved is None:
        return
    yield ""
    yield "| engine | loads the saved model | why |"
    yield "|---|---|---|"
    for engine, answer, reason in result.saved.engines:
        yield _row([engine, answer, short_text(reason)])


def _gigabytes(option: Option) -> str:
    return f"{(memory_bytes(option) or 0.0) / 1e9:.3g} GB"


def _times(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}×"


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(_cell(cell) or "–" for cell in cells) + " |"


def _cell(text: str) -> str:
    """Return text that cannot end a cell or a line of Markdown."""
    printable = "".join(ch if ch.isprintable() else " " for ch in text)
    return printable.replace("|", "\\|")
