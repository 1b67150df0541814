"""What was published of a plan's formats, put together: its weights' claim, and what a narrow cache adds."""

from __future__ import annotations

from dataclasses import dataclass

from roofline_model.claimed_losses import ClaimedLoss, claimed_cache_loss, claimed_loss_of, loss_beside
from roofline_model.model_choice.plan_formats import CACHE, SIXTEEN_BIT, PlanFormats
from roofline_model.pareto.losses import parse_formats


@dataclass(frozen=True, slots=True)
class PublishedClaim:
    """The claim for a whole plan."""

    loss_pct: float | None
    """Its upper end; None where a part of the plan has no published figure."""
    text: str
    """`claimed: 1.5-6.5 % (AWQ)`, `claimed: at most 6.5 % (NVFP4.BF16)`, `claimed: 0.8-1.2 % (RTN) + cache under 1 %`; behind it
    what was published in the other metric: `claimed: 12.3-14.6 % (AWQ); tasks 0.6-2.6 % (GPTQ)`."""
    source: str
    """Where the figures are from, or what no figure was found of."""
    is_of_model: bool = False
    """Whether every figure in it is of the very model that was asked about; else they are ranges over several models."""
    metric: str = ""
    """What `loss_pct` is of: perplexity, or task accuracy where nobody published a perplexity; a cache's loss of task accuracy
    is added to either. Empty where a strategy's own file claims it."""


def published_claim(formats: PlanFormats, model: str = "", original: PlanFormats | None = None) -> PublishedClaim:
    """Return what was published of these formats; of several in one plan the lossiest is taken to be everywhere.

    A part in a narrow format loses no more than the whole model in it, so the sum over a mixed plan is bounded by its
    lossiest format. A narrow cache comes on top. `original`: what the checkpoint was published in; a part that stays in
    that loses nothing.
    """
    parts = [label for layer in formats.layers for part, label in layer if part != CACHE]
    changed = _changed_parts(formats, original)
    labels = dict.fromkeys([*changed, formats.head, formats.embedding])
    narrow = [label for label in labels if label != formats.wide]
    caches = dict.fromkeys(label for layer in formats.layers for part, label in layer if part == CACHE)
    claims = {label: _product_claim(label, model) for label in narrow}
    cache_claims = {label: claimed_cache_loss(label) for label in caches if label != formats.wide}
    unknown = [label for label, one in claims.items() if one is None]
    unknown += [f"a {label} cache" for label, one in cache_claims.items() if one is None]
    if unknown:
        return PublishedClaim(None, "unknown", f"no published loss was found of {', '.join(unknown)}")
    known = {label: one for label, one in claims.items() if one is not None}
    texts, sources, total, beside, metric = [], [], 0.0, None, ""
    if known:
        worst = max(known, key=lambda label: known[label].high_pct)
        one = known[worst]
        # Head and embedding stay wide in published checkpoints, too: the range is of the matrices.
        is_everywhere = len(known) == 1 and sum(label != worst for label in parts) == _router_count(formats)
        is_everywhere = is_everywhere and len(changed) == len(parts)
        kept = "" if len(changed) == len(parts) else ", but for parts published so"
        texts.append(
            f"{one.range_text} ({one.method})" if is_everywhere else f"at most {one.high_pct:g} % ({worst}{kept})"
        )
        sources.append(one.source)
        total, metric = one.high_pct, one.metric
        if is_everywhere:
            beside = loss_beside(one.weights, is_both=one.is_both, model=model)
    for label, cache in cache_claims.items():
        if cache is not None:
            texts.append(f"cache {cache.range_text}")
            sources.append(f"{label} cache: {cache.source}")
            total, metric = total + cache.high_pct, metric or cache.metric
    text = f"claimed: {' + '.join(texts)}"
    if beside is not None:
        text += f"; {beside.beside_text}"
        sources.append(beside.source)
    is_of_model = not cache_claims and all(one.models for one in known.values())
    return PublishedClaim(total, text, "; ".join(sources), is_of_model, metric)


def _changed_parts(formats: PlanFormats, original: PlanFormats | None) -> list[str]:
    """Return the formats of the matrices that a plan makes narrow: not of those that were published in that very format."""
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
