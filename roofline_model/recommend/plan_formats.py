"""What a plan gives each part of a model, over the layers: to tell plans apart, and to name one in a line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from roofline_model.core.answer import Option
from roofline_model.core.ranking_display import OPTION_NAMES
from roofline_model.formats.catalog import SIXTEEN_BIT, format_name, short_name
from roofline_model.models.format_plan import GROUPS, FormatPlan, PartFormats
from roofline_model.models.model_memory import layer_matrices
from roofline_model.models.model_shapes import ModelShape

CACHE = "kv"
ALL_LAYERS = "layers"
"""What all matrices of all layers are called together."""
_KEPT_WIDE = ("router",)
"""Parts that every plan here keeps in 16 bit; they are not told."""
_SHORT_GROUPS = ("attention", "mlp", "qkv_proj", "gate_up_proj", "ffn", "experts", "shared_experts")
"""Names that may stand for several parts with equal formats in every layer."""


@dataclass(frozen=True, slots=True)
class PlanFormats:
    """Formats of a plan, part by part; plans with equal ones are the same plan, however they are written."""

    layers: tuple[tuple[tuple[str, str], ...], ...]
    """For each layer (part, label): its matrices, then the cache."""
    head: str
    embedding: str
    wide: str

    @property
    def product_labels(self) -> tuple[str, ...]:
        """Formats of the products of a pass, each once: the matrices of the layers, then the head."""
        layers = (label for layer in self.layers for part, label in layer if part != CACHE)
        return tuple(dict.fromkeys([*layers, self.head]))


def plan_formats(plan: FormatPlan, shape: ModelShape) -> PlanFormats:
    """Return what a plan gives every part of every layer, and outside the layers."""
    formats: dict[tuple[object, ...], tuple[tuple[str, str], ...]] = {}
    layers = []
    for layer, key in enumerate(plan.layer_keys(shape.layer_count)):
        kind = (shape.has_experts(layer), *key)
        if kind not in formats:
            parts = dict.fromkeys(part for part, size in layer_matrices(shape, layer) if size)
            matrices = [(part, plan.of(part, layer).label) for part in parts]
            formats[kind] = (*matrices, (CACHE, plan.kv_of(layer)))
        layers.append(formats[kind])
    head = plan.of("lm_head").label
    embedding = head if shape.has_tied_embedding else plan.of("embedding").label
    return PlanFormats(tuple(layers), head, embedding, plan.wide)


@dataclass(frozen=True, slots=True)
class PlanPart:
    """What a plan gives a part of a model, or parts that agree in every layer."""

    name: str
    """ffn, o_proj, cache, head, …; `layers`: all matrices of the layers; `everything`: nothing is narrow."""
    layer_counts: tuple[tuple[str, int], ...]
    """Formats → count of the layers that have them, most frequent first; 16 bit only where nothing is narrow."""
    layer_count: int
    """Count of the layers that have the part; 1 outside the layers."""

    @property
    def format(self) -> str:
        """Its formats where every layer has the same; empty where not."""
        (label, count), *_ = self.layer_counts
        return label if count == self.layer_count else ""


def plan_parts(formats: PlanFormats) -> tuple[PlanPart, ...]:
    """Return the narrow parts of a plan, those of the layers first; `everything` of a plan without any.

    Parts that agree in every layer share a group's name; `layers`: all of them agree.
    """
    by_part: dict[str, list[str | None]] = {}
    for at, layer in enumerate(formats.layers):
        for part, label in layer:
            by_part.setdefault(part, [None] * len(formats.layers))[at] = label
    cache = tuple(by_part.pop(CACHE))
    rows = {part: _filled(labels) for part, labels in by_part.items() if part not in _KEPT_WIDE}
    grouped = {ALL_LAYERS: next(iter(rows.values()))} if len(set(rows.values())) == 1 else _grouped(rows)
    grouped["cache"] = cache
    grouped["head"] = (formats.head,)
    if formats.embedding != formats.head:
        grouped["embedding"] = (formats.embedding,)
    parts = [_part(name, labels, formats.wide) for name, labels in grouped.items()]
    narrow = tuple(part for part in parts if part.layer_counts)
    return narrow or (PlanPart("everything", ((formats.wide, len(formats.layers)),), len(formats.layers)),)


def formats_of(parts: Iterable[PlanPart], wide: str) -> tuple[tuple[str, str], ...]:
    """Return part → formats of a plan: a part that differs between layers stands once with each of its formats."""
    pairs = []
    for part in parts:
        pairs += [(part.name, label) for label, _ in part.layer_counts]
        if sum([count for _, count in part.layer_counts]) < part.layer_count:
            pairs.append((part.name, wide))
    return tuple(pairs)


def rewidened(plan: FormatPlan, wide: str) -> FormatPlan:
    """Return the plan with its own 16-bit float (FP16 or BF16) replaced by another.

    A document's FP16 says `not quantised`; the model's own 16-bit format is what that means on a chip.
    """
    if plan.wide == wide or plan.wide not in SIXTEEN_BIT:
        return plan

    def key(name: str) -> str:
        return wide if name in SIXTEEN_BIT else name

    def part(formats: PartFormats) -> PartFormats:
        return PartFormats(key(formats.weights), key(formats.activations))

    exceptions = tuple(replace(exception, formats=part(exception.formats)) for exception in plan.exceptions)
    return replace(plan, base=part(plan.base), kv=key(plan.kv), wide=wide, exceptions=exceptions)


def _grouped(rows: Mapping[str, tuple[str | None, ...]]) -> dict[str, tuple[str | None, ...]]:
    """Return the rows with parts joined under a group's name where all parts of the group that the model has agree."""
    left = dict(rows)
    groups: dict[str, tuple[str | None, ...]] = {}
    # The name for most parts first; of names for the same ones that of the smaller group (ffn, not mlp, in a dense
    # model).
    for name in sorted(_SHORT_GROUPS, key=lambda group: (-len(_members(group, rows)), len(GROUPS.get(group, ())))):
        members = _members(name, rows)
        if len(members) > 1 and left.keys() >= set(members) and len({left[part] for part in members}) == 1:
            groups[name] = left[members[0]]
            for part in members:
                del left[part]
    # In the order of a layer: a group stands where its first part does.
    order = {part: at for at, part in enumerate(rows)}
    joined = {**groups, **left}
    return dict(sorted(joined.items(), key=lambda row: min(order[part] for part in _members(row[0], rows))))


