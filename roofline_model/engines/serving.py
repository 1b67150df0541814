"""What an engine serves of a model on a chip: times, throughput, memory and power under each of several loads.

One answer per engine that runs the checkpoint there; an engine that does not is excluded with the reason.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar

from roofline_model.chips.hardware import Device
from roofline_model.core.answer import NOT_IN_JSON, Estimate, Exclusion
from roofline_model.core.errors import UnsupportedError
from roofline_model.core.finding import Finding, finding, finding_of, unsupported
from roofline_model.engines.amounts import ONE_DEVICE, Layout
from roofline_model.engines.checkpoints import stored_model
from roofline_model.engines.engine import Engine, distinct_engines, get_engine
from roofline_model.engines.loads import Load, arriving_load, client_times, closed_load
from roofline_model.engines.power import mean_power_w
from roofline_model.engines.steps import StepModel
from roofline_model.models.decoders import Checkpoint

MAX_CONCURRENCY = 4096
"""Requests in flight that an answer looks at; engines admit fewer by default."""


@dataclass(frozen=True, slots=True)
class Demand:
    """What users ask of a server."""

    input_tokens: int
    output_tokens: int
    concurrencies: tuple[int, ...] = (1,)
    """Requests in flight, one answer for each."""
    rates_per_s: tuple[float, ...] = ()
    """Requests that arrive per second, one answer for each; in place of a fixed number in flight."""
    cached_tokens: int = 0
    """Tokens before the prompt that the cache already holds."""
    max_first_token_s: float | None = None
    """Limit of the mean time to the first token, seconds."""
    max_token_s: float | None = None
    """Limit of the mean time per token, seconds."""

    @property
    def has_limits(self) -> bool:
        """Whether any time is limited."""
        return self.max_first_token_s is not None or self.max_token_s is not None

    @property
    def request_tokens(self) -> int:
        """Tokens that a request holds at its end."""
        return self.cached_tokens + self.input_tokens + self.output_tokens


@dataclass(frozen=True, slots=True)
class ServedLoad:
    """What users see under one load."""

    DERIVED: ClassVar = ("tokens_per_s", "user_tokens_per_s", "reported_tokens_per_s", "reported_interval_tokens_per_s")

    kind: str
    """single: one request alone. wave: all start together. steady: a fixed number in flight. arrivals: at a rate."""
    request_count: float
    """Requests in flight, mean."""
    rate_per_s: float
    """Requests finished per second."""
    output_tokens: int
    context_tokens: float
    """Tokens that a sequence holds on average while it decodes."""
    token: Estimate
    """Time per output token, the first one excluded."""
    first_token: Estimate | None
    """None where the engine's prompts were never measured on such a chip; rates then count output tokens alone."""
    power_w: tuple[float, float, float] | None
    """Mean power of a chip, and the ends of its interval, watts; None where nobody measured it."""
    is_within_limits: bool
    """Whether both means keep their limits."""

    @property
    def tokens_per_s(self) -> float:
        """Output tokens per second of all requests together."""
        return self.rate_per_s * self.output_tokens

    @property
    def user_tokens_per_s(self) -> float:
        """Tokens per second that one user sees while the answer is written."""
        return 1 / self.token.time_s

    @property
    def reported_tokens_per_s(self) -> float:
        """What tools report: of one request the rate while it is answered, of several that of the whole run."""
        return self.user_tokens_per_s if self.request_count <= 1 else self.tokens_per_s

    @property
    def reported_interval_tokens_per_s(self) -> tuple[float, float]:
        """Ends of the interval of that rate, as wide as that of the time per token."""
        slow, fast = self.token.high_s or self.token.time_s, self.token.low_s or self.token.time_s
        rate = self.reported_tokens_per_s * self.token.time_s
        return rate / slow, rate / fast


@dataclass(frozen=True, slots=True)
class EngineServing:
    """What one engine serves."""

    engine: str
    """Key of the engine."""
    engine_name: str
    versions: str
    """Versions whose runs are behind the constants."""
    weights: str
    """Format of most weights."""
    kernel: str | None
    """The kernel of their products, as the engine's log names it; None where nobody read it."""
    weight_bytes: float
    """Of all weights on one device."""
    request_bytes: float
    """Cache and states of a request at its end, on one device."""
    most_request_count: float | None
    """Requests of this length that fit at once; None where the memory of the chip is not known."""
    loads: tuple[ServedLoad, ...]
    """In the order asked; those that do not fit are left out."""
    largest: ServedLoad | None
    """The largest number in flight within the limits; None without limits, of arrivals, and where one request misses
    them.
    """
    findings: tuple[Finding, ...]
    steps: StepModel = field(metadata=NOT_IN_JSON)
    """The model of its steps."""

    @property
    def best(self) -> ServedLoad:
        """The load that engines are ranked by: the largest within the limits, else the last that was asked."""
        return self.largest or self.loads[-1]


