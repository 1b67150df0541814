"""One product C(M×N) = A(M×K)·B(K×N) predicted on one chip, in a pair of formats or in several beside each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from roofline_model.chips.hardware import Device
from roofline_model.core.answer import Exclusion
from roofline_model.expected.predict import predict_expected, why_no_expected
from roofline_model.formats.catalog import (
    SIXTEEN_BIT,
    NumberFormat,
    Pair,
    get_format,
    operands_label,
    pair_label,
)
from roofline_model.formats.usual import PRODUCT_COLUMNS
from roofline_model.ideal.roofline import predict, with_storage
from roofline_model.kernels.known_kernels import engine_gap, kernel_gap
from roofline_model.operators.product import gemm, product_of_pair
from roofline_model.predictions.kernel import (
    Baseline,
    KernelAnswer,
    PredictionTable,
    asked_pairs,
    ideal_values,
    operand_formats,
    predicted_table,
    ratio,
    undeclared,
)
from roofline_model.recommend.options import baseline_format, product_baseline, takes_both_operands

Shape = tuple[int, int, int]
"""M, N, K."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProductPrediction(KernelAnswer):
    """The ideal roofline of one product, and the expected time beside it. `time_s` is the speed of light."""

    M: int
    """Rows of A and C, count."""
    N: int
    """Columns of B and C, count."""
    K: int
    """Columns of A, rows of B, count."""
    weight_format: str
    """Format key of B."""
    operands: str
    """Widths in short: W4A16."""
    cache: str
    """cold: operands come from DRAM; warm: they are still in the last-level cache."""

    @property
    def is_weight_only(self) -> bool:
        """Whether the activation is wider than the weight."""
        return get_format(self.activation_format).element_bits > get_format(self.weight_format).element_bits


def sixteen_bit_product(chip: Device, shape: Shape, cache: str = "cold") -> Baseline:
    """Return the baseline of a product, ideal and expected."""
    baseline = product_baseline(chip, shape)
    if baseline is None:
        return Baseline(None)
    work = gemm(*shape, a=baseline)
    ideal = predict(work, chip, cache=cache)
    expected = predict_expected(work, chip, cache=cache, ideal=ideal)
    return Baseline(baseline, ideal.time_s, None if expected is None else expected.time_s)


def predict_product(
    chip: Device, shape: Shape, pair: Pair, *, cache: str = "cold", baseline: Baseline | None = None
) -> ProductPrediction:
    """Predict a product in a pair of formats; `baseline`: where it is known already.

    Raises `UnsupportedError` where the chip cannot compute in the formats.
    """
    weight, activation = pair
    work = product_of_pair(*shape, weight=weight, activation=activation)
    ideal = with_storage(predict(work, chip, cache=cache), weight, activation)
    expected = predict_expected(work, chip, cache=cache, ideal=ideal)
    formats = dict(work.formats)
    operands = formats["b"], formats["a"]
    expected_s = None if expected is None else expected.time_s
    if baseline is None and operands == (product_baseline(chip, shape),) * 2:
        baseline = Baseline(operands[0], ideal.time_s, expected_s)
    wide = baseline or sixteen_bit_product(chip, shape, cache)
    return ProductPrediction(
        **ideal_values(ideal, chip),
        **operand_formats(work),
        op=work.op,
        format=pair_label(pair),
        expected=expected,
        expected_reason=None if expected is not None else why_no_expected(work, chip, cache=cache),
        baseline_format=wide.format,
        speedup_ratio=ratio(wide.time_s, ideal.time_s),
        expected_speedup_ratio=ratio(wide.expected_s, expected_s),
        kernel_gap=kernel_gap(chip, *operands),
        engine_gap=engine_gap(chip, *operands),
        M=shape[0],
        N=shape[1],
        K=shape[2],
        weight_format=operands[0],
        operands=operands_label(*operands),
        cache=cache,
    )


def predict_products(
    chip: Device, shape: Shape, formats: Sequence[str] | None = None, user_formats: Sequence[NumberFormat] = ()
) -> PredictionTable[ProductPrediction]:
    """Predict one shape in the formats asked for, else in the default ones and the `user_formats`.

    A default format is predicted as a recommendation runs it: by both operands where kernels do so, else as weights
    alone. A user's own format is a weight format (Q4_K, …): it is shown as the weight-only product that would run. A
    default format that the chip cannot compute in is excluded with its reason; one that was asked for by name raises
    `UnsupportedError`.
    """
    baseline = sixteen_bit_product(chip, shape)
    excluded: list[Exclusion] = []
    if formats is None:
        names = _default_formats(chip, baseline.format)
        excluded = [undeclared(chip, name) for name in names if not chip.declares(name)]
        # A CPU's baseline is the 16-bit format that is faster at this shape; weight-only kernels keep that of its unit.
        wide = baseline_format(chip)
        pairs = [_default_pair(chip, get_format(name), wide) for name in names if chip.declares(name)]
        pairs += [(fmt, get_format(wide or "FP16")) for fmt in user_formats]
    else:
        pairs = asked_pairs(chip, formats)

    def predict_pair(pair: Pair) -> ProductPrediction:
        return predict_product(chip, shape, pair, baseline=baseline)

    return predicted_table(chip, pairs, predict_pair, excluded=excluded, is_asked=formats is not None)


def _default_formats(chip: Device, baseline: str | None) -> list[str]:
    """Return the default formats, with the baseline before them, or for FP16 on a chip without it."""
    if baseline is None or baseline in PRODUCT_COLUMNS:
        return list(PRODUCT_COLUMNS)
    return [baseline, *(name for name in PRODUCT_COLUMNS if name != "FP16" or chip.declares(name))]


def _default_pair(chip: Device, fmt: NumberFormat, wide: str | None) -> Pair:
    if wide is None or fmt.key in SIXTEEN_BIT or takes_both_operands(chip, fmt, get_format(wide)):
        return fmt, fmt
    return fmt, get_format(wide)
