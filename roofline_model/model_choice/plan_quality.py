"""What a plan loses: summed from the layers' losses where a table has them, else what was published of its formats, else unknown."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from roofline_model.decoder.model_memory import layer_matrices
from roofline_model.decoder.model_shapes import ModelShape
from roofline_model.decoder.plan_parts import parts_of
from roofline_model.errors import InvalidValueError
from roofline_model.mixed_precision.claimed_loss import claimed_loss
from roofline_model.mixed_precision.strategies import DOCUMENT_SOURCE
from roofline_model.model_choice.plan_candidates import PlanCandidate
from roofline_model.model_choice.plan_claims import PublishedClaim, published_claim
from roofline_model.model_choice.plan_formats import CACHE, SIXTEEN_BIT, PlanFormats
from roofline_model.pareto.losses import LossTable, names_a_part, parse_formats
from roofline_model.pareto.losses_file import MeasuredLosses, loss_pct

_SOURCE_OF = {"kl": "measured", "fisher": "estimated"}
UNKNOWN_TEXT = "unknown"


@dataclass(frozen=True, slots=True)
class PlanQuality:
    """What is known of a plan's loss of quality, and from where."""

    source: str
    """reference, measured (sum of layers measured one at a time), estimated (from gradients), claimed, unknown."""
    text: str
    """How to show it: `measured: 0.42%`, `claimed: 1.5-6.5 % (AWQ)`, unknown."""
    loss_pct: float | None = None
    """Rise of perplexity in percent; of a claim its upper end, and the drop of task accuracy where nobody published a perplexity
    (`claimed_metric`). None where nothing comparable is known."""
    loss_value: float | None = None
    """Sum of the table's losses in `loss_unit`; None without a table that has all of the plan."""
    at_least_pct: float | None = None
    """What the measured layers alone lose, where the table has not all of the plan."""
    note: str = ""
    """Where the claim is from, and what the table lacks of the plan."""
    is_of_model: bool = False
    """Whether a claim is of this very model; else it is of other models, or a range over several."""
    loss_unit: str = ""
    """Of `loss_value`: nats/token, or as the table says; empty without a table."""
    claimed_metric: str = ""
    """What a claim is of: perplexity, or task accuracy; empty where the loss is no published one."""


class LossBook:
    """Looks plans up in a table of losses, for one model."""

    def __init__(self, losses: MeasuredLosses, shape: ModelShape, wide: str) -> None:
        check_depth(losses, shape)
        self.losses = losses
        self.table = _rewidened(losses.table, wide)
        self._known = self.table.by_part(shape)
        self._groups = _groups_by_layer(self._known)
        self.unused = self._drop_unknown(shape)
        """Names of losses that are of no part of this model."""

    def _drop_unknown(self, shape: ModelShape) -> tuple[str, ...]:
        found = []
        for layer, groups in self._groups.items():
            parts = {part for part, size in layer_matrices(shape, layer) if size} | {CACHE}
            for group in list(groups):
                members = set(parts_of(group))
                # A plain block has no gate: its up projection is a part by itself.
                if not members & parts or (group == "gate_up_proj" and not members <= parts):
                    groups.remove(group)
                    found.append(f"layers.{layer}.{group}")
        return tuple(found)

    def cache_formats(self, wide: str) -> list[str]:
        """Return the narrow formats of the cache that have losses."""
        labels = [label for name, label in self._known if name.rpartition(".")[2] == CACHE]
        return [label for label in dict.fromkeys(labels) if label != wide]

    def loss(self, formats: PlanFormats) -> tuple[float, list[str]]:
        """Return the sum of the losses that are known, and the parts that have none (`layers.3.kv in NVFP4`)."""
        losses, missing = [], []
        for layer, parts in enumerate(formats.layers):
            found, unknown = self._layer_loss(layer, dict(parts), formats.wide)
            losses.append(found)
            missing += unknown
        for part, label in (("lm_head", formats.head), ("embedding", formats.embedding)):
            if (part, label) in self._known:
                losses.append(self._known[part, label])
            elif label != formats.wide and not (part == "embedding" and label == formats.head):
                missing.append(f"{part} in {label}")
        return math.fsum(losses), missing

    def _layer_loss(self, layer: int, parts: dict[str, str], wide: str) -> tuple[float, list[str]]:
        losses: list[float] = []
        counted: set[str] = set()
        for group in self._groups.get(layer, ()):
            members = {part for part in parts_of(group) if part in parts}
            labels = {parts[part] for part in members}
            value = self._known.get((f"layers.{layer}.{group}", labels.pop())) if len(labels) == 1 else None
            if value is not None and not members & counted:
                losses.append(value)
                counted |= members
        missing = [part for part, label in parts.items() if label != wide and part not in counted]
        return math.fsum(losses), [f"layers.{layer}.{part} in {parts[part]}" for part in missing]


