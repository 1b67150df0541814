"""The time of one pass, kernel by kernel, each from the best source there is: measured, else expected, else ideal."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from roofline_model.chips.hardware import Device
from roofline_model.core.answer import Estimate
from roofline_model.ideal.operator_sequence import predict_operator
from roofline_model.models.decoder_step import StepKernel, Workload, step_kernels
from roofline_model.models.format_plan import FormatPlan
from roofline_model.models.model_shapes import ModelShape
from roofline_model.models.step_expected import Estimator, call_within_ceilings, expected_kernels
from roofline_model.operators.case import Case
from roofline_model.operators.product import Operator
from roofline_model.recommend.search.problem import joined_source

if TYPE_CHECKING:
    from roofline_model.expected.prediction import ExpectedPrediction

Times = Callable[[Case], Estimate | None]
"""Better times than the ideal: asked for each kernel's case, with kernel `*` and cold operands."""


@dataclass(frozen=True, slots=True)
class TimedKernel:
    """One kernel of a pass, and how long one call takes."""

    kernel: StepKernel
    time_s: float
    source: str
    """measured (or what the seam says), expected, ideal."""

    @property
    def key(self) -> tuple[str, Operator]:
        """What tells it from other kernels of the pass."""
        return self.kernel.name, self.kernel.work


@dataclass(frozen=True, slots=True)
class TimedPass:
    """All kernels of one pass, one after the other."""

    kernels: tuple[TimedKernel, ...]

    @property
    def time_s(self) -> float:
        """Time of the pass."""
        return math.fsum(kernel.kernel.calls_count * kernel.time_s for kernel in self.kernels)

    def beyond(self, other: TimedPass) -> tuple[float, str]:
        """Return the time of the calls that `other` does not make, and the sources of these times."""
        theirs = {kernel.key: kernel.kernel.calls_count for kernel in other.kernels}
        extra = [(kernel.kernel.calls_count - theirs.get(kernel.key, 0), kernel) for kernel in self.kernels]
        counted = [(count, estimate) for count, estimate in extra if count > 0]
        return math.fsum(count * estimate.time_s for count, estimate in counted), joined_source(
            estimate.source for _, estimate in counted
        )


def remembering() -> Estimator:
    """Return the estimator of expected times that asks for every operator once: passes of one model differ in few."""
    remembered: dict[tuple[Operator, str], ExpectedPrediction | None] = {}

    def estimate(work: Operator, device: Device) -> ExpectedPrediction | None:
        key = work, device.key
        if key not in remembered:
            remembered[key] = call_within_ceilings(work, device)
        return remembered[key]

    return estimate


def timed_pass(
    shape: ModelShape,
    workload: Workload,
    plan: FormatPlan,
    device: Device,
    *,
    times: Times | None,
    estimate: Estimator | None,
) -> TimedPass:
    """Return one pass with the time of every kernel; without `estimate` no expected times are used.

    Raises `UnsupportedError` for a kernel the chip cannot run.
    """
    kernels = step_kernels(shape, workload, plan)
    expected = (None,) * len(kernels) if estimate is None else expected_kernels(kernels, device, estimate=estimate)
    estimates = []
    for kernel, prediction in zip(kernels, expected, strict=True):
        ideal = predict_operator(kernel.work, device)  # asked always: it refuses what the chip cannot run
        measured = None if times is None else times(kernel.work.case("*", cache="cold"))
        if measured is not None:
            estimates.append(TimedKernel(kernel, measured.time_s, measured.source))
        elif prediction is not None:
            estimates.append(TimedKernel(kernel, prediction.time_s, "expected"))
        else:
            estimates.append(TimedKernel(kernel, ideal.time_s, "ideal"))
    return TimedPass(tuple(estimates))
