"""The expected time of one attention operator, in the form of `../predict.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofline_model.errors import UnsupportedError
from roofline_model.expected.attention.shape import unmeasured
from roofline_model.formats import get_format
from roofline_model.hardware import Device
from roofline_model.operators import Operator

if TYPE_CHECKING:
    from roofline_model.expected.predict import ExpectedPrediction

UNSPLIT_NOTE = (
    "the kernel timed for narrow caches does not split one over the SMs: few sequences leave most of them idle"
)
"""8-bit decode on chips of mma.sync (L40S, RTX PRO 6000 and their relatives); L40S, same shapes in both widths, measured: the
FP8 cache takes 1.46 times as long in the median of 106, 0.77 where key/value heads x tokens pass 131,072."""


def predict_attention(work: Operator, device: Device, *, cache: str = "cold") -> ExpectedPrediction:
    """Return the expected prediction of a fused attention operator (`attention_ops.attention`).

    `cache="warm"`: calls follow each other on the same buffers; any other state fetches earlier tokens from DRAM. RoPE
    and the cache append are inside, as the module launches them. Raises `UnsupportedError` where nothing was measured.
    """
    from roofline_model.expected.attention.model import expected_attention
    from roofline_model.expected.predict import ExpectedPrediction, alone

    sizes, formats = dict(work.shape), dict(work.formats)
    if sizes.get("Dv", sizes["D"]) != sizes["D"]:
        raise UnsupportedError(
            f"no expected time for attention with Dv {sizes['Dv']} and D {sizes['D']}: kernels with one head size were measured. "
            "The ideal prediction stands."
        )
    if "p" in formats:
        raise UnsupportedError(
            f"no expected time for attention with scores in {formats['q']} and values in {formats['p']}: kernels with one format for "
            "both products were measured. The ideal prediction stands."
        )
    if problem := unmeasured(sizes["Sq"], sizes["Skv"]):
        raise UnsupportedError(problem)
    batch = expected_attention(
        device,
        *(sizes[name] for name in ("B", "Hq", "Hkv", "Sq", "Skv", "D")),
        causal=bool(sizes.get("causal", 0)),
        window=sizes.get("window", 0),
        activation_format=formats["q"],
        kv_format=formats.get("kv", formats["q"]),
        cache="warm" if cache == "warm" else "cold",
    )
    is_unsplit = (
        batch.kernel[0] == "mma/1"
        and batch.binding[0] == "latency"
        and get_format(formats.get("kv", formats["q"])).element_bits <= 8
    )
    return ExpectedPrediction(
        hardware=device.key,
        time_s=float(batch.time_s[0]),
        low_s=float(batch.low_s[0]),
        high_s=float(batch.high_s[0]),
        parts=tuple((name, float(value[0])) for name, value in batch.additive_parts().items() if value[0] > 0),
        binding=batch.binding[0],
        kernel=batch.kernel[0],
        provenance=batch.provenance,
        notes=(
            "time includes RoPE and the append to the cache",
            *filter(None, batch.confidence.split("; ")),
            *((UNSPLIT_NOTE,) if is_unsplit else ()),
        ),
        terms=alone(batch),
    )
