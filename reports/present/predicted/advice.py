"""The first lines of an answer, the same on every surface: what to take, the options by name, what to know, what to
type next.

The command line prints them, the API serves them, the explorer shows them: texts and digits are made here once.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING

from reports.present.blocks import Block, Column, Command, Paragraph, Rich, Span, more, notes, swatch, table
from reports.present.predicted.passes import time_parts_sentence
from reports.present.predicted.words import (
    LOSS_METRICS,
    PHASES,
    ROLES,
    ROW_COUNT,
    SOURCES,
    Asked,
    better_s,
    borrowed_sentence,
    expected_words,
    gain_text,
    ideal_words,
    is_loss_known,
    least_mark,
    loss_clause,
    loss_texts,
    option_words,
    pct_by_metric,
    phase_text,
    place_of,
    saved_text,
    shown_key,
    source_sentence,
    tokens_text,
    used_provenances,
    with_names,
)
from reports.present.screen import MISSING
from roofline_model.chips.hardware import list_hardware
from roofline_model.chips.usable_memory import ENGINE, usable_bytes
from roofline_model.core.answer import Estimate, Memory, Option, Ranking
from roofline_model.core.finding import Finding, by_severity, findings_text, has_code, short_text
from roofline_model.core.units import (
    counted,
    format_memory,
    format_rate,
    in_prefix,
    interval_in_prefix,
    sentence,
    shared_prefix,
)
from roofline_model.formats.catalog import FORMATS, attention_name, known_format
from roofline_model.kernels.checkpoints import checkpoints_of
from roofline_model.models.model_memory import plan_kv_bytes
from roofline_model.models.model_registry import is_called, shipped_model
from roofline_model.models.tensor_parallel import shard
from roofline_model.operators.product import product_op
from roofline_model.predictions.model import pass_prediction
from roofline_model.recommend.options import product_name
from roofline_model.recommend.plan_formats import plan_name

if TYPE_CHECKING:
    from roofline_model.chips.hardware import Device
    from roofline_model.recommend.model import ModelRanking
    from roofline_model.recommend.plan_options import PlanOption

CAVEAT_COUNT = 2
CALIBRATED_BUSY = ("kernel-time-implausible", "kernels-contended", "ceilings-contended")
"""What a calibration on a busy machine leaves in doubt, the gravest first; another calibration removes them all."""
USUAL_FORMATS = "INT4.BF16"
"""Formats of the layers that many ship, and so look for: their absence is explained."""
USUAL_GAIN_RATIO = 0.95
"""Share of the choice's time from which on it is no faster."""
VLLM_MEMORY_RATIO = 0.9
"""Share of the memory that vLLM takes unless told otherwise (vllm-project/vllm 35313)."""
ENGINE_MEMORY_RATIO = 0.88
"""Share of the memory from which on a plan leaves too little of it."""
ANSWER_TOKENS = 1024
"""Room that an engine is given for the answer to a prompt where nobody said how long it is."""
UNNAMED_METHODS = frozenset({"", "none", "native_fp8", "native_fp4"})
"""Methods that say no more than the format does."""
_OF_PIPELINE = ("--phase", "--batch", "--context", "--memory-limit-gb", "--max-latency-ms", "--max-quality-loss")
"""What `roofline pipeline` can be asked, too."""
_OF_CHIP = frozenset({"misses-memory-limit", "misses-time-limit"})
"""Limits that another chip may keep."""
_CHIP_COUNT = 4
"""Chips that an answer names to look at."""
BETTER_CODES = frozenset({"faster-not-first", "faster-loss-unknown"})
"""Reasons of a choice that name an option which looks better."""
SUM = "Sum"
"""Head of what is held against the limit of the loss where that adds two metrics."""

RankingOn = Callable[["Device"], Ranking]
Named = Sequence[tuple[str, Option]]
"""Role, empty for an option without one, and option."""


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
    columns: tuple[str, ...] = ()
    """Heads of the columns after the role."""
    rows: tuple[ShortRow, ...] = ()
    """The choice, the alternatives, and for a product the options that follow; empty where nothing can be taken."""
    basis: str = ""
    """What the times are, and what they leave out; without rows the limits of time that are missed, and where it
    goes.
    """
    borrowed: str = ""
    """Whose the losses with a mark are; empty where none has one."""
    notes: tuple[str, ...] = ()
    """Up to two things to know, the gravest first."""
    next_command: str = ""
    """What to type next; may be empty."""
    next_effect: str = ""
    """What that does, where the command does not say it."""


