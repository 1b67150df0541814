"""Losses for the search, measured: the parts of a decoder that share a format, each narrow alone, and each layer's
cache.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from torch import nn

from bench_cases.quality.layer_formats import LayerFormats, narrow_layer_formats, wide_key
from bench_cases.quality.mixed_cache import make_mixed_cache
from bench_cases.quality.model_outputs import CacheMaker, concatenated
from bench_cases.quality.substitution import narrowed, quantizable_sites
from bench_cases.quality.texts.token_scores import WindowScores
from bench_cases.quality.texts.token_windows import TextWindows
from bench_cases.quality.variants import Variant, score_variants
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

    formats: operands exactly as the codecs store them, `INT4` is the weight alone, `INT8.INT8` and `FP8_E4M3` are
    both. kv_formats: of one layer's cache at a time. wide: the 16-bit format that the search calls the model's own,
    None that of its dtype; a weight alone becomes `INT4.<wide>` in the table. Time: one forward run of the windows per
    group and format. The model is left as it was. Raises `UnsupportedError` for a model whose Linears are no dense
    decoder's; otherwise errors as of `quantizable_sites` and `compare_models`.
    """
    tried = narrow_layer_formats(formats)
    groups = grouped_sites(model)
    wide = get_format(wide or wide_key(next(iter(groups.values()))[0].weight.dtype)).key
    variants: dict[tuple[str, str], Variant] = {
        (name, layer_format.part_label(wide)): partial(_narrow_sites, sites, layer_format)
        for name, sites in groups.items()
        for layer_format in tried
    }
    layer_count = _layer_count(model)
    for layer in range(layer_count):
        for key in dict.fromkeys(get_format(text).key for text in kv_formats):
            caches = tuple(key if index == layer else wide for index in range(layer_count))
            variants[f"layers.{layer}.kv", key] = partial(_narrow_cache, model, caches)
    scores = score_variants(model, windows, variants)
    return LossTable(
        {key: _kl(window_scores, windows) for key, window_scores in scores.items()},
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
            raise UnsupportedError(f"{site.name}: losses of experts are not measured; give a dense decoder")
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


@contextmanager
def _narrow_sites(sites: Sequence[LinearSite], formats: LayerFormats) -> Iterator[None]:
    """Let some weights' layers compute in one narrow format: a `Variant`."""
    with narrowed(dict.fromkeys(sites, formats)):
        yield None


@contextmanager
def _narrow_cache(model: nn.Module, formats: Sequence[str]) -> Iterator[CacheMaker]:
    """Let every layer's cache have a format of its own: a `Variant`."""
    yield partial(make_mixed_cache, model, formats)


def _layer_count(model: nn.Module) -> int:
    """Return the decoder layers of a model. Raises `UnsupportedError` where its config names none."""
    config: Any = getattr(model, "config", None)
    decoder = config.get_text_config(decoder=True) if hasattr(config, "get_text_config") else config
    count = getattr(decoder, "num_hidden_layers", None)
    if not isinstance(count, int):
        raise UnsupportedError(f"{type(model).__name__} has no config with num_hidden_layers: it is no decoder model")
    return count


def _kl(scores: Sequence[WindowScores], windows: TextWindows) -> float:
    """Return the mean KL per predicted token, nats."""
    return sum(concatenated([part.kl_nats for part in scores])) / windows.scored_count
