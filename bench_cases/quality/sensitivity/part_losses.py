"""Losses for the search, measured: the parts of a decoder that share a format, each narrow alone, and each layer's
cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from torch import nn

from bench_cases.quality.layer_formats import narrow_layer_formats, wide_key
from bench_cases.quality.sensitivity.kl import kl_estimate, kl_sums, narrow_sites
from bench_cases.quality.substitution import quantizable_sites
from bench_cases.quality.texts.token_windows import TextWindows
from bench_cases.quality.variants import Variant, score_variants
from bench_cases.quality.whole_plan import WholePlan, layers_of, whole_variant
from bench_cases.quantization.survey import LinearSite
from roofline_model.core.errors import UnsupportedError
from roofline_model.formats.catalog import get_format
from roofline_model.models.strategies.module_names import layer_group, operators_of_module
from roofline_model.models.strategies.operator_type import OperatorType
from roofline_model.recommend.search.losses import LossTable


def measured_losses(
    model: nn.Module,
    windows: TextWindows,
    formats: Sequence[str],
    *,
    kv_formats: Sequence[str] = (),
    wide: str | None = None,
) -> LossTable:
    """Return KL(original ‖ one group narrow) in nats per token for every group × format of a decoder, and of its
    caches.

    formats: as `kl_sensitivity` takes them. kv_formats: of one layer's cache at a time. wide: the 16-bit format that
    the search calls the model's own, None that of its dtype; a weight alone becomes `INT4.<wide>` in the table. Time:
    one forward run of the windows per group and format. The model is left as it was. Raises `UnsupportedError` for a
    model whose Linears are no dense decoder's; otherwise errors as of `kl_sensitivity`.
    """
    tried = narrow_layer_formats(formats)
    groups = grouped_sites(model)
    wide = get_format(wide or wide_key(next(iter(groups.values()))[0].weight.dtype)).key
    variants: dict[tuple[str, str], Variant] = {
        (name, layer_format.part_label(wide)): partial(narrow_sites, sites, layer_format)
        for name, sites in groups.items()
        for layer_format in tried
    }
    layer_count = layers_of(model)
    for layer in range(layer_count):
        for key in dict.fromkeys(get_format(text).key for text in kv_formats):
            caches = tuple(key if index == layer else wide for index in range(layer_count))
            variants[f"layers.{layer}.kv", key] = whole_variant(model, WholePlan("kv", {}, caches=caches))
    scores = score_variants(model, windows, variants)
    return LossTable(
        {key: kl_estimate(kl_sums(window_scores), windows).value for key, window_scores in scores.items()},
        source=f"KL of the logits in nats/token, one group at a time, {windows.scored_count:,} predictions",
        confidence="high",
    )


def grouped_sites(model: nn.Module) -> dict[str, tuple[LinearSite, ...]]:
    """Return group of the search (`layers.3.qkv_proj`, `lm_head`) → its weights, in the model's order.

    Raises `UnsupportedError` for a model with experts, or without a Linear that is a decoder's.
    """
    sites = quantizable_sites(model)
    has_gate = any(OperatorType.FFN_GATE in operators_of_module(site.name)[0] for site in sites)
    sites_by_part: dict[str, list[LinearSite]] = {}
    for site in sites:
        if ".experts." in site.name or "shared_expert" in site.name:
            raise UnsupportedError(
                f"{site.name}: losses of experts are measured with `kl_sensitivity`, module by module"
            )
        group = layer_group(site.name)
        if group is None:
            continue
        # A feed-forward block without a gate has its up projection alone.
        name = group if has_gate else group.replace(".gate_up_proj", ".up_proj")
        sites_by_part.setdefault(name, []).append(site)
    if not sites_by_part:
        raise UnsupportedError(
            f"no Linear of {type(model).__name__} is a decoder's: the search has nothing to choose for"
        )
    return {name: tuple(sites) for name, sites in sites_by_part.items()}
