"""A claimed rate in one line, as people post it: `70B Q4_K_M gb10 47 tok/s`."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from roofline_model.chips.hardware import Device, get_hardware
from roofline_model.core.errors import InvalidValueError, RooflineError
from roofline_model.engines.checkpoints import format_key
from roofline_model.engines.engine import engine_names
from roofline_model.models.decoders import Checkpoint, decoder_names, find_checkpoint, get_decoder
from roofline_model.models.layer_kinds import Decoder

_RATE = re.compile(
    r"([-+]?[0-9][0-9,]*(?:\.[0-9]+)?(?:e[0-9]+)?)\s*(?:tok(?:en)?s?\s*/\s*s(?:ec)?|tok(?:en)?s? per second|t/s|tps)\b",
    re.IGNORECASE,
)
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)B(?:-A([0-9]+(?:\.[0-9]+)?)B)?", re.IGNORECASE)
"""`70B`, and `120B-A5B` of a mixture of experts with what a token visits."""
MAX_CLAIM_CHARS = 200
MAX_TOKENS_PER_S = 1e9
_SAME_SIZE = 0.005
"""Logarithm of a ratio of sizes below which two models are as near."""


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
    or engine, and for two of a kind.
    """
    if len(text) > MAX_CLAIM_CHARS:
        raise InvalidValueError(f"a claim has at most {MAX_CLAIM_CHARS} characters, this has {len(text):,}")
    rate = _RATE.search(text)
    claim = Claim(tokens_per_s=None if rate is None else float(rate.group(1).replace(",", "")))
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
    checkpoint = _sized_checkpoint(text, float(size.group(1)) * 1e9, active)
    return replace(checkpoint, decoder=replace(checkpoint.decoder, name=f"{text} (as {checkpoint.decoder.name})"))


def _sized_checkpoint(text: str, parameter_count: float, active_count: float | None) -> Checkpoint:
    """Return a checkpoint of about so many parameters where nobody says which model it is: a shipped one that has the
    size in its name, else the one of the next size, with more or fewer of its layers. `active_count`: parameters that a
    token visits, of a mixture of experts.
    """

    def distance(decoder: Decoder) -> tuple[bool, int]:
        apart = abs(math.log(decoder.parameter_count / parameter_count))
        if active_count is not None:
            apart += abs(math.log(decoder.active_parameter_count / active_count))
        is_named = f"-{text.lower()}-" in f"-{decoder.name}-"
        return not is_named, round(apart / _SAME_SIZE)  # of those as near, the first by name

    decoders = map(get_decoder, decoder_names())
    nearest = min((each for each in decoders if (each.experts is None) == (active_count is None)), key=distance)
    ratio = parameter_count / nearest.parameter_count
    layers = tuple(replace(run, count=max(1, round(run.count * ratio))) for run in nearest.layers)
    return Checkpoint(replace(nearest, layers=layers), None, "BF16")


def _with_word(claim: Claim, word: str) -> Claim:
    if _SIZE.fullmatch(word):
        return with_part(claim, checkpoint=sized(word))
    engine = word.lower().replace(".", "-")
    if engine in engine_names():
        return with_part(claim, engine=engine)
    for part, read in _READERS.items():
        try:
            value = read(word)
        except RooflineError:
            continue
        return with_part(claim, **{part: value})
    raise InvalidValueError(
        f'{word[:40]!r} is no size (70B), model, format, chip or engine; write a claim as "70B Q4_K_M gb10 47 tok/s"'
    )


_READERS: Mapping[str, Callable[[str], Any]] = {
    "weights": format_key,
    "device": get_hardware,
    "checkpoint": find_checkpoint,
}
"""Part of a claim → what reads a word as it, and raises for any other word."""
_PARTS = {
    "checkpoint": "model or size",
    "weights": "format",
    "device": "chip",
    "engine": "engine",
    "tokens_per_s": "rate",
}


def with_part(claim: Claim, **parts: Any) -> Claim:
    """Return a claim with more said. Raises `InvalidValueError` for what was said already."""
    for name in parts:
        if getattr(claim, name) is not None:
            raise InvalidValueError(f"a claim names one {_PARTS[name]}; two are given")
    return replace(claim, **parts)
