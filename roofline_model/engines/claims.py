"""A claimed rate in one line, as people post it: `70B Q4_K_M gb10 47 tok/s`."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace

from roofline_model.chips.hardware import Device, get_hardware
from roofline_model.core.errors import InvalidValueError, RooflineError
from roofline_model.engines.checkpoints import format_key
from roofline_model.engines.engine import engine_names
from roofline_model.models.decoders import Checkpoint, decoder_names, find_checkpoint, get_decoder
from roofline_model.models.layer_kinds import Decoder

_RATE = re.compile(
    r"([0-9]+(?:\.[0-9]+)?)\s*(?:tok(?:en)?s?\s*/\s*s(?:ec)?|tok(?:en)?s? per second|t/s|tps)\b", re.IGNORECASE
)
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)B(?:-A([0-9]+(?:\.[0-9]+)?)B)?", re.IGNORECASE)
"""`70B`, and `120B-A5B` of a mixture of experts with what a token visits."""
MAX_CLAIM_CHARS = 200
MAX_TOKENS_PER_S = 1e9


@dataclass(frozen=True, slots=True)
class Claim:
    """What somebody says that an engine reaches for one request. None: not said."""

    checkpoint: Checkpoint | None = None
    weights: str | None = None
    device: Device | None = None
    engine: str | None = None
    tokens_per_s: float | None = None


def read_claim(text: str) -> Claim:
    """Return what a line claims. Raises `InvalidValueError` for a word that is no size or name of a model, format, chip
    or engine.
    """
    if len(text) > MAX_CLAIM_CHARS:
        raise InvalidValueError(f"a claim has at most {MAX_CLAIM_CHARS} characters, this has {len(text):,}")
    rate = _RATE.search(text)
    claim = Claim(tokens_per_s=None if rate is None else float(rate.group(1)))
    if claim.tokens_per_s is not None and not 0 < claim.tokens_per_s <= MAX_TOKENS_PER_S:
        raise InvalidValueError(f"a rate is above 0 and at most {MAX_TOKENS_PER_S:,.0f} tokens/s, got {text[:40]!r}")
    rest = text if rate is None else f"{text[: rate.start()]} {text[rate.end() :]}"
    for word in rest.replace(",", " ").split():
        claim = _with_word(claim, word)
    return claim


def sized(text: str) -> Checkpoint:
    """Return a checkpoint of a size, `70B` or `120B-A5B`. Raises `InvalidValueError` for another text."""
    size = _SIZE.fullmatch(text)
    if size is None or not 0 < float(size.group(1)) <= 1e5:
        raise InvalidValueError(f"a size is written as 70B, or 120B-A5B with what a token visits, got {text[:40]!r}")
    active = None if size.group(2) is None else float(size.group(2)) * 1e9
    if active is not None and not 0 < active <= float(size.group(1)) * 1e9:
        raise InvalidValueError(f"{text[:40]}: a token visits more than nothing, and no more than all parameters")
    checkpoint = _sized_checkpoint(float(size.group(1)) * 1e9, active)
    return replace(checkpoint, decoder=replace(checkpoint.decoder, name=f"{text} (as {checkpoint.decoder.name})"))


def _sized_checkpoint(parameter_count: float, active_count: float | None = None) -> Checkpoint:
    """Return a checkpoint of about so many parameters where nobody says which model it is: the shipped one of the next
    size with more or fewer of its layers. `active_count`: parameters that a token visits, of a mixture of experts.
    """

    def distance(decoder: Decoder) -> float:
        apart = abs(math.log(decoder.parameter_count / parameter_count))
        return apart if active_count is None else apart + abs(math.log(decoder.active_parameter_count / active_count))

    decoders = map(get_decoder, decoder_names())
    nearest = min((each for each in decoders if (each.experts is None) == (active_count is None)), key=distance)
    ratio = parameter_count / nearest.parameter_count
    layers = tuple(replace(run, count=max(1, round(run.count * ratio))) for run in nearest.layers)
    return Checkpoint(replace(nearest, layers=layers), None, "BF16")


def _with_word(claim: Claim, word: str) -> Claim:
    if _SIZE.fullmatch(word):
        return replace(claim, checkpoint=sized(word))
    if word.lower().replace(".", "-") in engine_names():
        return replace(claim, engine=word.lower().replace(".", "-"))
    for read in (_format, _chip, _model):
        try:
            return read(claim, word)
        except RooflineError:
            continue
    raise InvalidValueError(
        f'{word[:40]!r} is no size (70B), model, format, chip or engine; write a claim as "70B Q4_K_M gb10 47 tok/s"'
    )


def _format(claim: Claim, word: str) -> Claim:
    return replace(claim, weights=format_key(word))


def _chip(claim: Claim, word: str) -> Claim:
    return replace(claim, device=get_hardware(word))


def _model(claim: Claim, word: str) -> Claim:
    return replace(claim, checkpoint=find_checkpoint(word))