_DROPS = {"Tokens/s": 3, "Ideal": 2, "W saved": 1}
"""Columns of a short answer that leave a narrow screen, the highest number first."""


def short_answer_blocks(
    answer: ShortAnswer, added_by_all: str, *, show_all: bool, left_out: Iterable[str] = ()
) -> Iterator[Block]:
    """Yield what to take, the options by name, up to two caveats, and what to type next: a dozen lines. `left_out`:
    a line for each option that was asked for and has no row.
    """
    first_loss = next((at for at, head in enumerate(answer.columns) if head in LOSS_METRICS.values()), None)

    def cell(at: int) -> Callable[[ShortRow], Rich]:
        is_marked = at == first_loss
        return lambda row: Span(row.cells[at], "predicted") if is_marked and not row.is_loss_known else row.cells[at]

    def role(row: ShortRow) -> Rich:
        return Span(row.role, "role") if row.role else ""

    has_choice = any(row.role == ROLES["take"] for row in answer.rows)
    yield Paragraph(answer.sentence, "verdict" if has_choice else "failed")
    yield Paragraph(answer.subject, "quiet", medium="text")
    if answer.rows:
        name, *others = answer.columns
        columns = [
            Column("", role),
            Column(name, lambda row: (swatch(row.cells[0]), row.cells[0]), is_head=True),
            *(Column(head, cell(at), "number", drop=_DROPS.get(head, 0)) for at, head in enumerate(others, start=1)),
        ]
        yield table(
            "options",
            columns,
            answer.rows,
            look_of=lambda row: "chosen" if row.role == ROLES["take"] else "",
            look="short",
            says_what_is_left_out=False,
        )
    yield from (Paragraph(text, "quiet") for text in (answer.basis, answer.borrowed) if text)
    yield from notes(answer.notes)
    yield from map(Paragraph, left_out)
    yield Command(answer.next_command, answer.next_effect)
    yield from more(added_by_all, is_shown=show_all)


def added_by_all(ranking: Ranking, noun: str) -> str:
    """Return what --all adds. `noun`: what an option is called, for one of them."""
    count = len(ranking.excluded)
    are = "is" if count == 1 else "are"
    if not ranking.options:
        return f"says why {counted(count, noun)} {are} excluded"
    return f"lists {counted(len(ranking.options), noun)}{f' and why {count} {are} excluded' if count else ''}"


