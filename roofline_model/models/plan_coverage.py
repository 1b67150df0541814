"""What a plan's narrow format covers: every matrix, or those of the layers beside a wide head and embedding."""

from __future__ import annotations

from collections.abc import Sequence

from roofline_model.core.finding import Finding, finding
from roofline_model.formats.catalog import get_format
from roofline_model.models.format_plan import FormatPlan
from roofline_model.models.model_shapes import ModelShape

HEAD_PARTS = ("lm_head", "embedding")
_WIDE_BITS = 16


def wide_head_exceptions(plan: FormatPlan, shape: ModelShape) -> tuple[str, ...]:
    """Return the exceptions that keep head and embedding (and a router) in the plan's 16 bit, as recommendations do.

    Spelled as for `plan_from_text` and `--set`: `lm_head=BF16`. Empty where the plan is that wide itself.
    """
    if get_format(plan.base.weights).element_bits >= _WIDE_BITS:
        return ()
    parts = (*HEAD_PARTS, *(("router",) if shape.experts is not None else ()))
    return tuple(f"{part}={plan.wide}" for part in parts)


def plan_coverage(plan: FormatPlan) -> Finding | None:
    """Return which matrices have a narrow plan's format and what head and embedding are in; None for a wide plan."""
    if get_format(plan.base.weights).element_bits >= _WIDE_BITS:
        return None
    head, embedding = (plan.of(part).label for part in HEAD_PARTS)
    if head == embedding == plan.base.label:
        return finding("narrow-everywhere", formats=plan.base.label)
    return finding("narrow-layers", formats=plan.base.label, head=head, embedding=embedding)


def narrow_heads(plans: Sequence[FormatPlan]) -> tuple[FormatPlan, ...]:
    """Return the plans whose head is narrow: recommendations keep it in 16 bit, so that their times and bytes are others."""
    return tuple(one for one in plans if get_format(one.of("lm_head").weights).element_bits < _WIDE_BITS)
