"""Sensitivity estimated from gradients: ½ Σ F·ΔW², the diagonal second-order term of the KL, in one backward run.

KL(p_W ‖ p_{W+Δ}) = ½ Δᵀ F Δ + O(Δ³), where F is the Fisher information: the mean of g·gᵀ over next tokens drawn from
the model itself. Only its diagonal is kept. Tokens are drawn, not taken from the text: scores of drawn tokens have mean
zero given their past, so the squared gradient of a window's sum is the sum over its tokens, in the mean. Source: Amari,
Natural Gradient Works Efficiently in Learning (1998); for drawn against given labels Kunstner, Balles and Hennig,
Limitations of the Empirical Fisher Approximation (2019).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from bench_cases.quality.layer_formats import weight_formats, wide_key
from bench_cases.quality.model_outputs import evaluating, logits_of, require_fitting
from bench_cases.quality.sensitivity.methods import SensitivityTable, sensitivity_row
from bench_cases.quality.substitution import as_stored, quantizable_sites, substituted
from bench_cases.quality.texts.token_windows import TextWindows
from bench_cases.quantization.survey import LinearSite
from roofline_model.core.errors import InvalidValueError
from roofline_model.formats.codecs import CodecOptions
from roofline_model.formats.codecs.layout import DEFAULTS


def fisher_sensitivity(
    model: nn.Module,
    windows: TextWindows,
    formats: Sequence[str],
    *,
    layers: tuple[str, ...] | None = None,
    options: CodecOptions = DEFAULTS,
    draws_count: int = 1,
    seed: int = 0,
) -> SensitivityTable:
    """Return ½ Σ F·ΔW² in nats per token for every layer × format, an estimate of `kl_sensitivity`.

    Weights only: a float alone is scored, and called, `FP8_E4M3.BF16`. draws_count: next tokens drawn per window, one
    backward run each; more draws, less noise. `synthetic_windows` need no text, at some loss of rank. Memory: FP32 sums
    of the size of the chosen weights, and their gradients: take `layers` in turns where that is too much. Weights,
    gradients, modes and random state of the model and of torch are left as they were.
    """
    if draws_count < 1:
        raise InvalidValueError(f"draws_count must be at least 1, got {draws_count}")
    sites = quantizable_sites(model, layers)
    tried = weight_formats(formats, wide_key(sites[0].weight.dtype))
    require_fitting(model, windows.ids, "given")
    fisher = _fisher_diagonal(model, sites, windows, draws_count, seed)
    rows = []
    for site in sites:
        for layer_format in tried:
            change = as_stored(site, layer_format.weights, options).float() - site.weight.detach().float()
            score = 0.5 * float((fisher[site].double() * change.double().square()).sum())
            if not math.isfinite(score):
                raise InvalidValueError(
                    f"the gradient of {site.name} is NaN or infinite on this text: give the model in FP32 or another "
                    "text"
                )
            rows.append(sensitivity_row(site, layer_format, score))
    return SensitivityTable(
        tuple(rows),
        "fisher",
        "nats/token",
        windows.scored_count,
    )


def _fisher_diagonal(
    model: nn.Module, sites: Sequence[LinearSite], windows: TextWindows, draws_count: int, seed: int
) -> dict[LinearSite, Tensor]:
    """Return the diagonal of the Fisher information per token of every site's weight, FP32 (N, K)."""
    generator = torch.Generator().manual_seed(seed)
    sums = {site: torch.zeros(site.shape, dtype=torch.float32, device=site.weight.device) for site in sites}
    with evaluating(model), _leaves(model, sites) as leaves, torch.enable_grad():
        for ids in windows.ids.split(1):
            logits = logits_of(model, ids, "given")[:, :-1].float()
            loss_of = logits.log_softmax(-1)
            for draw in range(draws_count):
                drawn = _drawn(loss_of.detach(), generator)
                loss = -loss_of.gather(-1, drawn).sum()
                gradients = torch.autograd.grad(
                    loss, list(leaves.values()), retain_graph=draw + 1 < draws_count, allow_unused=True
                )
                for site, gradient in zip(leaves, gradients, strict=True):
                    if gradient is not None:  # a layer that this text never reaches (an expert) has no say
                        sums[site] += gradient.float().square()
    return {site: total / (windows.scored_count * draws_count) for site, total in sums.items()}


def _drawn(log_probabilities: Tensor, generator: torch.Generator) -> Tensor:
    """Draw one token per position, (rows, tokens, 1), on the CPU: the same on every device."""
    flat = log_probabilities.exp().flatten(0, 1).cpu()
    drawn = torch.multinomial(flat, 1, generator=generator)
    return drawn.view(*log_probabilities.shape[:2], 1).to(log_probabilities.device)


@contextmanager
def _leaves(model: nn.Module, sites: Sequence[LinearSite]) -> Iterator[dict[LinearSite, Tensor]]:
    """Give every site a parameter of its own over the same memory, the only ones with a gradient, for the block.

    A head that shares the embedding's weight is then differentiated as a head alone; nobody's `grad` is written.
    """
    gradient_flags = [(parameter, parameter.requires_grad) for parameter in model.parameters()]
    try:
        for parameter, _ in gradient_flags:
            parameter.requires_grad_(False)
        with substituted({site: site.weight.detach() for site in sites}):
            yield {site: site.modules[0].weight.requires_grad_() for site in sites}
    finally:
        for parameter, required in gradient_flags:
            parameter.requires_grad_(required)
