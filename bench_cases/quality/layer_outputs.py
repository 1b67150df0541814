"""Output error of each layer: the original's inputs, captured with hooks, through the layer and its narrow version.

Errors do not travel from layer to layer here: every layer gets what the original model gave it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from bench_cases.quality.activation_codecs import round_trip_rows
from bench_cases.quality.layer_formats import LayerFormats
from bench_cases.quality.model_outputs import device_of, evaluating, hooked, require_fitting, window_batches
from bench_cases.quality.substitution import as_stored, decoded_weight, quantizable_sites, simulated_formats
from bench_cases.quality.texts.estimates import Clusters, Estimate, ratio_estimate
from bench_cases.quality.texts.token_windows import TextWindows
from bench_cases.quantization.plans.layer_roles import layer_role
from bench_cases.quantization.survey import LinearSite, survey_linears
from roofline_model.core.errors import InvalidValueError
from roofline_model.formats.codecs import CodecOptions
from roofline_model.formats.codecs.layout import DEFAULTS

SYNTHETIC = "synthetic"
Narrow = Callable[[Tensor], Tensor]
"""A layer's narrow version: inputs (…, K) → outputs (…, N)."""


@dataclass(frozen=True, slots=True)
class LayerQuality:
    """The error of one layer's output."""

    name: str
    role: str | None
    became: str
    """Format, `INT8.INT8` for both operands, or the class that holds the weight."""
    activations: str
    """text: captured from the model; synthetic: drawn from a standard normal distribution."""
    relative_error: Estimate
    """‖y − ŷ‖ / ‖y‖ over all outputs: a share, smaller is better."""
    max_error: float
    """Largest |y − ŷ|, in the unit of y."""

    @property
    def sqnr_db(self) -> float:
        """Signal to noise of the output; infinite where nothing was lost."""
        error = self.relative_error.value
        return float(-20 * np.log10(error)) if error else float("inf")


def layer_quality(
    model: nn.Module,
    windows: TextWindows | None,
    plan: Mapping[str, str] | str,
    *,
    options: CodecOptions = DEFAULTS,
    rows_count: int = 256,
    seed: int = 0,
) -> tuple[LayerQuality, ...]:
    """Measure each layer a plan narrows, its operands exactly as the formats store them; the model is left as it was.

    windows: a text's; None draws `rows_count` synthetic inputs per layer instead. plan: as of `simulated`.
    Memory: two FP32 copies of the weights that the plan narrows. Layers that the text never reaches are left out.
    """
    sites = quantizable_sites(model)
    formats = simulated_formats(sites, plan)
    chosen = [site for site in sites if site.name in formats]
    if not chosen:
        raise InvalidValueError("the plan leaves every layer in 16 bit or more: there is no error to measure")
    narrow = {site: _narrow_linear(site, formats[site.name], options) for site in chosen}
    wide = {site: _linear(site.weight.detach(), site.modules[0].bias) for site in chosen}
    became = {name: layer_format.name for name, layer_format in formats.items()}
    return _measured(model, chosen, wide, narrow, became, windows, rows_count, seed)


def compare_layers(
    reference: nn.Module,
    quantized: nn.Module,
    windows: TextWindows | None,
    *,
    rows_count: int = 256,
    seed: int = 0,
) -> tuple[LayerQuality, ...]:
    """Measure the Linears of a quantised copy (by torchao, say) against the original's, kernel and all.

    Layers whose weights are equal in both are left out, and so are those the text never reaches. Raises
    `InvalidValueError` when no layer changed, and when the copy lacks one of the original's layers.
    """
    modules = dict(quantized.named_modules())
    chosen, narrow, became = [], {}, {}
    for site in survey_linears(reference):
        other: Any = modules.get(site.name)
        if not isinstance(getattr(other, "weight", None), Tensor):
            raise InvalidValueError(f"the quantised model has no layer {site.name}: compare a model with its own copy")
        if tuple(other.weight.shape) != site.shape:
            raise InvalidValueError(
                f"{site.name} is {site.shape} in the original and {tuple(other.weight.shape)} in the quantised model: "
                "compare a model with its own copy"
            )
        if _is_unchanged(site, other):
            continue
        chosen.append(site)
        narrow[site], became[site.name] = other, type(other.weight.data).__name__
    if not chosen:
        raise InvalidValueError(
            "no layer of the quantised model differs from the original: there is no error to measure"
        )
    wide: dict[LinearSite, Narrow] = {site: site.modules[0] for site in chosen}
    with evaluating(quantized):
        return _measured(reference, chosen, wide, narrow, became, windows, rows_count, seed)


def _is_unchanged(site: LinearSite, other: Any) -> bool:
    weight = other.weight.data
    return type(weight) is type(site.weight.data) and bool(torch.equal(weight, site.weight.data))


