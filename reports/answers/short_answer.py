"""The first lines of an answer, the same on every surface: what to take, the options by name, what to know, what to
type next.

The command line prints them, the API serves them, the explorer shows them: texts and digits are made here once.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING

from reports.present.display_text import saved_share
from roofline_model.chips.hardware import list_hardware
from roofline_model.chips.usable_memory import ENGINE, usable_bytes
from roofline_model.core.answer import Estimate, Memory, Option, Ranking, is_comparable
from roofline_model.core.finding import (
    Finding,
    Value,
    by_severity,
    finding,
    findings_text,
    first_with,
    has_code,
    short_text,
)
from roofline_model.core.units import (
    format_memory,
    format_rate,
    format_speedup,
    in_prefix,
    interval_in_prefix,
    sentence,
    shared_prefix,
)
from roofline_model.formats.catalog import FORMATS, attention_name, format_name, known_format, short_name
from roofline_model.kernels.checkpoints import checkpoints_of
from roofline_model.models.model_memory import plan_kv_bytes
from roofline_model.models.model_registry import is_called, shipped_model
from roofline_model.operators.product import product_op
from roofline_model.recommend.options import product_name
from roofline_model.recommend.plan_formats import plan_name

if TYPE_CHECKING:
    from roofline_model.chips.hardware import Device
    from roofline_model.recommend.model import ModelRanking
    from roofline_model.recommend.plan_options import PlanOption

ROW_COUNT = 5
"""Rows of the table of a product: the choice, the alternatives, and the options that follow the choice."""
CAVEAT_COUNT = 2
CALIBRATED_BUSY = ("kernel-time-implausible", "kernels-contended", "ceilings-contended")
"""What a calibration on a busy machine leaves in doubt, the gravest first; another calibration removes them all."""
MISSING = "–"
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
USUAL_FORMATS = "INT4.BF16"
"""Formats of the layers that many ship, and so look for: their absence is explained."""
USUAL_GAIN_RATIO = 0.95
"""Share of the choice's time from which on it is no faster."""
VLLM_MEMORY_RATIO = 0.9
"""Share of the memory that vLLM takes unless told otherwise (vllm-project/vllm 35313)."""
ENGINE_MEMORY_RATIO = 0.88
"""Share of the memory from which on a plan leaves too little of it."""
UNNAMED_METHODS = frozenset({"", "none", "native_fp8", "native_fp4"})
"""Methods that say no more than the format does."""
_OF_PIPELINE = ("--phase", "--batch", "--context", "--memory-limit-gb", "--max-latency-ms", "--max-quality-loss")
"""What `roofline pipeline` can be asked, too."""
_OF_CHIP = frozenset({"misses-memory-limit", "misses-time-limit", "misses-phase-limit"})
"""Limits that another chip may keep."""
_CHIP_COUNT = 4
"""Chips that an answer names to look at."""
FASTER_CODES = frozenset({"faster-less-certain", "faster-behind-surer", "faster-than-published"})
"""Reasons of a choice that name one option within the limits which is expected faster."""
BETTER_CODES = FASTER_CODES | {"faster-loss-unknown"}
"""Reasons of a choice that name an option which looks better."""
SUM = "Sum"
"""Head of what is held against the limit of the loss where that adds two metrics."""


RankingOn = Callable[["Device"], Ranking]
Asked = Sequence[tuple[str, str]]
"""(option, value) of what was asked, defaults left out; the value is empty for a switch."""
OF_PRINTING = frozenset({"--all", "--json", "--plot", "--output", "--layers"})
"""Options about how an answer is shown: no part of the question."""


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
    borrowed: str
    """Whose the losses with a mark are; empty where none has one."""
    notes: tuple[str, ...]
    """Up to two things to know, the gravest first."""
    next_command: str
    """What to type next; may be empty."""
    next_effect: str
    """What that does, where the command does not say it."""


def option_words(asked: Asked, *, without: Collection[str] = (), only: Collection[str] | None = None) -> str:
    """Return options for a shell, each with a space before it: those of `only`, but for those about printing and of
    `without`.
    """
    left_out = OF_PRINTING | set(without)
    pairs = [pair for pair in asked if pair[0] not in left_out and (only is None or pair[0] in only)]
    return "".join(f" {option} {shlex.quote(value)}" if value else f" {option}" for option, value in pairs)


