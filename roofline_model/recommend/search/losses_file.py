"""Losses by layer and format as a JSON file: read strictly, written so that they read back equal.

    {
      "schema": 1,
      "model": "tiny-decoder",                         # whose layers these are
      "method": "kl",                                  # kl, fisher or prior
      "unit": "nats/token",
      "text": "Python's own help, held-out part",      # what was run; left out without data
      "tokens_count": 4096,                            # tokens the losses rest on; 0 without data
      "confidence": "high",                            # may be left out: kl high, fisher medium, prior low
      "note": "weights only",                          # what the losses leave out; may be left out
      "losses": {
        "model.layers.0.self_attn.q_proj": {"INT4.BF16": 0.0031, "FP8_E4M3.BF16": 0.0002},
        "layers.1.qkv_proj": {"INT4.BF16": 0.0044},
        "layers.1.kv": {"FP8_E4M3": 0.0001}
      }
    }

Names and formats are those of `LossTable`: one format alone is for both operands, so a weight-only loss has two. A file
is refused with its name, the field and the reason.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from roofline_model.core.definition_text import (
    json_document,
    read_definition_text,
    shown,
    user_path,
    write_definition_text,
)
from roofline_model.core.errors import DefinitionError, InvalidValueError
from roofline_model.core.typed_fields import read_as, value_as
from roofline_model.recommend.search.losses import LossTable, is_loss, named
from roofline_model.recommend.search.problem import CONFIDENCES

SCHEMA = 1
MAX_LOSSES_BYTES = 64 * 1024**2
"""Longest file that is read: a hundred experts a layer, module by module, take a tenth of it."""
NATS = "nats/token"
METHODS: Mapping[str, str] = {
    "kl": "layer-wise KL",
    "fisher": "diagonal Fisher",
    "prior": "role prior",
}
"""How losses come about, best first: the KL of the logits with one layer quantised at a time; the diagonal Fisher
estimate of it; the error of the weight × an assumed weight of its role, without data.
"""
CONFIDENCE_OF: Mapping[str, str] = dict(zip(METHODS, CONFIDENCES, strict=True))
"""The most that a method's losses can be trusted."""
LEAST_NATS = -1e-3
"""A KL below this is no noise of its sum, but a mistake."""
MOST_NATS = 1e6
_UNSAFE = re.compile(r"[^A-Za-z0-9._/+-]")
_DIGITS = re.compile(r"-(?:[0-9a-f]{6}|unread)$")
"""What `roofline losses` puts behind a folder's name, after the characters that no name of a result has became `_`."""
_FIELDS = ("schema", "model", "method", "unit", "text", "tokens_count", "confidence", "note", "losses")


@dataclass(frozen=True, slots=True)
class MeasuredLosses:
    """A table of losses and where it comes from. Raises `InvalidValueError` naming the field."""

    values: Mapping[tuple[str, str], float]
    """(layer, format) → loss, as in `LossTable`. In nats from `LEAST_NATS` to below `MOST_NATS`; noise below 0 becomes
    0.
    """
    model: str
    method: str
    """kl, fisher or prior."""
    unit: str = NATS
    """nats/token for kl and fisher; of a prior whatever its scores are."""
    text: str = ""
    """What was run; empty without data."""
    tokens_count: int = 0
    """Tokens the losses rest on; 0 without data."""
    confidence: str = ""
    """high, medium or low, never above the method's own; empty takes that."""
    note: str = ""
    """What the losses leave out."""

    def __post_init__(self) -> None:
        for name in ("model", "method", "unit", "text", "confidence", "note"):
            value = getattr(self, name)
            if not isinstance(value, str) or len(value) > 500 or not value.isprintable():
                raise InvalidValueError(f"{name} must be printable text of up to 500 characters, got {shown(value)}")
        if not self.model.strip():
            raise InvalidValueError("model is empty: say whose layers these are")
        if self.method not in METHODS:
            raise InvalidValueError(f"method must be {', '.join(METHODS)}, got {shown(self.method)}")
        if self.method != "prior" and self.unit != NATS:
            raise InvalidValueError(f"unit must be {NATS} for method {self.method}, got {shown(self.unit)}")
        count = self.tokens_count
        if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count < 10**15:
            raise InvalidValueError(f"tokens_count must be a whole number from 0, got {shown(count)}")
        if self.method != "prior" and count == 0:
            raise InvalidValueError(f"tokens_count is 0, but method {self.method} needs tokens")
        best = CONFIDENCE_OF[self.method]
        if not self.confidence:
            object.__setattr__(self, "confidence", best)
        if self.confidence not in CONFIDENCES:
            raise InvalidValueError(f"confidence must be {', '.join(CONFIDENCES)}, got {shown(self.confidence)}")
        if CONFIDENCES.index(self.confidence) < CONFIDENCES.index(best):
            raise InvalidValueError(
                f"confidence {self.confidence} is more than method {self.method} gives; at most {best}"
            )
        if self.is_in_nats:
            object.__setattr__(self, "values", _kl_values(self.values))
        _ = self.table  # a loss or a format that cannot be is refused here, not at the first use

    @classmethod
    def of(
        cls,
        table: LossTable,
        *,
        model: str,
        method: str,
        unit: str = NATS,
        text: str = "",
        tokens_count: int = 0,
        note: str = "",
    ) -> MeasuredLosses:
        """Return the losses of a table that was made in this process; its confidence is kept, its source said anew."""
        return cls(table.values, model, method, unit, text, tokens_count, table.confidence, note)

    @property
    def is_in_nats(self) -> bool:
        """Whether a loss is a KL in nats per token, so that it says something about perplexity."""
        return self.unit == NATS

    def is_of(self, model: str) -> bool:
        """Whether these are losses of a model of that name; a folder may be called with or without the digits of its
        config.
        """
        mine, wanted_name = (_UNSAFE.sub("_", name) for name in (self.model, model))
        return mine == wanted_name or wanted_name == _DIGITS.sub("", mine) or mine == _DIGITS.sub("", wanted_name)

    @property
    def source(self) -> str:
        """In one line: what was measured, on what, on how many tokens."""
        parts = [METHODS[self.method], self.model]
        if self.tokens_count:
            parts.append(f"{self.tokens_count:,} tokens{f' of {self.text}' if self.text else ''}")
        return ", ".join([*parts, self.unit, *([self.note] if self.note else [])])

    @property
    def table(self) -> LossTable:
        """The losses as the search takes them."""
        return LossTable(self.values, self.source, self.confidence)


