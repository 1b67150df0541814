"""What an option loses against the 16-bit original: what was published of its formats, as a `Loss`."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from roofline_model.core.answer import Loss
from roofline_model.core.finding import Finding, Value, finding, short_text
from roofline_model.formats.catalog import is_wide_format
from roofline_model.recommend.claimed_losses import PERPLEXITY, ClaimedLoss, claimed_loss_of

REFERENCE = Loss("reference", 0.0)
UNKNOWN = Loss("unknown")
RANK_AGREEMENT = "rank agreement"
"""Metric of an encoder's loss."""
LOW_TOP1_RATIO = 0.85
"""Agreement of the likeliest token below this is said beside a recommendation; `low-top1-agreement` says why."""


def product_loss(format_key: str, *, is_both: bool) -> Loss:
    """Return what was published of weights in a format (and activations, `is_both`); unknown where no figure was
    found.
    """
    claim = claimed_loss_of(format_key, is_both=is_both)
    return UNKNOWN if claim is None else claimed(claim)


def formats_loss(formats: Iterable[tuple[str, str]], model: str = "") -> Loss:
    """Return what is known of the loss of one operator by the formats of its operands.

    None where all have 16 bits or more. Of a product's weights and activations what was published (`model`: of that
    very model first). Unknown of the rest: narrow operands of an operator without weights, as a narrow cache has them.

    >>> cache = [("q", "BF16"), ("kv", "FP8_E4M3"), ("o", "BF16")]
    >>> [formats_loss(formats).pct for formats in (cache, [("a", "BF16"), ("b", "INT4")], [("x", "BF16")])]
    [None, 6.5, 0.0]
    """
    by_operand = dict(formats)
    weight = by_operand.get("b", by_operand.get("a", ""))
    activation = by_operand.get("a", weight)
    operands = (weight, activation) if weight else tuple(by_operand.values())  # the output of a product adds nothing
    if operands and all(map(is_wide_format, operands)):
        return REFERENCE
    is_both = weight == activation
    if not weight or not (is_both or is_wide_format(activation)):
        return UNKNOWN
    claim = claimed_loss_of(weight, is_both=is_both, model=model)
    return UNKNOWN if claim is None else claimed(claim)


def claimed(claim: ClaimedLoss) -> Loss:
    """Return a published range as a loss: limits and ties go by its upper end."""
    return Loss(
        "claimed",
        claim.high_pct,
        low_pct=claim.low_pct,
        metric=claim.metric,
        is_of_model=bool(claim.models),
        method=claim.method,
        citation=claim.source,
    )


def loss_finding(loss: Loss, subject: str = "") -> Finding:
    """Return what is known of a loss as a finding.

    >>> loss_finding(product_loss("INT4", is_both=False)).code, loss_finding(UNKNOWN).code
    ('loss-claimed', 'loss-unknown')
    """
    if loss.pct is None:
        return finding("loss-unknown", subject)
    if loss.source == "reference":
        return finding("loss-none", subject)
    if loss.source == "measured" and loss.kl_nats_per_token is not None:
        return finding("loss-measured-over-tokens", subject, **_token_figures(loss))
    if loss.metric == RANK_AGREEMENT:
        return finding("loss-of-rank-agreement", subject, loss_pct=loss.pct)
    if loss.source != "claimed":
        return finding(f"loss-{loss.source}", subject, loss_pct=loss.pct)
    values = {"method": loss.method or "claim", "metric": loss.metric or PERPLEXITY}
    if loss.low_pct is None or loss.low_pct in (0, loss.pct):
        return finding("loss-claimed-at-most", subject, loss_pct=loss.pct, **values)
    return finding("loss-claimed", subject, low_pct=loss.low_pct, loss_pct=loss.pct, **values)


def _token_figures(loss: Loss) -> dict[str, Value]:
    figures = {
        "kl": loss.kl_nats_per_token,
        "perplexity_factor": loss.perplexity_ratio if loss.text else None,
        "top1_agreement_ratio": loss.top1_agreement_ratio,
    }
    return {name: value for name, value in figures.items() if value is not None}


def loss_doubt(loss: Loss, subject: str = "") -> Finding | None:
    """Return what a small measured loss hides, most tokens with another likeliest successor; None where it hides
    nothing.
    """
    top1 = loss.top1_agreement_ratio
    if loss.source != "measured" or top1 is None or top1 >= LOW_TOP1_RATIO:
        return None
    return finding("low-top1-agreement", subject, top1_agreement_ratio=top1)


@lru_cache(1_024)  # every answer says it of the same formats
def loss_text(loss: Loss) -> str:
    """Return a loss in a few words, for a table: `claimed: 1.5 % to 6.5 % of perplexity (AWQ)`."""
    return short_text(loss_finding(loss))
