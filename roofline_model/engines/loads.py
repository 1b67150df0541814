"""What a client sees under a load: time per token and time to the first token.

Three loads: one request alone, a wave of requests that start together, and a steady one, either with a fixed number in
flight or with arrivals at a rate. The closed forms were held against a step-by-step simulation, which was no better
(left-out models of GB10: 8.0 % against 6.8 %).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

from roofline_model.core.errors import InvalidValueError
from roofline_model.core.finding import finding, unsupported
from roofline_model.engines.engine import EngineConstants
from roofline_model.engines.steps import StepModel

LoadKind = Literal["single", "wave", "steady", "arrivals"]
SERVING = "serving"
"""The protocol of users, who see each token as it comes."""
_ITERATIONS = 6
_LEAST_IN_FLIGHT, _MOST_IN_FLIGHT, _HALVINGS = 1e-3, 4096.0, 40
_MAX_UTILISATION, _MAX_BUSY = 0.85, 0.9
"""Share of the time spent on prompts, of arrivals and of a fixed number in flight: beyond it the queue grows without
end, and a closed form says nothing.
"""


@dataclass(frozen=True, slots=True)
class Load:
    """What clients ask of an engine. Of several replicas, of one of them."""

    kind: LoadKind
    input_tokens: int
    output_tokens: int
    request_count: float = 1.0
    """Requests in flight."""
    cached_tokens: int = 0
    """Tokens before the prompt that the cache already holds."""
    rate_per_s: float | None = None
    """Requests that arrive, per second; of `arrivals` alone."""
    protocol: str = SERVING
    """How clients meet the engine; of `steady` alone."""
    counts_first_token: bool = False
    """Whether a client divides the time of a whole request by its tokens; of `single` alone."""

    def __post_init__(self) -> None:
        if self.input_tokens < 1 or self.output_tokens < 1 or self.cached_tokens < 0:
            raise InvalidValueError("input and output must be 1 token or more")
        if not 0 < self.request_count < 1e6:
            raise InvalidValueError(f"concurrency must be above 0, got {self.request_count}")

    @property
    def context(self) -> float:
        """Tokens that a sequence holds on average while it decodes."""
        return self.cached_tokens + self.input_tokens + self.output_tokens / 2


def closed_load(
    constants: EngineConstants, input_tokens: int, output_tokens: int, concurrency: float, cached_tokens: int = 0
) -> Load:
    """Return a load of a fixed number of requests in flight, as it was measured where the constants come from: each
    finished request followed by the next, or all at once.
    """
    kind: LoadKind = "steady" if constants.protocols else "single" if concurrency <= 1 else "wave"
    return Load(kind, input_tokens, output_tokens, max(1.0, concurrency), cached_tokens)


def arriving_load(
    steps: StepModel, input_tokens: int, output_tokens: int, rate_per_s: float, cached_tokens: int = 0
) -> Load:
    """Return a load of requests that arrive at a rate, with the number in flight that follows from it (Little's law).

    Raises `UnsupportedError` for a rate beyond what the engine serves: the number would grow without end.
    """

    def at(count: float) -> Load:
        return Load("arrivals", input_tokens, output_tokens, count, cached_tokens, rate_per_s)

    def excess(count: float) -> float:
        times = client_times(steps, at(count))
        return rate_per_s * (times.first_token_s + output_tokens * times.token_s) - count

    low, high = _LEAST_IN_FLIGHT, steps.most_sequences(cached_tokens + input_tokens + output_tokens)
    high = min(high, _MOST_IN_FLIGHT)
    if high <= low or excess(high) > 0:
        raise unsupported(finding("engine-excluded", kind="rate", rate=rate_per_s))
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    return at(high)


class ClientTimes(NamedTuple):
    """What a client sees."""

    token_s: float
    """Seconds per output token, the first one excluded unless the load counts it."""
    first_token_s: float
    decoding_count: float
    """Sequences that decode at once, mean."""


def client_times(steps: StepModel, load: Load) -> ClientTimes:
    """Return what a client sees under a load."""
    if load.kind == "single":
        return _single(steps, load)
    if load.kind == "wave":
        return _wave(steps, load)
    return _steady(steps, load) if load.kind == "steady" else _arrivals(steps, load)


def _single(steps: StepModel, load: Load) -> ClientTimes:
    constants = steps.constants
    step_s = steps.step_s(1, load.context)
    if constants.first_token_step_count is None:
        first_s = steps.prefill_s(load.input_tokens, load.cached_tokens) + constants.client_s
    else:
        first_s = constants.first_token_step_count * step_s
    counted = first_s - step_s if load.counts_first_token else 0.0
    return ClientTimes(step_s + counted / load.output_tokens, first_s, 1.0)


def _wave(steps: StepModel, load: Load) -> ClientTimes:
    """Requests that start together: their prompts are computed one after the other, decodes wait meanwhile."""
    constants, count = steps.constants, round(load.request_count)
    together = max(1, min(count, constants.prompt_chunk_tokens // load.input_tokens))  # short prompts share a pass
    pass_s = steps.prefill_s(load.input_tokens, load.cached_tokens, prompts=together)
    prompt_s, passes = pass_s / together, math.ceil(count / together)
    token_s, decoding = steps.step_s(count, load.context), float(count)
    for _ in range(_ITERATIONS):
        shift = prompt_s / (load.output_tokens * token_s)  # decodes begin a prompt apart
        overlap = sum(
            (count - apart) * max(0.0, 1 - apart * shift) * (1 if apart == 0 else 2) for apart in range(count)
        )
        decoding = overlap / count
        token_s = steps.step_s(decoding, load.context) + (count - 1) / 2 * prompt_s / load.output_tokens
    first_s = pass_s * (passes + 1) / 2 + constants.client_s
    return ClientTimes(token_s, first_s, decoding)


def _steady(steps: StepModel, load: Load) -> ClientTimes:
    """A fixed number of requests in flight; those that wait for their first token do not decode."""
    protocol, output = steps.constants.protocols[load.protocol], load.output_tokens
    prefill_s = steps.prefill_s(load.input_tokens, load.cached_tokens)
    room = steps.most_sequences(load.cached_tokens + load.input_tokens + 0.75 * output)
    admitted = max(1.0, min(load.request_count, room))
    decoding, token_s, busy = admitted, 0.0, 0.0
    for _ in range(_ITERATIONS):
        others = max(0.0, decoding - 1)
        token_s = steps.step_s(decoding, load.context) + others / output * prefill_s
        busy = min(_MAX_BUSY, others * prefill_s / (output * token_s))
        wait_s = prefill_s * protocol.prefill_ratio * (1 + busy / 2 + others / 20)
        decode_s = output * token_s
        decoding = (decoding + admitted * decode_s / (decode_s + wait_s)) / 2
    first_s = protocol.prefill_ratio * prefill_s * (1 + busy / 2 + (admitted - 1) / (2 * protocol.wave_count))
    first_s += protocol.first_token_step_count * steps.step_s(decoding, load.context) + protocol.client_s
    return ClientTimes(token_s, first_s, decoding)


def _arrivals(steps: StepModel, load: Load) -> ClientTimes:
    """Requests that arrive at a rate; prompts are computed beside decodes and queue for one another."""
    constants = steps.constants
    prefill_s = constants.mixed_prefill_ratio * steps.prefill_s(load.input_tokens, load.cached_tokens)
    step_s = steps.step_s(max(1.0, load.request_count), load.context)
    busy = min(_MAX_UTILISATION, (load.rate_per_s or 0.0) * prefill_s)
    token_s = step_s + max(0.0, load.request_count - 1) / load.output_tokens * prefill_s
    serving = constants.protocols.get(SERVING)
    waited_s = step_s / 2 if serving is None else serving.first_token_step_count * step_s
    client_s = constants.client_s if serving is None else serving.client_s
    first_s = prefill_s * (1 + busy / (2 * (1 - busy))) + waited_s + client_s
    return ClientTimes(token_s, first_s, load.request_count)
