"""The options of a model on a chip: a plan's times with intervals over a user's traffic, memory, loss, path,
kernels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from roofline_model.chips.hardware import Device
from roofline_model.core.answer import Estimate, Memory, Option, PhaseTime, Source, Times, is_comparable
from roofline_model.core.errors import UnsupportedError
from roofline_model.core.finding import Finding, finding
from roofline_model.expected.predict import predict_expected
from roofline_model.expected.prediction import ExpectedPrediction
from roofline_model.expected.products.parameters import reference_kernel
from roofline_model.formats.catalog import get_format, method_of
from roofline_model.kernels.checkpoints import PUBLISHED_FORMATS
from roofline_model.kernels.known_kernels import cache_gap, cache_kernel, product_gap, product_kernel
from roofline_model.models.format_plan import FormatPlan
from roofline_model.models.llm import KernelPrediction, ModelPrediction, predict_model
from roofline_model.models.model_memory import ModelMemory
from roofline_model.models.model_registry import is_makers_checkpoint
from roofline_model.models.model_shapes import ModelShape
from roofline_model.models.step_expected import why_no_step
from roofline_model.models.tensor_parallel import Parallel
from roofline_model.operators.product import WEIGHT_GROUP_ELEMS, Operator
from roofline_model.recommend.expected_passes import ExpectedPasses
from roofline_model.recommend.options import speedups
from roofline_model.recommend.plan_formats import CACHE, PlanFormats, PlanPart, formats_of, plan_parts
from roofline_model.recommend.plan_loss import LossBook, plan_loss
from roofline_model.recommend.plans import CandidatePlan, published_candidate
from roofline_model.recommend.ranking import LEVEL_RATIO, Limits
from roofline_model.recommend.search.losses import parse_formats
from roofline_model.recommend.search.model_problem import TrafficShare

PassTimes = Callable[[ModelPrediction], Estimate | None]
"""A better time of a pass than the ideal one, or None; its source says of what kind."""


@dataclass(frozen=True, slots=True)
class Execution:
    """How the chip runs a plan."""

    products: tuple[tuple[str, str], ...]
    """(path, compute format) of the products with narrow operands, those that take longest first; without any of them
    native in 16 bit.
    """
    is_cache_decoded: bool
    """Whether a narrow cache is widened before the product."""

    @property
    def path(self) -> str:
        """Path of the products that take longest."""
        return self.products[0][0]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOption(Option):
    """One plan of a model: an option whose times are of one pass, over a traffic mix the mean by share."""

    plan: FormatPlan
    parts: tuple[PlanPart, ...]
    execution: Execution
    kind: str
    """baseline, published, uniform, strategy or search."""


class PlanPricer:
    """Predicts plans of one model on one chip for one traffic; ranks nothing."""

    def __init__(
        self,
        device: Device,
        shape: ModelShape,
        traffic: Sequence[TrafficShare],
        *,
        estimate: PassTimes | None,
        headroom_ratio: float,
        parallel: Parallel,
    ) -> None:
        self.device, self.shape, self.traffic = device, shape, tuple(traffic)
        self._estimate = estimate or ExpectedPasses(device)
        self.is_listed = estimate is None
        """Whether plans run on kernels of released engines; a caller's own times are of the caller's own kernels."""
        self._headroom_ratio, self._parallel = headroom_ratio, parallel
        whole = math.fsum(share.share_ratio for share in traffic)
        self._shares = [share.share_ratio / whole for share in traffic]
        self.baseline: PlanOption | None = None
        self._baseline_passes: tuple[ModelPrediction, ...] = ()

    @property
    def is_ideal(self) -> bool:
        """Whether plans are ranked by ideal times: nothing better is known of the baseline."""
        return self.baseline is None or self.baseline.estimate.source == "ideal"

    @property
    def is_by_ceilings(self) -> bool:
        """Whether plans are ranked by what the machine's ceilings allow: most kernels of the baseline were not
        timed.
        """
        return self.baseline is not None and self.baseline.estimate.source == "ceilings"

    @property
    def why_no_expected(self) -> Finding | None:
        """Why the baseline has no expected time, and how to get one; None where it has, or times are the caller's
        own.
        """
        reasons = (why_no_step(baseline_pass, self.device) for baseline_pass in self._baseline_passes if self.is_listed)
        return next((reason for reason in reasons if reason is not None), None)

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
                parallel=self._parallel,
                memory_headroom_ratio=self._headroom_ratio,
            )
            for work in (share.workload for share in self.traffic)
        )

    def option(self, candidate: CandidatePlan, book: LossBook | None) -> PlanOption:
        """Return a plan with its figures; the first one asked for is the baseline that speed-ups refer to.

        Memory is that of the pass that takes most. Raises `UnsupportedError` for what the chip cannot run.
        """
        passes = self.passes(candidate.plan)
        ideal_s = self._mean([prediction.time_s for prediction in passes])
        better = self._better(passes)
        if self.baseline is not None and self.is_ideal:
            better = None  # a time of another kind than the baseline's cannot be held against it
        phases = self._phases(passes, is_ideal=better is None)
        times = Times.of(ideal_s, better)
        methods = plan_methods(candidate.formats)
        kernels, gap = plan_kernels(candidate.formats, self.device) if self.is_listed else ((), None)
        largest = max((prediction.memory for prediction in passes), key=lambda memory: memory.total_bytes)
        published = published_candidate(self.shape, candidate.formats.wide)
        original = None if published is None else published.formats
        loss, findings = plan_loss(candidate, book, self.shape.name, original)
        speedup_ratio, ideal_speedup_ratio = speedups(times, self.baseline)
        parts, execution = plan_parts(candidate.formats), execution_of(passes)
        wide = None if self.baseline is None else self.baseline.memory
        option = PlanOption(
            key=candidate.label,
            formats=formats_of(parts, candidate.formats.wide),
            method="+".join(methods) or "none",
            path=execution.path,
            bound=plan_bound(passes, self._shares),
            times=times,
            memory=held_memory(largest, largest.weights_bytes if wide is None else wide.weight_bytes),
            loss=loss,
            speedup_ratio=speedup_ratio,
            ideal_speedup_ratio=ideal_speedup_ratio,
            kernel="; ".join(kernels) or None,
            aliases=candidate.aliases,
            tokens_per_s=phases[0].tokens_per_s if len(phases) == 1 else None,
            phases=phases if len(passes) > 1 else (),
            findings=(
                *self._pass_findings(candidate, passes, methods, times.best),
                *([] if gap is None else [gap]),
                *findings,
                *self._origin_findings(candidate),
                *_capacity_findings(candidate, largest),
            ),
            plan=candidate.plan,
            parts=parts,
            execution=execution,
            kind=candidate.kind,
        )
        if self.baseline is None:
            self.baseline, self._baseline_passes = option, passes
        return option

    def _origin_findings(self, candidate: CandidatePlan) -> list[Finding]:
        """Return that nobody knows what a narrow checkpoint lost before, where it is not its maker's own."""
        if candidate.kind != "published" or is_makers_checkpoint(self.shape):
            return []
        return [finding("stored-narrow", candidate.label)]

    def _pass_findings(
        self,
        candidate: CandidatePlan,
        passes: Sequence[ModelPrediction],
        methods: Sequence[str],
        estimate: Estimate,
    ) -> list[Finding]:
        """Return what limits a plan on this chip, what it asks for, and what its time rests on."""
        findings = [_bound_finding(candidate.label, passes, self._baseline_passes or passes, self._shares)]
        if "AWQ" in methods:
            findings.append(finding("awq-scales", candidate.label, kind="weights", group=WEIGHT_GROUP_ELEMS))
        weights = {
            parse_formats(label).weights
            for label in candidate.formats.product_labels
            if label != candidate.formats.wide
        }
        if unpublished := weights - PUBLISHED_FORMATS:
            findings.append(finding("no-checkpoints", ", ".join(sorted(unpublished))))
        if estimate.source == "ceilings":
            findings.append(finding("ceilings-only", candidate.label))
        if not self.is_listed or estimate.source != "expected":
            return findings
        if (slower := cache_slowdown(passes, self.device)) is not None:
            findings.append(slower)
        if kernel := _plan_reference_kernel(candidate.formats, estimate.provenance):
            findings.append(finding("reference-kernel", candidate.label, kind="option", kernel=kernel))
        return findings

    def latency_share(self, plan: FormatPlan, limits: Limits) -> float:
        """Return the time of a plan, of the kind that plans are ranked by, over its limit: of a mix the largest of its
        phases; 0 without a limit.
        """
        passes = self.passes(plan)
        phases = self._phases(passes, is_ideal=self.is_ideal or self._better(passes) is None)
        limit_s = dict(limits.phase_times_s)
        if limits.time_s is not None:
            limit_s |= dict.fromkeys((phase.phase for phase in phases), limits.time_s)
        return max((phase.longest_s / limit_s[phase.phase] for phase in phases if phase.phase in limit_s), default=0.0)

    def _phases(self, passes: Sequence[ModelPrediction], *, is_ideal: bool) -> tuple[PhaseTime, ...]:
        """Return the times of the passes by phase, ideal ones or the best known of each."""
        better = [None if is_ideal else self._estimate(prediction) for prediction in passes]
        estimates = [
            Estimate(prediction.time_s, source="ideal") if estimate is None else estimate
            for prediction, estimate in zip(passes, better, strict=True)
        ]
        phases = []
        for phase in dict.fromkeys(prediction.workload.phase for prediction in passes):
            own = [
                (share, prediction.token_count, estimate.time_s, estimate.prudent_s)
                for share, prediction, estimate in zip(self._shares, passes, estimates, strict=True)
                if prediction.workload.phase == phase
            ]
            busy_s = math.fsum(share * time_s for share, _, time_s, _ in own)
            phases.append(
                PhaseTime(
                    phase,
                    busy_s / math.fsum(share for share, *_ in own),
                    max(time_s for _, _, time_s, _ in own),
                    math.fsum(share * count for share, count, *_ in own) / busy_s,
                    max(prudent_s for *_, prudent_s in own),
                )
            )
        return tuple(phases)

    def why_incomparable(self, plan: FormatPlan) -> Finding | None:
        """Return why the time of a plan cannot be held against the baseline's; None where it can, or cannot run at
        all.
        """
        if self.baseline is None or self.is_ideal:
            return None
        try:
            better = self._better(self.passes(plan))
        except UnsupportedError:
            return None
        source = "ideal" if better is None else better.source
        reference = self.baseline.estimate.source
        return None if is_comparable(source, reference) else finding("not-comparable", plan.label, source=source)

    def _better(self, passes: Sequence[ModelPrediction]) -> Estimate | None:
        """Return the mean of the estimates, or None when one pass has none."""
        estimates = [self._estimate(prediction) for prediction in passes]
        present = [estimate for estimate in estimates if estimate is not None]
        if len(present) < len(estimates):
            return None
        lows, highs = [estimate.low_s for estimate in present], [estimate.high_s for estimate in present]
        return Estimate(
            self._mean([estimate.time_s for estimate in present]),
            self._mean([low for low in lows if low is not None]) if None not in lows else None,
            self._mean([high for high in highs if high is not None]) if None not in highs else None,
            # A mix of passes is known as well as the one that is known least.
            max((estimate.source for estimate in present), key=_LEAST_KNOWN.index),
            "+".join(dict.fromkeys(estimate.provenance for estimate in present if estimate.provenance)),
        )

    def _mean(self, values: Sequence[float]) -> float:
        return math.fsum(share * value for share, value in zip(self._shares, values, strict=True))


