"""GEMM predictions, ideal and expected: many in one array, as sweeps and validations ask for them, and a single
expected one.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks.timing.interleave import batch_seconds, interleaved
from benchmarks.timing.rows import Row
from roofline_model import gemm, get_hardware
from roofline_model.chips.hardware import Device
from roofline_model.expected.chip import ChipSpec
from roofline_model.expected.predict import predict_expected
from roofline_model.expected.products.formula import expected_gemm
from roofline_model.formats.catalog import get_format
from roofline_model.ideal.roofline import ProductRoof

IDEAL_AIM_S = 1 / 5_000_000
"""Five million ideal predictions per second on one core."""
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
    timed["ideal"] = partial(batch_seconds, partial(_ideal, chips["h100-sxm"], shapes), 1)
    timed["single"] = partial(batch_seconds, partial(predict_expected, work, chips["gb10"]), calls)
    for contestant in timed.values():
        contestant()
    seconds = {name: median(values) for name, values in interleaved(timed, rounds).items()}
    return [
        Row(
            "one ideal GEMM of an array",
            seconds["ideal"] / rows,
            rounds,
            IDEAL_AIM_S,
            note=f"{rows / seconds['ideal']:,.0f} per second: FLOPs, bytes, both sides of the roof",
        ),
        *(
            Row(
                f"one expected GEMM of an array, {name}",
                seconds[name] / rows,
                rounds,
                ARRAY_AIM_S,
                note=f"{rows / seconds[name]:,.0f} per second, {rows:,} at once",
            )
            for name in arrays
        ),
        Row(
            "one expected prediction of an operator",
            seconds["single"],
            rounds,
            SINGLE_AIM_S,
        ),
    ]


def _ideal(chip: Device, shapes: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    bf16 = get_format("BF16")
    assert len(ProductRoof.of(chip, activation=bf16, weight=bf16, output=bf16).at(*shapes).time_s) == len(shapes[0])


def log_uniform_shapes(rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return M, N, K spread evenly over decode and prefill sizes; the same every time."""
    rng = np.random.default_rng(0)
    m, n, k = (np.round(2 ** rng.uniform(low, high, rows)) for low, high in ((0, 13), (7, 16), (7, 16)))
    return m, n, k