def asked_chip_words(chip: Device) -> Asked:
    """Return the chip as `--hw` takes it; nothing for this machine, which was measured and has no key there."""
    return () if chip.calibration is not None else (("--hw", chip.key),)


def place_of(asked: Asked) -> str:
    """Return where something is measured: on this machine, or on one with the chip that was asked about."""
    chip = dict(asked).get("--hw", "auto")
    return "on this machine" if chip == "auto" else f"on a machine with {chip}"


def product_answer(ranking: Ranking, asked: Asked = ()) -> ShortAnswer:
    """Return the first lines of the ranking of a product's formats; `asked`: the question as it is typed."""
    question = ranking.question
    sizes = " ".join(f"{name}={size}" for name, size in question.sizes)
    arguments = " ".join(f"-{name} {size}" for name, size in question.sizes)
    subject = f"{question.phase} {sizes} on {question.hardware}."
    if ranking.choice is None:
        return _nothing(_nothing_sentence(ranking, product_name), subject, ranking)
    better = [item for item in ranking.choice.findings if item.code in BETTER_CODES]
    notes = _notes((*caveats(ranking), *better))
    roles = _product_roles(ranking)
    # A row gives way to each note, so that the answer stays a dozen lines.
    options = _product_options(ranking, roles, ROW_COUNT - len(notes))
    prefix = _prefix(options)
    columns, rows = _filled(
        ("Format", "Expected", "Ideal", "Gain", "W saved", *LOSS_METRICS.values()),
        [_product_row(option, roles, prefix, ranking) for option in options],
    )
    return ShortAnswer(
        sentence=_product_sentence(ranking, prefix),
        subject=subject,
        columns=columns,
        rows=rows,
        basis=_product_basis(ranking),
        borrowed="",
        notes=notes,
        next_command=f"roofline compare {_operator(ranking)} {arguments}{option_words(_measurable(asked))}",
        next_effect=f"measures it, {place_of(asked)}",
    )


def _measurable(asked: Asked) -> Asked:
    """Return what a comparison on the machine is asked, too; formats of the user's own have no kernel to measure."""
    has_own = "--formats-file" in dict(asked)
    names = {"--hw", "--cache", "--db"} if has_own else {"--hw", "--formats", "--cache", "--db"}
    return [pair for pair in asked if pair[0] in names]


def model_answer(
    ranking: ModelRanking,
    chip: Device,
    asked: Asked = (),
    *,
    are_named: bool = False,
    ranking_on: RankingOn | None = None,
) -> ShortAnswer:
    """Return the first lines of the ranking of a model's plans.

    `asked`: the question as it is typed; `are_named`: the user named the plans, so all have a row; `ranking_on`: the
    same question of another chip, asked where nothing can be taken on this one.
    """
    named = _named_plans(ranking, are_named=are_named)
    subject = f"{model_title(ranking, chip)}."
    if not named:
        answer = _nothing(model_sentence(ranking), subject, ranking)
        command, effect = _way_out(ranking, chip, asked, ranking_on)
        return replace(answer, next_command=command, next_effect=effect)
    phases = _mixed_phases(ranking)
    heads = ("Mean", *map(str.capitalize, phases)) if phases else ("Time", "Tokens/s")
    columns = ("Format", *heads, "Gain", "Memory", *LOSS_METRICS.values(), SUM)
    columns, rows = _filled(columns, _model_rows(named, ranking))
    command, effect = _next_step(ranking, asked)
    faster = [_faster_text(item, ranking) for item in _faster_reasons(ranking)[:1]]
    others = (*_texts(caveats(ranking)), *_usual_plan_note(ranking))
    return ShortAnswer(
        sentence=model_sentence(ranking),
        subject=subject,
        columns=columns,
        rows=rows,
        basis=f"{_rates_sentence(ranking)}{source_sentence(ranking)}",
        borrowed=borrowed_sentence(option for _, option in named),
        notes=(*others[: CAVEAT_COUNT - len(faster)], *faster),
        next_command=command,
        next_effect=effect,
    )


