"""Words of predictions and of what is recommended by them: whose times they are, what an option gains and loses, and
how a question is typed.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from reports.present.display_text import saved_share
from reports.present.screen import MISSING
from reports.present.words.sentences import GOOD_KERNELS
from roofline_model.core.answer import Option, Ranking, is_comparable
from roofline_model.core.finding import Finding, Value, findings_text, first_with, has_code, short_text
from roofline_model.core.units import counted, format_rate, format_speedup, in_prefix, sentence
from roofline_model.formats.catalog import format_name, known_format, short_name
from roofline_model.recommend.plan_formats import ALL_LAYERS

if TYPE_CHECKING:
    from roofline_model.chips.hardware import Device
    from roofline_model.expected.prediction import ExpectedPrediction
    from roofline_model.models.step_expected import ExpectedSequence
    from roofline_model.recommend.plan_formats import PlanPart
    from roofline_model.recommend.plan_options import Execution

ROW_COUNT = 5
"""Rows of the table of a product: the choice, the alternatives, and the options that follow the choice."""
PHASES = ("decode", "prefill")
ROLES = {"take": "take", "riskier": "riskier", "lower-loss": "lower loss", "safest": "safest"}
"""Role → its name in the first column."""


def ideal_words(provenance: str = "") -> str:
    """Return what ideal times are made of, by their provenance: no surface calls them a bound, a chip may beat its data
    sheet.
    """
    return "at the ceilings measured here" if provenance == "measured-here" else "at rated speed"


IDEAL_TIMES = f"Times are ideal: {ideal_words()}, no kernel's."
SOURCES = {"measured": "measured", "expected": "expected", "ideal": f"ideal ({ideal_words()})", "ceilings": "at best"}
"""Source of a time → what stands before it."""
LOSS_METRICS = {"perplexity": "PPL", "task accuracy": "Tasks", "": "Loss"}
"""Metric of a loss → its column; the last takes every other one."""
BORROWED = "*"
"""Mark of a loss that was published of other models."""

Asked = Sequence[tuple[str, str]]
"""(option, value) of what was asked, defaults left out; the value is empty for a switch."""
OF_PRINTING = frozenset({"--all", "--json", "--plot", "--output", "--layers"})
"""Options about how an answer is shown: no part of the question."""


def option_words(asked: Asked, *, without: Collection[str] = (), only: Collection[str] | None = None) -> str:
    """Return options for a shell, each with a space before it: those of `only`, but for those about printing and of
    `without`.
    """
    pairs = [
        (name, value)
        for name, value in asked
        if name not in OF_PRINTING and name not in without and (only is None or name in only)
    ]
    return "".join(f" {option} {shlex.quote(value)}" if value else f" {option}" for option, value in pairs)


def asked_chip_words(chip: Device) -> Asked:
    """Return the chip as `--hw` takes it; nothing for this machine, which was measured and has no key there."""
    return () if chip.calibration is not None else (("--hw", chip.key),)


def place_of(asked: Asked) -> str:
    """Return where something is measured: on this machine, or on one with the chip that was asked about."""
    chip = dict(asked).get("--hw", "auto")
    return "on this machine" if chip == "auto" else f"on a machine with {chip}"


# Whose times they are ------------------------------------------------------------------------------------------


def is_carried_over(provenance: str) -> bool:
    """Return whether constants are those of other chips."""
    return provenance.startswith("transferred")


def expected_words(*provenances: str) -> str:
    """Return whose kernels the expected times of a table are; `provenances`: where their constants come from."""
    if not any(map(is_carried_over, provenances)):
        return "Expected: a good kernel with its launch."
    return f"Expected: {'carried over' if all(map(is_carried_over, provenances)) else 'in part'} from other chips."


def good_kernels_sentence(*provenances: str) -> str:
    """Return whose kernels expected times are of, and what they leave out; `provenances`: where their constants come
    from.
    """
    if not any(map(is_carried_over, provenances)):
        return GOOD_KERNELS
    if all(map(is_carried_over, provenances)):
        return "Times are of kernels alone, carried over from other chips; engines add overhead."
    return "Times are of kernels alone, in part carried over from other chips."


def used_provenances(ranking: Ranking) -> list[str]:
    """Return where the times of choice and baseline come from."""
    return [option.estimate.provenance for option in (ranking.choice, ranking.baseline) if option is not None]


def source_sentence(ranking: Ranking, engine: Finding | None = None) -> str:
    """Return what the times are, and what they leave out; `engine`: what the choice takes in one."""
    assert ranking.baseline is not None
    if engine is not None and ranking.baseline.estimate.source == "expected":
        are_carried = any(map(is_carried_over, used_provenances(ranking)))
        return f"Kernels {'of other chips' if are_carried else 'alone'}. {sentence(short_text(engine))}"
    others = {
        "ideal": IDEAL_TIMES,
        "ceilings": "Times are the best that this machine's measured ceilings allow.",
        "measured": "Times are measured.",
    }
    return others.get(ranking.baseline.estimate.source) or good_kernels_sentence(*used_provenances(ranking))


# What an option gains ------------------------------------------------------------------------------------------


def better_s(option: Option) -> float | None:
    """Return the time of an option, seconds, where it is more than a bound by bytes and FLOPs."""
    return None if option.estimate.source == "ideal" else option.estimate.time_s


def gain_text(option: Option, baseline: Option | None) -> str:
    """Return the speed-up, marked where only the ideals can be compared: a ceiling is no kernel's time."""
    is_alike = baseline is None or is_comparable(option.estimate.source, baseline.estimate.source)
    return f"{'' if is_alike else 'ideal '}{format_speedup(option.speedup_ratio)}"


