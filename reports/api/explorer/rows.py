"""One format of the explorer's question on one chip, in the terms that tables, figures and sentences share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from reports.api.explorer.address import Operator
from reports.figures.options_roofline import RooflineOption
from roofline_model.chips.hardware import Device
from roofline_model.core.finding import Finding, reason_text, short_text
from roofline_model.expected.prediction import ExpectedPrediction
from roofline_model.formats.catalog import Pair, attention_name, format_name, pair_label
from roofline_model.models.model_memory import ModelMemory
from roofline_model.models.step_expected import ExpectedStep
from roofline_model.predictions.attention import AttentionPrediction
from roofline_model.predictions.model import PassPrediction
from roofline_model.predictions.product import ProductPrediction

Gap = Literal["", "kernel", "engine"]
"""What is missing to run a format: nothing, any kernel, or a serving engine with one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A prediction. Missing is None; times are seconds, the rest SI as well."""

    operator: Operator
    key: str
    """Formats as the address has them: `INT4.BF16`."""
    label: str
    """What people call them: `INT4 (W4A16)`."""
    weight: str
    activation: str
    is_placeholder: bool
    time_s: float
    """Ideal."""
    bound: str
    intensity_flop_per_byte: float
    ridge_flop_per_byte: float | None
    flops: float
    moved_bytes: float
    peak_flops_per_s: float | None
    bandwidth_bytes_per_s: float
    memory_level: str
    path: str | None
    compute_format: str
    baseline: str | None
    speedup_ratio: float | None
    expected_speedup_ratio: float | None
    expected: ExpectedPrediction | ExpectedStep | None
    expected_reason: Finding | None
    parts_s: Mapping[str, float] | None
    """Part of one kernel's expected time → seconds; None of a pass, and without an expected time."""
    kernels_s: Mapping[str, float]
    """Kernel of a pass → seconds of all its calls, expected where all of them are known; else empty."""
    kernel_gap: Finding | None
    notes: tuple[Finding, ...]
    """What to know about it, before the findings of the ideal time."""
    findings: tuple[Finding, ...]
    """Of the ideal time."""
    memory: ModelMemory | None = None
    tokens_per_s: float | None = None
    unfused_s: float | None = None

    @property
    def gap(self) -> Gap:
        """What is missing to run it: an engine where a library has the kernel."""
        if self.kernel_gap is None:
            return ""
        return "kernel" if self.kernel_gap.value("library") is None else "engine"

    @property
    def fits(self) -> bool | None:
        """Whether it fits the chip's memory; None where nobody knows, and for one kernel."""
        return None if self.memory is None else self.memory.fits

    @property
    def is_possible(self) -> bool:
        """Whether nothing is known to be missing."""
        return not self.gap and self.fits is not False

    @property
    def is_baseline(self) -> bool:
        """Whether the others are compared with it."""
        return self.key == self.baseline

    @property
    def judged_s(self) -> float:
        """The time it is judged by: the expected one where there is one."""
        return self.time_s if self.expected is None else self.expected.time_s

    @property
    def gain_ratio(self) -> float | None:
        """Over the baseline: expected against expected where both are known, else ideal against ideal."""
        is_expected = self.expected is not None and self.expected_speedup_ratio is not None
        return self.expected_speedup_ratio if is_expected else self.speedup_ratio

    @property
    def remarks(self) -> tuple[str, ...]:
        """What the prediction itself says, in words."""
        expected = self.expected
        of_time = () if expected is None else (expected.beside_ideal,)
        of_parts = expected.findings if isinstance(expected, ExpectedPrediction) else ()
        findings = [*self.notes, *of_time, *of_parts, *self.findings]
        why_not = [reason_text(self.expected_reason)] if expected is None and self.expected_reason else []
        return (*(short_text(each) for each in findings if each is not None), *why_not)

    def option(self) -> RooflineOption | None:
        """Return it as the roofline draws it; None where the roof is not known."""
        if not self.peak_flops_per_s:
            return None
        expected = self.expected
        return RooflineOption(
            self.key,
            self.label,
            self.compute_format,
            self.path or "",
            self.memory_level,
            self.peak_flops_per_s,
            self.bandwidth_bytes_per_s,
            self.intensity_flop_per_byte,
            self.flops,
            self.time_s,
            self.bound,
            *((expected.time_s, expected.low_s, expected.high_s) if expected is not None else ()),
        )