_LEAST_KNOWN: tuple[Source, ...] = ("measured", "expected", "ceilings", "ideal")


def held_memory(memory: ModelMemory, wide_bytes: float | None = None) -> Memory:
    """Return the memory of a pass as that of an option; `wide_bytes`: of the 16-bit weights, for the share saved."""
    return Memory(
        memory.total_bytes,
        weight_bytes=memory.weights_bytes,
        cache_bytes=memory.kv_bytes,
        activation_bytes=memory.activation_bytes,
        capacity_bytes=memory.capacity_bytes,
        usable_bytes=memory.usable_bytes,
        saved_ratio=1 - memory.weights_bytes / wide_bytes if wide_bytes else None,
    )


def _capacity_findings(candidate: CandidatePlan, memory: ModelMemory) -> list[Finding]:
    if memory.fits is not False or memory.usable_bytes is None:
        return []
    values = {
        "value_bytes": memory.total_bytes,
        "capacity_bytes": memory.capacity_bytes,
        "usable_bytes": memory.usable_bytes,
    }
    return [finding("exceeds-capacity", candidate.label, **values)]


def plan_kernels(formats: PlanFormats, device: Device) -> tuple[tuple[str, ...], Finding | None]:
    """Return the kernels of a plan's narrow products and caches, each once, and the first part without a known one.

    No kernels where everything is in 16 bit; no gap where all have one, or the chip has no list.
    """
    caches = dict.fromkeys(label for layer in formats.layers for part, label in layer if part == CACHE)
    names: list[str] = []
    gaps: list[Finding] = []
    for label in formats.product_labels:
        pair = parse_formats(label)
        gap = product_gap(device, pair.weights, pair.activations)
        gaps += [replace(gap, subject=label)] if gap is not None else []
        kernel = product_kernel(device, pair.weights, pair.activations)
        names += [kernel.name_on(device)] if kernel is not None else []
    for label in caches:
        gap = cache_gap(device, label)
        gaps += [gap] if gap is not None else []
        kernel = cache_kernel(device, label)
        names += [kernel.name_on(device)] if kernel is not None else []
    return tuple(dict.fromkeys(names)), gaps[0] if gaps else None