def _faster_reasons(ranking: Ranking) -> list[Finding]:
    """Return why options within the limits that are expected faster are not taken, the fastest first."""
    return [] if ranking.choice is None else [item for item in ranking.choice.findings if item.code in FASTER_CODES]


def _faster_text(item: Finding, ranking: Ranking) -> str:
    option = ranking.option(item.subject)
    return short_text(with_names(item) if option is None else replace(item, subject=plan_name(option)))


def _usual_plan_note(ranking: ModelRanking) -> tuple[str, ...]:
    """Return why the plan that many ship is not taken, where only its loss excludes it and no row names it; else
    nothing. Of several caches the fastest.
    """
    choice, named = ranking.choice, [option for _, option in _named_plans(ranking)]
    usual = [
        each.option
        for each in ranking.excluded
        if each.option is not None
        and dict(each.option.formats).get("layers") == USUAL_FORMATS
        and {item.code for item in each.findings} == {"misses-loss-limit"}
    ]
    if choice is None or not usual or any(dict(each.formats).get("layers") == USUAL_FORMATS for each in named):
        return ()
    plan = min(usual, key=lambda option: option.estimate.time_s)
    time = in_prefix(plan.estimate.time_s, _model_prefix([choice, plan]))
    metric, pct = next(iter(_pct_by_metric(plan).items()))
    is_faster = plan.estimate.time_s < choice.estimate.time_s * USUAL_GAIN_RATIO
    head = LOSS_METRICS.get(metric, metric)
    loss = f"loses up to {pct:.3g} %{f' ({head})' if head else ''}"
    limit = f", the limit is {ranking.limits.loss_pct:g} %" if is_faster else ""
    return (f"{plan_name(plan)}: {time}{',' if is_faster else ', no faster;'} {loss}{limit}",)


def _named_plans(ranking: Ranking, *, are_named: bool = False) -> list[tuple[str, Option]]:
    """Return role and option of the choice and its alternatives; without a role the fastest that is expected faster
    within the limits, and those that the user asked for.
    """
    if ranking.choice is None:
        return []
    named = [(ROLES["take"], ranking.choice), *((ROLES[each.role], each.option) for each in ranking.alternatives)]
    shown = [option for _, option in named]
    others = [option for option in ranking.options if option not in shown]
    faster = [item.subject for item in _faster_reasons(ranking)[:1]]
    return [
        *named,
        *(("", option) for option in others if are_named or option.key in faster or is_users_own(option)),
    ]


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
                *_better_and_ideal(option, prefix),
                gain_text(option, baseline),
                _memory(option),
                "0" if option.key == baseline.key else "unknown",
            ),
            is_loss_known=option.key == baseline.key,
        )
        for option in shown
    ]
    columns, filled = _filled(("Format", "Expected", "Ideal", "Gain", "Cache", "Loss"), rows)
    text = _cache_sentence(first, baseline, query, prefix)
    return ShortAnswer(text, subject, columns, filled, _product_basis(ranking), "", (), "", "")


def _product_sentence(ranking: Ranking, prefix: str | None) -> str:
    """Return what to take for a product in one sentence."""
    choice, baseline = ranking.choice, ranking.baseline
    assert choice is not None
    if choice is baseline:
        return f"Stay with {product_name(choice)}: {ranking.reason}."
    time, method = choice.estimate, "" if choice.method in UNNAMED_METHODS else f", {choice.method}"
    took = f"{SOURCES[time.source]} {_time_and_interval(time, prefix)}"
    gain = "" if baseline is None else f", {gain_text(choice, baseline)} {baseline.key}"
    saved = f"; saves {ranking.memory_savings_pct:.0f} % of the weight bytes"
    return f"Take {product_name(choice)}{method}: {took}{gain}{saved}."