def _filled(labels: list[str | None]) -> tuple[str | None, ...]:
    """Return the labels of a part; one that is the same wherever the part exists counts as the same in every layer."""
    distinct = {label for label in labels if label is not None}
    return (*distinct,) * len(labels) if len(distinct) == 1 else tuple(labels)


def _members(name: str, rows: Iterable[str]) -> list[str]:
    parts = set(rows)
    return [part for part in (*GROUPS.get(name, ()), name) if part in parts]


def _part(name: str, labels: Sequence[str | None], wide: str) -> PlanPart:
    present = [label for label in labels if label is not None]
    counts = {label: present.count(label) for label in dict.fromkeys(present) if label != wide}
    return PlanPart(name, tuple(sorted(counts.items(), key=lambda pair: -pair[1])), len(present))


def plan_name(option: Option) -> str:
    """Return the name that people are shown: `FP8 (W8A8) + FP8 KV`, `MXFP4 (W4A16) experts`; of a mixed plan its
    key.
    """
    formats = dict(option.formats)
    is_mixed = len(formats) < len(option.formats)
    cache = formats.pop("cache", "")
    if is_mixed or len(formats) != 1:
        return option.key
    ((part, label),) = formats.items()
    weights, _, activations = label.partition(".")
    where = "" if part in ("everything", "layers") else f" {part}"
    name = f"{format_name(weights, activations or weights)}{where}"
    return f"{name} + {short_name(cache)} KV" if cache else name


OPTION_NAMES["model"] = plan_name