def _kl_values(values: Mapping[tuple[str, str], float]) -> dict[tuple[str, str], float]:
    """Return losses in nats with the noise below zero taken off; raises `InvalidValueError` for one that no KL can
    be.
    """
    for (name, label), value in values.items():
        if not is_loss(value) or not LEAST_NATS <= value < MOST_NATS:
            raise InvalidValueError(
                f"the loss of {named(name)} in {named(label)} must be a number of nats from 0 to below "
                f"{MOST_NATS:,.0f} "
                f"(a KL is not negative; {LEAST_NATS:g} passes for noise), got {shown(value)}"
            )
    return {key: max(0.0, float(value)) for key, value in values.items()}


def loss_pct(loss_value: float) -> float:
    """Return the rise of perplexity in percent behind a loss in nats per token: 100·(e^loss − 1).

    Of text drawn from the original model the KL is exactly the mean rise of −ln p; of other text it is near it while
    small.
    """
    return 100 * math.expm1(min(loss_value, 700.0))


def loss_in_nats(percent: float) -> float:
    """Return the loss in nats per token behind a rise of perplexity in percent: the inverse of `loss_pct`."""
    return math.log1p(percent / 100)


def read_losses(path: str | Path) -> MeasuredLosses:
    """Read a losses file; raises `DefinitionError` naming file, field and reason."""
    file = user_path(path)
    text = read_definition_text(
        file,
        "losses file",
        fix="`roofline losses -o FILE` writes one; docs/theory/pareto.md shows its fields",
        most_bytes=MAX_LOSSES_BYTES,
    )
    return read_losses_text(text, str(file))


def read_losses_text(text: str, where: str = "losses") -> MeasuredLosses:
    """Parse and check the text of a losses file; `where` names it in errors."""
    data = json_document(text, where, "a losses file", SCHEMA, _FIELDS)
    tables = value_as(Mapping[str, Mapping[str, float]], data.pop("losses", None), f"{where}: losses")
    data["values"] = {(name, label): value for name, formats in tables.items() for label, value in formats.items()}
    try:
        return read_as(MeasuredLosses, {name: value for name, value in data.items() if name != "schema"}, f"{where}: ")
    except InvalidValueError as error:
        raise DefinitionError(f"{where}: {error}") from None


def write_losses(losses: MeasuredLosses, path: str | Path) -> Path:
    """Write a losses file that `read_losses` reads back equal; returns the path, raises `DefinitionError`."""
    return write_definition_text(user_path(path), losses_text(losses), "losses file")


def losses_text(losses: MeasuredLosses) -> str:
    """Return the text of a losses file; one line for each layer."""
    head: dict[str, Any] = {"schema": SCHEMA, "model": losses.model, "method": losses.method, "unit": losses.unit}
    for name in ("text", "tokens_count", "confidence", "note"):
        if getattr(losses, name):
            head[name] = getattr(losses, name)
    by_layer: dict[str, dict[str, float]] = {}
    for (name, label), value in losses.values.items():
        by_layer.setdefault(name, {})[label] = value
    fields = [f"  {_json(name)}: {_json(value)}" for name, value in head.items()]
    layers = [f"    {_json(name)}: {_json(values)}" for name, values in by_layer.items()]
    fields.append('  "losses": {\n' + ",\n".join(layers) + "\n  }")
    return "{\n" + ",\n".join(fields) + "\n}\n"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)
