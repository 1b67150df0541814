"""Sensitivity measured: quantise one layer alone, and see how far the logits move on a text."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from bench_cases.quality.estimates import ratio_estimate
from bench_cases.quality.model_outputs import (
    concatenated,
    evaluating,
    logits_of,
    require_fitting,
    window_batches,
)
from bench_cases.quality.sensitivity import LayerSensitivity, SensitivityTable, narrow_formats, sensitivity_row
from bench_cases.quality.substitution import as_stored, quantizable_sites, substituted
from bench_cases.quality.token_scores import kl_per_window
from bench_cases.quality.token_windows import TextWindows
from bench_cases.quantization.survey import LinearSite
from roofline_model.codecs import CodecOptions
from roofline_model.codecs.options import DEFAULTS

REFERENCE_LIMIT_BYTES = 512 << 20
"""Logits of the original that are kept at a time; a longer text goes through in parts."""


def kl_sensitivity(
    model: nn.Module,
    windows: TextWindows,
    formats: Sequence[str],
    *,
    layers: tuple[str, ...] | None = None,
    options: CodecOptions = DEFAULTS,
) -> SensitivityTable:
    """Return KL(original ‖ one layer quantised) in nats per token for every layer × format; the model is left as it was.

    Weights only, exactly as the codecs store them. layers: names of some Linears; None takes all. Time: one forward run of
    the windows per layer and format. Errors as of `quantizable_sites` and `compare_models`.
    """
    keys = narrow_formats(formats)
    sites = quantizable_sites(model, layers)
    require_fitting(model, windows.ids, "given")
    sums: dict[tuple[str, str], list[Tensor]] = {(site.name, key): [] for site in sites for key in keys}
    with evaluating(model), torch.no_grad():
        for part in _parts(model, windows):
            references = [(ids, logits_of(model, ids, "original")) for ids in window_batches(part)]
            for site in sites:
                for key in keys:
                    with substituted({site: as_stored(site, key, options)}):
                        sums[site.name, key] += [
                            kl_per_window(logits, logits_of(model, ids, f"{site.name}={key}"), ids)
                            for ids, logits in references
                        ]
    rows = tuple(_row(site, key, sums[site.name, key], windows) for site in sites for key in keys)
    return SensitivityTable(
        rows,
        "kl",
        "nats/token",
        windows.scored_count,
        "one layer at a time: losses of several layers may add up or not",
    )


def _row(site: LinearSite, key: str, sums: list[Tensor], windows: TextWindows) -> LayerSensitivity:
    tokens = [float(windows.window_elems - 1)] * windows.windows_count
    estimate = ratio_estimate(
        concatenated(sums), tokens, windows.clusters, unit="nats/token", tokens_count=windows.scored_count
    )
    return sensitivity_row(site, key, estimate.value, estimate)


def _parts(model: nn.Module, windows: TextWindows) -> list[TextWindows]:
    """Cut the windows so that the logits of each part stay below `REFERENCE_LIMIT_BYTES`."""
    with torch.no_grad():
        row = logits_of(model, windows.ids[:1], "original")
    count = max(1, REFERENCE_LIMIT_BYTES // (row.numel() * row.element_size()))
    return [
        TextWindows(windows.ids[start : start + count], windows.documents[start : start + count], 0)
        for start in range(0, windows.windows_count, count)
    ]