def product_answer(ranking: Ranking, asked: Asked = ()) -> ShortAnswer:
    """Return the first lines of the ranking of a product's formats; `asked`: the question as it is typed."""
    question, choice = ranking.question, ranking.choice
    sizes = " ".join(f"{name}={size}" for name, size in question.sizes)
    subject = f"{question.phase} {sizes} on {question.hardware}."
    if choice is None:
        text = _nothing_sentence(ranking, product_name)
        return ShortAnswer(text, subject, notes=_texts(caveats(ranking))[:CAVEAT_COUNT])
    better = [item for item in choice.findings if item.code in BETTER_CODES]
    said = _texts((*caveats(ranking), *better))[:CAVEAT_COUNT]
    # A row gives way to each note, so that the answer stays a dozen lines.
    named = _product_options(ranking, choice, ROW_COUNT - len(said))
    prefix = _prefix(named)
    columns, rows = _short_table(
        named,
        [
            ("Format", product_name),
            *_better_and_ideal(prefix),
            ("Gain", lambda option: gain_text(option, ranking.baseline)),
            ("W saved", saved_text),
            *_LOSSES,
        ],
    )
    # Formats of the user's own have no kernel to measure.
    own = () if "--formats-file" in dict(asked) else ("--formats",)
    operator = product_op(dict(question.sizes).get("M", 1))
    arguments = " ".join(f"-{name} {size}" for name, size in question.sizes)
    measured = option_words(asked, only=("--hw", "--cache", "--db", *own))
    return ShortAnswer(
        sentence=_product_sentence(ranking, choice, prefix),
        subject=subject,
        columns=columns,
        rows=rows,
        basis=_product_basis(ranking),
        notes=said,
        next_command=f"roofline compare {operator} {arguments}{measured}",
        next_effect=f"measures it, {place_of(asked)}",
    )


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
    subject = f"{workload(ranking)} on {chip.key}: {chip.name}."
    if not named:
        command, effect = _way_out(ranking, chip, asked, ranking_on)
        said = _texts(caveats(ranking))[:CAVEAT_COUNT]
        basis = _missed_sentence(ranking, chip)
        return ShortAnswer(
            model_sentence(ranking), subject, basis=basis, notes=said, next_command=command, next_effect=effect
        )
    prefix, phases = _model_prefix(named), _mixed_phases(ranking)

    def of_phase(phase: str) -> tuple[str, Callable[[Option], str]]:
        return phase.capitalize(), lambda option: phase_text(option, prefix, phase)

    columns, rows = _short_table(
        named,
        [
            ("Format", plan_name),
            (
                "Mean" if phases else "Time",
                lambda option: f"{least_mark(option)}{in_prefix(option.estimate.time_s, prefix)}",
            ),
            *(map(of_phase, phases) if phases else [("Tokens/s", tokens_text)]),
            ("Gain", lambda option: gain_text(option, ranking.baseline)),
            ("Memory", _memory),
            *_LOSSES,
            (SUM, _loss_sums([option for _, option in named], ranking.limits.loss_pct)),
        ],
    )
    command, effect = _next_step(ranking, asked)
    faster = [_faster_text(item, ranking) for item in _faster_reasons(ranking)[:1]]
    others = (*_texts(caveats(ranking)), *_usual_plan_note(ranking, [option for _, option in named]))
    return ShortAnswer(
        sentence=model_sentence(ranking),
        subject=subject,
        columns=columns,
        rows=rows,
        basis=f"{_rates_sentence(ranking)}{source_sentence(ranking, _engine_pass(ranking, command))}",
        borrowed=borrowed_sentence(option for _, option in named),
        notes=(*others[: CAVEAT_COUNT - len(faster)], *faster),
        next_command=command,
        next_effect=effect,
    )


def cache_answer(ranking: Ranking, query: str, subject: str) -> ShortAnswer:
    """Return the first lines of the ranking of an attention's cache formats for a query format."""
    baseline = ranking.baseline
    assert baseline is not None  # the 16-bit cache
    first = ranking.choice or ranking.options[0]
    others = [option for option in ranking.options if option.key not in (first.key, baseline.key)][: ROW_COUNT - 2]
    last = [] if first.key == baseline.key else [(ROLES["safest"], baseline)]
    named = [(ROLES["take"], first), *(("", option) for option in others), *last]
    prefix = _prefix(named)
    columns, rows = _short_table(
        named,
        [
            ("Format", lambda option: attention_name(option.key, query)),
            *_better_and_ideal(prefix),
            ("Gain", lambda option: gain_text(option, baseline)),
            ("Cache", _memory),
            ("Loss", lambda option: "0" if option.key == baseline.key else "unknown"),
        ],
        is_known=lambda option: option.key == baseline.key,
    )
    name, time = attention_name(first.key, query), first.estimate
    text = f"Stay with {name}: no narrower cache that a kernel is known to read is clearly faster."
    if first.key != baseline.key:
        took = f"{SOURCES[time.source]} {_time_and_interval(time, prefix)}, {gain_text(first, baseline)} {baseline.key}"
        text = f"Take {name}: {took}; saves {saved_text(first)} of the cache. Measure its loss: nobody published it."
    return ShortAnswer(text, subject, columns, rows, _product_basis(ranking))


def _short_table(
    named: Named,
    columns: Sequence[tuple[str, Callable[[Option], str]]],
    is_known: Callable[[Option], bool] = is_loss_known,
) -> tuple[tuple[str, ...], tuple[ShortRow, ...]]:
    """Return heads and rows of options, without the columns that no row has anything in."""
    texts = [[text(option) for _, option in named] for _, text in columns]
    places = [at for at, column in enumerate(texts) if column.count(MISSING) < len(named)]
    rows = (
        ShortRow(role, option.key, tuple(texts[at][row] for at in places), is_known(option))
        for row, (role, option) in enumerate(named)
    )
    return tuple(columns[at][0] for at in places), tuple(rows)


