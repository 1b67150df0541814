"""Predict a plan on a chip for a user's traffic: time with an interval, memory, path and reason."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from roofline_model.decoder.format_plan import FormatPlan
from roofline_model.decoder.llm import ModelPrediction, predict_model
from roofline_model.decoder.model_shapes import ModelShape
from roofline_model.decoder.step_expected import why_no_step
from roofline_model.errors import UnsupportedError
from roofline_model.hardware import Device
from roofline_model.model_choice.answer import ModelCandidate
from roofline_model.model_choice.cache_slowdown import cache_slowdown
from roofline_model.model_choice.plan_candidates import PlanCandidate, published_candidate
from roofline_model.model_choice.plan_formats import PlanFormats, formats_text
from roofline_model.model_choice.plan_kernels import NO_KERNELS, plan_kernels, reference_kernel_of
from roofline_model.model_choice.plan_paths import execution_path, plan_bound, plan_methods, plan_reason
from roofline_model.model_choice.plan_quality import LossBook, plan_quality
from roofline_model.model_choice.time_kinds import CEILINGS, EXPECTED, IDEAL, ExpectedPasses, is_comparable
from roofline_model.pareto.model_problem import TrafficShare


class PassEstimate(Protocol):
    """A better time of a pass than the ideal one; `ExpectedStep` and `TimeEstimate` are such. A `source` names its kind."""

    @property
    def time_s(self) -> float:
        """Time of the pass."""
        ...

    @property
    def low_s(self) -> float | None:
        """Lower end of its 80 % interval; None without one."""
        ...

    @property
    def high_s(self) -> float | None:
        """Upper end."""
        ...

    @property
    def provenance(self) -> str:
        """Where it comes from: measured-here, fitted, transferred-…"""
        ...


PassTimes = Callable[[ModelPrediction], PassEstimate | None]


_WHY = {
    IDEAL: "no better time than the ideal is known",
    CEILINGS: "its kernels were not timed on this machine, its time is what the ceilings allow",
}


@dataclass(frozen=True, slots=True)
class _MixTime:
    """Time of the mean pass."""

    time_s: float
    source: str
    low_s: float | None = None
    high_s: float | None = None
    provenance: str = ""


class Weigher:
    """Predicts plans of one model on one chip for one traffic; ranks nothing."""

    def __init__(
        self,
        device: Device,
        shape: ModelShape,
        traffic: Sequence[TrafficShare],
        *,
        estimate: PassTimes | None,
        headroom_ratio: float,
    ) -> None:
        self.device, self.shape, self.traffic = device, shape, tuple(traffic)
        self._estimate = estimate or ExpectedPasses(device)
        self.is_listed = estimate is None
        """Whether plans run on kernels of released engines; a caller's own times are of the caller's own kernels."""
        self._headroom_ratio = headroom_ratio
        whole = math.fsum(one.share_ratio for one in traffic)
        self._shares = [one.share_ratio / whole for one in traffic]
        self.baseline: ModelCandidate | None = None
        self._baseline_passes: tuple[ModelPrediction, ...] = ()
        self._originals: dict[str, PlanFormats | None] = {}

    @property
    def is_ideal(self) -> bool:
        """Whether plans are ranked by ideal times: nothing better is known of the baseline."""
        return self.baseline is None or self.baseline.time_source == IDEAL

    @property
    def is_by_ceilings(self) -> bool:
        """Whether plans are ranked by what the machine's ceilings allow: most kernels of the baseline were not timed."""
        return self.baseline is not None and self.baseline.time_source == CEILINGS

    @property
    def why_no_expected(self) -> str:
        """Why the baseline has no expected time, and how to get one; empty where it has, or times are the caller's own."""
        reasons = (why_no_step(found, self.device) for found in self._baseline_passes if self.is_listed)
        return next(filter(None, reasons), "")

    def passes(self, plan: FormatPlan) -> tuple[ModelPrediction, ...]:
        """Return the prediction of every kind of pass; raises `UnsupportedError` for what the chip cannot run."""
        return tuple(
            predict_model(
                self.device,
                self.shape,
                work.phase,
                batch=work.batch_count,
                context=work.context_count,
                new_tokens=work.new_count,
                formats=plan,
                memory_headroom_ratio=self._headroom_ratio,
            )
            for work in (one.workload for one in self.traffic)
        )

    def weigh(self, one: PlanCandidate, book: LossBook | None) -> ModelCandidate:
        """Return a plan with its figures; the first one weighed is the baseline that speed-ups refer to."""
        passes = self.passes(one.plan)
        is_baseline = self.baseline is None
        ideal = _MixTime(self._mean([found.time_s for found in passes]), IDEAL)
        better = self._better(passes)
        if better is not None and not is_baseline and self.is_ideal:
            better = None  # a time of another kind than the baseline's cannot be held against it
        time = better or ideal
        base = self.baseline
        methods = plan_methods(one.formats)
        kernels = plan_kernels(one.formats, self.device) if self.is_listed else NO_KERNELS
        ideal_speedup = 1.0 if base is None else base.ideal_s / ideal.time_s
        is_alike = base is None or is_comparable(time.source, base.time_source)
        found = ModelCandidate(
            label=one.label,
            kind=one.kind,
            aliases=one.aliases,
            plan=one.plan,
            formats=formats_text(one.formats),
            method="+".join(methods) or "none",
            path=execution_path(passes),
            ideal_s=ideal.time_s,
            time_s=time.time_s,
            time_source=time.source,
            low_s=time.low_s,
            high_s=time.high_s,
            provenance=time.provenance,
            tokens_per_s=self._mean([float(found.token_count) for found in passes]) / time.time_s,
            speedup=1.0 if base is None else base.time_s / time.time_s if is_alike else ideal_speedup,
            ideal_speedup=ideal_speedup,
            memory=max((found.memory for found in passes), key=lambda memory: memory.total_bytes),
            quality=plan_quality(one, book, self.shape.name, self._original(one.formats.wide)),
            bound=plan_bound(passes, self._shares),
            reason="; ".join(
                filter(
                    None,
                    (
                        plan_reason(passes, self._baseline_passes or passes, self._shares, methods),
                        cache_slowdown(passes, self.device) if self.is_listed and time.source == EXPECTED else "",
                    ),
                )
            ),
            kernels=kernels.text,
            kernel_gap=kernels.gap,
            stands_for=reference_kernel_of(one.formats, time.provenance)
            if self.is_listed and time.source == EXPECTED
            else "",
            is_speedup_ideal=not is_alike,
        )
        if is_baseline:
            self.baseline, self._baseline_passes = found, passes
        return found

    def _original(self, wide: str) -> PlanFormats | None:
        """Return what a checkpoint that was published narrow has; None for one of 16 bit."""
        if wide not in self._originals:
            published = published_candidate(self.shape, wide)
            self._originals[wide] = None if published is None else published.formats
        return self._originals[wide]

    def time_s(self, plan: FormatPlan) -> float:
        """Return the time of a plan of the kind that plans are ranked by; the ideal where it has no better one."""
        passes = self.passes(plan)
        better = None if self.is_ideal else self._better(passes)
        return self._mean([found.time_s for found in passes]) if better is None else better.time_s

    def why_incomparable(self, plan: FormatPlan) -> str:
        """Return why the time of a plan cannot be held against the baseline's; empty where it can, or cannot run at all."""
        if self.baseline is None or self.is_ideal:
            return ""
        try:
            better = self._better(self.passes(plan))
        except UnsupportedError:
            return ""
        source = IDEAL if better is None else better.source
        return "" if is_comparable(source, self.baseline.time_source) else _WHY.get(source, f"its time is {source}")

    def _better(self, passes: Sequence[ModelPrediction]) -> _MixTime | None:
        """Return the mean of the estimates, or None when one pass has none."""
        known = [self._estimate(found) for found in passes]
        found = [one for one in known if one is not None]
        if len(found) < len(known):
            return None
        lows, highs = [one.low_s for one in found], [one.high_s for one in found]
        return _MixTime(
            self._mean([one.time_s for one in found]),
            "+".join(dict.fromkeys(str(getattr(one, "source", EXPECTED)) for one in found)),
            self._mean([low for low in lows if low is not None]) if None not in lows else None,
            self._mean([high for high in highs if high is not None]) if None not in highs else None,
            "+".join(dict.fromkeys(one.provenance for one in found if one.provenance)),
        )

    def _mean(self, values: Sequence[float]) -> float:
        return math.fsum(share * value for share, value in zip(self._shares, values, strict=True))
