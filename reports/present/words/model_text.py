"""The words and cells of whole models: the same in the terminal, in `roofline show` and on the page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from reports.present.words.verdict_text import (
    action_of,
    gain_text,
    loss_figure,
    role_text,
    three_digits,
    verdict_text,
)
from results.cases.model_results import ModelResult, PassResult, PhaseResult, slow_issue
from results.cases.phase_ranking import model_ranking
from results.records.model_figures import Interval, ModelFigures
from roofline_model.core.answer import Option
from roofline_model.core.finding import finding, findings_text, short_text
from roofline_model.core.units import format_memory, format_percent, format_time
from roofline_model.formats.catalog import format_name, short_name

EMULATED_MARK = "~"
OF_DEVICE = " on the GPU alone"
"""What is said of times without the host."""
NOT_LANGUAGE = "random tokens: they tell formats apart and say nothing about language"


def verdict_lines(model: ModelResult) -> list[str]:
    """Return a line per phase: what to take by the ranking that reports show, what it rests on, and the other options
    by role; of an untrained model one line for all.
    """
    if model.is_untrained:
        return [f"{model.name.model_name}: {short_text(finding('untrained'))}"]
    return [f"{phase.phase}: {phase_verdict(model, phase)}" for phase in model.phases]


def phase_verdict(model: ModelResult, phase: PhaseResult) -> str:
    """Return what to take in a phase; of one precision alone its time, of an untrained model that nothing rests on
    it.
    """
    if model.is_untrained:
        return short_text(finding("untrained"))
    ranked = model_ranking(model, phase, model.hardware_key)
    if ranked is None or not ranked.is_contest:
        lone = None if ranked is None else ranked.ranking.nearest
        return verdict_text(phase.judged, lone if lone is not None and lone.is_measured else None)
    action = action_of(ranked)
    choice, baseline = ranked.choice, ranked.ranking.baseline
    own_loss = "" if choice is None or choice.loss.source == "reference" else f", loss {loss_figure(choice.loss)}"
    others = [
        f"{role_text(each.role)}: {each.option.label}{_gain(each.option, baseline)}, loss "
        f"{loss_figure(each.option.loss)}"
        for each in ranked.ranking.alternatives
    ]
    caveat = [f"But: {action.caveat}"] if action.caveat else []
    return ". ".join([f"{action.take}, {action.evidence}{own_loss}", *others, *caveat])


def _gain(option: Option, baseline: Option | None) -> str:
    return "" if baseline is None or option.key == baseline.key else f", {gain_text(option, baseline)}"


def model_notes(models: Iterable[ModelResult]) -> list[str]:
    """Return once what the tables of a run's models do not say themselves.

    How long the host takes to issue what a GPU runs faster, random tokens, what emulated means and why its peak is
    high, layers that fell back, precisions without a quality.
    """
    passes = [model_pass for model in models for model_pass in model.passes]
    notes = issue_notes(passes)
    if any(
        model_pass.figures.quality_source == "measured" and not model_pass.figures.is_language for model_pass in passes
    ):
        notes.append(f"quality: {NOT_LANGUAGE}")
    emulated = [model_pass for model_pass in passes if model_pass.figures.is_emulated]
    if emulated:
        # In a decode step hardly anything else is allocated.
        steps = [model_pass for model_pass in emulated if model_pass.figures.phase == "decode"] or emulated
        peak_bytes = max(step.figures.peak_bytes or 0 for step in steps)
        peak = f"; the peak of a call holds the largest of them ({format_memory(peak_bytes)})" if peak_bytes else ""
        names = _listed(list(dict.fromkeys(model_pass.label for model_pass in emulated)))
        notes.append(f"{EMULATED_MARK} emulated ({names}): every call decodes the weights in steps of their own{peak}")
    for fallbacks, label in dict.fromkeys((model_pass.figures.fallbacks, model_pass.label) for model_pass in passes):
        if fallbacks:
            figures = next(
                model_pass.figures
                for model_pass in passes
                if model_pass.label == label and model_pass.figures.fallbacks == fallbacks
            )
            became = ", ".join(f"{count} {layer_name(name)}" for name, count in figures.layer_counts)
            notes.append(f"{label}: not every layer took it ({became}): {findings_text(fallbacks[:3])}")
    unknown: dict[str, dict[str, None]] = {}
    for model_pass in passes:
        if model_pass.figures.quality_source == "none":
            unknown.setdefault(model_pass.figures.quality_reason or "no reason was stored", {})[model_pass.label] = None
    notes += [f"no quality for {_listed(list(labels))}: {reason}" for reason, labels in unknown.items()]
    stored_formats = dict.fromkeys(
        model_pass.figures.decoded_from for model_pass in passes if model_pass.figures.decoded_from
    )
    notes += [short_text(finding("reference-decoded", stored_format=stored)) for stored in stored_formats]
    if any(model_pass.figures.process_bytes for model_pass in passes):
        notes.append("process: resident memory; the 16-bit original stays beside its quantised copy")
    return notes


def issue_notes(passes: Sequence[PassResult]) -> list[str]:
    """Return a line for each phase that the host takes longer to issue than the GPU to run."""
    phases = dict.fromkeys(model_pass.figures.phase for model_pass in passes)
    items = [slow_issue([each for each in passes if each.figures.phase == phase]) for phase in phases]
    return [short_text(item) for item in items if item is not None]


# Cells -------------------------------------------------------------------------------------------------------


def mark(model_pass: PassResult) -> str:
    """Return the label, marked where every call decodes the weights in a step of its own."""
    return f"{model_pass.label} {EMULATED_MARK}" if model_pass.figures.is_emulated else model_pass.label


def layer_name(key: str) -> str:
    """Return the name of what layers became: `INT8 (W8A8)` of `INT8.INT8`; weights alone by their format."""
    weights, _, activations = key.partition(".")
    return format_name(weights, activations) if activations else short_name(weights)


def energy_text(energy_j_per_token: float | None) -> str:
    """Print joules per thousand tokens; missing → `–`."""
    return "–" if energy_j_per_token is None else f"{three_digits(1000 * energy_j_per_token)} J"


def nats_text(value: float, like: float | None = None) -> str:
    """Print a KL with two digits: `0.035`, `2.8e-4`; written as `like` is, so that the ends of an interval match its
    middle.
    """
    if 0 < abs(value if like is None else like) < 1e-3:
        digits, power = f"{value:.1e}".split("e")
        return f"{digits}e{int(power)}"
    return f"{value:#.2g}" if 0 < abs(value) < 9.95 else f"{value:.0f}"


def interval_text(interval: Interval | None, show: Callable[[float], str]) -> str:
    """Print `0.035 [0.033, 0.038]`; without ends where none are known; missing → `–`."""
    if interval is None:
        return "–"
    if interval.low_value is None or interval.high_value is None:
        return show(interval.value)
    return f"{show(interval.value)} [{show(interval.low_value)}, {show(interval.high_value)}]"


def kl_text(figures: ModelFigures) -> str:
    """Print the KL with its interval."""
    kl_nats_per_token = figures.kl_nats_per_token
    return (
        "–"
        if kl_nats_per_token is None
        else interval_text(kl_nats_per_token, lambda value: nats_text(value, kl_nats_per_token.value))
    )


def top1_text(figures: ModelFigures) -> str:
    """Print the share of tokens whose likeliest next token is the 16-bit model's: `27 % [24, 30]`."""
    top1_agreement_ratio = figures.top1_agreement_ratio
    if (
        top1_agreement_ratio is None
        or top1_agreement_ratio.low_value is None
        or top1_agreement_ratio.high_value is None
    ):
        return "–" if top1_agreement_ratio is None else format_percent(top1_agreement_ratio.value, 0)
    return (
        f"{format_percent(top1_agreement_ratio.value, 0)} [{100 * top1_agreement_ratio.low_value:.0f}, "
        f"{100 * top1_agreement_ratio.high_value:.0f}]"
    )


