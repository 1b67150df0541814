"""The first lines of an answer, the same on every surface: what to take, the options by name, what to know, what to
type next.

The command line prints them, the API serves them, the explorer shows them: texts and digits are made here once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from roofline_model.core.answer import Option, Ranking, is_comparable
from roofline_model.core.finding import Finding, by_severity, finding, first_with, has_code, short_text
from roofline_model.core.units import (
    format_memory,
    format_rate,
    format_speedup,
    format_time,
    in_prefix,
    sentence,
    shared_prefix,
)
from roofline_model.formats.catalog import attention_name
from roofline_model.kernels.checkpoints import checkpoints_of
from roofline_model.recommend.options import product_name
from roofline_model.recommend.plan_formats import plan_name

if TYPE_CHECKING:
    from roofline_model.chips.hardware import Device
    from roofline_model.recommend.model import ModelRanking

ROW_COUNT = 5
"""Rows of the table of a product: the choice, the alternatives, and the options that follow the choice."""
CAVEAT_COUNT = 2
MISSING = "–"
ROLES = {"take": "take", "riskier": "riskier", "lower-loss": "lower loss", "safest": "safest"}
"""Role → its name in the first column."""
SOURCES = {"measured": "measured", "expected": "expected", "ideal": "ideal (lower bound)", "ceilings": "at best"}
"""Source of a time → what stands before it."""
LOSS_METRICS = {"perplexity": "PPL", "task accuracy": "Tasks", "": "Loss"}
"""Metric of a loss → its column; the last takes every other one."""
UNNAMED_METHODS = frozenset({"", "none", "native_fp8", "native_fp4"})
"""Methods that say no more than the format does."""
BETTER_CODES = frozenset({"faster-less-certain", "faster-behind-surer", "faster-loss-unknown"})
"""Reasons of a choice that name an option which looks better."""


@dataclass(frozen=True, slots=True)
class ShortRow:
    """One option by name."""

    role: str
    """take, riskier, lower loss, safest; empty for an option without a role."""
    key: str
    """Key of the option: a format, or a plan."""
    cells: tuple[str, ...]
    """One text per column."""
    is_loss_known: bool
    """Whether anybody measured or published what it loses."""


@dataclass(frozen=True, slots=True)
class ShortAnswer:
    """The first lines of an answer."""

    sentence: str
    """What to take, or why nothing is."""
    subject: str
    """The question in a line."""
    columns: tuple[str, ...]
    """Heads of the columns after the role."""
    rows: tuple[ShortRow, ...]
    """The choice, the alternatives, and for a product the options that follow; empty where nothing can be taken."""
    basis: str
    """What the times are, and what they leave out; empty without rows."""
    notes: tuple[str, ...]
    """Up to two things to know, the gravest first."""
    next_command: str
    """What to type next; may be empty."""
    next_effect: str
    """What that does, where the command does not say it."""


def product_answer(ranking: Ranking) -> ShortAnswer:
    """Return the first lines of the ranking of a product's formats."""
    question = ranking.question
    sizes = " ".join(f"{name}={size}" for name, size in question.sizes)
    arguments = " ".join(f"-{name} {size}" for name, size in question.sizes)
    subject = f"{question.phase} {sizes} on {question.hardware}."
    if ranking.choice is None:
        return _nothing(sentence(str(ranking)), subject, ranking)
    columns, rows = _filled(
        ("Format", "Ideal", "Expected", "Gain", "W saved", *LOSS_METRICS.values()), _product_rows(ranking)
    )
    better = [item for item in ranking.choice.findings if item.code in BETTER_CODES]
    return ShortAnswer(
        sentence=product_sentence(ranking),
        subject=subject,
        columns=columns,
        rows=rows,
        basis=source_sentence(ranking),
        notes=_notes((*caveats(ranking), *better)),
        next_command=f"roofline compare {arguments}",
        next_effect="measures it on this machine",
    )


