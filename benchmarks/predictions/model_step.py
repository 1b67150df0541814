"""One pass of the largest shipped dense model: from its name to the time of every kernel, ideal and expected."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

from benchmarks.timing.interleave import batch_seconds, interleaved
from benchmarks.timing.rows import Row
from roofline_model.chips.hardware import get_hardware
from roofline_model.models.llm import predict_model
from roofline_model.models.step_expected import expected_step

MODEL_STEP_AIM_S = 20e-3
MODEL = "llama-3.1-405b"
LAYERWISE = tuple(f"ffn@{layer}={'FP8' if layer % 2 else 'NVFP4.BF16'}" for layer in range(126))
"""A format for every layer by itself: what a mixed-precision search asks for."""


def measure(folder: Path, *, quick: bool) -> list[Row]:
    """Time passes in turn; the median over batches."""
    rounds, calls = (5, 1) if quick else (31, 5)
    chip = get_hardware("b200")
    ideal = partial(predict_model, chip, MODEL, context=8192)
    contestants: dict[str, Callable[[], object]] = {
        "ideal": ideal,
        "expected": lambda: expected_step(ideal(), chip),
        "layerwise": partial(predict_model, chip, MODEL, context=8192, exceptions=LAYERWISE),
    }
    for contestant in contestants.values():
        contestant()
    timed = {name: partial(batch_seconds, contestant, calls) for name, contestant in contestants.items()}
    seconds = {name: median(values) for name, values in interleaved(timed, rounds).items()}
    return [
        Row("one pass of Llama 3.1 405B, ideal", seconds["ideal"], rounds, MODEL_STEP_AIM_S),
        Row("… ideal and expected", seconds["expected"], rounds, MODEL_STEP_AIM_S),
        Row("… ideal, every layer in a format of its own", seconds["layerwise"], rounds, None),
    ]
