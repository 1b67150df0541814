"""The expected time of one attention operator, by the kernel's own model, in the form of `../predict.py`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from roofline_model.chips.hardware import Device
from roofline_model.core.errors import UnsupportedError
from roofline_model.core.finding import finding, unsupported
from roofline_model.expected.attention.flash.expected import expected_flash
from roofline_model.expected.attention.model import MAX_SPECULATED, attention_constants, expected_attention
from roofline_model.expected.attention.shape import why_unmeasured
from roofline_model.expected.prediction import ExpectedPrediction
from roofline_model.formats.catalog import get_format
from roofline_model.kernels.attention_kernels import (
    ATTENTION_KERNELS,
    DEFAULT_KERNEL,
    FITTED_MODEL,
    FLASH_MODELS,
    AttentionKernel,
    find_attention_kernel,
)
from roofline_model.operators.product import Operator

MODULE_OPS = ("rope", "kv_write")
"""Operators of a layer that the fitted modules do beside their attention: rotation and the append to the cache."""

STAND_IN_RATIO: Mapping[str, tuple[float, float]] = MappingProxyType({"decode": (0.79, 1.02), "prefill": (0.67, 1.12)})
"""Phase → factors by which the interval of the fitted kernel is widened where it stands in for another library's.

10 % and 90 % quantiles of measured over model: 723 calls of vLLM 0.24 to FlashInfer's TensorRT-LLM kernels on B200
(aiconfigurator tables, Apache-2.0, commit 095f58a51c4c; medians 0.90 and 0.83)."""


def predict_attention(
    work: Operator, device: Device, *, cache: str = "cold", kernel: str | None = None
) -> ExpectedPrediction:
    """Return the expected prediction of a fused attention operator (`attention_ops.attention`).

    `kernel`: a key of `ATTENTION_KERNELS`; None: the fitted model. `cache="warm"`: calls follow each other on the same
    buffers; any other state fetches earlier tokens from DRAM, as the analytical models always do. Raises
    `UnsupportedError` where the kernel does not run or nothing was measured, `UnknownNameError` for a kernel that
    nobody knows.
    """
    sizes, formats = dict(work.shape), dict(work.formats)
    if sizes.get("Dv", sizes["D"]) != sizes["D"]:
        raise UnsupportedError(
            f"no expected time for attention with Dv {sizes['Dv']} and D {sizes['D']}: kernels with one head size were "
            "measured. "
            "The ideal time is used."
        )
    if "p" in formats:
        raise UnsupportedError(
            f"no expected time for attention with scores in {formats['q']} and values in {formats['p']}: kernels with "
            "one format for "
            "both products were measured. The ideal time is used."
        )
    chosen = ATTENTION_KERNELS[DEFAULT_KERNEL] if kernel is None else find_attention_kernel(kernel)
    model = FITTED_MODEL if kernel is None else _model_on(chosen, device)
    if model in FLASH_MODELS:
        return expected_flash(work, device, chosen, model, _phase(sizes))
    fitted = _fitted(work, device, cache, is_named=kernel is not None)
    return fitted if chosen.has_own_model else _standing_in(fitted, chosen, _phase(sizes))


def _model_on(kernel: AttentionKernel, device: Device) -> str:
    """Return the model that answers for a named kernel on a chip."""
    if kernel.key in FLASH_MODELS:
        return kernel.key  # that model says itself which instruction or head dimension is missing
    model = kernel.model_on(device)
    if model is None:
        raise UnsupportedError(
            f"no expected time for {kernel.name} attention on {device.key}, where it is not known to run "
            f"({kernel.source}). "
            "The ideal time is used."
        )
    return model


def _phase(sizes: Mapping[str, int]) -> str:
    is_decode = sizes["Sq"] == 1 or (sizes["Sq"] <= MAX_SPECULATED and sizes["Sq"] < sizes["Skv"])
    return "decode" if is_decode else "prefill"


def _standing_in(fitted: ExpectedPrediction, kernel: AttentionKernel, phase: str) -> ExpectedPrediction:
    """Return the fitted time as that of another library's kernel."""
    low, high = STAND_IN_RATIO[phase]
    return replace(
        fitted,
        low_s=low * fitted.low_s,
        high_s=high * fitted.high_s,
        kernel=f"{kernel.key}:{fitted.kernel}",
        findings=(finding("attention-time", kind="other-library", kernel=kernel.name), *fitted.findings),
    )


def _fitted(work: Operator, device: Device, cache: str, *, is_named: bool) -> ExpectedPrediction:
    """Return the time of the fitted module; RoPE and the cache append are inside, as it launches them.

    `is_named`: of this very kernel, though a faster one may run on the chip.
    """
    sizes, formats = dict(work.shape), dict(work.formats)
    if (why_not := why_unmeasured(sizes["Sq"], sizes["Skv"])) is not None:
        raise unsupported(why_not)
    kv = formats.get("kv", formats["q"])
    module = attention_constants(device, _phase(sizes)) if is_named else None
    batch = expected_attention(
        device,
        *(sizes[name] for name in ("B", "Hq", "Hkv", "Sq", "Skv", "D")),
        causal=bool(sizes.get("causal", 0)),
        window=sizes.get("window", 0),
        activation_format=formats["q"],
        kv_format=kv,
        cache="warm" if cache == "warm" else "cold",
        constants=None if module is None else replace(module, faster=None),
    )
    is_cache_unsplit = batch.is_unsplit[0] and batch.binding[0] == "latency" and get_format(kv).element_bits <= 8
    return replace(
        ExpectedPrediction.of(device.key, batch),
        findings=(
            finding("attention-time", kind="kernel-alone" if batch.is_kernel_alone else "module"),
            *batch.findings,
            *((finding("unsplit-cache"),) if is_cache_unsplit else ()),
        ),
        covered_ops=() if batch.is_kernel_alone else MODULE_OPS,
        is_cache_unsplit=is_cache_unsplit,
    )
