"""Formats that are looked at where nobody names any, one list for each question."""

from __future__ import annotations

PRODUCT_COLUMNS = ("FP16", "FP8_E4M3", "INT8", "NVFP4", "INT4")
"""Of a predicted product: the columns of the original documents' tables."""
WEIGHED = ("FP8_E4M3", "MXFP8_E4M3", "INT8", "NVFP4", "MXFP4", "INT4")
"""Of a recommendation for a product, beside the 16-bit baseline; those that the chip declares take part."""
CACHES = ("FP8_E4M3", "INT8", "NVFP4", "INT4")
"""Of a cache, beside 16 bit: what inference engines and papers offer."""
FFN_PAIRS = ("FP8_E4M3", "INT8", "NVFP4")
"""Of both operands of a feed-forward block, behind 16 bits; weight-only INT8 and INT4 follow."""
PLAN_WEIGHTS = ("INT8", "FP8_E4M3", "INT4", "NVFP4", "MXFP4")
"""Of the weights of a whole model under 16-bit activations."""
PLAN_PAIRS = ("INT8.INT8", "FP8_E4M3", "MXFP8_E4M3", "NVFP4", "MXFP4")
"""Of weights and activations of a whole model; those for which the chip has a unit take part."""