def saved_text(option: Option) -> str:
    """Return the share of the 16-bit weight bytes that an option saves."""
    return saved_share(None if option.memory is None else option.memory.saved_ratio)


def tokens_text(option: Option) -> str:
    """Return the tokens per second at the time that the option is ranked by, marked where that is no kernel's."""
    if option.tokens_per_s is None:
        return MISSING
    source = option.estimate.source
    mark = " (ideal)" if source == "ideal" else ""
    return f"{'≤ ' if source == 'ceilings' else ''}{format_rate(option.tokens_per_s)}{mark}"


def least_mark(option: Option) -> str:
    """Return the sign before a time that ceilings allow: it is no kernel's."""
    return "≥ " if option.estimate.source == "ceilings" else ""


def phase_text(option: Option, prefix: str | None, phase: str) -> str:
    """Return the time of a pass of a phase of a mix."""
    return next((in_prefix(each.time_s, prefix) for each in option.phases if each.phase == phase), MISSING)


# What it loses -------------------------------------------------------------------------------------------------


def is_loss_known(option: Option) -> bool:
    """Return whether anybody measured or published what an option loses."""
    return option.loss.pct is not None and not has_code(option.findings, "stored-narrow")


def is_borrowed(option: Option) -> bool:
    """Return whether an option's loss is a figure of other models, though this one has a name."""
    return option.loss.source == "claimed" and bool(option.loss.pct) and not option.loss.is_of_model


def borrowed_sentence(options: Iterable[Option]) -> str:
    """Return whose the marked losses are; empty where none is marked."""
    return f"{BORROWED} Loss published for other models." if any(map(is_borrowed, options)) else ""


def loss_texts(option: Option) -> tuple[str, ...]:
    """Return a text per column of `LOSS_METRICS`: the loss that decides, and what was published in the other metric."""
    loss, metrics = option.loss, list(LOSS_METRICS)
    texts = [MISSING] * len(metrics)
    if loss.source == "reference" or loss.pct is None:
        return ("0" if is_loss_known(option) else "unknown", *texts[1:])
    mark = BORROWED if dict(option.formats).get("layers") and is_borrowed(option) else ""
    for at, (metric, pct) in enumerate(pct_by_metric(option).items()):
        column = metrics.index(metric) if metric in metrics else len(metrics) - 1
        texts[column] = f"{'≤ ' if loss.source == 'claimed' else ''}{pct:.3g} %{'' if at else mark}"
    return tuple(texts)


def pct_by_metric(option: Option) -> dict[str, float]:
    """Return metric → loss in percent, that of the formats first; a narrow cache adds to its own metric alone."""
    loss, added = option.loss, first_with(option.findings, "loss-adds-metrics")
    assert loss.pct is not None
    pcts = {loss.metric: loss.pct} if added is None else {str(added.value("metric")): _number(added, "formats_pct")}
    if (other := first_with(option.findings, "loss-in-other-metric")) is not None:
        pcts.setdefault(str(other.value("metric")), _number(other, "high_pct"))
    if added is not None:
        cache_metric = str(added.value("cache_metric"))
        pcts[cache_metric] = pcts.get(cache_metric, 0.0) + _number(added, "cache_pct")
    return pcts


