"""`--strategy NAME|FILE` of `roofline predict model`: the plan behind a strategy, and what is printed of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from reports.present.blocks import Column, table
from reports.present.screen import show, show_line
from roofline_model.core.errors import InvalidValueError
from roofline_model.core.finding import short_text

if TYPE_CHECKING:
    from roofline_model.chips.hardware import Device
    from roofline_model.models.format_plan import FormatPlan
    from roofline_model.models.llm import ModelPrediction
    from roofline_model.models.model_shapes import ModelShape
    from roofline_model.models.strategies.config import MixedPrecisionConfig

_RUNS_AS = {
    "native": "native",
    "emulated": "emulated",
    "dequantize": "decoded first",
    "vector": "FP32, ordinary cores",
    "storage": "copied",
}


_OPERATORS = (
    Column("Operator", lambda path: path.operator.value, is_head=True),
    Column("Layers", lambda path: path.layers),
    Column("Format", lambda path: path.formats.label),
    Column("Runs as", lambda path: _RUNS_AS.get(path.kind, path.kind)),
    Column("in", lambda path: path.compute_format or "–", drop=1),
)


def strategy_plans(
    names: Sequence[str] | None, shape: ModelShape, chip: Device
) -> dict[str, tuple[MixedPrecisionConfig, FormatPlan]]:
    """Return name → strategy and its plan for a model; raises a `RooflineError` where chip or model cannot take it."""
    from roofline_model.models.strategies.chip_check import validate_strategy
    from roofline_model.models.strategies.model_plan import strategy_plan
    from roofline_model.models.strategies.strategy_file import find_strategy

    plans: dict[str, tuple[MixedPrecisionConfig, FormatPlan]] = {}
    for name in names or ():
        if not name.strip():
            raise InvalidValueError("--strategy is empty; name a strategy or a .toml or .json file")
        config = find_strategy(name, num_layers=shape.layer_count)
        if config.name in plans:
            raise InvalidValueError(f"--strategy: two strategies are called {config.name!r}; rename one")
        validate_strategy(config, chip)
        plans[config.name] = config, strategy_plan(config, shape)
    return plans


def print_strategy(config: MixedPrecisionConfig, chip: Device) -> None:
    """Print the format of every operator and how the chip runs it."""
    from roofline_model.models.strategies.chip_check import check_strategy

    check = check_strategy(config, chip)
    title = f"Strategy {config.name}: {config.description}".rstrip(": ")
    show(table(title, _OPERATORS, check.paths, title=title))
    if check.dequantized:
        names = ", ".join(path.label for path in check.dequantized)
        show_line(
            f"Decoded to the wider format before the product on {chip.key} (bytes are saved, arithmetic is not): "
            f"{names}."
        )


def print_gain(config: MixedPrecisionConfig, prediction: ModelPrediction, chip: Device) -> None:
    """Print what the strategy gains over the FP16 baseline in one pass."""
    from roofline_model.models.strategies.strategy_gain import strategy_gain

    gain = strategy_gain(prediction, chip)
    expected = "" if gain.expected_speedup is None else f", {gain.expected_speedup:.2f}× expected"
    batch = f" at batch {prediction.workload.batch_count}"
    show_line(
        f"{config.name}{batch} against fp16_baseline: {gain.speedup:.2f}× ideal{expected}; saves "
        f"{_percent(gain.memory_saved_ratio)} of "
        f"weights and KV cache ({_percent(gain.layer_weights_saved_ratio)} of the layers' matrices)."
    )


def print_claims(config: MixedPrecisionConfig) -> None:
    """Print what a document claims of the strategy, where one does."""
    claims = config.claims
    if claims is not None:
        show_line(
            f"{config.name}, claimed by {claims.source}: {claims.speedup:.1f}×, {_percent(claims.memory_saved_ratio)} "
            "of memory "
            f"saved, quality loss {claims.quality_loss}; not used here.",
            style="dim",
        )


def strategy_json(config: MixedPrecisionConfig, prediction: ModelPrediction, chip: Device) -> dict[str, Any]:
    """Return a strategy, its paths on the chip, its gain and its claims as plain values."""

    from roofline_model.models.strategies.chip_check import check_strategy
    from roofline_model.models.strategies.strategy_file import strategy_fields
    from roofline_model.models.strategies.strategy_gain import strategy_gain

    return {
        "strategy": strategy_fields(config),
        "batch_count": prediction.workload.batch_count,
        "operators": [
            {
                "operator": path.operator.value,
                "first_layer_index": path.first_layer_index,
                "last_layer_index": path.last_layer_index,
                "weights": path.formats.weights,
                "activations": path.formats.activations,
                "path": path.kind,
                "compute_format": path.compute_format,
                "reason": "; ".join(map(short_text, path.findings)),
            }
            for path in check_strategy(config, chip).paths
        ],
        "gain_over_fp16": asdict(strategy_gain(prediction, chip)),
        "claims": None if config.claims is None else asdict(config.claims),
    }


def _percent(ratio: float) -> str:
    return f"{ratio * 100:.0f} %"