def _better_and_ideal(prefix: str | None) -> tuple[tuple[str, Callable[[Option], str]], ...]:
    return (
        ("Expected", lambda option: in_prefix(better_s(option), prefix)),
        ("Ideal", lambda option: in_prefix(option.times.ideal_s, prefix)),
    )


def _loss_text(at: int) -> Callable[[Option], str]:
    return lambda option: loss_texts(option)[at]


_LOSSES = [(head, _loss_text(at)) for at, head in enumerate(LOSS_METRICS.values())]


def _memory(option: Option) -> str:
    return MISSING if option.memory is None else format_memory(option.memory.total_bytes)


def _prefix(named: Named) -> str | None:
    return shared_prefix([option.times.ideal_s for _, option in named], [better_s(option) for _, option in named])


def _model_prefix(named: Named) -> str | None:
    return shared_prefix(
        [option.estimate.time_s for _, option in named],
        [phase.time_s for _, option in named for phase in option.phases],
    )


def _loss_sums(options: Sequence[Option], limit_pct: float | None) -> Callable[[Option], str]:
    """Return what tells what an option is held against the limit of the loss with, where of any it is a sum beyond the
    limit and no part of it is; `MISSING` of the others.
    """
    sums = [option for option in options if has_code(option.findings, "loss-adds-metrics")]
    is_hidden = limit_pct is not None and any(
        (option.loss.pct or 0.0) > limit_pct >= max(pct_by_metric(option).values()) for option in sums
    )
    return lambda option: f"≤ {option.loss.pct:.3g} %" if is_hidden and option in sums else MISSING


# What to take --------------------------------------------------------------------------------------------------


def _product_options(ranking: Ranking, choice: Option, row_count: int) -> Named:
    """Return the choice, the alternatives, the user's own formats, then the first of the other options, up to
    `row_count` in all where the first do not take more.
    """
    roles = {choice.key: ROLES["take"], **{each.option.key: ROLES[each.role] for each in ranking.alternatives}}
    places = {key: place for place, key in enumerate(roles)}
    in_order = sorted(
        ranking.options, key=lambda option: places.get(option.key, len(places) + (not is_users_own(option)))
    )
    first_count = sum(option.key in roles or is_users_own(option) for option in in_order)
    return [(roles.get(option.key, ""), option) for option in in_order[: max(row_count, first_count)]]


def is_users_own(option: Option) -> bool:
    """Return whether a format of an option is one that the user described, and asked for by that."""
    keys = {key for _, text in option.formats for key in text.split(".")}
    return any(key not in FORMATS and known_format(key) is not None for key in keys)


def _named_plans(ranking: Ranking, *, are_named: bool = False) -> Named:
    """Return role and option of the choice and its alternatives; without a role the fastest that is expected faster
    within the limits, and those that the user asked for.
    """
    if ranking.choice is None:
        return []
    named = [(ROLES["take"], ranking.choice), *((ROLES[each.role], each.option) for each in ranking.alternatives)]
    shown = [option for _, option in named]
    faster = [item.subject for item in _faster_reasons(ranking)[:1]]
    others = (option for option in ranking.options if option not in shown)
    return [
        *named,
        *(("", option) for option in others if are_named or option.key in faster or is_users_own(option)),
    ]