@dataclass(frozen=True, slots=True)
class ServingAnswer:
    """What each engine serves, the one with the most tokens per second first, and which do not run it and why."""

    model: str
    hardware: str
    device_count: int
    demand: Demand
    ranked: tuple[EngineServing, ...]
    excluded: tuple[Exclusion, ...]


def serve(
    checkpoint: Checkpoint,
    device: Device,
    demand: Demand,
    *,
    formats: Sequence[str] = (),
    engines: Sequence[str] = (),
    layout: Layout = ONE_DEVICE,
    cache_bytes: float | None = None,
) -> ServingAnswer:
    """Return what engines serve of a model on a chip.

    `formats`: keys of `format_key`, default: as published; `engines`: keys, default: all but those around another. Each
    pair of them is answered or excluded.
    """
    ranked: list[EngineServing] = []
    excluded: list[Exclusion] = []
    for weights in formats or (checkpoint.main_format,):
        for name in engines or distinct_engines():
            engine = get_engine(name)
            try:
                steps = engine_steps(checkpoint, weights, engine, device, layout=layout, cache_bytes=cache_bytes)
                ranked.append(engine_serving(engine, weights, steps, demand))
            except UnsupportedError as error:
                excluded.append(Exclusion(f"{engine.name} {weights}", (finding_of(error),)))
    ranked.sort(key=lambda each: (not each.best.is_within_limits, -each.best.reported_tokens_per_s))
    return ServingAnswer(
        checkpoint.decoder.name, device.key, layout.device_count, demand, tuple(ranked), tuple(excluded)
    )


def engine_steps(
    checkpoint: Checkpoint,
    weights: str,
    engine: Engine,
    device: Device,
    *,
    layout: Layout = ONE_DEVICE,
    cache_bytes: float | None = None,
) -> StepModel:
    """Return the steps of a checkpoint in an engine. Raises `UnsupportedError` where it does not run there or not so
    split, or no constants are known.
    """
    constants, count = engine.constants_for(device.key), layout.device_count
    engine.check_multiplies(weights, device)
    if constants.most_device_count is not None and count > constants.most_device_count:
        raise unsupported(finding("engine-excluded", engine.name, kind="devices"))
    for heads in checkpoint.decoder.head_counts:
        if heads % layout.tensor_rank_count:
            item = finding("engine-excluded", engine.name, kind="split", head_count=heads, device_count=count)
            raise unsupported(item)
    model = stored_model(checkpoint, weights, engine, constants, device, cache_bytes=cache_bytes)
    return StepModel(model, device, constants, layout)


def engine_passes(
    checkpoint: Checkpoint,
    weights: str,
    device: Device,
    *,
    batch: int,
    context: int,
    cache_bytes: float,
    layout: Layout,
) -> list[Finding]:
    """Return what engines take for a decode step, the fastest first; empty where none runs these weights on the chip,
    or was measured with so many requests.
    """
    passes: list[tuple[float, Finding]] = []
    for name in distinct_engines():
        engine = get_engine(name)
        try:
            steps = engine_steps(checkpoint, weights, engine, device, layout=layout, cache_bytes=cache_bytes)
        except UnsupportedError:
            continue
        kind = closed_load(steps.constants, context, 1, batch).kind
        if not steps.constants.answers(kind):
            continue
        time_s = steps.step_s(batch, context)
        low, high = steps.constants.interval("tpot", kind, steps.model.model_class)
        item = finding(
            "engine-pass",
            engine.name,
            versions=engine.versions,
            weight_format=weights,
            time_s=time_s,
            expected_tokens_per_s=batch / time_s,
            low_tokens_per_s=batch / (time_s * high),
            high_tokens_per_s=batch / (time_s * low),
        )
        passes.append((time_s, item))
    return [item for _, item in sorted(passes, key=lambda pair: pair[0])]