def plan_quality(
    candidate: PlanCandidate, book: LossBook | None, model: str = "", original: PlanFormats | None = None
) -> PlanQuality:
    """Return what is known of a candidate's loss; a table's sum over the whole plan goes before a claim.

    Claims are those of `claimed_losses.py` (`model`: the model's name, which may have a row of its own); a strategy file's own
    claim goes before them, document 004's, which has no source, does not count and is told only where nobody published
    one. Scores without data say nothing in percent: they stand beside the claim. `original`: what the checkpoint was published
    in (`published_claim`).
    """
    if candidate.kind == "baseline":
        return PlanQuality("reference", "reference", 0.0, 0.0)
    if candidate.kind == "published":
        return PlanQuality("reference", "reference: as published", 0.0)
    score, at_least_pct, note = None, None, ""
    if book is not None:
        value, missing = book.loss(candidate.formats)
        in_nats = loss_pct(value) if book.losses.is_in_nats else None
        if missing:
            at_least_pct = in_nats
            note = f"no loss is known of {missing[0]}{f' and {len(missing) - 1} more' if len(missing) > 1 else ''}"
        elif in_nats is not None:
            source = _SOURCE_OF[book.losses.method]
            return PlanQuality(source, f"{source}: {in_nats:.3g}%", in_nats, value, loss_unit=book.losses.unit)
        else:
            score = value
    claim = _claim(candidate, model, original)
    return PlanQuality(
        "unknown" if claim.loss_pct is None else "claimed",
        (UNKNOWN_TEXT if claim.loss_pct is None else claim.text)
        + ("" if score is None else f"; score {score:.3g} without data"),
        claim.loss_pct,
        score,
        at_least_pct,
        "; ".join(filter(None, (claim.source, note))),
        claim.is_of_model and claim.loss_pct is not None,
        "" if book is None or score is None else book.losses.unit,
        claim.metric,
    )


def _claim(candidate: PlanCandidate, model: str, original: PlanFormats | None) -> PublishedClaim:
    """Return what is claimed of a candidate: by its strategy's own file, else what was published of its formats."""
    own = candidate.claims
    if own is not None and own.source != DOCUMENT_SOURCE:
        return PublishedClaim(*claimed_loss(own), f"claimed by {own.source}")
    found = published_claim(candidate.formats, model, original)
    if own is None or found.loss_pct is not None:
        return found
    told = f"an early design document of this project claims {own.quality_loss}, without a source"
    return replace(found, source="; ".join(filter(None, (found.source, told))))


def check_depth(losses: MeasuredLosses, shape: ModelShape) -> None:
    """Raise `InvalidValueError` when the losses are of a deeper model than the one asked about."""
    deepest = max((_layer_of(name) for name, _ in losses.values), default=-1)
    if deepest >= shape.layer_count:
        raise InvalidValueError(
            f"the losses are of {losses.model} with layer {deepest}, but {shape.name} has layers 0 to {shape.layer_count - 1}; "
            "give the losses of this model"
        )


def _layer_of(name: str) -> int:
    """Return the first number in a name, the layer's index; -1 where there is none."""
    return next((int(part) for part in name.split(".") if part.isdecimal() and len(part) < 8), -1)


def _groups_by_layer(known: Mapping[tuple[str, str], float]) -> dict[int, list[str]]:
    found: dict[int, dict[str, None]] = {}
    for name, _ in known:
        head, _, part = name.rpartition(".")
        if head:
            found.setdefault(_layer_of(head), {})[part] = None
    return {layer: list(parts) for layer, parts in found.items()}


def _rewidened(table: LossTable, wide: str) -> LossTable:
    """Return the table with its 16-bit activations called by the baseline's format: a loss is hardly of FP16 or BF16.

    Names that no decoder has are left out, unless there are no others: what follows looks at every loss several times.
    """
    values: dict[tuple[str, str], float] = {}
    known = {key: value for key, value in table.values.items() if names_a_part(key[0])} or table.values
    exact = {(name, parse_formats(label).label) for name, label in known}
    for (name, text), value in known.items():
        pair = parse_formats(text)
        label = pair.label
        if pair.activations in SIXTEEN_BIT and pair.activations != wide:
            label = wide if pair.weights in SIXTEEN_BIT else f"{pair.weights}.{wide}"
            if (name, label) in exact:
                continue
        values[name, label] = value
    return LossTable(values, table.source, table.confidence)
