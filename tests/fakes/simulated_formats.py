"""A model whose Linears compute in a narrow format for a while, as `measured_losses` lets each group do."""

from __future__ import annotations


def simulated(model, text, names=None):
    """Return a block in which all Linears of a model, or those named, have a format."""
    from bench_cases.quality.layer_formats import layer_formats
    from bench_cases.quality.substitution import narrowed, quantizable_sites

    sites = [site for site in quantizable_sites(model) if names is None or site.name in names]
    return narrowed(dict.fromkeys(sites, layer_formats(text)))
