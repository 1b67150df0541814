"""Sensitivity guessed without data: the relative error of a weight × an assumed weight of its role. Low confidence.

Use it where not even a backward run is possible. The error of a tensor orders formats well; how much a layer matters is
assumed, not known: on the trained tiny decoder the depth carries the ranking and the roles harm it
(docs/theory/quality.md). `fisher_sensitivity` on `synthetic_windows` needs no text either and ranks far better.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import nn

from bench_cases.quality.layer_formats import weight_formats, wide_key
from bench_cases.quality.sensitivity.methods import SensitivityTable, sensitivity_row
from bench_cases.quality.substitution import quantizable_sites
from bench_cases.quantization.survey import LinearSite
from roofline_model.core.errors import InvalidValueError
from roofline_model.formats.codecs import CodecOptions, format_error
from roofline_model.formats.codecs.layout import DEFAULTS

ROLE_PRIORS = {
    "lm_head": 4.0, "v_proj": 2.0, "down_proj": 2.0, "o_proj": 2.0, "router": 4.0, "gate": 4.0,
    "q_proj": 0.5, "k_proj": 0.5,
}  # fmt: skip
"""Assumed, not fitted: what common 4-bit mixes keep wider counts more. Roles not listed count 1. llama.cpp's K-quant
mixes keep the head, attention values and FFN down-projections wider; queries and keys act only through a softmax."""


def prior_sensitivity(
    model: nn.Module,
    formats: Sequence[str],
    *,
    layers: tuple[str, ...] | None = None,
    options: CodecOptions = DEFAULTS,
    priors: Mapping[str, float] = ROLE_PRIORS,
) -> SensitivityTable:
    """Return (‖W − Ŵ‖ / ‖W‖)² × role prior for every layer × format; reads weights only: a float alone is scored, and
    called, `FP8_E4M3.BF16`.

    priors: last part of a layer's name (`v_proj`) → weight; others count 1. Raises `InvalidValueError` for a prior that
    is not positive.
    """
    for role, prior in priors.items():
        if not prior > 0:
            raise InvalidValueError(f"the prior of {role} must be positive, got {prior}")
    rows = []
    sites = quantizable_sites(model, layers)
    tried = weight_formats(formats, wide_key(sites[0].weight.dtype))
    for site in sites:
        prior = _prior(site, priors) * depth_prior(site.name)
        for layer_format in tried:
            error = format_error(site.weight.detach().cpu(), layer_format.weights, options=options).relative_error
            # A weight of zeros is stored exactly by every format.
            rows.append(sensitivity_row(site, layer_format, (error or 0.0) ** 2 * prior))
    return SensitivityTable(
        tuple(rows),
        "data-free",
        "relative",
        0,
    )


def _prior(site: LinearSite, priors: Mapping[str, float]) -> float:
    return max((priors.get(name.rpartition(".")[2], 1.0) for name in site.names), default=1.0)


def depth_prior(name: str) -> float:
    """Return 1 / (1 + block), the block being the first number in a layer's name; 1 for a layer outside blocks.

    Assumed: in a pre-norm decoder every block adds a like amount to a stream that grows, so an early block is a larger
    share of what all later ones read.
    """
    block = next((int(part) for part in name.split(".") if part.isdecimal()), 0)
    return 1 / (1 + block)
