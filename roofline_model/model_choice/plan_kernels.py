"""The kernels that a plan needs on a chip, by name, and which of them is not known to exist."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from roofline_model.expected.reference_kernel import reference_kernel
from roofline_model.hardware import Device
from roofline_model.model_choice.plan_formats import CACHE, PlanFormats
from roofline_model.pareto.losses import parse_formats
from roofline_model.serving_kernels import cache_gap, cache_kernel, product_gap, product_kernel


@dataclass(frozen=True, slots=True)
class PlanKernels:
    """What has to run, and what cannot."""

    names: tuple[str, ...]
    """Kernels of the narrow products and caches, each once; empty where everything is in 16 bit or nothing is listed."""
    gap: str
    """Why a part has no known kernel; empty where all have one, or the chip has no list."""

    @property
    def text(self) -> str:
        """`Marlin W4A16 (AWQ, GPTQ); NVFP4 KV attention (trtllm-gen)`, empty where nothing is listed."""
        return "; ".join(self.names)


NO_KERNELS = PlanKernels((), "")


def plan_kernels(formats: PlanFormats, device: Device) -> PlanKernels:
    """Return the kernels of a plan's narrow parts on a chip, and the first gap."""
    caches = dict.fromkeys(label for layer in formats.layers for part, label in layer if part == CACHE)
    names, gaps = [], []
    for label in formats.product_labels:
        pair = parse_formats(label)
        gaps.append(product_gap(device, pair.weights, pair.activations))
        kernel = product_kernel(device, pair.weights, pair.activations)
        names += [kernel.name_on(device)] if kernel is not None else []
    for label in caches:
        gaps.append(cache_gap(device, label))
        kernel = cache_kernel(device, label)
        names += [kernel.name_on(device)] if kernel is not None else []
    return PlanKernels(tuple(dict.fromkeys(names)), next((gap for gap in gaps if gap), ""))


def reference_kernel_of(formats: PlanFormats, provenance: str) -> str:
    """Return the kernel that the expected times of a plan's products stand for; empty where there is nothing to say."""
    pairs = (parse_formats(label) for label in formats.product_labels)
    return next(filter(None, (reference_kernel(one.weights, one.activations, provenance) for one in pairs)), "")


def why_no_kernel(device: Device) -> Callable[[str], str]:
    """Return label of a format, or `kv=FORMAT` of the cache → why no kernel is known to run it; empty for others.

    A label is `WEIGHT[.ACTIVATION[.CACHE]]`, as uniform plans and losses have it.
    """

    def reason(label: str) -> str:
        name, _, cache = label.partition("=")
        if cache:
            return cache_gap(device, cache)
        weights, _, rest = name.partition(".")
        return product_gap(device, weights, rest.partition(".")[0] or weights)

    return reason