def model_sentence(ranking: ModelRanking) -> str:
    """Return what to take for a model in one sentence, or why nothing is."""
    choice, baseline = ranking.choice, ranking.baseline
    if choice is None or baseline is None:
        riskier = next((each.option for each in ranking.alternatives), None)
        limit_pct = ranking.limits.loss_pct
        if riskier is not None and limit_pct is not None and riskier is ranking.nearest:
            is_sum = has_code(riskier.findings, "loss-adds-metrics")
            together = f", {riskier.loss.pct:.3g} % together" if is_sum else ""
            return (
                f"Nothing fits within a loss of {limit_pct:g} %. {plan_name(riskier)} fits, but "
                f"{_loss_clause(riskier)}{together}."
            )
        return _nothing_sentence(ranking, plan_name)
    if choice is baseline:
        return f"Stay with {plan_name(choice)}: {findings_text(map(with_names, choice.findings))}."
    time = choice.estimate
    gain = "" if choice.speedup_ratio is None else f", {gain_text(choice, baseline)} {ranking.wide}"
    if gain and _lacks_memory(ranking, baseline):
        gain += ", which does not fit"
    took = f"{SOURCES[time.source]} {_time_and_interval(time, _model_prefix([option for _, option in _named_plans(ranking)]), ' a pass')}"
    return f"Take {plan_name(choice)}: {took}{gain}; {_loss_clause(choice)}."


def _loss_sums(options: Sequence[Option], limit_pct: float | None) -> list[str]:
    """Return what each option is held against the limit of the loss with, where of any it is a sum beyond the limit and
    no part of it is; `MISSING` of the others.
    """
    sums = [option if has_code(option.findings, "loss-adds-metrics") else None for option in options]
    is_hidden = any(
        option is not None
        and limit_pct is not None
        and (option.loss.pct or 0.0) > limit_pct >= max(_pct_by_metric(option).values())
        for option in sums
    )
    return [f"≤ {option.loss.pct:.3g} %" if option is not None and is_hidden else MISSING for option in sums]


def _time_and_interval(time: Estimate, prefix: str | None, per: str = "") -> str:
    """Return `37.47 ms a pass (80 %: 32.42–43.30)`, in the unit and digits of the table below."""
    middle = in_prefix(time.time_s, prefix)
    if time.low_s is None or time.high_s is None or time.source == "ceilings":
        return f"{middle}{per}"
    return f"{middle}{per} (80 %: {interval_in_prefix(time.low_s, time.high_s, prefix, middle)})"


def _nothing_sentence(ranking: Ranking, option_name: Callable[[Option], str]) -> str:
    """Return that nothing keeps the limits, and what the nearest option misses."""
    nearest = next((each for each in ranking.excluded if each.option is not None), None)
    if nearest is None or nearest.option is None or not has_code(ranking.decision, "nothing-fits"):
        items = map(with_names, ranking.decision) if option_name is plan_name else ranking.decision
        return sentence(findings_text(items))
    misses = findings_text(nearest.findings)
    return f"Nothing meets the limits. Nearest: {option_name(nearest.option)}: {misses}."


def _lacks_memory(ranking: ModelRanking, baseline: Option) -> bool:
    return any(each.key == baseline.key and has_code(each.findings, "misses-memory-limit") for each in ranking.excluded)


def _cache_sentence(choice: Option, baseline: Option, query: str, prefix: str | None) -> str:
    name, time = attention_name(choice.key, query), choice.estimate
    if choice.key == baseline.key:
        return f"Stay with {name}: no narrower cache that a kernel is known to read is clearly faster."
    took = f"{SOURCES[time.source]} {_time_and_interval(time, prefix)}, {gain_text(choice, baseline)} {baseline.key}"
    return f"Take {name}: {took}; saves {saved_text(choice)} of the cache. Measure its loss: nobody published it."


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


def is_borrowed(option: Option) -> bool:
    """Return whether an option's loss is a figure of other models, though this one has a name."""
    return option.loss.source == "claimed" and bool(option.loss.pct) and not option.loss.is_of_model


def borrowed_sentence(options: Iterable[Option]) -> str:
    """Return whose the marked losses are; empty where none is marked."""
    return f"{BORROWED} Loss published for other models." if any(map(is_borrowed, options)) else ""


def _operator(ranking: Ranking) -> str:
    """Return the operator that a product is measured as: gemv up to M = 16, else gemm."""
    return product_op(dict(ranking.question.sizes).get("M", 1))


