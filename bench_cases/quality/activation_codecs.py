"""Activations as a kernel reads them: rows (tokens, K) quantised and dequantised along K, in torch, on any device.

Bit for bit what `roofline_model.formats.codecs.round_trip` gives. Scales are found at run time, as W8A8 and W4A4
kernels find them: one per token for FP8 and INT8; one per block of K for MX, INT4 and INT2; NVFP4 has its block scales
and one FP32 scale for all tokens of the call. Formats of the user's own go through the codec.
"""

from __future__ import annotations

from torch import Tensor, from_numpy
from torch.nn import functional

from bench_cases.kernels.products.quantizers import mx_blocks, nvfp4_blocks, scaled_rows
from roofline_model.formats.codecs import round_trip
from roofline_model.formats.codecs.layout import DEFAULTS, layout_of, stored_format
from roofline_model.operators.operand_formats import activation_format

_MX = ("MXFP8_E4M3", "MXFP8_E5M2", "MXFP6_E3M2", "MXFP6_E2M3", "MXFP4")
_ROW_SCALED = ("FP8_E4M3", "FP8_E5M2", "INT8", "INT4", "INT2")


def round_trip_rows(rows: Tensor, format_key: str) -> Tensor:
    """Return FP32 rows (tokens, K) after a round trip through a format, a new tensor.

    A last block that is not full has a scale of its own. Raises `InvalidValueError` for a format that activations
    cannot have (a code table).
    """
    fmt = activation_format("activations", format_key)
    if rows.numel() == 0:  # an expert without a token
        return rows.clone()
    width = rows.shape[-1]
    if fmt.key in _MX:
        padded = _padded(rows, fmt.block_elems or width)
        return mx_blocks(padded, fmt.key).decoded()[:, :width]
    if fmt.key == "NVFP4":
        return nvfp4_blocks(_padded(rows, fmt.block_elems or width)).decoded()[:, :width]
    if fmt.key in _ROW_SCALED:
        layout = layout_of(stored_format(fmt, DEFAULTS, width))
        padded = _padded(rows, layout.block_elems or width)
        blocks = padded.view(-1, layout.block_elems or width)
        return scaled_rows(blocks, fmt.key, layout.scale_dtype).decoded().view(padded.shape)[:, :width]
    return from_numpy(round_trip(rows.cpu(), fmt)).to(rows.device)


def _padded(rows: Tensor, block_elems: int) -> Tensor:
    """Return the rows with zeros up to a whole block; they change no scale."""
    missing = -rows.shape[-1] % block_elems
    return functional.pad(rows, (0, missing)) if missing else rows.contiguous()
