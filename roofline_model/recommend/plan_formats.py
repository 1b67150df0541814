"""What a plan gives each part of a model, over the layers: to tell plans apart, and to name one in a line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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


def formats_by_part(formats: PlanFormats) -> tuple[tuple[str, str], ...]:
    """Return part → formats: `ffn` → `INT4.BF16 in 60 of 80 layers, FP8_E4M3 in 8`, `cache` → `NVFP4`.

    What stays in 16 bit is left out, and so is `in 80 of 80 layers`. Parts that agree in every layer share a group's
    name; `layers`: all of them agree; `everything`: nothing is narrow.
    """
    by_part: dict[str, list[str | None]] = {}
    for at, layer in enumerate(formats.layers):
        for part, label in layer:
            by_part.setdefault(part, [None] * len(formats.layers))[at] = label
    cache = by_part.pop(CACHE)
    rows = {part: _filled(labels) for part, labels in by_part.items() if part not in _KEPT_WIDE}
    counted = {name: _counted(labels, formats.wide) for name, labels in _grouped(rows).items()}
    pairs = {name: text for name, text in counted.items() if text}
    distinct = set(rows.values())
    if pairs and len(distinct) == 1:
        pairs = {ALL_LAYERS: _counted(next(iter(distinct)), formats.wide)}
    if text := _counted(tuple(cache), formats.wide):
        pairs["cache"] = text
    if formats.head != formats.wide:
        pairs["head"] = formats.head
    if formats.embedding not in (formats.wide, formats.head):
        pairs["embedding"] = formats.embedding
    return tuple(pairs.items()) or (("everything", formats.wide),)


def formats_text(by_part: Iterable[tuple[str, str]]) -> str:
    """Return a plan in a line: `ffn INT4.BF16 in 60 of 80 layers, FP8_E4M3 in 8; cache NVFP4`."""
    return "; ".join(text if part == ALL_LAYERS else f"{part} {text}" for part, text in by_part)


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


def _counted(labels: tuple[str | None, ...], wide: str) -> str:
    """Return `INT4.BF16 in 60 of 80 layers, FP8_E4M3 in 8`, most frequent first; empty where all are wide."""
    present = [label for label in labels if label is not None]
    counts = {label: present.count(label) for label in dict.fromkeys(present) if label != wide}
    if not counts:
        return ""
    ordered = sorted(counts.items(), key=lambda pair: -pair[1])
    if len(ordered) == 1 and ordered[0][1] == len(present):
        return ordered[0][0]
    first, *rest = ordered
    return ", ".join([f"{first[0]} in {first[1]} of {len(present)} layers", *(f"{label} in {n}" for label, n in rest)])


def plan_name(option: Option) -> str:
    """Return the name that people are shown: `FP8 (W8A8) + FP8 KV`, `MXFP4 (W4A16) experts`; of a mixed plan its
    key.
    """
    formats = dict(option.formats)
    cache = formats.pop("cache", "")
    if len(formats) != 1 or any(" " in label for label in (cache, *formats.values())):
        return option.key
    ((part, label),) = formats.items()
    weights, _, activations = label.partition(".")
    where = "" if part in ("everything", "layers") else f" {part}"
    name = f"{format_name(weights, activations or weights)}{where}"
    return f"{name} + {short_name(cache)} KV" if cache else name


OPTION_NAMES["model"] = plan_name