def model_answer(ranking: ModelRanking, chip: Device) -> ShortAnswer:
    """Return the first lines of the ranking of a model's plans."""
    named: list[tuple[str, Option]] = [] if ranking.choice is None else [(ROLES["take"], ranking.choice)]
    named += [(ROLES[each.role], each.option) for each in ranking.alternatives]
    subject = f"{model_title(ranking, chip)}."
    if not named:
        return _nothing(model_sentence(ranking), subject, ranking)
    columns, rows = _filled(
        ("Format", "Time", "Tokens/s", "Gain", "Memory", *LOSS_METRICS.values()), _model_rows(named, ranking)
    )
    command, effect = _next_step(ranking)
    return ShortAnswer(
        sentence=model_sentence(ranking),
        subject=subject,
        columns=columns,
        rows=rows,
        basis=source_sentence(ranking),
        notes=_notes(caveats(ranking)),
        next_command=command,
        next_effect=effect,
    )


def cache_answer(ranking: Ranking, query: str, subject: str) -> ShortAnswer:
    """Return the first lines of the ranking of an attention's cache formats for a query format."""
    baseline = ranking.baseline
    assert baseline is not None  # the 16-bit cache
    first = ranking.choice or ranking.options[0]
    others = [option for option in ranking.options if option.key not in (first.key, baseline.key)]
    shown = [first, *others[: ROW_COUNT - 2], *([] if first.key == baseline.key else [baseline])]
    prefix = _prefix(shown)
    rows = [
        ShortRow(
            role=ROLES["take"] if option is first else ROLES["safest"] if option.key == baseline.key else "",
            key=option.key,
            cells=(
                attention_name(option.key, query),
                *_ideal_and_better(option, prefix),
                gain_text(option, baseline),
                _memory(option),
                "0" if option.key == baseline.key else "unknown",
            ),
            is_loss_known=option.key == baseline.key,
        )
        for option in shown
    ]
    columns, filled = _filled(("Format", "Ideal", "Expected", "Gain", "Cache", "Loss"), rows)
    return ShortAnswer(
        _cache_sentence(first, baseline, query), subject, columns, filled, source_sentence(ranking), (), "", ""
    )


def product_sentence(ranking: Ranking) -> str:
    """Return what to take for a product in one sentence."""
    choice, baseline = ranking.choice, ranking.baseline
    assert choice is not None
    if choice is baseline:
        return f"Stay with {product_name(choice)}: {ranking.reason}."
    time, method = choice.estimate, "" if choice.method in UNNAMED_METHODS else f", {choice.method}"
    interval = ""
    if time.low_s is not None and time.high_s is not None:
        interval = f" ({format_time(time.low_s)} to {format_time(time.high_s)})"
    gain = "" if baseline is None else f", {gain_text(choice, baseline)} {baseline.key}"
    saved = f"; saves {ranking.memory_savings_pct:.0f} % of the weight bytes"
    return (
        f"Take {product_name(choice)}{method}: {SOURCES[time.source]} "
        f"{format_time(time.time_s)}{interval}{gain}{saved}."
    )


def model_sentence(ranking: ModelRanking) -> str:
    """Return what to take for a model in one sentence, or why nothing is."""
    choice, baseline = ranking.choice, ranking.baseline
    if choice is None or baseline is None:
        riskier = next((each.option for each in ranking.alternatives), None)
        limit_pct = ranking.limits.loss_pct
        if riskier is not None and limit_pct is not None:
            name, most_pct = plan_name(riskier), riskier.loss.pct
            loses = "its loss is unknown" if most_pct is None else f"it loses up to {most_pct:.3g} %"
            return f"Nothing fits within a loss of {limit_pct:g} %. {name} fits, but {loses}."
        return sentence(str(ranking))
    if choice is baseline:
        return f"Stay with {plan_name(choice)}: {ranking.reason}."
    time = choice.estimate
    gain = "" if choice.speedup_ratio is None else f", {gain_text(choice, baseline)} {ranking.wide}"
    if gain and _lacks_memory(ranking, baseline):
        gain += " (does not fit)"
    interval = ""
    if time.low_s is not None and time.high_s is not None and time.source != "ceilings":
        interval = f" ({format_time(time.low_s)} to {format_time(time.high_s)})"
    took = f"{SOURCES[time.source]} {format_time(time.time_s)} a pass{interval}"
    return f"Take {plan_name(choice)}: {took}{gain}; {_loss_clause(choice)}."


def _lacks_memory(ranking: ModelRanking, baseline: Option) -> bool:
    return any(each.key == baseline.key and has_code(each.findings, "misses-memory-limit") for each in ranking.excluded)