def _product_basis(ranking: Ranking) -> str:
    """Return what the times of one kernel are."""
    assert ranking.baseline is not None
    used = [option.estimate for option in (ranking.choice, ranking.baseline) if option is not None]
    if ranking.baseline.estimate.source != "expected":
        return source_sentence(ranking)
    return f"{expected_words(*(estimate.provenance for estimate in used))} Ideal: {ideal_words()}."


def expected_words(*provenances: str) -> str:
    """Return whose kernels the expected times of a table are; `provenances`: where their constants come from."""
    lent_count = sum(map(is_carried_over, provenances))
    if not lent_count:
        return "Expected: a good kernel with its launch."
    return f"Expected: {'carried over' if lent_count == len(provenances) else 'in part'} from other chips."


def is_carried_over(provenance: str) -> bool:
    """Return whether constants are those of other chips."""
    return provenance.startswith("transferred")


def source_sentence(ranking: Ranking) -> str:
    """Return what the times are, and what they leave out."""
    assert ranking.baseline is not None
    source = ranking.baseline.estimate.source
    if source == "ideal":
        return IDEAL_TIMES
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
    lent_count = sum(map(is_carried_over, provenances))
    if not lent_count:
        return sentence(short_text(finding("good-kernels")))
    is_lent = lent_count == len(provenances)
    return sentence(short_text(finding("good-kernels-elsewhere" if is_lent else "good-kernels-in-part")))


def caveats(ranking: Ranking) -> list[Finding]:
    """Return what puts an answer in doubt, the gravest first, but for what the decision and the line on its times
    say.
    """
    of_calibration = [code for code in CALIBRATED_BUSY if has_code(ranking.findings, code)]
    stated = {"ranked-by-ideals", "ranked-by-ceilings", *of_calibration[1:], *(item.code for item in ranking.decision)}
    return by_severity(item for item in ranking.findings if item.severity != "info" and item.code not in stated)


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


def loss_texts(option: Option) -> tuple[str, ...]:
    """Return a text per column of `LOSS_METRICS`: the loss that decides, and what was published in the other metric."""
    loss, metrics = option.loss, list(LOSS_METRICS)
    texts = [MISSING] * len(metrics)
    if loss.source == "reference" or loss.pct is None:
        return ("0" if is_loss_known(option) else "unknown", *texts[1:])
    pct_by_metric = _pct_by_metric(option)
    mark = BORROWED if dict(option.formats).get("layers") and is_borrowed(option) else ""
    for at, (metric, pct) in enumerate(pct_by_metric.items()):
        column = metrics.index(metric) if metric in metrics else len(metrics) - 1
        texts[column] = f"{'≤ ' if loss.source == 'claimed' else ''}{pct:.3g} %{'' if at else mark}"
    return tuple(texts)


def _pct_by_metric(option: Option) -> dict[str, float]:
    """Return metric → loss in percent, that of the formats first; a narrow cache adds to its own metric alone."""
    loss, findings = option.loss, option.findings
    assert loss.pct is not None
    added = first_with(findings, "loss-adds-metrics")
    pct_by_metric = {loss.metric: loss.pct}
    if added is not None:
        pct_by_metric = {str(added.value("metric")): _number(added, "formats_pct")}
    other = first_with(findings, "loss-in-other-metric")
    if other is not None:
        pct_by_metric.setdefault(str(other.value("metric")), _number(other, "high_pct"))
    if added is not None:
        cache_metric = str(added.value("cache_metric"))
        pct_by_metric[cache_metric] = pct_by_metric.get(cache_metric, 0.0) + _number(added, "cache_pct")
    return pct_by_metric


def _number(item: Finding, name: str) -> float:
    return float(str(item.value(name)))


def is_loss_known(option: Option) -> bool:
    """Return whether anybody measured or published what an option loses."""
    return option.loss.pct is not None and not has_code(option.findings, "stored-narrow")


def _product_roles(ranking: Ranking) -> dict[str, str]:
    assert ranking.choice is not None
    return {ranking.choice.key: ROLES["take"], **{each.option.key: ROLES[each.role] for each in ranking.alternatives}}


