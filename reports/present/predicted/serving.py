"""What `predict serve` says: what users see of the engine that serves most, the other engines, and a verdict on a
measured rate.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from reports.present.blocks import Block, Cell, Column, Paragraph, more, notes, reason_blocks, table, time_cell
from reports.present.screen import MISSING
from roofline_model.core.finding import by_severity, short_text, subject_text
from roofline_model.core.units import (
    counted,
    format_memory,
    format_rate,
    format_time,
    in_prefix,
    interval_in_prefix,
    sentence,
    shared_prefix,
)

if TYPE_CHECKING:
    from roofline_model.core.answer import Estimate, Exclusion
    from roofline_model.engines.serving import Demand, EngineServing, ServedLoad, ServingAnswer
    from roofline_model.engines.verdict import RateVerdict

_LOADS = {
    "single": "one request alone",
    "wave": "requests that start together",
    "steady": "requests in flight, each followed by the next",
    "arrivals": "requests that arrive at a rate",
}
"""Kind of a load → what it is."""


def serving_blocks(answer: ServingAnswer, verdict: RateVerdict | None, *, show_all: bool) -> Iterator[Block]:
    """Yield what the first engine serves under each load, the other engines, and what is left out; with `show_all`
    the loads of every engine.
    """
    if verdict is not None:
        yield from _verdict_blocks(verdict)
    if not answer.ranked:
        yield Paragraph(f"No engine here serves {answer.model} on {answer.hardware} like this.", "verdict")
        yield from _excluded_blocks(answer)
        return
    first = answer.ranked[0]
    yield Paragraph(_sentence(first, answer.demand), "verdict" if verdict is None else "plain")
    yield Paragraph(_title(answer, first), "quiet")
    yield _load_table(first)
    yield Paragraph(_memory_sentence(first, answer.demand))
    if len(answer.ranked) > 1:
        yield table("engines", _ENGINES, answer.ranked, title="Engines and formats")
    yield from notes(subject_text(item) for item in by_severity(first.findings))
    if show_all:
        for other in answer.ranked[1:]:
            yield _load_table(other, title=f"{other.engine_name}, {other.weights}")
        yield Paragraph("")
        yield from _excluded_blocks(answer)
    yield from more("shows the loads of every engine, and the engines that are left out", is_shown=show_all)


def _verdict_blocks(verdict: RateVerdict) -> Iterator[Block]:
    yield Paragraph(f"{short_text(verdict.finding)}.", "verdict")
    if verdict.first_token is not None:
        yield Paragraph(sentence(short_text(verdict.first_token)))
    if verdict.explanations:
        yield Paragraph("Likely causes, in this order:" if verdict.place == "slower" else "It would take one of:")
        for number, item in enumerate(verdict.explanations, 1):
            yield Paragraph(f"  {number}. {short_text(item)}")


def _sentence(serving: EngineServing, demand: Demand) -> str:
    load = serving.best
    who = f"{serving.engine_name}, {serving.weights}"
    first = "" if load.first_token is None else f", first token {format_time(load.first_token.time_s, 3)}"
    each = f"{format_rate(load.user_tokens_per_s)} tokens/s"
    limits = _limits_text(demand)
    if demand.has_limits and load.kind != "arrivals":
        if serving.largest is None:
            return f"One request alone misses {limits} ({who}): {format_time(load.token.time_s, 3)} a token{first}."
        served = counted(round(load.request_count), "request")
        return f"Within {limits}: {served} at once, {format_rate(load.tokens_per_s)} tokens/s in all ({who})."
    if load.kind != "arrivals" and load.request_count <= 1:
        return f"{each} for one request alone{first} ({who})."
    rates = f"{each} each, {format_rate(load.tokens_per_s)} in all{first} ({who})."
    if load.kind != "arrivals":
        return f"{counted(round(load.request_count), 'request')} at once: {rates}"
    held = f"{'keep' if load.is_within_limits else 'miss'} {limits}, with" if limits else "keep"
    return f"Arrivals at {load.rate_per_s:g}/s {held} {_count(load)} in flight: {rates}"


def _limits_text(demand: Demand) -> str:
    limits = ((demand.max_first_token_s, "to the first token"), (demand.max_token_s, "a token"))
    return " and ".join(f"{format_time(limit, 3)} {of_what}" for limit, of_what in limits if limit is not None)


def _title(answer: ServingAnswer, serving: EngineServing) -> str:
    demand = answer.demand
    devices = answer.hardware if answer.device_count == 1 else f"{answer.device_count} × {answer.hardware}"
    kinds = "; ".join(dict.fromkeys(_LOADS[load.kind] for load in serving.loads))
    cached = f", {demand.cached_tokens:,} cached" if demand.cached_tokens else ""
    kernel = "" if serving.kernel is None else f" Kernel in its log: {serving.kernel}."
    return (
        f"{answer.model} on {devices}, {counted(demand.input_tokens, 'token')} in{cached}, {demand.output_tokens:,} out: {kinds}. "
        f"Behind it: runs of {serving.engine_name} ({serving.versions}).{kernel}"
    )


def _time(estimate: Estimate | None) -> Cell | str:
    return MISSING if estimate is None else time_cell(estimate.time_s)


def _interval(estimate: Estimate | None, prefix: str | None) -> str:
    """Return an interval in the unit of its column."""
    if estimate is None or estimate.low_s is None or estimate.high_s is None:
        return MISSING
    return interval_in_prefix(estimate.low_s, estimate.high_s, prefix, in_prefix(estimate.time_s, prefix))


def _count(load: ServedLoad) -> str:
    return (
        f"{load.request_count:.2g}"
        if load.request_count < 10 and load.kind == "arrivals"
        else f"{load.request_count:.0f}"
    )


def _in_all(load: ServedLoad) -> str:
    """Return the rate of all requests, their prompts included; unknown where prompts were never measured."""
    return MISSING if load.first_token is None else format_rate(load.tokens_per_s)


def _rate(load: ServedLoad) -> str:
    """Return the requests per second; unknown where prompts were never measured."""
    return MISSING if load.first_token is None else f"{load.rate_per_s:.3g}/s"


def _limits(load: ServedLoad) -> str:
    return "" if load.is_within_limits else "missed"


def _power(load: ServedLoad) -> str:
    return MISSING if load.power_w is None else f"{load.power_w[0]:.0f} W"


def _load_table(serving: EngineServing, title: str = "") -> Block:
    loads = _shown_loads(serving)
    token_prefix = shared_prefix([load.token.time_s for load in loads])
    first_prefix = shared_prefix([None if load.first_token is None else load.first_token.time_s for load in loads])
    columns = (
        Column("Requests", _count, "number", is_head=True),
        Column("Rate", _rate, "number", drop=3),
        Column("Per token", lambda load: _time(load.token), "number"),
        Column("80 %", lambda load: _interval(load.token, token_prefix), "number", drop=2),
        Column("First token", lambda load: _time(load.first_token), "number"),
        Column("80 %", lambda load: _interval(load.first_token, first_prefix), "number", drop=1),
        Column("Tokens/s each", lambda load: format_rate(load.user_tokens_per_s), "number"),
        Column("In all", _in_all, "number"),
        Column("Power", _power, "number", drop=4),
        Column("Limits", _limits, drop=5),
    )
    return table("loads", columns, loads, title=title, look_of=_look_of)


def _shown_loads(serving: EngineServing) -> Sequence[ServedLoad]:
    """Return the loads that were asked, and the largest within the limits among them."""
    largest = serving.largest
    if largest is None or any(load.request_count == largest.request_count for load in serving.loads):
        return serving.loads
    return sorted((*serving.loads, largest), key=lambda load: load.request_count)


def _look_of(load: ServedLoad) -> str:
    return "" if load.is_within_limits else "quiet"


_ENGINES = (
    Column("Engine", lambda each: each.engine_name, is_head=True),
    Column("Weights", lambda each: each.weights),
    Column("Requests", lambda each: _count(each.best), "number"),
    Column("Per token", lambda each: _time(each.best.token), "number"),
    Column("First token", lambda each: _time(each.best.first_token), "number"),
    Column("Tokens/s each", lambda each: format_rate(each.best.user_tokens_per_s), "number"),
    Column("In all", lambda each: _in_all(each.best), "number"),
    Column("Memory", lambda each: format_memory(each.weight_bytes), "number", drop=1),
    Column("Limits", lambda each: _limits(each.best), drop=2),
)


def _memory_sentence(serving: EngineServing, demand: Demand) -> str:
    most = serving.most_request_count
    fits = "" if most is None else f"; {counted(int(most), 'request')} fit at once"
    length = f"{demand.request_tokens:,} tokens"
    return (
        f"Memory of a chip: weights {format_memory(serving.weight_bytes)}, {format_memory(serving.request_bytes)} for a "
        f"request of {length}{fits}."
    )


_LAST_REASONS = ("format", "chip")
"""Kinds of reasons that say what an engine is, not what was asked of it."""


def _excluded_blocks(answer: ServingAnswer) -> Iterator[Block]:
    """Yield why engines are left out, each reason once; first those that other sizes or formats would mend."""

    def place(each: Exclusion) -> int:
        kind = each.finding.value("kind")
        return _LAST_REASONS.index(kind) + 1 if kind in _LAST_REASONS else 0

    excluded = sorted(answer.excluded, key=place)
    reasons = dict.fromkeys(
        subject_text(each.finding) if each.finding.subject else f"{each.key}: {short_text(each.finding)}"
        for each in excluded
    )
    yield from reason_blocks(list(reasons), "--json holds all of them")
