"""One pass of a whole model on one chip, kernel by kernel: ideal and expected time, memory, and the gain over 16
bit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import ClassVar

from roofline_model.chips.hardware import Device, doubts_of
from roofline_model.core.answer import IN_PLACE, NOT_IN_JSON
from roofline_model.core.errors import UnsupportedError
from roofline_model.core.finding import Finding
from roofline_model.core.memo import Memo
from roofline_model.kernels.known_kernels import plan_gap
from roofline_model.models.chip_and_model import wide_format
from roofline_model.models.decoder_step import Workload
from roofline_model.models.format_plan import plan_coverage
from roofline_model.models.hf.parameters import parameter_counts
from roofline_model.models.llm import ModelPrediction, predict_model
from roofline_model.models.model_shapes import ModelShape
from roofline_model.models.step_expected import ExpectedStep, expected_step, why_no_step
from roofline_model.models.tensor_parallel import Parallel
from roofline_model.predictions.kernel import Baseline, KernelTimes, ratio

KEPT_BASELINES = 512


@dataclass(frozen=True, slots=True)
class PassPrediction:
    """The ideal and the expected time of one pass of a model; bytes and memory are those of one device."""

    DERIVED: ClassVar = (
        "model",
        "device_count",
        "formats",
        "weight_format",
        "activation_format",
        "kv_format",
        "has_group_scales",
        "expected_tokens_per_s",
        "baseline_format",
        "speedup_ratio",
        "expected_speedup_ratio",
    )

    hardware_name: str
    """Name of the chip."""
    is_placeholder: bool
    """Whether the chip's numbers are invented, for examples only."""
    ideal: ModelPrediction = field(metadata=IN_PLACE)
    """The pass at the speed of light."""
    parameter_count: float
    """Parameters, count."""
    active_parameter_count: float
    """Parameters that one token uses, count."""
    coverage: Finding | None
    """Which matrices have that format; null for a 16-bit plan."""
    expected: ExpectedStep | None
    """What good kernels take in a CUDA graph; null where one of them has no expected time."""
    expected_reason: Finding | None
    """Which kernel has no expected time, and why; null where all have."""
    kernel_gap: Finding | None
    """Why no kernel of a serving engine is known for these formats on this chip; null where none is known to be
    missing.
    """
    kernels: tuple[KernelTimes, ...]
    """The kernels of the pass, in its order."""
    findings: tuple[Finding, ...]
    """What to know about it, may be empty."""
    baseline: Baseline = field(metadata=NOT_IN_JSON)

    @property
    def model(self) -> str:
        """Name of the model."""
        return self.ideal.model.name

    @property
    def device_count(self) -> int:
        """Devices that share the work, count."""
        return self.ideal.parallel.device_count

    @property
    def formats(self) -> str:
        """Formats of weights and activations, as a label; checkpoint: as published."""
        return self.ideal.plan.label

    @property
    def weight_format(self) -> str:
        """Format key of the weights in the matrices of the layers."""
        return self.ideal.plan.base.weights

    @property
    def activation_format(self) -> str:
        """Format key of the activations in the matrices of the layers."""
        return self.ideal.plan.base.activations

    @property
    def kv_format(self) -> str:
        """Format key of keys and values."""
        return self.ideal.plan.kv

    @property
    def has_group_scales(self) -> bool | None:
        """Whether weights narrower than a byte are counted with the scales of their groups; null where there are
        none.
        """
        plan = self.ideal.plan
        return plan.has_group_scales if plan.grouped_weights else None

    @property
    def expected_tokens_per_s(self) -> float | None:
        """At the expected time, tokens per second."""
        return None if self.expected is None else self.ideal.token_count / self.expected.time_s

    @property
    def baseline_format(self) -> str | None:
        """16-bit format that the speed-ups refer to, the one of recommendations; null where the chip has none."""
        return self.baseline.format

    @property
    def speedup_ratio(self) -> float | None:
        """Ideal time of the baseline over time_s; null without a baseline."""
        return ratio(self.baseline.time_s, self.ideal.time_s)

    @property
    def expected_speedup_ratio(self) -> float | None:
        """Expected time of the baseline over that of `expected`; null where either is not known."""
        return ratio(self.baseline.expected_s, None if self.expected is None else self.expected.time_s)


def pass_prediction(ideal: ModelPrediction, chip: Device) -> PassPrediction:
    """Return a predicted pass as an answer, with the expected time beside it."""
    expected = expected_step(ideal, chip)
    counts, plan = parameter_counts(ideal.model), ideal.plan
    calls = [None] * len(ideal.kernels) if expected is None else expected.kernels
    return PassPrediction(
        hardware_name=chip.name,
        is_placeholder=chip.is_placeholder,
        ideal=ideal,
        parameter_count=counts.total_count,
        active_parameter_count=counts.active_count,
        coverage=plan_coverage(plan),
        expected=expected,
        expected_reason=None if expected is not None else why_no_step(ideal, chip),
        kernel_gap=plan_gap(chip, plan.base.weights, plan.base.activations, plan.kv),
        kernels=tuple(
            KernelTimes.of(each.kernel, each.prediction, call) for each, call in zip(ideal.kernels, calls, strict=True)
        ),
        findings=(*ideal.findings, *doubts_of(chip)),
        baseline=_baseline(ideal, chip),
    )


_BASELINES: Memo[Callable[[Workload, Parallel, str | None], Baseline]] = Memo(64)
"""By chip and model: every format of a page or a table is held against the same pass."""


def _baseline(ideal: ModelPrediction, chip: Device) -> Baseline:
    of_model = _BASELINES.of(
        (chip, ideal.model), lambda: lru_cache(KEPT_BASELINES)(partial(_sixteen_bit_pass, chip, ideal.model))
    )
    return of_model(ideal.workload, ideal.parallel, ideal.attention_kernel)


def _sixteen_bit_pass(
    chip: Device, shape: ModelShape, workload: Workload, parallel: Parallel, attention_kernel: str | None
) -> Baseline:
    """Return the same pass in the 16-bit format of recommendations."""
    try:
        wide = wide_format(shape, chip)
    except UnsupportedError:
        return Baseline(None)
    ideal = predict_model(
        chip,
        shape,
        workload.phase,
        batch=workload.batch_count,
        context=workload.context_count,
        new_tokens=workload.new_count,
        formats=wide,
        parallel=parallel,
        attention_kernel=attention_kernel,
    )
    expected = expected_step(ideal, chip)
    return Baseline(wide, ideal.time_s, None if expected is None else expected.time_s)