def _product_options(ranking: Ranking, roles: Mapping[str, str], row_count: int) -> list[Option]:
    """Return the choice, the alternatives, the user's own formats, then the first of the other options, up to
    `row_count` in all where the first do not take more.
    """
    by_key = {option.key: option for option in ranking.options}
    others = [option for option in ranking.options if option.key not in roles]
    own = [option for option in others if is_users_own(option)]
    rest = [option for option in others if option not in own]
    named = [*(by_key[key] for key in roles), *own]
    return [*named, *rest[: max(0, row_count - len(named))]]


def is_users_own(option: Option) -> bool:
    """Return whether a format of an option is one that the user described, and asked for by that."""
    keys = {key for _, text in option.formats for key in text.split(".")}
    return any(key not in FORMATS and known_format(key) is not None for key in keys)


def _product_row(option: Option, roles: Mapping[str, str], prefix: str | None, ranking: Ranking) -> ShortRow:
    return ShortRow(
        role=roles.get(option.key, ""),
        key=option.key,
        cells=(
            product_name(option),
            *_better_and_ideal(option, prefix),
            gain_text(option, ranking.baseline),
            saved_text(option),
            *loss_texts(option),
        ),
        is_loss_known=is_loss_known(option),
    )


def _mixed_phases(ranking: ModelRanking) -> tuple[str, ...]:
    """Return the phases of a mix of several; empty for passes of one."""
    phases = tuple(dict.fromkeys(share.workload.phase for share in ranking.traffic))
    return tuple(sorted(phases)) if len(phases) > 1 else ()


def _rates_sentence(ranking: ModelRanking) -> str:
    """Return the tokens per second of each phase of a mix with the choice; empty for passes of one phase."""
    if ranking.choice is None or not _mixed_phases(ranking):
        return ""
    kinds = {"decode": "generated tokens/s", "prefill": "prompt tokens/s"}
    rates = [f"{phase.phase} {format_rate(phase.tokens_per_s)} {kinds[phase.phase]}" for phase in ranking.choice.phases]
    return f"While it runs: {', '.join(rates)}. "


def phase_texts(option: Option, prefix: str | None, phases: Sequence[str]) -> list[str]:
    """Return the time of a pass of each of these phases of a mix."""
    times_s = {phase.phase: phase.time_s for phase in option.phases}
    return [in_prefix(times_s[phase], prefix) if phase in times_s else MISSING for phase in phases]


def _model_rows(named: Sequence[tuple[str, Option]], ranking: ModelRanking) -> list[ShortRow]:
    options = [option for _, option in named]
    prefix, phases = _model_prefix(options), _mixed_phases(ranking)
    return [
        ShortRow(
            role=role,
            key=option.key,
            cells=(
                plan_name(option),
                f"{least_mark(option)}{in_prefix(option.estimate.time_s, prefix)}",
                *(phase_texts(option, prefix, phases) if phases else [tokens_text(option)]),
                gain_text(option, ranking.baseline),
                _memory(option),
                *loss_texts(option),
                loss_sum,
            ),
            is_loss_known=is_loss_known(option),
        )
        for (role, option), loss_sum in zip(named, _loss_sums(options, ranking.limits.loss_pct), strict=True)
    ]


def _ideal_s(option: Option) -> float | None:
    return None if option.times.ideal is None else option.times.ideal.time_s


def _better_s(option: Option) -> float | None:
    return None if option.estimate.source == "ideal" else option.estimate.time_s


def _prefix(options: Sequence[Option]) -> str | None:
    return shared_prefix(list(map(_ideal_s, options)), list(map(_better_s, options)))


def _better_and_ideal(option: Option, prefix: str | None) -> tuple[str, str]:
    return in_prefix(_better_s(option), prefix), in_prefix(_ideal_s(option), prefix)


def _model_prefix(options: Sequence[Option]) -> str | None:
    return shared_prefix(
        [option.estimate.time_s for option in options], [phase.time_s for option in options for phase in option.phases]
    )


def _memory(option: Option) -> str:
    return MISSING if option.memory is None else format_memory(option.memory.total_bytes)


def _filled(columns: Sequence[str], rows: Sequence[ShortRow]) -> tuple[tuple[str, ...], tuple[ShortRow, ...]]:
    """Return columns and rows without the columns that no row has anything in."""
    texts = enumerate(zip(*(row.cells for row in rows), strict=True))
    places = [at for at, column in texts if column.count(MISSING) < len(rows)]
    cut = (ShortRow(row.role, row.key, tuple(row.cells[at] for at in places), row.is_loss_known) for row in rows)
    return tuple(columns[at] for at in places), tuple(cut)


