"""A feed-forward block predicted on one chip, kernel by kernel, in a pair of formats or in several beside each
other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from roofline_model.chips.hardware import Device
from roofline_model.core.answer import Exclusion
from roofline_model.core.errors import InvalidValueError
from roofline_model.core.finding import Finding
from roofline_model.formats.catalog import NumberFormat, Pair, format_name, get_format, operands_label, pair_label
from roofline_model.formats.usual import FFN_PAIRS
from roofline_model.ideal.operator_sequence import SequencePrediction, predict_sequence
from roofline_model.kernels.known_kernels import engine_gap, kernel_gap
from roofline_model.models.decoder_step import StepKernel
from roofline_model.models.step_expected import (
    ExpectedSequence,
    expected_kernels,
    expected_sequence,
    why_no_kernels,
)
from roofline_model.operators.layers import ffn_parts
from roofline_model.operators.product import Operator, stored_weight
from roofline_model.predictions.kernel import Baseline, KernelTimes, PredictionTable, predicted_table, ratio, undeclared
from roofline_model.recommend.options import baseline_format


@dataclass(frozen=True, slots=True)
class FfnQuestion:
    """One block: tokens, sizes, and which kernels it is made of."""

    tokens_count: int
    """Tokens computed together, count."""
    hidden_size: int
    """Size of the residual stream, elements."""
    ffn_size: int
    """Size of the layer in between, elements."""
    is_gated: bool = True
    """SwiGLU: gate, up and down; else up and down with GELU."""
    is_fused: bool = False
    """Gate, up and the activation function in one kernel."""
    dynamic_activation_quantization: bool = False
    """Whether kernels that cast activations narrower than 16 bits are counted."""

    def work(self, pair: Pair) -> dict[str, Operator]:
        """Return the kernels by name, in the order they run."""
        weight, activation = pair
        return ffn_parts(
            self.tokens_count,
            self.hidden_size,
            self.ffn_size,
            a=activation,
            b=stored_weight(weight, activation),
            gated=self.is_gated,
            fused=self.is_fused,
            dynamic_activation_quantization=self.dynamic_activation_quantization and activation.element_bits < 16,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FfnPrediction(SequencePrediction):
    """The ideal time of a block's kernels one after the other, and the expected time beside it."""

    hardware_name: str
    """Name of the chip."""
    is_placeholder: bool
    """Whether the chip's numbers are invented, for examples only."""
    op: str = "ffn"
    """ffn."""
    question: FfnQuestion
    """The block that was asked for."""
    format: str
    """The pair of formats: `INT4.BF16`, weight first; `FP8_E4M3` for both."""
    weight_format: str
    """Format key of the weights."""
    activation_format: str
    """Format key of the activations."""
    operands: str
    """Widths in short: W4A16."""
    expected: ExpectedSequence | None
    """What good kernels take one after the other; null where one of them has no expected time."""
    expected_reason: Finding | None
    """Which kernel has no expected time, and why; null where all have."""
    baseline_format: str | None
    """16-bit format that the speed-ups refer to; null where the chip has none."""
    speedup_ratio: float | None
    """Ideal time of the baseline over time_s; null without a baseline."""
    expected_speedup_ratio: float | None
    """Expected time of the baseline over that of `expected`; null where either is not known."""
    kernel_gap: Finding | None
    """Why no kernel is known to run the block's products on this chip; null where none is known to be missing."""
    engine_gap: Finding | None
    """That no serving engine has a kernel for them on this chip, though a library (torch) may; null where one has."""
    kernels: tuple[KernelTimes, ...]
    """The kernels in the order they run."""

    @property
    def formats_name(self) -> str:
        """What people call its formats: `INT4 (W4A16)`."""
        return format_name(self.weight_format, self.activation_format)


def predict_ffn(chip: Device, question: FfnQuestion, pair: Pair, *, baseline: Baseline | None = None) -> FfnPrediction:
    """Predict a block in a pair of formats, weight and activation; `baseline`: where it is known already.

    Raises `UnsupportedError` where the chip cannot compute in the formats.
    """
    ideal = predict_sequence(question.work(pair), chip)
    steps = [StepKernel(part.name, part.work, 1) for part in ideal.parts]
    calls = expected_kernels(steps, chip)
    expected = expected_sequence(calls, chip, ideal.time_s)
    weight, activation = pair[0].key, pair[1].key
    wide = baseline or sixteen_bit_ffn(chip, question)
    return FfnPrediction(
        hardware=chip.key,
        parts=ideal.parts,
        hardware_name=chip.name,
        is_placeholder=chip.is_placeholder,
        question=question,
        format=pair_label(pair),
        weight_format=weight,
        activation_format=activation,
        operands=operands_label(weight, activation),
        expected=expected,
        expected_reason=None if expected is not None else why_no_kernels(steps, chip),
        baseline_format=wide.format,
        speedup_ratio=ratio(wide.time_s, ideal.time_s),
        expected_speedup_ratio=ratio(wide.expected_s, None if expected is None else expected.time_s),
        kernel_gap=kernel_gap(chip, weight, activation),
        engine_gap=engine_gap(chip, weight, activation),
        kernels=tuple(
            KernelTimes.of(step, part.prediction, call)
            for step, part, call in zip(steps, ideal.parts, calls, strict=True)
        ),
    )


def sixteen_bit_ffn(chip: Device, question: FfnQuestion) -> Baseline:
    """Return the baseline of a block, ideal and expected."""
    baseline = baseline_format(chip)
    if baseline is None:
        return Baseline(None)
    wide = get_format(baseline)
    ideal = predict_sequence(question.work((wide, wide)), chip)
    expected = expected_sequence(expected_kernels([StepKernel(part.name, part.work, 1) for part in ideal.parts], chip))
    return Baseline(baseline, ideal.time_s, None if expected is None else expected.time_s)


def predict_ffns(
    chip: Device, question: FfnQuestion, pairs: Sequence[Pair] | None = None, user_formats: Sequence[NumberFormat] = ()
) -> PredictionTable[FfnPrediction]:
    """Predict one block in the pairs asked for, else in the default ones and with weights in the `user_formats`.

    Raises `InvalidValueError` where cast kernels are asked for and no pair has activations narrower than 16 bits.
    """
    baseline = sixteen_bit_ffn(chip, question)
    chosen, excluded = _default_pairs(chip, baseline.format, user_formats) if pairs is None else (pairs, [])
    if question.dynamic_activation_quantization and not any(pair[1].element_bits < 16 for pair in chosen):
        raise InvalidValueError(
            "--dynamic-activation-quantization needs a format with activations narrower than 16 bits; add one to "
            "--formats, "
            "e.g. FP8"
        )

    def predict_pair(pair: Pair) -> FfnPrediction:
        return predict_ffn(chip, question, pair, baseline=baseline)

    return predicted_table(chip, chosen, predict_pair, excluded=excluded, is_asked=pairs is not None)


def _default_pairs(
    chip: Device, baseline: str | None, user_formats: Sequence[NumberFormat]
) -> tuple[list[Pair], list[Exclusion]]:
    """Return 16 bits, the formats that the chip multiplies in, then weight-only ones."""
    wide = get_format(baseline or "FP16")
    declared = [get_format(name) for name in FFN_PAIRS if chip.declares(name)]
    excluded = [undeclared(chip, name) for name in FFN_PAIRS if not chip.declares(name)]
    narrow = [get_format("INT8"), get_format("INT4"), *user_formats]
    return [(wide, wide), *((fmt, fmt) for fmt in declared), *((fmt, wide) for fmt in narrow)], excluded
