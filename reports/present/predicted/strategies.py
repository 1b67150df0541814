"""What is said of a mixed-precision strategy: its formats and how the chip runs them, its gain, what others claim."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from reports.present.blocks import Block, Column, Paragraph, table
from roofline_model.core.units import format_percent

if TYPE_CHECKING:
    from roofline_model.chips.hardware import Device
    from roofline_model.models.llm import ModelPrediction
    from roofline_model.models.strategies.config import MixedPrecisionConfig

_RUNS_AS = {
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


def strategy_blocks(
    used: Sequence[tuple[MixedPrecisionConfig, ModelPrediction]], chip: Device, *, with_operators: bool
) -> Iterator[Block]:
    """Yield of each strategy the format of every operator and how the chip runs it, then what each gains over the FP16
    baseline in its passes, and what a document claims of it. `used`: strategy and pass.
    """
    from roofline_model.models.strategies.chip_check import check_strategy
    from roofline_model.models.strategies.strategy_gain import strategy_gain

    strategies = list({config.name: config for config, _ in used}.values())
    for config in strategies if with_operators else ():
        check = check_strategy(config, chip)
        title = f"Strategy {config.name}: {config.description}".rstrip(": ")
        yield table(title, _OPERATORS, check.paths, title=title)
        if check.dequantized:
            names = ", ".join(path.label for path in check.dequantized)
            decoded = f"Decoded to the wider format before the product on {chip.key}"
            yield Paragraph(f"{decoded} (bytes are saved, arithmetic is not): {names}.")
    for config, ideal in used:
        gain = strategy_gain(ideal, chip)
        expected = "" if gain.expected_speedup is None else f", {gain.expected_speedup:.2f}× expected"
        yield Paragraph(
            f"{config.name} at batch {ideal.workload.batch_count} against fp16_baseline: {gain.speedup:.2f}× "
            f"ideal{expected}; saves {format_percent(gain.memory_saved_ratio, 0)} of weights and KV cache "
            f"({format_percent(gain.layer_weights_saved_ratio, 0)} of the layers' matrices)."
        )
    for config in strategies:
        if (claims := config.claims) is not None:
            saved = format_percent(claims.memory_saved_ratio, 0)
            yield Paragraph(
                f"{config.name}, claimed by {claims.source}: {claims.speedup:.1f}×, {saved} of memory saved, quality "
                f"loss {claims.quality_loss}; not used here.",
                "quiet",
            )
