"""Losses of quality by layer and format: where they come from, and what they add up to for the parts of a decoder.

Losses must add: the loss of a plan is taken as the sum of its layers' losses. That is an approximation, good while each
is small; a chosen plan is measured as a whole before it is believed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from roofline_model.core.definition_text import shown
from roofline_model.core.errors import InvalidValueError
from roofline_model.formats.catalog import split_precision
from roofline_model.models.format_plan import PartFormats
from roofline_model.models.model_shapes import ModelShape
from roofline_model.models.strategies.module_names import operators_of_module
from roofline_model.models.strategies.operator_type import ATTENTION_PROJECTIONS, FFN_PROJECTIONS, OperatorType
from roofline_model.recommend.search.problem import CONFIDENCES

MOST_VALUE = 1e100
"""Losses of a million layers below it add up to a number."""
_QKV = tuple(
    attention_projection
    for attention_projection in ATTENTION_PROJECTIONS
    if attention_projection is not OperatorType.O_PROJ
)


@dataclass(frozen=True, slots=True)
class LossTable:
    """What each layer loses in each format.

    Keys are (name, format). A name is a part of the model (`layers.3.qkv_proj`, `lm_head`, `layers.3.kv`) or a module
    of a Hugging Face model (`model.layers.3.self_attn.q_proj`), whose losses are added up to the part's. `layers.3.ffn`
    is the loss of a whole feed-forward block, which then has one format; `gate_up_proj` and `down_proj` are those of
    its parts. A format is written as everywhere, `INT4.BF16`; one name alone is for both operands. Raises
    `InvalidValueError` for a loss that is not finite (or beyond 1e100), for a block given both as a whole and in parts,
    and for a confidence nobody knows.
    """

    values: Mapping[tuple[str, str], float]
    source: str
    """What was measured, on how much data: `KL of the logits, one layer at a time, 4,096 tokens of …`."""
    confidence: str
    """high (measured on outputs), medium (a gradient's estimate: Fisher) or low (without data: tensor error × role
    prior).
    """
    _canonical: Mapping[tuple[str, str], float] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.confidence not in CONFIDENCES:
            raise InvalidValueError(
                f"the confidence of losses is {', '.join(CONFIDENCES)}, got {str(self.confidence)[:40]!r}"
            )
        if not str(self.source).strip():
            raise InvalidValueError("losses need a source: what was measured, and on how much data")
        values: dict[tuple[str, str], float] = {}
        for (name, label), value in self.values.items():
            if not is_loss(value):
                raise InvalidValueError(
                    f"the loss of {named(name)} in {named(label)} must be a finite number, got {shown(value)}"
                )
            formats = parse_formats(label)
            key = (name, formats.weights if name.endswith(".kv") else formats.label)  # a cache has one format
            if key in values:
                raise InvalidValueError(f"the loss of {name} in {key[1]} is given twice; keep one")
            values[key] = float(value)
        if not values:
            raise InvalidValueError("the table of losses is empty; the search needs at least one layer and format")
        _check_blocks({name for name, _ in values})
        object.__setattr__(self, "_canonical", values)

    @property
    def formats(self) -> tuple[PartFormats, ...]:
        """Every format of the table, in its order."""
        return tuple(parse_formats(label) for label in dict.fromkeys(label for _, label in self._canonical))

    def by_part(self, shape: ModelShape) -> dict[tuple[str, str], float]:
        """Return (part of the model, format) → loss; modules are added up where all of a part's matrices have one.

        A part that is named itself is taken as it is; modules of a feed-forward block that is named as a whole add up
        to the whole. Parts of which some matrix has no loss are left out: their format cannot be chosen.
        """
        values: dict[tuple[str, str], float] = {}
        sums: dict[tuple[str, str], float] = {}
        covered: dict[tuple[str, str], set[OperatorType]] = {}
        blocks = {name for name, _ in self._canonical if name.endswith(WHOLE_FFN)}
        for (name, label), value in self._canonical.items():
            if _PART_NAME.fullmatch(name):
                values[name, label] = value
                continue
            operators, layer = operators_of_module(name)
            part = _part_of(name, operators, layer, shape)
            if operators and operators[0] in FFN_PROJECTIONS and f"layers.{layer}{WHOLE_FFN}" in blocks:
                part = f"layers.{layer}{WHOLE_FFN}"
            if part is None:
                continue
            sums[part, label] = sums.get((part, label), 0.0) + value
            covered.setdefault((part, label), set()).update(operators)
        for key, value in sums.items():
            if key not in values and covered[key] >= _needed(key[0].rpartition(".")[2], shape):
                values[key] = value
        return values


_PART_OPERATORS: Mapping[str, tuple[OperatorType, ...]] = {
    "qkv_proj": _QKV,
    "o_proj": (OperatorType.O_PROJ,),
    "gate_up_proj": (OperatorType.FFN_GATE, OperatorType.FFN_UP),
    "up_proj": (OperatorType.FFN_UP,),
    "down_proj": (OperatorType.FFN_DOWN,),
    "ffn": FFN_PROJECTIONS,
    "experts": FFN_PROJECTIONS,
    "shared_experts": FFN_PROJECTIONS,
    "kv": (),
}
"""Part of a layer → operators that need a loss before the part has one."""
WHOLE_FFN = ".ffn"
"""What the name of a loss of a whole feed-forward block ends in."""
FFN_PARTS = ("gate_up_proj", "up_proj", "down_proj")
"""Its parts: `up_proj` alone in a plain block."""
_PART_NAME = re.compile(rf"lm_head|layers\.\d+\.({'|'.join(set(_PART_OPERATORS) - {'up_proj'})})")
"""What a loss can name itself. `layers.3.up_proj` is taken as a module: of a gated block it is half a part."""


@lru_cache(maxsize=1024)
def parse_formats(label: str) -> PartFormats:
    """Return weight and activation format of `INT4.BF16`, or of one name for both; raises as `get_format` does."""
    weight, activation = split_precision(label)
    return PartFormats(weight.key, (activation or weight).key)


def names_a_part(name: str) -> bool:
    """Whether a name can be a part's or a module's of some decoder; losses of anything else are of no use to any."""
    return _PART_NAME.fullmatch(name) is not None or bool(operators_of_module(name)[0])


def is_loss(value: object) -> bool:
    """Whether a value is a number that many of which can be added up: finite and below 1e100."""
    return isinstance(value, int | float) and not isinstance(value, bool) and -MOST_VALUE < value < MOST_VALUE


def named(name: str) -> str:
    """Print a name of a file for an error: as it is where that is one short line."""
    return name if name.isprintable() and len(name) <= 120 else shown(name)


def _part_of(name: str, operators: tuple[OperatorType, ...], layer: int | None, shape: ModelShape) -> str | None:
    if not operators:
        return None
    if layer is None:
        return "lm_head" if name.rpartition(".")[2] in ("lm_head", "embed_out") else None
    if operators[0] in _QKV:
        return f"layers.{layer}.qkv_proj"
    if operators[0] is OperatorType.O_PROJ:
        return f"layers.{layer}.o_proj"
    if not shape.has_experts(layer):
        is_down = operators[0] is OperatorType.FFN_DOWN
        return f"layers.{layer}.{'down_proj' if is_down else 'gate_up_proj' if shape.ffn == 'gated' else 'up_proj'}"
    return f"layers.{layer}.{'shared_experts' if 'shared' in name else 'experts'}"


def _needed(part: str, shape: ModelShape) -> set[OperatorType]:
    needed = set(_PART_OPERATORS.get(part, ()))
    if part == "qkv_proj" and shape.latent is not None:
        return {OperatorType.Q_PROJ, OperatorType.K_PROJ}
    if part == "ffn" and shape.ffn == "plain":
        needed.discard(OperatorType.FFN_GATE)
    return needed


def _check_blocks(names: set[str]) -> None:
    """Raise `InvalidValueError` where the loss of a feed-forward block is given as a whole and in parts."""
    for name in sorted(names):
        layer = name.removesuffix(WHOLE_FFN)
        twice = [part for part in FFN_PARTS if name != layer and f"{layer}.{part}" in names]
        if twice:
            raise InvalidValueError(
                f"the losses of {name} and {layer}.{twice[0]} are both given; give that of the whole block, or of its "
                "parts"
            )
