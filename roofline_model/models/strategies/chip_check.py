"""Can a chip run a strategy, and how: the path of every operator, above all what is decoded to 16 bit first.

The paths are those of the ideal roofline (`roofline.predict`), so that a check and a prediction never disagree.
"""

from __future__ import annotations

from dataclasses import dataclass

from roofline_model.chips.hardware import Device, get_hardware
from roofline_model.core.errors import UnsupportedError
from roofline_model.core.finding import Finding, finding, finding_of, short_text
from roofline_model.ideal.roofline import predict
from roofline_model.models.format_plan import PartFormats
from roofline_model.models.strategies.config import MixedPrecisionConfig
from roofline_model.models.strategies.layer_precisions import layers_label
from roofline_model.models.strategies.operator_type import (
    ATTENTION_PRODUCTS,
    PROJECTIONS,
    VECTOR_OPERATORS,
    OperatorType,
)
from roofline_model.operators.attention import attention
from roofline_model.operators.product import Operator, gemm

_SIZE = 128
"""Any size shows the path; this one is a multiple of every block."""


@dataclass(frozen=True, slots=True)
class OperatorPath:
    """How a chip runs one operator of a strategy, in all layers or in a range of them."""

    operator: OperatorType
    formats: PartFormats
    kind: str
    """native, emulated, dequantize (decoded to the wider format before the product), vector (ordinary cores, FP32),
    storage (copied, no arithmetic) or unsupported.
    """
    compute_format: str
    """Format whose unit does the arithmetic; empty where nothing is computed."""
    findings: tuple[Finding, ...] = ()
    """Why it takes this path."""
    first_layer_index: int | None = None
    """First and last layer, from 0; None: every layer."""
    last_layer_index: int | None = None

    @property
    def layers(self) -> str:
        """`all`, `11-21`, or `3` for one layer."""
        return layers_label(self.first_layer_index, self.last_layer_index)

    @property
    def label(self) -> str:
        """`ffn_gate`, or `ffn_gate@11-21`."""
        return self.operator.value if self.first_layer_index is None else f"{self.operator.value}@{self.layers}"


@dataclass(frozen=True, slots=True)
class StrategyCheck:
    """A strategy on a chip."""

    strategy: str
    hardware: str
    paths: tuple[OperatorPath, ...]
    """Every operator, those that vary with depth once for each range."""

    @property
    def dequantized(self) -> tuple[OperatorPath, ...]:
        """Operators whose narrow operand is decoded to 16 bit before the product: they save bytes, no arithmetic."""
        return tuple(path for path in self.paths if path.kind == "dequantize")

    @property
    def unsupported(self) -> tuple[OperatorPath, ...]:
        """Operators the chip cannot run at all."""
        return tuple(path for path in self.paths if path.kind == "unsupported")

    @property
    def is_runnable(self) -> bool:
        """Whether every operator runs."""
        return not self.unsupported


def check_strategy(config: MixedPrecisionConfig, hardware: Device | str) -> StrategyCheck:
    """Return the path of every operator. Raises `UnknownNameError` for the chip, never for one that cannot run the
    strategy.
    """
    device = get_hardware(hardware)
    paths = [
        _path(config, device, operator, formats, first, last)
        for operator in OperatorType
        for first, last, formats in config.spans(operator)
    ]
    return StrategyCheck(config.name, device.key, tuple(paths))


def validate_strategy(config: MixedPrecisionConfig, hardware: Device | str) -> StrategyCheck:
    """Return the check, or raise `UnsupportedError` naming the first operator that the chip cannot run."""
    check = check_strategy(config, hardware)
    if check.unsupported:
        first = check.unsupported[0]
        others = len(check.unsupported) - 1
        more = f" (and {others} more)" if others else ""
        raise UnsupportedError(
            f"{config.name}: {first.label}={first.formats.label}{more}: {short_text(first.findings[0])}"
        )
    return check


def _path(
    config: MixedPrecisionConfig,
    device: Device,
    operator: OperatorType,
    formats: PartFormats,
    first: int | None,
    last: int | None,
) -> OperatorPath:
    if operator in VECTOR_OPERATORS:
        return OperatorPath(operator, formats, "vector", "FP32", (finding("no-product", kind="vector"),), first, last)
    if operator is OperatorType.EMBEDDINGS:
        return OperatorPath(operator, formats, "storage", "", (finding("no-product", kind="copied"),), first, last)
    try:
        prediction = predict(_work(config, operator, formats), device)
    except UnsupportedError as error:
        return OperatorPath(operator, formats, "unsupported", "", (finding_of(error),), first, last)
    return OperatorPath(operator, formats, prediction.path, prediction.compute_format, prediction.findings, first, last)


def _work(config: MixedPrecisionConfig, operator: OperatorType, formats: PartFormats) -> Operator:
    """Return an operator of the catalog that takes the same path."""
    if operator in PROJECTIONS:
        return gemm(_SIZE, _SIZE, _SIZE, a=formats.activations, b=formats.weights, c=config.wide_precision)
    # The cache is widened by the product that reads it; a product of its own format shows the unit.
    query = formats.weights if operator in ATTENTION_PRODUCTS else config.get_precision(OperatorType.QK_MATMUL)
    return attention(1, 1, 1, 1, _SIZE, _SIZE, q=query, kv=formats.weights, o=config.wide_precision)