def _number(item: Finding, name: str) -> float:
    return float(str(item.value(name)))


def loss_clause(option: Option) -> str:
    """Return what an option loses, as a part of a sentence."""
    loss = option.loss
    if (stored := first_with(option.findings, "stored-narrow")) is not None:
        return short_text(stored)
    if loss.source == "reference":
        return "it loses nothing"
    if loss.pct is None:
        return "its loss is unknown"
    of_whom = "published" if loss.is_of_model else "published for other models"
    is_sum = has_code(option.findings, "loss-adds-metrics")
    parts = pct_by_metric(option) if is_sum else {loss.metric or "perplexity": loss.pct}
    moves = (
        f"{name} {'falls' if 'accuracy' in name else 'rises'} by at most {pct:.3g} %" for name, pct in parts.items()
    )
    return f"{' and '.join(moves)} ({of_whom if loss.source == 'claimed' else loss.source})"


# Names of plans ------------------------------------------------------------------------------------------------


def with_names(item: Finding) -> Finding:
    """Return a finding about plans with their names in place of their keys."""
    values = tuple((name, _shown_value(name, value)) for name, value in item.values)
    return replace(item, subject=shown_key(item.subject), values=values)


def _shown_value(name: str, value: Value) -> Value:
    if isinstance(value, tuple):
        return tuple(map(shown_key, value))
    if isinstance(value, str) and name == "unit":
        return short_name(value)
    return shown_key(value) if isinstance(value, str) and name == "instead" else value


def shown_key(key: str) -> str:
    """Return the name of a uniform plan, `INT8 (W8A16)` of `INT8.BF16`; any other key is a name already."""
    parts = key.split(".")
    if len(parts) > 3 or any(known_format(part) is None for part in parts):
        return key
    weight, activation, cache = [*parts, *[""] * (3 - len(parts))]
    return format_name(weight, activation or weight, cache)


_RUNS_AS = {"native": "native {}", "emulated": "emulated in {}", "dequantize": "decoded to {}"}


def execution_text(execution: Execution) -> str:
    """Return how a plan runs in a line: `native FP8_E4M3 + decoded to BF16, cache decoded`."""
    products = " + ".join(_RUNS_AS[path].format(compute_format) for path, compute_format in execution.products)
    return f"{products}, cache decoded" if execution.is_cache_decoded else products


def plan_text(parts: Iterable[PlanPart]) -> str:
    """Return a plan in a line: `ffn INT4.BF16 in 60 of 80 layers, FP8_E4M3 in 8; cache NVFP4`."""
    return "; ".join(
        _part_text(part) if part.name == ALL_LAYERS else f"{part.name} {_part_text(part)}" for part in parts
    )


def _part_text(part: PlanPart) -> str:
    if part.format:
        return part.format
    (label, count), *rest = part.layer_counts
    return ", ".join([f"{label} in {count} of {part.layer_count} layers", *(f"{name} in {n}" for name, n in rest)])


LOSS_CODES = frozenset({"loss-in-other-metric", "loss-adds-metrics", "loss-note"})
"""Findings of an option that are about its loss."""


def quality_note(option: Option) -> str:
    """Return where a claim is from, and what is known beside it; empty where there is nothing."""
    notes = findings_text(item for item in option.findings if item.code in LOSS_CODES)
    return "; ".join(filter(None, (option.loss.citation, notes)))


def place_reason(option: Option) -> str:
    """Return why a plan stands where it stands, but for its loss."""
    return findings_text(with_names(item) for item in option.findings if item.code not in LOSS_CODES)


def overlap_text(
    best: ExpectedPrediction | ExpectedSequence | None,
    others: Iterable[tuple[str, ExpectedPrediction | ExpectedSequence | None]],
) -> str:
    """Return that the fastest is not told apart from those whose intervals overlap its own; empty where none does."""
    names = [name for name, each in others if best is not None and each is not None and each.low_s <= best.high_s]
    if not names:
        return ""
    listed = names[0] if len(names) == 1 else counted(len(names), "other")
    return f"; not told apart from {listed}, intervals overlap"
