"""Give Linears other weights for a while: the same model, as if quantised, and the old parameters back afterwards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from bench_cases.quantization.plans import ALL_OTHERS, resolve_plan
from bench_cases.quantization.precisions import Precision
from bench_cases.quantization.survey import LinearSite, find_non_finite, survey_linears
from roofline_model.codecs import CodecOptions, dequantize, quantize
from roofline_model.codecs.options import DEFAULTS
from roofline_model.errors import InvalidValueError, UnknownNameError, nearest_names
from roofline_model.formats import get_format


def quantizable_sites(model: nn.Module, names: tuple[str, ...] | None = None) -> tuple[LinearSite, ...]:
    """Return the Linear weights a codec can read, in order; `names` keeps some of them, an unknown one is an error.

    Raises `UnsupportedError` (no Linear), `InvalidValueError` (NaN weights, unknown names, every layer packed already).
    """
    sites = survey_linears(model)
    find_non_finite(sites)
    known = {name: site for site in sites for name in site.names}
    for name in names or ():
        if name not in known:
            near = nearest_names(name, known)
            hint = f" Did you mean {' or '.join(near)}?" if near else ""
            raise InvalidValueError(f"{name[:80]!r} is no nn.Linear of the model.{hint} It has {len(sites)}.")
    wanted = sites if names is None else tuple(dict.fromkeys(known[name] for name in names))
    readable = tuple(site for site in wanted if not site.obstacle)
    if not readable:
        first = wanted[0] if wanted else sites[0]
        raise InvalidValueError(f"no weight can be read, {first.name}: {first.obstacle}; give the 16-bit model")
    return readable


def as_stored(site: LinearSite, format: str, options: CodecOptions = DEFAULTS) -> Tensor:
    """Return a weight after a round trip through a format, exactly as a kernel would decode it, rounded to its dtype."""
    weight = site.weight.detach()
    decoded = torch.from_numpy(dequantize(quantize(weight.cpu(), format, options=options)))
    return decoded.to(weight.device, weight.dtype)


@contextmanager
def substituted(weights: Mapping[LinearSite, Tensor]) -> Iterator[None]:
    """Let sites compute with other weights (N, K) inside the block; the original parameters return at its end.

    Every Linear of a site gets the same new parameter. A weight that an embedding shares stays the embedding's: only the
    product is quantised, as where a kernel needs a copy of its own.
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
def simulated(
    model: nn.Module, plan: Mapping[str, str] | str, *, options: CodecOptions = DEFAULTS
) -> Iterator[dict[str, str]]:
    """Let the model compute with weights as formats store them; yields layer → format key, the quantised ones only.

    plan: one format for all Linears, or a plan of names, `re:` patterns, roles and `*` as `apply_plan` takes it. Weights
    only, and exact: any format of the catalog, on any device, at the speed of the original. Activations stay 16 bit.
    """
    sites = quantizable_sites(model)
    keys = simulated_formats(sites, plan)
    weights = {site: as_stored(site, keys[site.name], options) for site in sites if site.name in keys}
    with substituted(weights):
        yield keys


def simulated_formats(sites: tuple[LinearSite, ...], plan: Mapping[str, str] | str) -> dict[str, str]:
    """Return the format key of every site that a plan narrows."""
    if isinstance(plan, str):
        plan = {ALL_OTHERS: plan}
    chosen = {}
    for name, precision in resolve_plan(sites, plan).items():
        fmt = get_format(_weight_format(precision))
        if fmt.element_bits < 16:
            chosen[name] = fmt.key
    return chosen


def _weight_format(precision: Precision) -> str:
    """Return the weight's format in `INT4`, `INT2`, `NVFP4.BF16` as asked for, and in short forms such as `W4A16`."""
    asked = precision.asked.partition(".")[0]
    try:
        return get_format(asked).key
    except UnknownNameError:
        return precision.name.partition(".")[0]
