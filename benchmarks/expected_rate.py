"""Expected GEMM predictions: many in one array, as sweeps and validations ask for them, and a single one."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks.interleave import batch_seconds, interleaved
from benchmarks.rows import Row
from roofline_model import gemm, get_hardware
from roofline_model.expected.chip import ChipSpec
from roofline_model.expected.gemm.model import expected_gemm
from roofline_model.expected.predict import predict_expected

ARRAY_AIM_S = 1 / 100_000
"""A hundred thousand predictions per second on one core."""
SINGLE_AIM_S = 1e-3
ROWS = 20_000


def measure(folder: Path, *, quick: bool) -> list[Row]:
    """Time arrays of prefill and decode shapes and single predictions in turn; the median over batches."""
    rounds, rows, calls = (5, ROWS // 5, 20) if quick else (21, ROWS, 100)
    shapes = log_uniform_shapes(rows)
    chips = {key: get_hardware(key) for key in ("h100-sxm", "gb10")}
    work = gemm(8, 4096, 4096, a="BF16", b="INT4")

    def array(key: str, format_name: str) -> None:
        expected_gemm(
            ChipSpec.of(chips[key], format_name), *shapes, weight_format=format_name, activation_format=format_name
        )

    arrays = {"BF16 on h100-sxm": ("h100-sxm", "BF16"), "FP8 on gb10": ("gb10", "FP8")}
    timed = {name: partial(batch_seconds, partial(array, *what), 1) for name, what in arrays.items()}
    timed["single"] = partial(batch_seconds, partial(predict_expected, work, chips["gb10"]), calls)
    for contestant in timed.values():
        contestant()
    seconds = {name: median(values) for name, values in interleaved(timed, rounds).items()}
    return [
        *(
            Row(f"one expected GEMM of an array, {name}", seconds[name] / rows, rounds, ARRAY_AIM_S, note=f"{rows / seconds[name]:,.0f} per second, {rows:,} at once")
            for name in arrays
        ),
        Row("one expected prediction of an operator", seconds["single"], rounds, SINGLE_AIM_S),
    ]  # fmt: skip


def log_uniform_shapes(rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return M, N, K spread evenly over decode and prefill sizes; the same every time."""
    rng = np.random.default_rng(0)
    m, n, k = (np.round(2 ** rng.uniform(low, high, rows)) for low, high in ((0, 13), (7, 16), (7, 16)))
    return m, n, k