def _nothing(text: str, subject: str, ranking: Ranking) -> ShortAnswer:
    """Return the first lines where nothing can be taken."""
    return ShortAnswer(text, subject, (), (), "", "", _notes(caveats(ranking)), "", "")


def _notes(items: Sequence[Finding]) -> tuple[str, ...]:
    return _texts(items)[:CAVEAT_COUNT]


def _texts(items: Iterable[Finding]) -> tuple[str, ...]:
    """Return a line per finding; of formats without a kernel one for all that have the same reason."""
    subjects: dict[str, list[str]] = {}
    for item in items:
        subjects.setdefault(short_text(item), []).append(shown_key(item.subject) if item.code == "kernel-gap" else "")
    return tuple(f"{', '.join(names)}: {text}" if all(names) else text for text, names in subjects.items())


def _next_step(ranking: ModelRanking, asked: Asked) -> tuple[str, str]:
    """Return what to type to get the chosen plan, and what that does: a published checkpoint, else how to make it."""
    choice = ranking.choice
    if choice is None:
        return "", ""
    formats = {part.name: part.format for part in choice.parts}
    label = formats.get("layers") or formats.get("experts", "")
    model = dict(asked).get("--model", "")
    # A model of the same shape has another one's name, and checkpoints of its own.
    published = checkpoints_of(ranking.question.name, label) if is_called(model, ranking.question.name) else ()
    if published:
        cache = " --kv-cache-dtype fp8" if formats.get("cache", "").startswith("FP8") else ""
        # The prompt and the tokens after it.
        longest = max(share.workload.context_count for share in ranking.traffic)
        is_given = _is_context_given(asked) or not _serves_longest(choice, ranking.question.name)
        length = f" --max-model-len {longest}" if is_given else ""
        return f"vllm serve {published[0].repository}{cache}{length}{_engine_memory_option(choice.memory)}", ""
    if choice is ranking.baseline or choice.kind == "published" or "--traffic" in dict(asked):
        return "", ""
    is_loadable = ("/" in model and not model.endswith(".json")) or model.startswith("seeded-")
    folder = model if is_loadable else "FOLDER"
    # It is asked one kind of pass, whose limit it takes without its name.
    of_pass = [(name, value.removeprefix(f"{ranking.question.phase}=")) for name, value in asked]
    options = option_words(of_pass, only=_OF_PIPELINE)
    return (
        f"roofline pipeline --model {shlex.quote(folder)}{options} -o OUT",
        f"makes and measures it, {place_of(asked)}",
    )


def _engine_memory_option(memory: Memory | None) -> str:
    """Return the option that gives vLLM its share of the memory; empty where its own share will do."""
    ratio = _engine_memory_ratio(memory)
    return "" if ratio in (None, VLLM_MEMORY_RATIO) else f" --gpu-memory-utilization {ratio:g}"


def _engine_memory_ratio(memory: Memory | None) -> float | None:
    """Return the share of the memory that keeps vLLM within the usable part, and gives it what a plan needs; None where
    nothing is known of the memory.
    """
    if memory is None or memory.capacity_bytes is None or memory.usable_bytes is None:
        return None
    need, most = (
        (size + ENGINE.size_bytes) / memory.capacity_bytes for size in (memory.total_bytes, memory.usable_bytes)
    )
    if need <= ENGINE_MEMORY_RATIO and most >= VLLM_MEMORY_RATIO:
        return VLLM_MEMORY_RATIO
    most_ratio = math.floor(100 * most) / 100
    return most_ratio if most < VLLM_MEMORY_RATIO else min(max(0.95, math.ceil(100 * need) / 100), most_ratio)


