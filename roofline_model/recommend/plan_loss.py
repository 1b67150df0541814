"""What a plan loses: summed from the layers' losses where a table has them, else what was published of its formats,
else unknown.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import replace

from roofline_model.core.answer import Loss, LossSource
from roofline_model.core.errors import InvalidValueError
from roofline_model.core.finding import Finding, finding
from roofline_model.formats.catalog import SIXTEEN_BIT
from roofline_model.models.format_plan import parts_of
from roofline_model.models.model_memory import layer_matrices
from roofline_model.models.model_shapes import ModelShape
from roofline_model.models.strategies.config import StrategyClaims
from roofline_model.models.strategies.strategies import DOCUMENT_SOURCE
from roofline_model.recommend.loss import (
    UNKNOWN,
    ClaimedLoss,
    claimed,
    claimed_cache_loss,
    claimed_loss_of,
    loss_beside,
)
from roofline_model.recommend.plan_formats import CACHE, PlanFormats
from roofline_model.recommend.plans import CandidatePlan
from roofline_model.recommend.search.losses import LossTable, names_a_part, parse_formats
from roofline_model.recommend.search.losses_file import MeasuredLosses, loss_pct

_SOURCE_OF: Mapping[str, LossSource] = {"kl": "measured", "fisher": "estimated"}


class LossBook:
    """Looks plans up in a table of losses, for one model."""

    def __init__(self, losses: MeasuredLosses, shape: ModelShape, wide: str) -> None:
        check_depth(losses, shape)
        self.losses = losses
        self.table = _rewidened(losses.table, wide)
        self._losses_by_part = self.table.by_part(shape)
        self._groups = _groups_by_layer(self._losses_by_part)
        self.unused = self._drop_unknown(shape)
        """Names of losses that are of no part of this model."""

    def _drop_unknown(self, shape: ModelShape) -> tuple[str, ...]:
        layer_losses = []
        for layer, groups in self._groups.items():
            parts = {part for part, size in layer_matrices(shape, layer) if size} | {CACHE}
            for group in list(groups):
                members = set(parts_of(group))
                # A plain block has no gate: its up projection is a part by itself.
                if not members & parts or (group == "gate_up_proj" and not members <= parts):
                    groups.remove(group)
                    layer_losses.append(f"layers.{layer}.{group}")
        return tuple(layer_losses)

    def cache_formats(self, wide: str) -> list[str]:
        """Return the narrow formats of the cache that have losses."""
        labels = [label for name, label in self._losses_by_part if name.rpartition(".")[2] == CACHE]
        return [label for label in dict.fromkeys(labels) if label != wide]

    def loss(self, formats: PlanFormats) -> tuple[float, list[str]]:
        """Return the sum of the losses that are known, and the parts that have none (`layers.3.kv in NVFP4`)."""
        losses, missing = [], []
        for layer, parts in enumerate(formats.layers):
            layer_loss, unknown = self._layer_loss(layer, dict(parts), formats.wide)
            losses.append(layer_loss)
            missing += unknown
        for part, label in (("lm_head", formats.head), ("embedding", formats.embedding)):
            if (part, label) in self._losses_by_part:
                losses.append(self._losses_by_part[part, label])
            elif label != formats.wide and not (part == "embedding" and label == formats.head):
                missing.append(f"{part} in {label}")
        return math.fsum(losses), missing

    def _layer_loss(self, layer: int, parts: dict[str, str], wide: str) -> tuple[float, list[str]]:
        losses: list[float] = []
        counted: set[str] = set()
        for group in self._groups.get(layer, ()):
            members = {part for part in parts_of(group) if part in parts}
            labels = {parts[part] for part in members}
            value = self._losses_by_part.get((f"layers.{layer}.{group}", labels.pop())) if len(labels) == 1 else None
            if value is not None and not members & counted:
                losses.append(value)
                counted |= members
        missing = [part for part, label in parts.items() if label != wide and part not in counted]
        return math.fsum(losses), [f"layers.{layer}.{part} in {parts[part]}" for part in missing]


def plan_loss(
    candidate: CandidatePlan, book: LossBook | None, model: str = "", original: PlanFormats | None = None
) -> tuple[Loss, tuple[Finding, ...]]:
    """Return a plan's loss and what to know about it; a table's sum over the whole plan goes before a claim.

    Claims are those of `loss.py` (`model`: the model's name, which may have a row of its own); a strategy
    file's own claim goes before them, document 004's, which has no source, does not count and is a finding only where
    nobody published one. Scores without data say nothing in percent: they stand beside the claim. `original`: what the
    checkpoint was published in; a part that stays in that loses nothing.
    """
    if candidate.kind == "baseline":
        return Loss("reference", 0.0, value=0.0), ()
    if candidate.kind == "published":
        return Loss("reference", 0.0), (finding("as-published", candidate.label),)
    if book is None:
        return _claimed_loss(candidate, model, original)
    value, missing = book.loss(candidate.formats)
    in_nats = loss_pct(value) if book.losses.is_in_nats else None
    if not missing and in_nats is not None:
        return Loss(_SOURCE_OF[book.losses.method], in_nats, value=value, unit=book.losses.unit), ()
    loss, findings = _claimed_loss(candidate, model, original)
    if missing:
        lacking = finding("loss-note", candidate.label, kind="incomplete", part=missing[0], count=len(missing))
        return replace(loss, at_least_pct=in_nats), (*findings, lacking)
    score = finding("loss-note", candidate.label, kind="score", score=value)
    return replace(loss, value=value, unit=book.losses.unit), (*findings, score)


def _claimed_loss(
    candidate: CandidatePlan, model: str, original: PlanFormats | None
) -> tuple[Loss, tuple[Finding, ...]]:
    """Return what is claimed of a plan: by its strategy's own file, else what was published of its formats."""
    claims = candidate.claims
    if claims is not None and claims.source != DOCUMENT_SOURCE:
        pct = claimed_pct(claims)
        return Loss("unknown" if pct is None else "claimed", pct, citation=claims.source), ()
    loss, findings = published_loss(candidate.formats, model, original)
    if claims is None or loss.pct is not None:
        return loss, findings
    return loss, (*findings, finding("loss-note", candidate.label, kind="claim", claim=claims.quality_loss))


def published_loss(
    formats: PlanFormats, model: str = "", original: PlanFormats | None = None
) -> tuple[Loss, tuple[Finding, ...]]:
    """Return what was published of these formats; of several in one plan the lossiest is taken to be everywhere.

    A part in a narrow format loses no more than the whole model in it, so the sum over a mixed plan is bounded by its
    lossiest format. A narrow cache comes on top. `original`: what the checkpoint was published in; a part that stays in
    that loses nothing.
    """
    parts = [label for layer in formats.layers for part, label in layer if part != CACHE]
    changed = _changed_parts(formats, original)
    narrow = dict.fromkeys(label for label in [*changed, formats.head, formats.embedding] if label != formats.wide)
    caches = dict.fromkeys(label for layer in formats.layers for part, label in layer if part == CACHE)
    claims = {label: _product_claim(label, model) for label in narrow}
    cache_claims = {label: claimed_cache_loss(label) for label in caches if label != formats.wide}
    unknown = [label for label, claim in claims.items() if claim is None]
    unknown += [f"{CACHE} {label}" for label, claim in cache_claims.items() if claim is None]
    if unknown:
        return UNKNOWN, (finding("loss-note", kind="unpublished", formats=tuple(unknown)),)
    published = {label: claim for label, claim in claims.items() if claim is not None}
    if not published and not cache_claims:
        return Loss("claimed", 0.0), ()
    loss = Loss("claimed", 0.0)
    findings: tuple[Finding, ...] = ()
    if published:
        worst = max(published, key=lambda label: published[label].high_pct)
        claim = published[worst]
        # Head and embedding stay wide in published checkpoints, too: the range is of the matrices.
        is_everywhere = len(published) == 1 and sum(label != worst for label in parts) == _router_count(formats)
        is_everywhere = is_everywhere and len(changed) == len(parts)
        loss = claimed(claim) if is_everywhere else replace(claimed(claim), low_pct=None, method=worst)
        beside = loss_beside(claim.weights, is_both=claim.is_both, model=model) if is_everywhere else None
        findings = () if beside is None else (_other_metric(beside),)
    for label, cache in cache_claims.items():
        if cache is not None:
            if loss.metric and loss.metric != cache.metric:
                findings = (*findings, _added_metrics(loss, cache))
            loss = _with_cache(loss, label, cache)
    is_of_model = not cache_claims and all(claim.models for claim in published.values())
    return replace(loss, is_of_model=is_of_model), findings


def _with_cache(loss: Loss, label: str, cache: ClaimedLoss) -> Loss:
    """Return a loss with what a narrow cache adds: of task accuracy, whatever the loss itself is of.

    The sum keeps the metric of the formats; where that is another, `loss-adds-metrics` names both parts.
    """
    return replace(
        loss,
        pct=(loss.pct or 0.0) + cache.high_pct,
        low_pct=None,
        metric=loss.metric or cache.metric,
        method=" + ".join(filter(None, (loss.method, f"{label} {cache.method}"))),
        citation="; ".join(filter(None, (loss.citation, cache.source))),
    )


def _added_metrics(loss: Loss, cache: ClaimedLoss) -> Finding:
    metrics = {"metric": loss.metric, "cache_metric": cache.metric}
    return finding("loss-adds-metrics", formats_pct=loss.pct, cache_pct=cache.high_pct, **metrics)


def _other_metric(beside: ClaimedLoss) -> Finding:
    values = {"metric": beside.metric, "method": beside.method, "citation": beside.source}
    return finding("loss-in-other-metric", low_pct=beside.low_pct, high_pct=beside.high_pct, **values)


def claimed_pct(claims: StrategyClaims | None) -> float | None:
    """Return the loss that a document claims for a strategy, percent, the larger end of a range; None where it claims
    none.

    `<1%` → 1.0, `2-5 % loss` → 5.0, `none` → 0.0.
    """
    if claims is None:
        return None
    numbers = re.findall(r"\d+(?:\.\d+)?", claims.quality_loss)
    if claims.quality_loss == "none":
        return 0.0
    return max(map(float, numbers)) if numbers else None


def _changed_parts(formats: PlanFormats, original: PlanFormats | None) -> list[str]:
    """Return the formats of the matrices that a plan makes narrow: not of those that were published in that very
    format.
    """
    before = formats.layers if original is None else original.layers
    return [
        label
        for layer, old in zip(formats.layers, before, strict=True)
        for (part, label), (_, was) in zip(layer, old, strict=True)
        if part != CACHE and (original is None or label != was or label == formats.wide)
    ]


def _product_claim(label: str, model: str) -> ClaimedLoss | None:
    pair = parse_formats(label)
    if pair.activations != pair.weights and pair.activations not in SIXTEEN_BIT:
        return None
    return claimed_loss_of(pair.weights, is_both=pair.activations == pair.weights, model=model)


def _router_count(formats: PlanFormats) -> int:
    """Return how many routers the layers have: they stay in 16 bit in every plan here."""
    return sum(part == "router" for layer in formats.layers for part, _ in layer)


def check_depth(losses: MeasuredLosses, shape: ModelShape) -> None:
    """Raise `InvalidValueError` when the losses are of a deeper model than the one asked about."""
    deepest = max((_layer_of(name) for name, _ in losses.values), default=-1)
    if deepest >= shape.layer_count:
        raise InvalidValueError(
            f"the losses are of {losses.model} with layer {deepest}, but {shape.name} has layers 0 to "
            f"{shape.layer_count - 1}; "
            "give the losses of this model"
        )


def _layer_of(name: str) -> int:
    """Return the first number in a name, the layer's index; -1 where there is none."""
    return next((int(part) for part in name.split(".") if part.isdecimal() and len(part) < 8), -1)


def _groups_by_layer(loss_values: Mapping[tuple[str, str], float]) -> dict[int, list[str]]:
    groups: dict[int, dict[str, None]] = {}
    for name, _ in loss_values:
        head, _, part = name.rpartition(".")
        if head:
            groups.setdefault(_layer_of(head), {})[part] = None
    return {layer: list(parts) for layer, parts in groups.items()}


def _rewidened(table: LossTable, wide: str) -> LossTable:
    """Return the table with its 16-bit activations called by the baseline's format: a loss is hardly of FP16 or BF16.

    Names that no decoder has are left out, unless there are no others: what follows looks at every loss several times.
    """
    values: dict[tuple[str, str], float] = {}
    part_values = {key: value for key, value in table.values.items() if names_a_part(key[0])} or table.values
    exact = {(name, parse_formats(label).label) for name, label in part_values}
    for (name, text), value in part_values.items():
        pair = parse_formats(text)
        label = pair.label
        if pair.activations in SIXTEEN_BIT and pair.activations != wide:
            label = wide if pair.weights in SIXTEEN_BIT else f"{pair.weights}.{wide}"
            if (name, label) in exact:
                continue
        values[name, label] = value
    return LossTable(values, table.source, table.confidence)