def _product_sentence(ranking: Ranking, choice: Option, prefix: str | None) -> str:
    """Return what to take for a product in one sentence."""
    time, baseline = choice.estimate, ranking.baseline
    if choice is baseline:
        return f"Stay with {product_name(choice)}: {ranking.reason}."
    method = "" if choice.method in UNNAMED_METHODS else f", {choice.method}"
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
        if riskier is None or limit_pct is None or riskier is not ranking.nearest:
            return _nothing_sentence(ranking, plan_name)
        is_sum = has_code(riskier.findings, "loss-adds-metrics")
        loss = f"{loss_clause(riskier)}{f', {riskier.loss.pct:.3g} % together' if is_sum else ''}"
        return f"Nothing fits within a loss of {limit_pct:g} %. {plan_name(riskier)} fits, but {loss}."
    if choice is baseline:
        return f"Stay with {plan_name(choice)}: {findings_text(map(with_names, choice.findings))}."
    gain = "" if choice.speedup_ratio is None else f", {gain_text(choice, baseline)} {ranking.wide}"
    if gain and any(
        each.key == baseline.key and has_code(each.findings, "misses-memory-limit") for each in ranking.excluded
    ):
        gain += ", which does not fit"
    time = _time_and_interval(choice.estimate, _model_prefix(_named_plans(ranking)), " a pass")
    return f"Take {plan_name(choice)}: {SOURCES[choice.estimate.source]} {time}{gain}; {loss_clause(choice)}."


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


def limits_sentence(ranking: ModelRanking) -> str:
    """Return the limits that the plans were held against."""
    limits = ranking.limits
    texts = ["no limit of memory (the chip's file states no capacity)"]
    if limits.memory_limit_bytes is not None:
        is_whole = limits.memory_bytes == limits.memory_limit_bytes
        usable = "" if is_whole else f"{format_memory(limits.memory_bytes)} usable of "
        headroom = f", {limits.headroom_ratio * 100:g} % of it kept free" if limits.headroom_ratio else ""
        texts = [f"{usable}{format_memory(limits.memory_limit_bytes)} of memory{headroom}"]
    texts += [] if limits.time_s is None else [f"{limits.time_s * 1e3:g} ms a pass"]
    texts += [f"{limit_s * 1e3:g} ms a {phase} pass" for phase, limit_s in limits.phase_times_s]
    default = "" if limits.is_loss_given else " (default)"
    texts.append(
        f"a loss of at most {limits.loss_pct:g} %{default}, of perplexity where published, else of task accuracy"
    )
    return f"Limits: {'; '.join(texts)}."


def _missed_sentence(ranking: ModelRanking, chip: Device) -> str:
    """Return the limits that nothing meets, and where the time of the nearest option goes in a pass that is too long;
    empty where time is not what is missed.
    """
    nearest = next((each for each in ranking.excluded if each.option is ranking.nearest), None)
    missed = [] if nearest is None else [item for item in nearest.findings if item.code == "misses-time-limit"]
    if not missed:
        return ""
    phases = {item.value("phase") for item in missed}
    steps = [each for each in ranking.passes if phases & {None, each.workload.phase}]
    parts = "; ".join(time_parts_sentence(pass_prediction(each, chip)) for each in steps)
    return f"{limits_sentence(ranking)} Where its time goes: {parts}."


def workload(ranking: ModelRanking) -> str:
    """Return model and workload in a line."""
    from roofline_model.recommend.search.traffic_file import traffic_text

    model, count = ranking.question.name, device_count(ranking)
    shared = f", tensor parallel over {count} devices (memory: of one)" if count > 1 else ""
    if len(ranking.traffic) > 1:
        mix = " + ".join(traffic_text(share) for share in ranking.traffic)
        return f"{model}, mean pass of {mix}{shared}"
    work = ranking.traffic[0].workload
    new = f" new={work.new_count}" if work.new_count not in (1, work.context_count) else ""
    return f"{model} {work.phase} batch={work.batch_count} context={work.context_count}{new}{shared}"


def device_count(ranking: Ranking) -> int:
    """Return the devices that share every layer."""
    return dict(ranking.question.sizes).get("devices", 1)


# What to know --------------------------------------------------------------------------------------------------


def caveats(ranking: Ranking) -> list[Finding]:
    """Return what puts an answer in doubt, the gravest first, but for what the decision and the line on its times
    say.
    """
    of_calibration = [code for code in CALIBRATED_BUSY if has_code(ranking.findings, code)]
    stated = {"ranked-by-bounds", *of_calibration[1:], *(item.code for item in ranking.decision)}
    return by_severity(item for item in ranking.findings if item.severity != "info" and item.code not in stated)