def _serves_longest(choice: PlanOption, model: str) -> bool:
    """Return whether the cache of one sequence as long as the model takes has room beside the plan: vLLM ends at the
    start where it has none and no length is given.
    """
    memory, ratio, shape = choice.memory, _engine_memory_ratio(choice.memory), shipped_model(model)
    if memory is None or memory.capacity_bytes is None or ratio is None or shape is None:
        return True
    room_bytes = ratio * memory.capacity_bytes - ENGINE.size_bytes - (memory.total_bytes - (memory.cache_bytes or 0.0))
    return plan_kv_bytes(shape, choice.plan, shape.max_context_size) <= room_bytes


def _is_context_given(asked: Asked) -> bool:
    """Return whether a length of context was typed; a file of traffic states one."""
    lines = [value for option, value in asked if option == "--traffic"]
    return "--context" in dict(asked) or any("context" in line or ":" not in line for line in lines)


def _way_out(ranking: ModelRanking, chip: Device, asked: Asked, ranking_on: RankingOn | None) -> tuple[str, str]:
    """Return what asks the same with the limit that was missed moved, and what that does: a loss that lets a plan in,
    or chips on which something meets all limits; empty where there are none.
    """
    name = "" if "--model" in dict(asked) else f" --model {ranking.question.name}"
    if (wider := wider_loss_limit(ranking)) is not None:
        limit_pct, plan = wider
        options = option_words(asked, without=("--max-quality-loss",))
        effect = f"allows the loss of {plan_name(plan)}"
        return f"roofline recommend{name}{options} --max-quality-loss {limit_pct:g}", effect
    chips = [] if ranking_on is None else _chips_with_a_choice(ranking, chip, asked, ranking_on)
    if not chips:
        return "", ""
    command = f"roofline recommend{name}{option_words(asked, without=('--hw',))} --hw {','.join(chips)}"
    return command, "meets the limits there" if len(chips) == 1 else "compares chips that meet the limits"


def wider_loss_limit(ranking: Ranking) -> tuple[float, Option] | None:
    """Return the limit in percent that lets in a plan which only its loss excludes, and that plan: the riskier one,
    or else the first; None where there is none.
    """
    lossy = [
        each.option
        for each in ranking.excluded
        if each.option is not None and [item.code for item in each.findings] == ["misses-loss-limit"]
    ]
    riskier = [each.option.key for each in ranking.alternatives if each.role == "riskier"]
    plan = next((option for option in lossy if option.key in riskier), lossy[0] if lossy else None)
    if plan is None or plan.loss.pct is None:
        return None
    return math.ceil(round(plan.loss.pct * 10, 6)) / 10, plan


def _chips_with_a_choice(ranking: ModelRanking, chip: Device, asked: Asked, ranking_on: RankingOn) -> list[str]:
    """Return the first chips on which something can be taken, the smallest memory first."""
    options = [each.option for each in ranking.excluded if any(item.code in _OF_CHIP for item in each.findings)]
    needs = [option.memory.total_bytes for option in options if option is not None and option.memory is not None]
    if not needs:
        return []
    is_limited = "--memory-limit-gb" in dict(asked)
    most_bytes = ranking.limits.memory_bytes if is_limited else None
    if most_bytes is not None and most_bytes < min(needs):
        return []
    with_room = [
        (usable_bytes(other) or 0.0, other.key, other)
        for other in list_hardware()
        if not other.is_placeholder and other.key != chip.key and (usable_bytes(other) or 0.0) >= min(needs)
    ]
    keeping = (key for _, key, other in sorted(with_room, key=lambda each: each[:2]) if ranking_on(other).choice)
    return list(islice(keeping, _CHIP_COUNT))


def _loss_clause(option: Option) -> str:
    loss = option.loss
    if (stored := first_with(option.findings, "stored-narrow")) is not None:
        return short_text(stored)
    if loss.source == "reference":
        return "it loses nothing"
    if loss.pct is None:
        return "its loss is unknown"
    of_whom = "published" if loss.is_of_model else "published for other models"
    kind = of_whom if loss.source == "claimed" else loss.source
    is_sum = has_code(option.findings, "loss-adds-metrics")
    parts = _pct_by_metric(option) if is_sum else {loss.metric or "perplexity": loss.pct}
    moves = [
        f"{name} {'falls' if 'accuracy' in name else 'rises'} by at most {pct:.3g} %" for name, pct in parts.items()
    ]
    return f"{' and '.join(moves)} ({kind})"