def engine_serving(engine: Engine, weights: str, steps: StepModel, demand: Demand) -> EngineServing:
    """Return what an engine serves. Raises `UnsupportedError` where it cannot, with the finding that says why."""
    layout = steps.layout
    weight_bytes = steps.model.weight_bytes(layout)
    most = steps.most_sequences(demand.request_tokens)
    request_bytes = steps.model.held_bytes(demand.request_tokens, layout.cache_ranks)
    if most < 1:
        raise unsupported(
            finding("engine-excluded", kind="memory", weight_bytes=weight_bytes, request_bytes=request_bytes)
        )
    loads, findings = _loads(steps, demand, most)
    if not steps.is_of_fitted_chip:
        findings.append(finding("engine-of-similar-chip", steps.device.key, chips=steps.constants.fitted_chips))
    return EngineServing(
        engine=engine.key,
        engine_name=engine.name,
        versions=engine.versions,
        weights=weights,
        kernel=engine.kernel(weights, steps.device),
        weight_bytes=weight_bytes,
        request_bytes=request_bytes,
        most_request_count=None if math.isinf(most) else most,
        loads=tuple(loads),
        largest=_largest(steps, demand, most),
        findings=tuple(findings),
        steps=steps,
    )


def _loads(steps: StepModel, demand: Demand, most: float) -> tuple[list[ServedLoad], list[Finding]]:
    """Return the loads that can be answered, and why others cannot. Raises the reason of the first where none can."""
    loads: list[ServedLoad] = []
    findings: list[Finding] = []
    asked: list[Callable[[], ServedLoad]] = [partial(_arriving, steps, demand, rate) for rate in demand.rates_per_s]
    for count in demand.concurrencies if not asked else ():
        if count > most:
            findings.append(finding("requests-beyond-memory", count=count, most_count=int(most)))
        else:
            asked.append(partial(_closed, steps, demand, count))
    for load in asked or [partial(_closed, steps, demand, int(most))]:
        try:
            loads.append(load())
        except UnsupportedError as error:
            findings.append(finding_of(error))
    if not loads:
        raise unsupported(findings[-1])
    return loads, list(dict.fromkeys(findings))


def _closed(steps: StepModel, demand: Demand, count: int) -> ServedLoad:
    lengths = demand.input_tokens, demand.output_tokens
    return _load(steps, demand, closed_load(steps.constants, *lengths, count, demand.cached_tokens))


def _arriving(steps: StepModel, demand: Demand, rate_per_s: float) -> ServedLoad:
    lengths = demand.input_tokens, demand.output_tokens
    return _load(steps, demand, arriving_load(steps, *lengths, rate_per_s, demand.cached_tokens))


def _load(steps: StepModel, demand: Demand, load: Load) -> ServedLoad:
    constants = steps.constants
    if not constants.answers(load.kind):
        raise unsupported(finding("engine-excluded", kind="load"))
    times = client_times(steps, load)
    estimate = _estimates(steps, load.kind)
    token = estimate("tpot", times.token_s)
    first = estimate("ttft", times.first_token_s) if constants.first_token_step_count is None else None
    request_s = (first.time_s if first else 0.0) + (load.output_tokens - bool(first)) * token.time_s
    power_w = None
    if constants.power is not None:
        watts = mean_power_w(steps, load, times, constants.power)
        low, high = constants.interval("power", load.kind, steps.model.model_class)
        power_w = watts, watts * low, watts * high
    return ServedLoad(
        kind=load.kind,
        request_count=load.request_count,
        rate_per_s=load.rate_per_s or load.request_count / request_s,
        output_tokens=load.output_tokens,
        context_tokens=load.context,
        token=token,
        first_token=first,
        power_w=power_w,
        is_within_limits=_is_within(token, demand.max_token_s) and _is_within(first, demand.max_first_token_s),
    )


def _estimates(steps: StepModel, kind: str) -> Callable[[str, float], Estimate]:
    provenance = "fitted" if steps.is_of_fitted_chip else "transferred-class"

    def estimate(quantity: str, value: float) -> Estimate:
        low, high = steps.constants.interval(quantity, kind, steps.model.model_class)
        return Estimate(value, value * low, value * high, "expected", provenance)

    return estimate


def _is_within(estimate: Estimate | None, limit_s: float | None) -> bool:
    """Return whether a mean keeps its limit; what is not known keeps none."""
    return limit_s is None or (estimate is not None and estimate.time_s <= limit_s)


def _largest(steps: StepModel, demand: Demand, most: float) -> ServedLoad | None:
    """Return the largest number in flight that keeps the limits: both times grow with it. None for arrivals, whose
    number follows from their rate.
    """
    if demand.rates_per_s or not demand.has_limits:
        return None
    several = closed_load(steps.constants, demand.input_tokens, demand.output_tokens, 2).kind
    low, high = 1, int(min(most, MAX_CONCURRENCY)) if steps.constants.answers(several) else 1
    best = _closed(steps, demand, low)
    if not best.is_within_limits:
        return None
    while low < high:
        middle = (low + high + 1) // 2
        load = _closed(steps, demand, middle)
        if load.is_within_limits:
            low, best = middle, load
        else:
            high = middle - 1
    return best
