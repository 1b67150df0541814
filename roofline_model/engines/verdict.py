"""Is a measured rate what an engine should reach? Below it: likely causes. Above it: what that would take."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from roofline_model.chips.hardware import Device
from roofline_model.core.answer import Estimate
from roofline_model.core.errors import UnsupportedError
from roofline_model.core.finding import Finding, finding
from roofline_model.engines.engine import get_engine
from roofline_model.engines.serving import Demand, EngineServing, ServedLoad, engine_serving, engine_steps
from roofline_model.models.decoders import Checkpoint

Place = Literal["within", "slower", "faster", "impossible"]
"""Of a measured rate: in the interval of the expected one, below it, above it, above what the bytes of a step allow."""
_BATCHES = (2, 4, 8, 16, 32, 64, 128, 256)
_EAGER_LAYER_S = 300e-6
"""Host time of a layer whose kernels are launched one by one: about a dozen launches from Python. A judgement."""
_EAGER_MARGIN = 1.25
"""How far that judgement may miss and still explain a rate."""


@dataclass(frozen=True, slots=True)
class RateVerdict:
    """A measured rate of one load beside the expected one. Rates are tokens per second of all its requests."""

    place: Place
    measured_tokens_per_s: float
    expected_tokens_per_s: float
    low_tokens_per_s: float
    """Ends of the 80 % interval of the expected rate."""
    high_tokens_per_s: float
    most_tokens_per_s: float | None
    """What the bytes of a step allow at the chip's highest bandwidth, with one token a step of each request; None where
    that bandwidth is not sure.
    """
    finding: Finding
    """The verdict."""
    first_token: Finding | None
    """The verdict on the time to the first token; None where none was given or is expected."""
    explanations: tuple[Finding, ...]
    """Causes of a slower rate, or what a faster one takes, the likeliest first."""


def rate_verdict(
    checkpoint: Checkpoint,
    serving: EngineServing,
    demand: Demand,
    measured: float,
    measured_first_token_s: float | None = None,
) -> RateVerdict:
    """Return the verdict on the measured rate of a demand's first load, tokens per second of all its requests, and on
    its mean time to the first token, seconds.
    """
    load, steps = serving.loads[0], serving.steps
    expected, (low, high) = load.reported_tokens_per_s, load.reported_interval_tokens_per_s
    least_s = steps.least_step_s(load.request_count, load.context_tokens)
    most = load.request_count / least_s if least_s else None
    place: Place = "within" if low <= measured <= high else "slower" if measured < low else "faster"
    if most is not None and measured > most:
        place = "impossible"
    verdict = finding(
        "own-rate",
        serving.engine_name,
        kind=place,
        measured_tokens_per_s=measured,
        expected_tokens_per_s=expected,
        low_tokens_per_s=low,
        high_tokens_per_s=high,
        most_tokens_per_s=most,
        shortfall_ratio=1 - measured / expected,
        excess_factor=None if most is None else measured / most,
    )
    explanations: list[Finding] = []
    if place != "within":
        explanations += _other_formats(checkpoint, serving, demand, measured)
        explanations += (
            _slowing(serving, load, measured)
            if place == "slower"
            else _speeding(serving, demand, measured, most if place == "impossible" and most else high)
        )
    first = None
    if measured_first_token_s is not None and load.first_token is not None:
        first = _first_token_finding(load.first_token, measured_first_token_s)
    return RateVerdict(place, measured, expected, low, high, most, verdict, first, tuple(explanations))


def _first_token_finding(expected: Estimate, measured_s: float) -> Finding:
    low_s, high_s = expected.low_s or expected.time_s, expected.high_s or expected.time_s
    kind = "slower" if measured_s > high_s else "faster" if measured_s < low_s else "within"
    return finding("own-first-token", kind=kind, own_s=measured_s, time_s=expected.time_s, low_s=low_s, high_s=high_s)


def _slowing(serving: EngineServing, load: ServedLoad, measured: float) -> Iterator[Finding]:
    """Yield what may make an engine slower than expected, each with what tells it."""
    steps = serving.steps
    if serving.kernel is not None:
        yield finding("own-rate-cause", kind="kernel", kernel=serving.kernel, weight_format=serving.weights)
    if steps.device.vendor == "nvidia":
        yield finding("own-rate-cause", kind=_clock_kind(steps.device))
    yield finding("own-rate-cause", kind="memory", weight_bytes=serving.weight_bytes)
    if steps.layout.device_count > 1:
        yield finding("own-rate-cause", kind="link", device_count=steps.layout.device_count)
    if load.request_count > 1:
        yield finding("own-rate-cause", kind="chunk", token_count=steps.constants.prompt_chunk_tokens)
        yield finding("own-rate-cause", kind="cap", request_count=round(load.request_count))
        yield finding("own-rate-cause", kind="each", expected_tokens_per_s=load.user_tokens_per_s)
    eager_s = load.token.time_s + steps.model.decoder.layer_count * _EAGER_LAYER_S
    eager = load.reported_tokens_per_s * load.token.time_s / eager_s
    if get_engine(serving.engine).captures_graphs and eager <= measured * _EAGER_MARGIN:
        yield finding("own-rate-cause", kind="host", expected_tokens_per_s=eager)


def _clock_kind(device: Device) -> str:
    """GB10s run at 2.39 to 2.50 GHz of 3.0 without a throttle reason: that is no cause there."""
    return "clock-gb10" if device.key == "gb10" else "clock"


def _speeding(serving: EngineServing, demand: Demand, measured: float, alone: float) -> Iterator[Finding]:
    """Yield what a rate above the expected one takes; `alone`: the most that one token a step gives."""
    yield finding("own-rate-cause", kind="speculation", tokens_factor=measured / alone)
    if serving.loads[0].request_count <= 1:
        larger = replace(demand, concurrencies=_BATCHES, rates_per_s=())
        try:
            batches = engine_serving(get_engine(serving.engine), serving.weights, serving.steps, larger).loads
        except UnsupportedError:
            return
        batch = next((each for each in batches if each.reported_tokens_per_s >= measured), None)
        if batch is not None:
            yield finding("own-rate-cause", kind="batch", request_count=round(batch.request_count))


def _other_formats(
    checkpoint: Checkpoint, serving: EngineServing, demand: Demand, measured: float
) -> Iterator[Finding]:
    """Yield the formats of weights with which the measured rate is expected, the nearest first."""
    engine, device, layout = get_engine(serving.engine), serving.steps.device, serving.steps.layout
    near: list[tuple[float, Finding]] = []
    for weights in engine.formats:
        if weights in (serving.weights, "FP16"):
            continue
        try:
            steps = engine_steps(checkpoint, weights, engine, device, layout=layout)
            load = engine_serving(engine, weights, steps, demand).loads[0]
        except UnsupportedError:
            continue
        low, high = load.reported_interval_tokens_per_s
        if low <= measured <= high:
            rate = load.reported_tokens_per_s
            item = finding("own-rate-cause", kind="format", weight_format=weights, expected_tokens_per_s=rate)
            near.append((abs(rate - measured), item))
    yield from (item for _, item in sorted(near, key=lambda pair: pair[0]))
