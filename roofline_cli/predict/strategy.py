"""`--strategy NAME|FILE`: mixed-precision strategies as they are typed, and what JSON says of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from roofline_model.core.errors import InvalidValueError
from roofline_model.core.finding import short_text

if TYPE_CHECKING:
    from roofline_model.chips.hardware import Device
    from roofline_model.models.llm import ModelPrediction
    from roofline_model.models.strategies.config import MixedPrecisionConfig


def read_strategies(
    names: Sequence[str] | None, layer_count: int, chip: Device | None = None
) -> list[MixedPrecisionConfig]:
    """Return the strategies for a model; raises a `RooflineError` where the `chip` cannot take one."""
    from roofline_model.models.strategies.chip_check import validate_strategy
    from roofline_model.models.strategies.strategy_file import find_strategy

    configs: dict[str, MixedPrecisionConfig] = {}
    for name in names or ():
        if not name.strip():
            raise InvalidValueError("--strategy is empty; name a strategy or a .toml or .json file")
        config = find_strategy(name, num_layers=layer_count)
        if config.name in configs:
            raise InvalidValueError(f"--strategy: two strategies are called {config.name!r}; rename one")
        if chip is not None:
            validate_strategy(config, chip)
        configs[config.name] = config
    return list(configs.values())


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
