"""The recommendation for a whole model: every usual plan and strategy, and with losses the search of a format per
layer.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

from benchmarks.timing.interleave import batch_seconds, interleaved
from benchmarks.timing.rows import Row
from roofline_model.chips.hardware import get_hardware
from roofline_model.models.model_registry import get_model
from roofline_model.recommend.model import recommend_model
from roofline_model.recommend.search.losses_file import MeasuredLosses

PLANS_AIM_S = 1.0
SEARCH_AIM_S = 2.0
SMALL, LARGE = "llama-3-8b", "llama-3.1-70b"
FORMATS = {
    "FP8_E4M3": 1e-5, "INT8.BF16": 5e-6, "INT8": 3e-5, "NVFP4": 2e-4, "NVFP4.BF16": 1e-4, "MXFP4.BF16": 1.2e-4, "INT4.BF16": 1.5e-4,
}  # fmt: skip
"""Format → any loss in nats per token: the search takes as long with true ones."""


def measure(folder: Path, *, quick: bool) -> list[Row]:
    """Time each in turn; the median over rounds."""
    rounds = 2 if quick else 11
    chip, losses = get_hardware("gb10"), losses_of(LARGE)
    contestants: dict[str, Callable[[], object]] = {
        "plans": partial(recommend_model, chip, SMALL),
        "search": partial(recommend_model, chip, LARGE, losses=losses, max_latency_s=0.3),
    }
    for contestant in contestants.values():
        contestant()
    timed = {name: partial(batch_seconds, contestant, 1) for name, contestant in contestants.items()}
    seconds = {name: median(values) for name, values in interleaved(timed, rounds).items()}
    layers = get_model(LARGE).layer_count
    return [
        Row(
            f"recommendation for {SMALL}, without losses",
            seconds["plans"],
            rounds,
            PLANS_AIM_S,
            note="after the first one of the process",
        ),
        Row(
            f"… for {LARGE} with losses, {layers} layers × {len(FORMATS)} formats",
            seconds["search"],
            rounds,
            SEARCH_AIM_S,
            note="two searches and the front",
        ),
    ]


def losses_of(model: str) -> MeasuredLosses:
    """Return losses of every part and layer that all differ: later layers lose less, no two alike."""
    layer_count = get_model(model).layer_count
    values = {
        (f"layers.{layer}.{part}", name): loss * (1 + at / 10) * (2 - layer / layer_count)
        for layer in range(layer_count)
        for at, part in enumerate(("qkv_proj", "o_proj", "gate_up_proj", "down_proj"))
        for name, loss in FORMATS.items()
    }
    return MeasuredLosses(values, model, "kl", text="none: any loss", tokens_count=1)
