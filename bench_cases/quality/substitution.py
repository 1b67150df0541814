"""Let Linears compute as if quantised for a while: the same model, and its own parameters and products back
afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from bench_cases.quality.activation_codecs import round_trip_rows
from bench_cases.quality.layer_formats import LayerFormats
from bench_cases.quantization.survey import LinearSite, find_non_finite, survey_linears
from roofline_model.core.errors import InvalidValueError
from roofline_model.core.finding import reason_text
from roofline_model.formats.codecs import dequantize, quantize


def quantizable_sites(model: nn.Module) -> tuple[LinearSite, ...]:
    """Return the Linear weights a codec can read, in order.

    Raises `UnsupportedError` (no Linear), `InvalidValueError` (NaN weights, every layer packed already).
    """
    sites = survey_linears(model)
    find_non_finite(sites)
    readable = tuple(site for site in sites if not site.obstacle)
    if not readable:
        first = sites[0]
        raise InvalidValueError(
            f"no weight can be read, {first.name}: {reason_text(first.obstacle)}; give the 16-bit model"
        )
    return readable


def decoded_weight(site: LinearSite, format: str) -> Tensor:
    """Return a weight after a round trip through a format in FP32: what a kernel multiplies that widens nothing on the
    way.
    """
    weight = site.weight.detach()
    return torch.from_numpy(dequantize(quantize(weight.cpu(), format))).to(weight.device)


@contextmanager
def substituted(weights: Mapping[LinearSite, Tensor]) -> Iterator[None]:
    """Let sites compute with other weights (N, K) inside the block; the original parameters return at its end.

    Every Linear of a site gets the same new parameter. A weight that an embedding shares stays the embedding's: only
    the product is quantised, as where a kernel needs a copy of its own.
    """
    originals: list[tuple[nn.Linear, Any]] = []
    try:
        for site, weight in weights.items():
            if tuple(weight.shape) != site.shape:
                raise InvalidValueError(f"{site.name} is {site.shape}, its new weight {tuple(weight.shape)}")
            parameter = nn.Parameter(weight, requires_grad=False)
            for module in site.modules:
                originals.append((module, module.weight))
                module.weight = parameter
        yield
    finally:
        for module, original in reversed(originals):
            module.weight = original


@contextmanager
def narrowed(formats: Mapping[LinearSite, LayerFormats]) -> Iterator[None]:
    """Let sites compute with narrow weights, and where a format says so on narrow inputs, inside the block.

    A weight under wide activations is decoded to its own dtype, as W4A16 kernels do. Where both operands are narrow,
    the decoded operands are multiplied and added in FP32, bias included, and rounded once: what W8A8 and W4A4 kernels
    compute from codes and scales, but for the order of their FP32 sums.
    """
    weights: dict[LinearSite, Tensor] = {}
    products: dict[LinearSite, Callable[[nn.Linear, Tensor], Tensor]] = {}
    for site, chosen in formats.items():
        decoded = decoded_weight(site, chosen.weights)
        weights[site] = decoded.to(site.weight.dtype)
        if chosen.narrow_activations is not None:
            products[site] = partial(_narrow_product, decoded, chosen.narrow_activations)
    with substituted(weights), _computing(products):
        yield


@contextmanager
def _computing(products: Mapping[LinearSite, Callable[[nn.Linear, Tensor], Tensor]]) -> Iterator[None]:
    """Let the Linears of sites compute with other functions of (layer, inputs) inside the block."""
    originals: list[tuple[nn.Linear, Any]] = []
    try:
        for site, product in products.items():
            for module in site.modules:
                originals.append((module, module.__dict__.get("forward")))
                module.forward = partial(product, module)  # type: ignore[method-assign]
        yield
    finally:
        for module, original in reversed(originals):
            del module.forward
            if original is not None:  # somebody else's (a hook of accelerate's, say)
                module.forward = original  # type: ignore[method-assign]


def _narrow_product(weight: Tensor, activations: str, module: nn.Linear, inputs: Tensor) -> Tensor:
    """Return inputs (…, K) · weightᵀ (N, K) + bias: inputs quantised row by row, sums in FP32."""
    rows = round_trip_rows(inputs.reshape(-1, inputs.shape[-1]).float(), activations)
    bias = None if module.bias is None else module.bias.float()
    output = nn.functional.linear(rows, weight, bias)
    return output.to(inputs.dtype).reshape(*inputs.shape[:-1], weight.shape[0])
