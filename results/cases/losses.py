"""What is known of a configuration's loss: measured in a stored run, added up from a losses file, else claimed, else
unknown.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from results.cases.model_results import PassResult, pass_label
from results.records.model_figures import Interval, ModelFigures, model_figures
from results.records.records import Record, RunInfo
from roofline_model.core.answer import Loss, LossSource
from roofline_model.core.grouping import grouped
from roofline_model.formats.catalog import is_wide_format
from roofline_model.recommend.loss import PERPLEXITY, RANK_AGREEMENT, REFERENCE, UNKNOWN, formats_loss
from roofline_model.recommend.search.losses import parse_formats
from roofline_model.recommend.search.losses_file import NATS, MeasuredLosses, loss_pct

_KEPT_WIDE = ("lm_head", "embedding", "embed_out", "embed_tokens")
"""Parts that a uniform precision leaves in 16 bit: their losses do not count."""


class StoredLosses:
    """The losses that stored records measured, by model and precision: a loss is the model's, not a phase's or a
    chip's.
    """

    def __init__(self, records: Iterable[Record], runs: Mapping[str, RunInfo]) -> None:
        measured = [
            (record, figures)
            for record in records
            if (figures := model_figures(record)) is not None and figures.quality_source == "measured"
        ]
        measured.sort(key=lambda entry: (runs[entry[0].run_id].started_at, entry[0].record_id))
        self._measured = grouped(measured, lambda entry: (entry[1].model_name, pass_label(entry[0].case, entry[1])))

    def of(self, model_pass: PassResult) -> tuple[Record, ModelFigures] | None:
        """Return the newest measurement of a pass's own case, else of its model in that precision; None without one."""
        of_model = self._measured.get((model_pass.figures.model_name, model_pass.label), [])
        of_case = [entry for entry in of_model if entry[0].case.case_key == model_pass.records[0].case.case_key]
        return (of_case or of_model)[-1] if of_model else None


def pass_loss(model_pass: PassResult, stored: StoredLosses, losses: Sequence[MeasuredLosses]) -> Loss:
    """Return what is known of a model's precision: measured in a stored run, else the sum of a losses file of that
    model, else the claim of its weight format.
    """
    measured = stored.of(model_pass)
    if measured is not None and (loss := figures_loss(measured[1], measured[0].run_id)) is not None:
        return loss
    formats = dict(model_pass.records[0].case.formats)
    weight, activation = formats.get("b", ""), formats.get("a", "")
    is_plan = model_pass.figures.precision == "plan"
    narrow_cache = bool(model_pass.figures.kv_format) and not is_wide_format(model_pass.figures.kv_format)
    if model_pass.figures.quality_source == "reference" or (
        is_wide_format(weight) and not narrow_cache and not is_plan
    ):
        return REFERENCE
    if is_plan or narrow_cache or model_pass.figures.is_untrained:
        return UNKNOWN  # what was published is of trained weights
    for file in losses:
        if file.is_of(model_pass.figures.model_name) and (added := _added_up(file, weight, activation)) is not None:
            return added
    return formats_loss(model_pass.records[0].case.formats, model_pass.figures.model_name)


def figures_loss(figures: ModelFigures, run_id: str = "") -> Loss | None:
    """Return the loss that a run measured on a model; None where it measured none."""
    if figures.quality_source != "measured" or (loss := figures.loss) is None:
        return None
    return Loss(
        "measured",
        loss.value,
        low_pct=loss.low_value,
        high_pct=loss.high_value,
        metric=PERPLEXITY if figures.rank_agreement_ratio is None else RANK_AGREEMENT,
        kl_nats_per_token=_value(figures.kl_nats_per_token),
        perplexity_ratio=_value(figures.perplexity_ratio),
        top1_agreement_ratio=_value(figures.top1_agreement_ratio),
        tokens_count=figures.quality_tokens_count,
        text=figures.quality_text if figures.is_language else "",
        run_id=run_id,
    )


def _added_up(file: MeasuredLosses, weight: str, activation: str) -> Loss | None:
    """Return the sum of a file's losses in one format over all layers; None where a layer has none, or scores are no
    nats.
    """
    if not file.is_in_nats:
        return None
    layers: dict[str, float | None] = {}
    for (name, label), value in file.values.items():
        last = name.rpartition(".")[2]
        if last == "kv" or last in _KEPT_WIDE:
            continue
        layers.setdefault(name, None)
        pair = parse_formats(label)
        if pair.weights == weight and (
            pair.activations == activation or (is_wide_format(pair.activations) and is_wide_format(activation))
        ):
            layers[name] = value
    values = [layer for layer in layers.values() if layer is not None]
    if not values or len(values) < len(layers):
        return None
    total = math.fsum(values)
    source: LossSource = "measured" if file.method == "kl" else "estimated"
    kl = total if file.method == "kl" else None
    return Loss(
        source, loss_pct(total), metric=PERPLEXITY, value=total, unit=NATS, method=file.method, kl_nats_per_token=kl
    )


def _value(interval: Interval | None) -> float | None:
    return None if interval is None else interval.value