def missing_kernel(device: Device, label: str) -> Finding | None:
    """Return that no kernel is known to run a format, or `kv=FORMAT` of the cache; None where one is.

    A label is `WEIGHT[.ACTIVATION[.CACHE]]`, as uniform plans and losses have it.
    """
    name, _, cache = label.partition("=")
    weights, _, rest = name.partition(".")
    gap = cache_gap(device, cache) if cache else product_gap(device, weights, rest.partition(".")[0] or weights)
    return None if gap is None else replace(gap, subject=label)


def _plan_reference_kernel(formats: PlanFormats, provenance: str) -> str:
    """Return the kernel that the expected times of a plan's products stand for; empty where there is nothing to say."""
    pairs = (parse_formats(label) for label in formats.product_labels)
    return next(filter(None, (reference_kernel(pair.weights, pair.activations, provenance) for pair in pairs)), "")


def plan_methods(formats: PlanFormats) -> tuple[str, ...]:
    """Return the methods that a plan's weights need, each once: weight_only, AWQ, PTQ, native_fp8, …; empty: none."""
    labels = {label for layer in formats.layers for part, label in layer if part != CACHE} | {formats.head}
    methods = []
    for label in sorted(labels - {formats.wide}):
        pair = parse_formats(label)
        methods.append(method_of(pair.weights, is_both=pair.activations == pair.weights))
    return tuple(dict.fromkeys(methods))


