"""What is known of a configuration's loss: measured in a stored run, added up from a losses file, else claimed, else unknown."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from reports.stored.answer import RowQuality
from reports.text.display_text import shown
from results.records.model_figures import Interval, ModelFigures, model_figures
from results.records.records import Record, RunInfo
from results.text.model_text import measured_loss_text
from results.verdicts.model_results import PassResult, pass_label
from roofline_model.core.errors import RooflineError
from roofline_model.core.units import format_percent
from roofline_model.formats.catalog import get_format
from roofline_model.recommend.claimed_losses import claimed_loss_of
from roofline_model.recommend.search.losses import parse_formats
from roofline_model.recommend.search.losses_file import METHODS, MeasuredLosses, loss_pct

_KEPT_WIDE = ("lm_head", "embedding", "embed_out", "embed_tokens")
"""Parts that a uniform precision leaves in 16 bit: their losses do not count."""


def product_quality(weight_format: str, activation_format: str) -> RowQuality:
    """Return what is known of a product's operands: a format's claim, because a single product has no loss of its own."""
    narrow = [one for one in (weight_format, activation_format) if one and not is_wide(one)]
    if not narrow:
        known = bool(weight_format or activation_format)
        return RowQuality("reference", "reference", 0.0) if known else RowQuality("unknown", "unknown")
    return _claim(weight_format, activation_format)


class MeasuredQualities:
    """The measured qualities of stored records by model and precision: quality is the model's, not a phase's or a chip's."""

    def __init__(self, records: Iterable[Record], runs: Mapping[str, RunInfo]) -> None:
        found: dict[tuple[str, str], list[tuple[str, Record, ModelFigures]]] = {}
        for record in records:
            figures = model_figures(record)
            if figures is not None and figures.quality_source == "measured":
                key = (figures.model_name, pass_label(record.case, figures))
                found.setdefault(key, []).append((runs[record.run_id].started_at, record, figures))
        self._found = {key: sorted(them, key=lambda one: (one[0], one[1].record_id)) for key, them in found.items()}

    def of(self, one: PassResult) -> tuple[Record, ModelFigures] | None:
        """Return the newest measurement of a pass's own case, else of its model in that precision; None without one."""
        known = self._found.get((one.figures.model_name, one.label), [])
        own = [found for found in known if found[1].case.case_key == one.records[0].case.case_key]
        return (own or known)[-1][1:] if known else None


def pass_quality(one: PassResult, known: MeasuredQualities, losses: Sequence[MeasuredLosses]) -> RowQuality:
    """Return what is known of a model's precision: measured in a stored run, else the sum of a losses file of that model,
    else the claim of its weight format."""
    measured = known.of(one)
    if measured is not None and (measured_pct := measured[1].loss_pct) is not None:
        figures = measured[1]
        return RowQuality(
            "measured",
            shown(_measured_text(figures)),
            measured_pct,
            _value(figures.kl_nats_per_token),
            _value(figures.perplexity_ratio),
            _value(figures.top1_agreement_ratio),
            measured[0].run_id,
        )
    formats = dict(one.records[0].case.formats)
    weight, activation = formats.get("b", ""), formats.get("a", "")
    is_plan = one.figures.precision == "plan"
    narrow_cache = bool(one.figures.kv_format) and not is_wide(one.figures.kv_format)
    if one.figures.quality_source == "reference" or (is_wide(weight) and not narrow_cache and not is_plan):
        return RowQuality("reference", "reference", 0.0)
    if is_plan or narrow_cache:
        return RowQuality("unknown", "unknown: neither measured nor claimed")
    for file in losses:
        if file.is_of(one.figures.model_name) and (added := _added_up(file, weight, activation)) is not None:
            return added
    return _claim(weight, activation, one.figures.model_name)


def is_wide(format_key: str) -> bool:
    """Return whether a format has 16 bits or more; False for one that this process has not loaded."""
    try:
        return get_format(format_key).element_bits >= 16
    except RooflineError:  # a user's format
        return False


def _claim(weight: str, activation: str, model: str = "") -> RowQuality:
    """Return what was published of the formats (`claimed_losses.py`); unknown where nothing was found."""
    loss = None
    if weight and (weight == activation or not activation or is_wide(activation)):
        loss = claimed_loss_of(weight, is_both=weight == activation, model=model)
    if loss is None:
        return RowQuality("unknown", "unknown: neither measured nor claimed")
    return RowQuality("claimed", loss.text, loss.high_pct, claim=loss)


def _measured_text(figures: ModelFigures) -> str:
    return ", ".join([measured_loss_text(figures), *_further_metrics(figures)])


def _further_metrics(figures: ModelFigures) -> list[str]:
    """Return what else was measured of a language model's predictions, each by its name."""
    perplexity, top1 = figures.perplexity_ratio, figures.top1_agreement_ratio
    words = []
    if perplexity is not None and not figures.is_language:
        words.append(f"perplexity {perplexity.value:.3f}× (of random tokens: it says nothing about language)")
    if top1 is not None:
        words.append(f"same top-1 {format_percent(top1.value, 0)}")
    return words


def _added_up(file: MeasuredLosses, weight: str, activation: str) -> RowQuality | None:
    """Return the sum of a file's losses in one format over all layers; None where a layer has none, or scores are no nats."""
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
            pair.activations == activation or (is_wide(pair.activations) and is_wide(activation))
        ):
            layers[name] = value
    values = [layer for layer in layers.values() if layer is not None]
    if not values or len(values) < len(layers):
        return None
    total = math.fsum(values)
    text = f"KL {total:.2g} nats/token, {METHODS[file.method]}, added up over {len(values)} of them"
    source = "measured" if file.method == "kl" else "claimed"
    return RowQuality(source, text if source == "measured" else f"estimated: {text}", loss_pct(total), total)  # type: ignore[arg-type]


def _value(interval: Interval | None) -> float | None:
    return None if interval is None else interval.value