def _cache_sentence(choice: Option, baseline: Option, query: str) -> str:
    name, time = attention_name(choice.key, query), choice.estimate
    if choice.key == baseline.key:
        return f"Stay with {name}: no narrower cache that a kernel is known to read is clearly faster."
    interval = ""
    if time.low_s is not None and time.high_s is not None:
        interval = f" ({format_time(time.low_s)} to {format_time(time.high_s)})"
    took = f"{SOURCES[time.source]} {format_time(time.time_s)}{interval}, {gain_text(choice, baseline)} {baseline.key}"
    return f"Take {name}: {took}; saves {saved_text(choice)} of the cache. Measure its loss: nobody published it."


def model_title(ranking: ModelRanking, chip: Device) -> str:
    """Return model, workload and chip in a line."""
    return f"{workload(ranking)} on {chip.key}: {chip.name}"


def workload(ranking: ModelRanking) -> str:
    """Return model and workload in a line."""
    from roofline_model.recommend.search.traffic_file import traffic_text

    model = ranking.question.name
    if len(ranking.traffic) > 1:
        mix = " + ".join(traffic_text(share) for share in ranking.traffic)
        return f"{model}, mean pass of {mix}"
    work = ranking.traffic[0].workload
    new = f" new={work.new_count}" if work.new_count not in (1, work.context_count) else ""
    return f"{model} {work.phase} batch={work.batch_count} context={work.context_count}{new}"


def source_sentence(ranking: Ranking) -> str:
    """Return what the times are, and what they leave out."""
    assert ranking.baseline is not None
    source = ranking.baseline.estimate.source
    if source == "ideal":
        return "Times are ideal: an upper bound of speed, measured by nobody."
    if source == "ceilings":
        return "Times are the best that this machine's measured ceilings allow."
    if source == "measured":
        return "Times are measured."
    used = [option.estimate.provenance for option in (ranking.choice, ranking.baseline) if option is not None]
    return good_kernels_sentence(*used)


def good_kernels_sentence(*provenances: str) -> str:
    """Return whose kernels expected times are of, and what they leave out; `provenances`: where their constants come
    from.
    """
    is_lent = any(provenance.startswith("transferred") for provenance in provenances)
    return sentence(short_text(finding("good-kernels-elsewhere" if is_lent else "good-kernels")))


def caveats(ranking: Ranking) -> list[Finding]:
    """Return what puts an answer in doubt, the gravest first, but for what the decision and the line on its times
    say.
    """
    stated = {"ranked-by-ideals", "ranked-by-ceilings", *(item.code for item in ranking.decision)}
    return by_severity(item for item in ranking.findings if item.severity != "info" and item.code not in stated)


def gain_text(option: Option, baseline: Option | None) -> str:
    """Return the speed-up, marked where only the ideals can be compared: a ceiling is no kernel's time."""
    is_alike = baseline is None or is_comparable(option.estimate.source, baseline.estimate.source)
    return f"{'' if is_alike else 'ideal '}{format_speedup(option.speedup_ratio)}"


def saved_text(option: Option) -> str:
    """Return the share of the 16-bit weight bytes that an option saves."""
    memory = option.memory
    return MISSING if memory is None or memory.saved_ratio is None else f"{memory.saved_ratio * 100:.0f} %"


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


def loss_texts(option: Option) -> tuple[str, ...]:
    """Return a text per column of `LOSS_METRICS`: the loss that decides, and what was published in the other metric."""
    loss, metrics = option.loss, list(LOSS_METRICS)
    texts = [MISSING] * len(metrics)
    if loss.source == "reference" or loss.pct is None:
        return ("0" if loss.source == "reference" else "unknown", *texts[1:])
    column = metrics.index(loss.metric) if loss.metric in metrics else len(metrics) - 1
    texts[column] = f"{'≤ ' if loss.source == 'claimed' else ''}{loss.pct:.3g} %"
    other = first_with(option.findings, "loss-in-other-metric")
    if other is not None:
        values = dict(other.values)
        if values["metric"] in metrics:
            texts[metrics.index(str(values["metric"]))] = f"≤ {values['high_pct']:.3g} %"
    return tuple(texts)


def is_loss_known(option: Option) -> bool:
    """Return whether anybody measured or published what an option loses."""
    return option.loss.source == "reference" or option.loss.pct is not None


