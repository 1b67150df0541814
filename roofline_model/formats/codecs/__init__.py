"""Exact encoding and decoding of every number format in numpy: error is measured here, not claimed.

    from roofline_model.formats.codecs import quantize, dequantize, pack
    q = quantize(weight, "NVFP4")          # codes, scales, tensor scale
    error = format_error(weight, "NVFP4")  # SQNR, relative and maximum error

Where to find what: `arrays` reads tensors, `blocks` cuts them, `elements` / `wide_floats` know one
number, `scaled` / `microscaling` / `nvfp4` find scales (for torch tensors, too: bench_cases quantises on a GPU with the
same rules), `layout` says which of them a format needs, `encode` and `decode` put it together, `packing` writes bytes,
`error` measures.
"""

from __future__ import annotations

from roofline_model.formats.codecs.decode import dequantize, round_trip
from roofline_model.formats.codecs.elements.packing import pack, unpack
from roofline_model.formats.codecs.encode import quantize
from roofline_model.formats.codecs.error import (
    TensorError,
    TensorSpread,
    format_error,
    kurtosis,
    outlier_ratio,
    tensor_error,
    tensor_spread,
)
from roofline_model.formats.codecs.layout import CodecOptions
from roofline_model.formats.codecs.quantized import Quantized

__all__ = [
    "CodecOptions",
    "Quantized",
    "TensorError",
    "TensorSpread",
    "dequantize",
    "format_error",
    "kurtosis",
    "outlier_ratio",
    "pack",
    "quantize",
    "round_trip",
    "tensor_error",
    "tensor_spread",
    "unpack",
]
