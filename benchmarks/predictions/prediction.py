"""One prediction, from Python: the roofline of an operator that is there already, and from shape and format names."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from statistics import median

from benchmarks.timing.interleave import batch_seconds, interleaved
from benchmarks.timing.rows import Row
from roofline_model import gemm, get_hardware, predict, predict_gemm

PREDICTION_AIM_S = 20e-6


def measure(folder: Path, *, quick: bool) -> list[Row]:
    """Time batches of predictions in turn; the median over batches."""
    rounds, calls = (9, 200) if quick else (101, 500)
    chip = get_hardware("gb10")
    work = gemm(8, 4096, 4096, a="BF16", b="INT4")
    contestants = {
        "operator": lambda: predict(work, chip, cache="cold"),
        "names": lambda: predict_gemm("gb10", 8, 4096, 4096, "BF16", weight_precision="INT4"),
    }
    for contestant in contestants.values():
        contestant()
    timed = {name: partial(batch_seconds, contestant, calls) for name, contestant in contestants.items()}
    seconds = {name: median(values) for name, values in interleaved(timed, rounds).items()}
    return [
        Row("one prediction of an operator", seconds["operator"], rounds, PREDICTION_AIM_S),
        Row(
            "… from shape, format and chip names",
            seconds["names"],
            rounds,
            None,
            note="builds the operator and looks up chip and formats by name",
        ),
    ]