def perplexity_text(figures: ModelFigures) -> str:
    """Print the perplexity over that of the 16-bit model: `0.999 [0.969, 1.026]`."""
    return interval_text(figures.perplexity_ratio, lambda value: f"{value:.3f}" if value < 10 else f"{value:.3g}")


def loss_text(figures: ModelFigures) -> str:
    """Return the measured loss in words, or why there is none; empty for the 16-bit model and where nobody looked."""
    if figures.quality_source == "none":
        return "its loss was not measured"
    if embedding_text(figures):
        return f"loss: {embedding_text(figures)} over {text_source(figures)}"
    if figures.quality_source != "measured" or figures.kl_nats_per_token is None:
        return ""
    perplexity = figures.perplexity_ratio
    parts = [f"loss: KL {kl_text(figures)} nats/token"]
    parts += [f"perplexity {perplexity.value:.3f}×"] if perplexity is not None and figures.is_language else []
    return f"{', '.join(parts)} over {text_source(figures)}"


def embedding_figures(figures: ModelFigures) -> dict[str, Interval | None]:
    """Return the quality figures of an encoder by name; None for a model that predicts tokens."""
    return {
        "cosine": figures.embedding_cosine_ratio,
        "rank agreement": figures.rank_agreement_ratio,
        "nearest kept": figures.nearest_kept_ratio,
    }


def embedding_text(figures: ModelFigures) -> str:
    """Return an encoder's quality in a line; empty for a model that predicts tokens."""
    return ", ".join(f"{name} {ratio_text(figure)}" for name, figure in embedding_figures(figures).items() if figure)


def ratio_text(figure: Interval | None) -> str:
    """Return a share near one with its interval."""
    if figure is None:
        return "–"
    ends = (
        ""
        if figure.low_value is None or figure.high_value is None
        else f" [{figure.low_value:.4f}, {figure.high_value:.4f}]"
    )
    return f"{figure.value:.4f}{ends}"


def text_source(figures: ModelFigures) -> str:
    """Return `504 random tokens` or `1,024 tokens of FILE`; empty where quality was not measured."""
    if figures.quality_source != "measured":
        return ""
    count = "" if figures.quality_tokens_count is None else f"{figures.quality_tokens_count:,} "
    return f"{count}tokens of {figures.quality_text}" if figures.is_language else f"{count}random tokens"


def parts_text(model_pass: PassResult, at_most: int = 8) -> str:
    """Return where the expected time goes: `ffn 1.9 ms (37 %), host 1.1 ms (22 %), …`; empty where no parts were
    stored.
    """
    parts = model_pass.parts_s
    total_s = sum(time_s for _, time_s in parts)
    if not total_s:
        return ""
    part_texts = [
        f"{name} {format_time(time_s, 3)} ({format_percent(time_s / total_s, 0)})" for name, time_s in parts[:at_most]
    ]
    rest_s = sum(time_s for _, time_s in parts[at_most:])
    return ", ".join([*part_texts, *([f"{len(parts) - at_most} others {format_time(rest_s, 3)}"] if rest_s else [])])


def _listed(labels: list[str]) -> str:
    return labels[0] if len(labels) == 1 else f"{', '.join(labels[:-1])} and {labels[-1]}"
