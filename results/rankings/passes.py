"""The precisions of one phase of a model with held memory and loss, as the stored runs know them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from results.cases.case_result import stored_reason
from results.cases.losses import StoredLosses, pass_loss
from results.cases.model_results import PassResult, PhaseResult, slow_issue
from roofline_model.core.answer import Exclusion, Memory, Option
from roofline_model.core.finding import Finding, finding
from roofline_model.recommend.search.losses_file import MeasuredLosses


def pass_options(
    phase: PhaseResult, stored_losses: StoredLosses, losses: Sequence[MeasuredLosses]
) -> tuple[list[Option], list[Exclusion]]:
    """Return the precisions of a phase that have a time, unordered, and the others with the reason."""
    options, excluded = [], []
    for each in phase.passes:
        label, figures, option = each.label, each.figures, each.option
        if option is None:
            reason = stored_reason(each.case.lead)
            excluded.append(
                Exclusion(label, (finding("not-timed", each.label, status=each.case.status, reason=reason),))
            )
            continue
        memory = None
        if figures.whole_bytes is not None:
            saved_ratio = None if figures.held_ratio is None else 1 - figures.held_ratio
            is_measured = figures.resident_bytes is not None
            memory = Memory(figures.whole_bytes, saved_ratio=saved_ratio, is_measured=is_measured)
        made = replace(
            option,
            method=figures.method or "none",
            path="emulated" if figures.is_emulated else option.path,
            memory=memory,
            loss=pass_loss(each, stored_losses, losses),
            label=label,
            precision=label,
            tokens_per_s=figures.tokens_per_call / option.estimate.time_s,
            findings=tuple(_findings(each, option)),
        )
        options.append(made)
    return options, excluded


def _findings(model_pass: PassResult, option: Option) -> Iterator[Finding]:
    if option.is_measured:
        item = slow_issue([model_pass])
        if item is not None:
            yield item
    elif model_pass.figures.is_emulated:
        yield finding("emulated", option.key)
