"""Sensitivity measured: quantise one layer alone, and see how far the logits move on a text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from torch import nn

from bench_cases.quality.layer_formats import LayerFormats, narrow_layer_formats
from bench_cases.quality.model_outputs import concatenated
from bench_cases.quality.sensitivity.methods import SensitivityTable, sensitivity_row
from bench_cases.quality.substitution import narrowed, quantizable_sites
from bench_cases.quality.texts.estimates import Estimate, ratio_estimate
from bench_cases.quality.texts.token_scores import WindowScores
from bench_cases.quality.texts.token_windows import TextWindows
from bench_cases.quality.variants import score_variants
from bench_cases.quantization.survey import LinearSite
from roofline_model.formats.codecs import CodecOptions
from roofline_model.formats.codecs.layout import DEFAULTS


def kl_sensitivity(
    model: nn.Module,
    windows: TextWindows,
    formats: Sequence[str],
    *,
    layers: tuple[str, ...] | None = None,
    options: CodecOptions = DEFAULTS,
) -> SensitivityTable:
    """Return KL(original ‖ one layer quantised) in nats per token for every layer × format; the model is left as it
    was.

    Operands exactly as the codecs store them: `INT4` is the weight alone, `INT8.INT8` and `FP8_E4M3` are both. layers:
    names of some Linears; None takes all. options: of the weights. Time: one forward run of the windows per layer and
    format. Errors as of `quantizable_sites` and `compare_models`.
    """
    tried = narrow_layer_formats(formats)
    sites = quantizable_sites(model, layers)
    variants = {
        (site.name, layer_format.name): partial(narrow_sites, (site,), layer_format, options)
        for site in sites
        for layer_format in tried
    }
    scores = score_variants(model, windows, variants)
    rows = []
    for site in sites:
        for layer_format in tried:
            estimate = kl_estimate(kl_sums(scores[site.name, layer_format.name]), windows)
            rows.append(sensitivity_row(site, layer_format, estimate.value, estimate))
    return SensitivityTable(
        tuple(rows),
        "kl",
        "nats/token",
        windows.scored_count,
    )


@contextmanager
def narrow_sites(
    sites: Sequence[LinearSite], formats: LayerFormats, options: CodecOptions = DEFAULTS
) -> Iterator[None]:
    """Let some weights' layers compute in one narrow format: a `Variant`."""
    with narrowed(dict.fromkeys(sites, formats), options):
        yield None


def kl_estimate(sums: Sequence[float], windows: TextWindows) -> Estimate:
    """Return the mean per predicted token, with its interval, of KLs that are summed over each window."""
    tokens = [float(windows.window_elems - 1)] * windows.windows_count
    return ratio_estimate(sums, tokens, windows.clusters, unit="nats/token", tokens_count=windows.scored_count)


def kl_sums(scores: Sequence[WindowScores]) -> list[float]:
    """Return the KL of every window, summed over its tokens."""
    return concatenated([part.kl_nats for part in scores])