def execution_of(passes: Sequence[ModelPrediction]) -> Execution:
    """Return how the products with narrow operands run, and whether a narrow cache is widened."""
    times: dict[tuple[str, str], float] = {}
    is_cache_decoded = False
    for timed in passes:
        for kernel in timed.kernels:
            formats, path = dict(kernel.kernel.work.formats), kernel.prediction.path
            if "b" in formats and _is_product(kernel) and _is_narrow(formats, timed.plan.wide):
                product = path, kernel.prediction.compute_format
                times[product] = times.get(product, 0.0) + kernel.time_s
            if kernel.kernel.work.op == "attention" and path == "dequantize":
                is_cache_decoded = True
    products = sorted(times, key=lambda product: -times[product]) or [("native", passes[0].plan.wide)]
    return Execution(tuple(products), is_cache_decoded)


def _bound_finding(
    key: str, passes: Sequence[ModelPrediction], baseline: Sequence[ModelPrediction], shares: Sequence[float]
) -> Finding:
    """Return what limits a plan on this chip; `shares` weigh the passes."""
    wide, bound = passes[0].plan.wide, plan_bound(passes, shares)
    if passes[0].plan == baseline[0].plan:
        return finding("bound-by", key, kind="baseline", bound=bound)
    if bound == "memory":
        moved = _weighed(shares, (prediction.moved_bytes for prediction in passes))
        wide_moved = _weighed(shares, (prediction.moved_bytes for prediction in baseline))
        return finding("bound-by", key, kind="memory", moved_ratio=moved / wide_moved, baseline=wide)
    if any(_is_fast(kernel, wide) for prediction in passes for kernel in prediction.kernels):
        return finding("bound-by", key, kind="compute-narrow")
    return finding("bound-by", key, kind="compute-widened", baseline=wide)