def kernel_row(answer: ProductPrediction | AttentionPrediction, pair: Pair) -> Row:
    """Return a prediction of one kernel."""
    weight, activation = (each.key for each in pair)
    is_product = isinstance(answer, ProductPrediction)
    return Row(
        operator="product" if is_product else "attention",
        key=pair_label(pair),
        label=format_name(weight, activation) if is_product else attention_name(weight, activation),
        weight=weight,
        activation=activation,
        is_placeholder=answer.is_placeholder,
        time_s=answer.time_s,
        bound=answer.bound,
        intensity_flop_per_byte=answer.intensity_flop_per_byte,
        ridge_flop_per_byte=answer.critical_intensity_flop_per_byte,
        flops=answer.flops,
        moved_bytes=answer.read_bytes + answer.write_bytes,
        peak_flops_per_s=answer.peak_flops_per_s,
        bandwidth_bytes_per_s=answer.bandwidth_bytes_per_s,
        memory_level=answer.memory_level,
        path=answer.path,
        compute_format=answer.compute_format,
        baseline=answer.baseline_format,
        speedup_ratio=answer.speedup_ratio,
        expected_speedup_ratio=answer.expected_speedup_ratio,
        expected=answer.expected,
        expected_reason=answer.expected_reason,
        parts_s=None if answer.expected is None else dict(answer.expected.parts),
        kernels_s={},
        kernel_gap=answer.kernel_gap,
        notes=() if answer.engine_gap is None else (answer.engine_gap,),
        findings=answer.findings,
        unfused_s=None if isinstance(answer, ProductPrediction) else answer.unfused_time_s,
    )


def pass_row(answer: PassPrediction, chip: Device, key: str, label: str = "") -> Row:
    """Return a prediction of one pass of a model; `label`: of a plan that is no pair of formats."""
    path, ideal, expected = chip.paths.get(answer.activation_format), answer.ideal, answer.expected
    times = {
        f"{each.name}{f' ×{each.calls_count:g}' if each.calls_count > 1 else ''}": (each.expected_s, each.time_s)
        for each in answer.kernels
    }
    is_expected = all(expected_s is not None for expected_s, _ in times.values())
    return Row(
        operator="model",
        key=key,
        label=label or format_name(answer.weight_format, answer.activation_format),
        weight=answer.weight_format,
        activation=answer.activation_format,
        is_placeholder=answer.is_placeholder,
        time_s=ideal.time_s,
        bound=ideal.bound,
        intensity_flop_per_byte=ideal.flops / ideal.moved_bytes,
        ridge_flop_per_byte=None if path is None else chip.critical_intensity(path.format),
        flops=ideal.flops,
        moved_bytes=ideal.moved_bytes,
        peak_flops_per_s=None if path is None else path.dense.value,
        bandwidth_bytes_per_s=chip.bandwidth.value,
        memory_level="DRAM",
        path=None,
        compute_format=answer.activation_format if path is None else path.compute_format,
        baseline=answer.baseline_format,
        speedup_ratio=answer.speedup_ratio,
        expected_speedup_ratio=answer.expected_speedup_ratio,
        expected=expected,
        expected_reason=answer.expected_reason,
        parts_s=None,
        kernels_s={name: (both[0] if is_expected else both[1]) or 0.0 for name, both in times.items()},
        kernel_gap=answer.kernel_gap,
        notes=() if answer.coverage is None else (answer.coverage,),
        findings=answer.findings,
        memory=ideal.memory,
        tokens_per_s=answer.expected_tokens_per_s or ideal.tokens_per_s,
    )