def _product_rows(ranking: Ranking) -> list[ShortRow]:
    """Return the choice, the alternatives, then the first of the other options."""
    assert ranking.choice is not None
    roles = {ranking.choice.key: ROLES["take"], **{each.option.key: ROLES[each.role] for each in ranking.alternatives}}
    by_key = {option.key: option for option in ranking.options}
    others = [option for option in ranking.options if option.key not in roles]
    options = [*(by_key[key] for key in roles), *others[: ROW_COUNT - len(roles)]]
    prefix = _prefix(options)
    return [
        ShortRow(
            role=roles.get(option.key, ""),
            key=option.key,
            cells=(
                product_name(option),
                *_ideal_and_better(option, prefix),
                gain_text(option, ranking.baseline),
                saved_text(option),
                *loss_texts(option),
            ),
            is_loss_known=is_loss_known(option),
        )
        for option in options
    ]


def _model_rows(named: Sequence[tuple[str, Option]], ranking: ModelRanking) -> list[ShortRow]:
    prefix = shared_prefix([option.estimate.time_s for _, option in named], [])
    return [
        ShortRow(
            role=role,
            key=option.key,
            cells=(
                plan_name(option),
                f"{least_mark(option)}{in_prefix(option.estimate.time_s, prefix)}",
                tokens_text(option),
                gain_text(option, ranking.baseline),
                _memory(option),
                *loss_texts(option),
            ),
            is_loss_known=is_loss_known(option),
        )
        for role, option in named
    ]


def _ideal_s(option: Option) -> float | None:
    return None if option.times.ideal is None else option.times.ideal.time_s


def _better_s(option: Option) -> float | None:
    return None if option.estimate.source == "ideal" else option.estimate.time_s


def _prefix(options: Sequence[Option]) -> str | None:
    return shared_prefix(list(map(_ideal_s, options)), list(map(_better_s, options)))


def _ideal_and_better(option: Option, prefix: str | None) -> tuple[str, str]:
    return in_prefix(_ideal_s(option), prefix), in_prefix(_better_s(option), prefix)


def _memory(option: Option) -> str:
    return MISSING if option.memory is None else format_memory(option.memory.total_bytes)


def _filled(columns: Sequence[str], rows: Sequence[ShortRow]) -> tuple[tuple[str, ...], tuple[ShortRow, ...]]:
    """Return columns and rows without the columns that no row has anything in."""
    places = [at for at in range(len(columns)) if any(row.cells[at] != MISSING for row in rows)]
    cut = (ShortRow(row.role, row.key, tuple(row.cells[at] for at in places), row.is_loss_known) for row in rows)
    return tuple(columns[at] for at in places), tuple(cut)


def _nothing(text: str, subject: str, ranking: Ranking) -> ShortAnswer:
    """Return the first lines where nothing can be taken."""
    return ShortAnswer(text, subject, (), (), "", _notes(caveats(ranking)), "", "")


def _notes(items: Sequence[Finding]) -> tuple[str, ...]:
    return tuple(map(short_text, items))[:CAVEAT_COUNT]


def _next_step(ranking: ModelRanking) -> tuple[str, str]:
    """Return what to type to get the chosen plan, and what that does: a published checkpoint, else how to make it."""
    choice = ranking.choice
    if choice is None or choice.kind == "published":
        return "", ""
    formats = dict(choice.formats)
    published = checkpoints_of(ranking.question.name, formats.get("layers", ""))
    if published:
        cache = " --kv-cache-dtype fp8" if formats.get("cache", "").startswith("FP8") else ""
        return f"vllm serve {published[0].repository}{cache}", ""
    if choice is ranking.baseline:
        return "", ""
    return "roofline pipeline --model FOLDER -o OUT", "makes and measures it"


def _loss_clause(option: Option) -> str:
    loss = option.loss
    if loss.source == "reference":
        return "it loses nothing"
    if loss.pct is None:
        return "its loss is unknown"
    of_whom = "published" if loss.is_of_model else "published for other models"
    kind = of_whom if loss.source == "claimed" else loss.source
    moves = "falls" if "accuracy" in loss.metric else "rises"
    return f"{loss.metric or 'perplexity'} {moves} by at most {loss.pct:.3g} % ({kind})"