def plan_bound(passes: Sequence[ModelPrediction], shares: Sequence[float]) -> str:
    """Return what limits the kernels that take most of the time: memory or compute."""
    compute_s = _weighed(
        shares,
        (
            math.fsum(kernel.time_s for kernel in timed.kernels if kernel.prediction.bound == "compute")
            for timed in passes
        ),
    )
    return "compute" if compute_s > _weighed(shares, (timed.time_s for timed in passes)) / 2 else "memory"


def _weighed(shares: Sequence[float], values: Iterable[float]) -> float:
    return math.fsum(share * value for share, value in zip(shares, values, strict=True))


def _is_product(kernel: KernelPrediction) -> bool:
    return kernel.kernel.work.op in ("gemv", "gemm", "grouped_gemm", "batched_gemm")


def _is_narrow(formats: dict[str, str], wide: str) -> bool:
    """Return whether a product's weight (B) or activation (A) takes fewer bits than the 16-bit format."""
    bits = get_format(wide).element_bits
    return any(get_format(formats[name]).element_bits < bits for name in ("a", "b") if name in formats)


def _is_fast(kernel: KernelPrediction, wide: str) -> bool:
    """Return whether a product of narrow operands runs on a unit of theirs."""
    return (
        kernel.prediction.path == "native"
        and _is_product(kernel)
        and _is_narrow(dict(kernel.kernel.work.formats), wide)
    )


def cache_slowdown(passes: Sequence[ModelPrediction], device: Device) -> Finding | None:
    """Return what attention on a plan's narrow cache costs, where it is expected to take longer than on a 16-bit one;
    else None.
    """
    for timed in passes:
        for kernel in timed.kernels:
            if kernel.kernel.work.op != "attention":
                continue
            narrow = dict(kernel.kernel.work.formats).get("kv", timed.plan.wide)
            if get_format(narrow).element_bits >= get_format(timed.plan.wide).element_bits:
                continue
            mine, wide = (_expected(kernel.kernel.work, device, kv) for kv in (narrow, timed.plan.wide))
            if mine is None or wide is None or mine.time_s <= (1 + LEVEL_RATIO) * wide.time_s:
                continue
            kind = "unsplit" if mine.is_cache_unsplit else "kernel"
            return finding("cache-slower", narrow, kind=kind, cache=narrow, slowdown_ratio=mine.time_s / wide.time_s)
    return None


def _expected(work: Operator, device: Device, cache_format: str) -> ExpectedPrediction | None:
    """Return the expected time of this attention on a cache of another format; queries are 16 bit where the cache
    is.
    """
    formats = {**dict(work.formats), "kv": cache_format}
    if get_format(cache_format).element_bits >= 16:
        formats |= {name: cache_format for name in ("q",) if get_format(formats["q"]).element_bits < 16}
    return predict_expected(replace(work, formats=tuple(formats.items())), device)