def _texts(items: Iterable[Finding]) -> tuple[str, ...]:
    """Return a line per finding; of formats without a kernel one for all that have the same reason."""
    subjects: dict[str, list[str]] = {}
    for item in items:
        subjects.setdefault(short_text(item), []).append(shown_key(item.subject) if item.code == "kernel-gap" else "")
    return tuple(f"{', '.join(names)}: {text}" if all(names) else text for text, names in subjects.items())


def _faster_reasons(ranking: Ranking) -> list[Finding]:
    """Return why options within the limits that are expected faster are not taken, the fastest first."""
    return (
        [] if ranking.choice is None else [item for item in ranking.choice.findings if item.code == "faster-not-first"]
    )


def _faster_text(item: Finding, ranking: Ranking) -> str:
    option = ranking.option(item.subject)
    return short_text(with_names(item) if option is None else replace(item, subject=plan_name(option)))


def _usual_plan_note(ranking: ModelRanking, shown: Sequence[Option]) -> tuple[str, ...]:
    """Return why the plan that many ship is not taken, where only its loss excludes it and no row names it; else
    nothing. Of several caches the fastest.
    """
    choice = ranking.choice
    usual = [option for option in _excluded_by_loss(ranking) if dict(option.formats).get("layers") == USUAL_FORMATS]
    if choice is None or not usual or any(dict(each.formats).get("layers") == USUAL_FORMATS for each in shown):
        return ()
    plan = min(usual, key=lambda option: option.estimate.time_s)
    time = in_prefix(plan.estimate.time_s, _model_prefix([("", choice), ("", plan)]))
    metric, pct = next(iter(pct_by_metric(plan).items()))
    head = LOSS_METRICS.get(metric, metric)
    loss = f"loses up to {pct:.3g} %{f' ({head})' if head else ''}"
    if plan.estimate.time_s < choice.estimate.time_s * USUAL_GAIN_RATIO:
        return (f"{plan_name(plan)}: {time}, {loss}, the limit is {ranking.limits.loss_pct:g} %",)
    return (f"{plan_name(plan)}: {time}, no faster; {loss}",)


def _excluded_by_loss(ranking: Ranking) -> list[Option]:
    """Return the options that only their loss excludes."""
    return [
        each.option
        for each in ranking.excluded
        if each.option is not None and {item.code for item in each.findings} == {"misses-loss-limit"}
    ]


def _product_basis(ranking: Ranking) -> str:
    """Return what the times of one kernel are."""
    if ranking.baseline is not None and ranking.baseline.estimate.source == "expected":
        return f"{expected_words(*used_provenances(ranking))} Ideal: {ideal_words()}."
    return source_sentence(ranking)


def _mixed_phases(ranking: ModelRanking) -> list[str]:
    """Return the phases of a mix of several; empty for passes of one."""
    phases = {share.workload.phase for share in ranking.traffic}
    return [phase for phase in PHASES if phase in phases] if len(phases) > 1 else []


def _engine_pass(ranking: ModelRanking, command: str) -> Finding | None:
    """Return what the choice takes in the engine that the next command starts, else in the fastest; None where none is
    known for it.
    """
    passes = [item for item in ranking.findings if item.code == "engine-pass"]
    return min(passes, key=lambda item: not command.startswith(item.subject.lower()), default=None)


def _rates_sentence(ranking: ModelRanking) -> str:
    """Return the tokens per second of a mix with the choice: of the whole, then of each phase while it runs alone;
    empty for passes of one phase.
    """
    if ranking.choice is None or not _mixed_phases(ranking):
        return ""
    kinds = {"decode": "generated tokens/s", "prefill": "prompt tokens/s"}
    rates = [f"{phase.phase} {format_rate(phase.tokens_per_s)} {kinds[phase.phase]}" for phase in ranking.choice.phases]
    decode = [share for share in ranking.traffic if share.workload.phase == "decode"]
    count = math.fsum(share.share_ratio * share.workload.row_count for share in decode)
    whole = count / math.fsum(share.share_ratio for share in ranking.traffic) / ranking.choice.estimate.time_s
    return f"The mix: {format_rate(whole)} generated tokens/s. A phase alone: {', '.join(rates)}. "