@dataclass(slots=True)
class _Sums:
    """Sums of one layer, one number per window (synthetic: per row; an expert: per call)."""

    tokens_count: int = 0
    noise: list[float] = field(default_factory=list)
    signal: list[float] = field(default_factory=list)
    max_error: float = 0.0

    def add(self, inputs: Tensor, versions: tuple[Narrow, Narrow], rows: int) -> None:
        """Send inputs (…, K) of `rows` windows through the original and the narrow version, and count the
        difference.
        """
        if not inputs.numel():  # an expert without a token
            return
        wide, narrow = (version(inputs) for version in versions)
        self.tokens_count += inputs.numel() // inputs.shape[-1]
        first, second = wide.double().reshape(rows, -1), narrow.double().reshape(rows, -1)
        difference = first - second
        self.noise += difference.square().sum(1).tolist()
        self.signal += first.square().sum(1).tolist()
        self.max_error = max(self.max_error, float(difference.abs().max()))


def _measured(
    model: nn.Module,
    sites: list[LinearSite],
    wide: Mapping[LinearSite, Narrow],
    narrow: Mapping[LinearSite, Narrow],
    became: Mapping[str, str],
    windows: TextWindows | None,
    rows_count: int,
    seed: int,
) -> tuple[LayerQuality, ...]:
    with evaluating(model), torch.no_grad():
        if windows is None:
            sums = _on_noise(sites, wide, narrow, rows_count, seed)
        else:
            require_fitting(model, windows.ids, "given")
            sums = _on_text(model, sites, wide, narrow, windows)
    return tuple(_row(site, sums[site], became[site.name], windows) for site in sites if sums[site].signal)


def _on_text(
    model: nn.Module,
    sites: list[LinearSite],
    wide: Mapping[LinearSite, Narrow],
    narrow: Mapping[LinearSite, Narrow],
    windows: TextWindows,
) -> dict[LinearSite, _Sums]:
    """Run the windows through the model; every layer's inputs go through both versions as they come."""
    sums = {site: _Sums() for site in sites}
    handles: list[Any] = []
    is_ours = False

    def listen(site: LinearSite) -> Callable[[nn.Module, tuple[Any, ...]], None]:
        def hook(module: nn.Module, arguments: tuple[Any, ...]) -> None:
            nonlocal is_ours
            if is_ours or not arguments:  # `wide` may be the hooked module itself
                return
            is_ours = True
            try:
                inputs = arguments[0].detach()
                sums[site].add(inputs, (wide[site], narrow[site]), inputs.shape[0] if inputs.dim() == 3 else 1)
            finally:
                is_ours = False

        return hook

    with hooked(handles):
        for site in sites:
            handles += [module.register_forward_pre_hook(listen(site)) for module in site.modules]
        for ids in window_batches(windows):
            model(ids.to(device_of(model)))
    return sums


def _on_noise(
    sites: list[LinearSite],
    wide: Mapping[LinearSite, Narrow],
    narrow: Mapping[LinearSite, Narrow],
    rows_count: int,
    seed: int,
) -> dict[LinearSite, _Sums]:
    if rows_count < 1:
        raise InvalidValueError(f"rows_count must be at least 1, got {rows_count}")
    sums = {site: _Sums() for site in sites}
    for site in sites:
        generator = torch.Generator().manual_seed(seed)
        inputs = torch.randn(rows_count, site.shape[1], generator=generator).to(site.weight.device, site.weight.dtype)
        sums[site].add(inputs, (wide[site], narrow[site]), rows_count)
    return sums


def _row(site: LinearSite, sums: _Sums, became: str, windows: TextWindows | None) -> LayerQuality:
    # A layer called otherwise than once per window (an expert, a shared module) has rows that are no windows.
    if windows is not None and len(sums.noise) == windows.windows_count:
        clusters = windows.clusters
    else:
        clusters = Clusters(tuple(range(len(sums.noise))), "rows" if windows is None else "calls")
    if not sum(sums.signal):
        raise InvalidValueError(
            f"the output of {site.name} is all zero on these inputs: a relative error has no meaning"
        )
    error = ratio_estimate(
        sums.noise, sums.signal, clusters, unit="share of ‖y‖", tokens_count=sums.tokens_count, transform=np.sqrt
    )
    text_kind = SYNTHETIC if windows is None else "text"
    return LayerQuality(site.name, layer_role(site.name), became, text_kind, error, sums.max_error)


def _linear(weight: Tensor, bias: Tensor | None) -> Narrow:
    """Return x·Wᵀ + b in FP32: the error of the weight alone, without that of a 16-bit output."""
    wide_weight, wide_bias = weight.float(), None if bias is None else bias.detach().float()
    return lambda inputs: nn.functional.linear(inputs.float(), wide_weight, wide_bias)


def _narrow_linear(site: LinearSite, formats: LayerFormats, options: CodecOptions) -> Narrow:
    """Return the layer with its weight as stored, and its inputs too where their format is narrow."""
    activations = formats.narrow_activations
    if activations is None:
        return _linear(as_stored(site, formats.weights, options), site.modules[0].bias)
    product = _linear(decoded_weight(site, formats.weights, options), site.modules[0].bias)
    return lambda inputs: product(
        round_trip_rows(inputs.reshape(-1, inputs.shape[-1]).float(), activations).view(inputs.shape)
    )
