"""How a format is reached from 16-bit weights: the word for it, in one place."""

from __future__ import annotations

_METHODS = {
    "INT8": "PTQ", "INT4": "AWQ", "FP8_E4M3": "native_fp8", "FP8_E5M2": "native_fp8",
    "MXFP8_E4M3": "native_mxfp8", "MXFP8_E5M2": "native_mxfp8", "MXFP6_E3M2": "native_mxfp6", "MXFP6_E2M3": "native_mxfp6",
    "NVFP4": "native_fp4", "MXFP4": "native_fp4",
}  # fmt: skip


def method_of(format_key: str, *, is_both: bool) -> str:
    """Return PTQ, AWQ, native_fp8, native_fp4, …, or weight_only; `is_both`: the activation has the format as well.

    INT4 is AWQ either way, the word of the original documents (see the findings `awq-scales` and, of both operands, `awq-both`).
    """
    if is_both or format_key == "INT4":
        return _METHODS.get(format_key, f"native_{format_key.lower()}")
    return "weight_only"
