"""Quantising and dequantising one weight matrix on one core, per value; the bare ml_dtypes cast beside it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median

import ml_dtypes
import numpy as np

from benchmarks.timing.interleave import batch_seconds, interleaved
from benchmarks.timing.rows import Row
from roofline_model.formats.codecs import dequantize, quantize

BYTE_AIM_S = 1 / 50e6
"""Fifty million values per second: FP8 and INT8."""
NIBBLE_AIM_S = 1 / 10e6
"""Ten million values per second: NVFP4 and MXFP4."""
AIMS_S = {"FP8_E4M3": BYTE_AIM_S, "INT8": BYTE_AIM_S, "NVFP4": NIBBLE_AIM_S, "MXFP4": NIBBLE_AIM_S}
SHAPE = (2048, 4096)
"""32 MiB of float32: larger than most caches, as a model's weights are."""


def measure(folder: Path, *, quick: bool) -> list[Row]:
    """Time every format both ways in turn; the median over rounds."""
    rounds, rows = (3, SHAPE[0] // 16) if quick else (15, SHAPE[0])
    weight = np.random.default_rng(0).standard_normal((rows, SHAPE[1]), np.float32)
    timed = {}
    for key in AIMS_S:
        timed[f"quantise to {key}"] = partial(batch_seconds, partial(quantize, weight, key), 1)
        timed[f"dequantise {key}"] = partial(batch_seconds, partial(dequantize, quantize(weight, key)), 1)
    rival = "ml_dtypes cast"
    timed[rival] = partial(batch_seconds, partial(weight.astype, ml_dtypes.float8_e4m3fn), 1)
    for contestant in timed.values():
        contestant()
    seconds = {name: median(values) / weight.size for name, values in interleaved(timed, rounds).items()}
    figures = []
    for key, aim_s in AIMS_S.items():
        for what in ("quantise to", "dequantise"):
            value_s = seconds[f"{what} {key}"]
            is_cast = (what, key) == ("quantise to", "FP8_E4M3")
            note = f"{1e-6 / value_s:,.0f} million values per second, {rows} × {SHAPE[1]} from float32"
            row = Row(f"{what} {key}, per value", value_s, rounds, aim_s, note=note)
            figures.append(replace(row, rival=rival, rival_s=seconds[rival]) if is_cast else row)
    return figures
