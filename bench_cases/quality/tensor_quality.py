"""Quantisation error and difficulty of each weight of a model in each format: figures of tensors, no data needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import nn

from bench_cases.quality.sensitivity.methods import narrow_formats
from bench_cases.quality.substitution import quantizable_sites
from bench_cases.quantization.plans.layer_roles import layer_role
from roofline_model.formats.codecs import CodecOptions, TensorError, TensorSpread, format_error, tensor_spread
from roofline_model.formats.codecs.layout import DEFAULTS


@dataclass(frozen=True, slots=True)
class WeightQuality:
    """One weight: its spread, and its error in every format that was asked for."""

    name: str
    role: str | None
    spread: TensorSpread
    """Largest value, outlier ratio and kurtosis."""
    errors: tuple[tuple[str, TensorError], ...]
    """(format key, SQNR, relative and maximum error), in the order asked for."""

    def error(self, format_key: str) -> TensorError:
        """Return the error in one format; `KeyError` for a format that was not asked for."""
        return dict(self.errors)[format_key]


def weight_quality(
    model: nn.Module,
    formats: Sequence[str],
    *,
    layers: tuple[str, ...] | None = None,
    options: CodecOptions = DEFAULTS,
) -> tuple[WeightQuality, ...]:
    """Measure every Linear weight in every format (see `roofline_model.formats.codecs.error`); reads the model only.

    A weight that several layers share is measured once. Errors as of `quantizable_sites`.
    """
    keys = narrow_formats(formats)
    qualities = []
    for site in quantizable_sites(model, layers):
        weight = site.weight.detach().cpu()
        errors = tuple((key, format_error(weight, key, options=options)) for key in keys)
        qualities.append(WeightQuality(site.name, layer_role(site.name), tensor_spread(weight), errors))
    return tuple(qualities)
