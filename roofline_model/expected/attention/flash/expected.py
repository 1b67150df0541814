"""The analytical FlashAttention models in the form of an expected time: derived, with a measured interval.

They are of the bare kernel with cold operands. An engine's call takes longer, most of all a short one: the interval is
that of measured calls over the model.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from roofline_model.chips.hardware import Device
from roofline_model.core.errors import InvalidValueError, UnsupportedError
from roofline_model.core.finding import finding, unsupported
from roofline_model.expected.attention.flash.config import (
    FP8_FORMATS,
    VERSIONS_WITH_FP8,
    AttentionShape,
    FlashAttentionConfig,
    FlashAttentionVersion,
)
from roofline_model.expected.attention.flash.model import FlashAttentionPrediction, predict_flash_attention
from roofline_model.expected.prediction import ExpectedBatch, ExpectedPrediction
from roofline_model.kernels.attention_kernels import ATTENTION_KERNELS, AttentionKernel
from roofline_model.operators.product import Operator

Pair = tuple[float, float]

PROVENANCE = "derived"

SHORT_LAUNCHES = 8.0
"""Below this multiple of the launch floor a call is short."""
CALL_RATIO: Mapping[tuple[str, str], Mapping[str, tuple[Pair, Pair]]] = MappingProxyType(
    {
        ("fa2", "fa2"): {"decode": ((1.0, 2.63), (1.0, 2.04)), "prefill": ((1.0, 2.43), (0.95, 2.18))},
        ("fa3", "fa3"): {"decode": ((1.0, 3.11), (0.71, 1.95)), "prefill": ((1.0, 3.13), (0.99, 2.49))},
        ("flashinfer", "fa2"): {"decode": ((0.94, 2.35), (0.30, 1.30)), "prefill": ((0.99, 2.42), (0.77, 2.21))},
    }
)
"""(kernel, model) → phase → (low, high) factors of short calls and of the others: 10 % and 90 % quantiles of measured
over model, the model's own time inside. 4,088 calls of the aiconfigurator tables (Apache-2.0, commit 095f58a51c4c),
operands warm where they fit in the L2, the append to the cache inside where the engine calls it so:

fa2: 1,384 calls of vLLM 0.14 and 0.24 and SGLang 0.5.10 on A100, L40S and RTX PRO 6000 (medians 1.35 to 1.90);
fa3: 1,301 of vLLM 0.24 and SGLang 0.5.14 on H100 (1.07 to 2.25);
flashinfer: 1,403 of the same on L40S and RTX PRO 6000 (1.11 to 1.81). Any other pair has the widest of them.
"""

_BINDING = {"memory": "dram", "shared": "sm"}


def expected_flash(
    work: Operator, device: Device, kernel: AttentionKernel, model: str, phase: str
) -> ExpectedPrediction:
    """Return the time of one call of `kernel` by the FlashAttention `model` (`fa1` … `fa4`).

    Raises `UnsupportedError` for a chip, head dimension or pair of formats that the kernel does not take.
    """
    shape, config = _question(work, device, FlashAttentionVersion(model))
    answer = predict_flash_attention(device, shape, config)
    if answer.why_unavailable is not None:
        raise unsupported(answer.why_unavailable)
    assert answer.time_s is not None  # of an available version it is known
    terms = _terms(answer)
    low, high = _call_ratio(kernel, model, phase, answer)
    call = ExpectedBatch(
        time_s=answer.time_s,
        low_s=low * answer.time_s,
        high_s=high * answer.time_s,
        parts=terms,
        binding=[_BINDING.get(answer.bound, answer.bound)],
        provenance=PROVENANCE,
        findings=(),
        kernel=[f"{kernel.key}/{answer.split_count}"],
    )
    findings = [finding("attention-time", kind="kernel-alone")]
    if not kernel.has_own_model:
        other_kernel = ATTENTION_KERNELS[model].name
        findings.append(finding("attention-time", kind="other-model", kernel=kernel.name, other_kernel=other_kernel))
    return ExpectedPrediction(
        hardware=device.key,
        time_s=call.time_s,
        low_s=call.low_s,
        high_s=call.high_s,
        parts=tuple((name, seconds) for name, seconds in call.additive_parts().items() if seconds > 0),
        binding=call.binding[0],
        kernel=call.kernel[0],
        provenance=call.provenance,
        findings=(*findings, *answer.findings),
        terms=tuple((name, seconds) for name, seconds in terms.items() if seconds > 0),
        model_version=answer.model_version,
    )


def _question(
    work: Operator, device: Device, version: FlashAttentionVersion
) -> tuple[AttentionShape, FlashAttentionConfig]:
    """Return an attention operator as the FlashAttention model is asked."""
    sizes, formats = dict(work.shape), dict(work.formats)
    query = formats["q"]
    multiplies_fp8 = query in FP8_FORMATS and version in VERSIONS_WITH_FP8 and device.path(query).kind == "native"
    try:
        config = FlashAttentionConfig(
            version,
            qkv_precision=query,
            kv_cache_precision=formats.get("kv"),
            use_native_fp8=multiplies_fp8,
            causal=bool(sizes.get("causal", 0)),
            window_size=sizes.get("window") or None,
            page_size=sizes.get("page"),
        )
    except InvalidValueError as error:
        raise UnsupportedError(
            f"no expected time for {version.value} attention: {error}. The ideal time is used."
        ) from None
    return AttentionShape(*(sizes[name] for name in ("B", "Hq", "Hkv", "Sq", "Skv", "D"))), config


def _terms(answer: FlashAttentionPrediction) -> dict[str, float]:
    """Return the seconds of each unit as if alone, by the names that expected times have for them.

    The tail is one of the SMs: where memory binds, traffic hides it, and it counts as far as the time has room for it.
    """
    parts = {name: seconds or 0.0 for name, seconds in answer.parts}
    softmax_s = parts["exp"] + parts["vector"] + parts["dequantize"]
    longest_s = max(parts["memory"], parts["tensor"], parts["shared"], softmax_s)
    room_s = max(0.0, (answer.time_s or 0.0) - parts["launch"] - parts["combine"] - longest_s)
    return {
        "launch": parts["launch"],
        "dram": parts["memory"],
        "tensor": parts["tensor"],
        "sm": parts["shared"],
        "exp": parts["exp"] + parts["vector"],
        "widen_kv": parts["dequantize"],
        "waves": min(parts["tail"], room_s),
        "split": parts["combine"],
    }


def _call_ratio(kernel: AttentionKernel, model: str, phase: str, answer: FlashAttentionPrediction) -> Pair:
    """Return the factors of the interval."""
    launch_s = dict(answer.parts).get("launch")
    is_short = launch_s is None or (answer.time_s or 0.0) < SHORT_LAUNCHES * launch_s
    ratio = CALL_RATIO.get((kernel.key, model))
    pairs = [ratios[phase][0 if is_short else 1] for ratios in ([ratio] if ratio else CALL_RATIO.values())]
    return min(low for low, _ in pairs), max(high for _, high in pairs)
