"""The search for a format per layer at 80 layers × 7 formats, and a recommendation for one shape."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

from benchmarks.timing.interleave import batch_seconds, interleaved
from benchmarks.timing.rows import Row
from roofline_model.chips.hardware import get_hardware
from roofline_model.recommend.search.front import pareto_front
from roofline_model.recommend.search.losses import LossTable
from roofline_model.recommend.search.model_problem import model_problem
from roofline_model.recommend.search.problem import Budgets, FormatChoice, LayerGroup, ParetoProblem
from roofline_model.recommend.search.search import choose_formats
from roofline_model.recommend.shape import recommend_quantization

PARETO_AIM_S = 1.0
SHAPE_AIM_S = 5e-3
LAYERS = 80
FORMATS = {"BF16": 16.0, "FP8": 8.0, "INT8": 8.125, "MXFP6": 6.25, "NVFP4": 4.5, "MXFP4": 4.25, "INT4": 4.125}
"""Format → bits of a weight, scales included."""
MODEL = "llama-3.1-70b"
PARTS = ("qkv_proj", "o_proj", "gate_up_proj", "down_proj", "kv")
MODEL_FORMATS = {
    "FP8_E4M3": 0.01,
    "NVFP4": 0.1,
    "NVFP4.BF16": 0.05,
    "MXFP4.BF16": 0.06,
    "INT8.BF16": 0.008,
    "INT4.BF16": 0.08,
}
"""Format → any loss: the search takes as long with true ones."""


def measure(folder: Path, *, quick: bool) -> list[Row]:
    """Time each in turn; the median over rounds."""
    rounds = 3 if quick else 11
    layers = layered_problem(LAYERS)
    everything = tuple(
        sum(values)
        for values in zip(
            *((group.choices[0].time_s, group.choices[0].memory_bytes) for group in layers.groups), strict=True
        )
    )
    budgets = Budgets(0.5 * everything[0], 0.45 * everything[1])
    chip = get_hardware("b200")
    shape = partial(recommend_quantization, chip, 1, 4096, 4096)
    contestants: dict[str, Callable[[], object]] = {
        "search": lambda: (choose_formats(layers, budgets), pareto_front(layers)),
        "model": partial(_whole_model, chip),
        "shape": shape,
    }
    for contestant in contestants.values():
        contestant()
    timed = {name: partial(batch_seconds, contestant, 1) for name, contestant in contestants.items()}
    seconds = {name: median(values) for name, values in interleaved(timed, rounds).items()}
    return [
        Row(
            f"Pareto front and choice, {LAYERS} layers × {len(FORMATS)} formats",
            seconds["search"],
            rounds,
            PARETO_AIM_S,
            note="two budgets; every layer has losses, times and bytes of its own",
        ),
        Row(
            f"… of {MODEL}, 5 groups a layer, times included",
            seconds["model"],
            rounds,
            note="expected times of every part in every format, then front and choice over 400 groups",
        ),
        Row("recommendation for one shape, ideal times", seconds["shape"], rounds, SHAPE_AIM_S),
    ]


def layered_problem(layer_count: int, *, seed: int = 0) -> ParetoProblem:
    """Return a problem whose layers all differ: no two share a loss or a time."""
    random_ = random.Random(seed)
    groups = []
    for layer in range(layer_count):
        weight, size = random_.uniform(0.5, 2.0), random_.uniform(0.8, 1.25)
        choices = tuple(
            FormatChoice(
                name,
                0.0 if name == "BF16" else weight * 2.0**-bits * random_.uniform(0.5, 1.5),
                1e-3 * size * (bits / 16 + random_.uniform(0.0, 0.05)),
                4e8 * size * bits / 16,
                "ideal",
            )
            for name, bits in FORMATS.items()
        )
        groups.append(LayerGroup(f"layers.{layer}", choices))
    return ParetoProblem(tuple(groups), loss_source="drawn", confidence="low")


def _whole_model(chip: object) -> None:
    parts = [f"layers.{layer}.{part}" for layer in range(LAYERS) for part in PARTS]
    losses = {(part, name): loss for part in parts for name, loss in MODEL_FORMATS.items() if not part.endswith("kv")}
    losses |= {(part, "FP8_E4M3"): 0.01 for part in parts if part.endswith("kv")}
    problem = model_problem(chip, MODEL, LossTable(losses, "any", "low"), kv_formats=["FP8_E4M3"])  # type: ignore[arg-type]
    wide_s = problem.pass_time_s(problem.base)
    choose_formats(problem.problem, Budgets(time_s=0.5 * wide_s))
    pareto_front(problem.problem)