# What to type next ---------------------------------------------------------------------------------------------


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
        is_given = _is_context_given(asked) or not _serves_longest(choice, ranking)
        length, effect = _length_to_serve(ranking) if is_given else ("", "")
        ratio = _engine_memory_ratio(choice.memory)
        memory = "" if ratio in (None, VLLM_MEMORY_RATIO) else f" --gpu-memory-utilization {ratio:g}"
        devices = f" --tensor-parallel-size {device_count(ranking)}" if device_count(ranking) > 1 else ""
        return f"vllm serve {published[0].repository}{devices}{cache}{length}{memory}", effect
    if (
        device_count(ranking) > 1
        or choice is ranking.baseline
        or choice.kind == "published"
        or "--traffic" in dict(asked)
    ):
        return "", ""
    is_loadable = ("/" in model and not model.endswith(".json")) or model.startswith("seeded-")
    # It is asked one kind of pass, whose limit it takes without its name.
    of_pass = [(name, value.removeprefix(f"{ranking.question.phase}=")) for name, value in asked]
    options = option_words(of_pass, only=_OF_PIPELINE)
    return (
        f"roofline pipeline --model {shlex.quote(model if is_loadable else 'FOLDER')}{options} -o OUT",
        f"makes and measures it, {place_of(asked)}",
    )


def _length_to_serve(ranking: ModelRanking) -> tuple[str, str]:
    """Return vLLM's option for the longest sequence, and what it makes room for: the context of a decode step is all of
    a sequence, that of a prefill is a prompt whose answer is still to come.
    """
    longest = max(share.workload.context_count for share in ranking.traffic)
    is_prompt = any(
        share.workload.phase == "prefill" and share.workload.context_count == longest for share in ranking.traffic
    )
    shape = shipped_model(ranking.question.name)
    if not is_prompt or shape is None:
        return f" --max-model-len {longest}", ""
    length = min(longest + ANSWER_TOKENS, shape.max_context_size)
    return f" --max-model-len {length}", f"prompts of {longest:,} tokens and {length - longest:,} of answer"


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


def _serves_longest(choice: PlanOption, ranking: ModelRanking) -> bool:
    """Return whether the cache of one sequence as long as the model takes has room beside the plan: vLLM ends at the
    start where it has none and no length is given.
    """
    memory, ratio, shape = choice.memory, _engine_memory_ratio(choice.memory), shipped_model(ranking.question.name)
    if memory is None or memory.capacity_bytes is None or ratio is None or shape is None:
        return True
    room_bytes = ratio * memory.capacity_bytes - ENGINE.size_bytes - (memory.total_bytes - (memory.cache_bytes or 0.0))
    return plan_kv_bytes(shard(shape, device_count(ranking)), choice.plan, shape.max_context_size) <= room_bytes


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
    lossy = _excluded_by_loss(ranking)
    riskier = [each.option.key for each in ranking.alternatives if each.role == "riskier"]
    plan = next((option for option in lossy if option.key in riskier), lossy[0] if lossy else None)
    if plan is None or plan.loss.pct is None:
        return None
    return math.ceil(round(plan.loss.pct * 10, 6)) / 10, plan


def _chips_with_a_choice(ranking: ModelRanking, chip: Device, asked: Asked, ranking_on: RankingOn) -> list[str]:
    """Return the first chips on which something can be taken, the smallest memory first."""
    options = [each.option for each in ranking.excluded if any(item.code in _OF_CHIP for item in each.findings)]
    needs = [option.memory.total_bytes for option in options if option is not None and option.memory is not None]
    most_bytes = ranking.limits.memory_bytes if "--memory-limit-gb" in dict(asked) else None
    if not needs or (most_bytes is not None and most_bytes < min(needs)):
        return []
    with_room = [
        (usable_bytes(other) or 0.0, other.key, other)
        for other in list_hardware()
        if not other.is_placeholder and other.key != chip.key and (usable_bytes(other) or 0.0) >= min(needs)
        if device_count(ranking) == 1 or other.link_bytes_per_s is not None or "--link-gb-s" in dict(asked)
    ]
    keeping = (key for _, key, other in sorted(with_room, key=lambda each: each[:2]) if ranking_on(other).choice)
    return list(islice(keeping, _CHIP_COUNT))
