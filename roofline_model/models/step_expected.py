"""The expected time of a whole pass, or of a block of it: the sum of its kernels' expected times, with an interval.

Products and attention come from `expected/predict.py`. What it has no model for is built from what it has:

* the experts' grouped product and MLA's per-head products: one product of the same matrices side by side; of experts,
  whose number and rows are means, the mean of the products around them, and never faster than their bytes at the DRAM
  rate;
* MLA in prefill (values narrower than keys): attention of the keys' width, scaled by its FLOPs;
* gate, up and activation function in one kernel: the product alone, beside which the function runs;
* MLA in decode: a launch and the longer of its bytes at the DRAM rate and its FLOPs at the product rate of its format,
  `LATENT_INTERVAL`;
* norms, activation functions and other elementwise kernels: a launch and one pass over their bytes.

Launch cost and rates are those that the chip's own constants give one large GEMV and one large GEMM. What a timed
attention kernel does itself (`ExpectedPrediction.covered_ops`: a module's rotation and append to the cache) costs
nothing beside it. A named attention kernel (`ModelPrediction.attention_kernel`) answers for attention alone; MLA in
decode has no FlashAttention. Interval and time of what is built in these ways begin at the ideal time of cold operands,
as those of a product do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar

from roofline_model.chips.hardware import Device, get_hardware
from roofline_model.core.answer import NOT_IN_JSON, Estimate
from roofline_model.core.finding import Finding, finding
from roofline_model.expected.beside_ideal import beside_ideal, beyond_ideal
from roofline_model.expected.calibrated import Triple
from roofline_model.expected.predict import (
    cold_limits,
    has_gpu_model,
    predict_expected,
    raised_to_ideal,
    why_no_expected,
)
from roofline_model.expected.prediction import EXPECTED_VERSION, ExpectedPrediction, is_far
from roofline_model.formats.catalog import get_format
from roofline_model.kernels.attention_kernels import ATTENTION_KERNELS, FITTED_MODEL
from roofline_model.kernels.known_kernels import why_no_time_here
from roofline_model.models.decoder_step import StepKernel
from roofline_model.models.experts import ExpertProduct
from roofline_model.models.tensor_parallel import ALL_REDUCE_HIGH_RATIO, ALL_REDUCE_LOW_RATIO
from roofline_model.operators.attention import attention
from roofline_model.operators.product import Operator, gemm

if TYPE_CHECKING:
    from roofline_model.models.llm import ModelPrediction

Estimator = Callable[[Operator, Device], "ExpectedPrediction | None"]
"""One call's expected time on a chip, or None where nothing is known: the seam for measured times."""
StandIns = tuple[tuple[Operator, float], ...]
"""Operators and the factor on the time of each; they are added."""

FUSED_PRODUCTS = ("gate_up_silu_mul", "up_gelu")
"""Products of a feed-forward block with its activation function inside (`ffn_parts` in `operators/layers.py`)."""
PRODUCTS = ("gemv", "gemm", "attention", "grouped_gemm", "batched_gemm", *FUSED_PRODUCTS)
LATENT_INTERVAL = (0.8, 2.0)
"""Factors of MLA decode, which no table we fit to holds. A judgement: FlashMLA's published best is near both roofs."""
_STAND_INS = {
    "grouped_gemm": finding("stand-in-kernel", kind="experts"),
    "batched_gemm": finding("stand-in-kernel", kind="heads"),
    "attention": finding("stand-in-kernel", kind="equal-widths"),
    **dict.fromkeys(FUSED_PRODUCTS, finding("stand-in-kernel", kind="fused-activation")),
}
_WHOLE = 1e-9
"""A mean this near a whole number is one: what rounding leaves of E·(1 − (1 − k/E))."""
_WIDE_BITS = 16
_REFERENCE_SIZE = 16384
_REFERENCE_ROWS = 8192
_PROVENANCE_ORDER = (
    "measured-here",
    "measured",
    "fitted",
    "transferred-sibling",
    "transferred-family",
    "transferred-class",
)


@dataclass(frozen=True, slots=True)
class KernelExpectation:
    """The expected time of one call of one kernel."""

    kernel: StepKernel = field(metadata=NOT_IN_JSON)
    time_s: float
    """Expected time of one call, seconds."""
    low_s: float
    """Lower end of the 80 % interval, seconds."""
    high_s: float
    """Upper end of the 80 % interval, seconds."""
    binding: str
    """What takes longest (`ExpectedPrediction.binding`): launch, dram, tensor, …"""
    provenance: str
    """fitted, transferred-sibling, …: where the constants come from."""
    finding: Finding | None = None
    """What stands in for a model of this kernel; None where it has one."""
    parts: tuple[tuple[str, float], ...] = field(default=(), metadata=NOT_IN_JSON)
    """Part → seconds of one call (`ExpectedPrediction.parts`); they sum to `time_s`."""

    def raised(self, time_s: float, low_s: float, high_s: float) -> KernelExpectation:
        """Return the same with a longer time, and every part as much longer."""
        factor = time_s / self.time_s if self.time_s else 1.0
        parts = tuple((name, factor * seconds) for name, seconds in self.parts)
        return replace(self, time_s=time_s, low_s=low_s, high_s=high_s, parts=parts)


@dataclass(frozen=True, slots=True)
class ExpectedSequence:
    """The expected time of kernels in sequence, in seconds. Intervals add up: errors of a chip's constants do not
    average out.
    """

    DERIVED: ClassVar = (
        "time_s",
        "low_s",
        "high_s",
        "parts",
        "binding",
        "findings",
        "provenance",
        "model_version",
        "beside_ideal",
    )

    kernels: tuple[KernelExpectation, ...] = field(metadata=NOT_IN_JSON)
    all_reduce_s: float
    """Exchange between the devices that share the work, with the latency of each, seconds; 0 on one."""
    device: Device | None = field(default=None, kw_only=True, metadata=NOT_IN_JSON)
    ideal_s: float | None = field(default=None, kw_only=True, metadata=NOT_IN_JSON)
    """Ideal time of the same kernels, seconds; with `device` for `beside_ideal`."""

    @property
    def time_s(self) -> float:
        """Expected time in a CUDA graph, seconds (launch floors are inside the kernels' times)."""
        return math.fsum(priced.kernel.calls_count * priced.time_s for priced in self.kernels) + self.all_reduce_s

    @property
    def low_s(self) -> float:
        """Lower end of the 80 % interval, seconds."""
        kernels_s = math.fsum(priced.kernel.calls_count * priced.low_s for priced in self.kernels)
        return kernels_s + ALL_REDUCE_LOW_RATIO * self.all_reduce_s

    @property
    def high_s(self) -> float:
        """Upper end of the 80 % interval, seconds."""
        kernels_s = math.fsum(priced.kernel.calls_count * priced.high_s for priced in self.kernels)
        return kernels_s + ALL_REDUCE_HIGH_RATIO * self.all_reduce_s

    @property
    def parts(self) -> tuple[tuple[str, float], ...]:
        """Kernel → seconds of all its calls, in order."""
        return tuple((priced.kernel.name, priced.kernel.calls_count * priced.time_s) for priced in self.kernels)

    @property
    def binding(self) -> str:
        """What binds the kernels that take the largest share of the time."""
        shares: dict[str, float] = {}
        for priced in self.kernels:
            shares[priced.binding] = shares.get(priced.binding, 0.0) + priced.kernel.calls_count * priced.time_s
        return max(shares, key=lambda name: shares[name])

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What stands in for kernels without a model of their own, each once."""
        return tuple(dict.fromkeys(priced.finding for priced in self.kernels if priced.finding is not None))

    @property
    def model_version(self) -> str:
        """Version of the expected-time model."""

        return EXPECTED_VERSION

    @property
    def provenance(self) -> str:
        """The weakest provenance among the kernels that make up nine tenths of the time, longest first."""
        longest = sorted(self.kernels, key=lambda priced: -priced.kernel.calls_count * priced.time_s)
        wanted_s, provenances = 0.9 * (self.time_s - self.all_reduce_s), []
        for priced_kernel in longest:
            provenances.append(priced_kernel.provenance)
            wanted_s -= priced_kernel.kernel.calls_count * priced_kernel.time_s
            if wanted_s <= 0:
                break
        return max(provenances, key=_rank)

    @property
    def estimate(self) -> Estimate:
        """The time with its interval."""
        return Estimate(self.time_s, self.low_s, self.high_s, "expected", self.provenance)

    @property
    def beside_ideal(self) -> Finding | None:
        """What most of a time of more than three times the ideal one is, or that it is below; null between."""
        if self.device is None or self.ideal_s is None:
            return None
        return beside_ideal_of(self.kernels, self.device, self.time_s, self.ideal_s, {"all_reduce": self.all_reduce_s})


def beside_ideal_of(
    kernels: Iterable[KernelExpectation],
    device: Device,
    time_s: float,
    ideal_s: float,
    others_s: Mapping[str, float],
) -> Finding | None:
    """Return `beside_ideal` of kernels in sequence. `others_s`: parts of the time that are no kernel's, seconds."""
    if not is_far(time_s, ideal_s):
        return None
    beyond_s, of_kernels = dict(others_s), dict[str, dict[str, float]]()
    for priced in kernels:
        if not priced.parts:  # inside attention
            continue
        for part, seconds in beyond_ideal(priced.parts, *cold_limits(priced.kernel.work, device)).items():
            all_calls_s = priced.kernel.calls_count * seconds
            beyond_s[part] = beyond_s.get(part, 0.0) + all_calls_s
            of_part = of_kernels.setdefault(part, {})
            of_part[priced.kernel.name] = of_part.get(priced.kernel.name, 0.0) + all_calls_s
    largest = max(beyond_s, key=lambda part: beyond_s[part])
    of_largest = of_kernels.get(largest, {})
    kernel = next((name for name, seconds in of_largest.items() if seconds > beyond_s[largest] / 2), "")
    return beside_ideal(time_s, ideal_s, beyond_s, kernel=kernel)


@dataclass(frozen=True, slots=True)
class ExpectedStep(ExpectedSequence):
    """A whole pass."""

    stream_time_s: float
    """Without CUDA graphs, seconds: longer gaps, and never faster than the host launches.

    The constants are of graphs.
    """


def expected_kernels(
    kernels: Iterable[StepKernel],
    hardware: Device | str,
    *,
    estimate: Estimator | None = None,
    attention_kernel: str | None = None,
) -> tuple[KernelExpectation | None, ...]:
    """Return the expected time of one call of each kernel, in order; None for one that has none (`why_no_kernels`).

    `attention_kernel`: a key of `ATTENTION_KERNELS` whose model answers for attention in place of `estimate`.
    """
    device = get_hardware(hardware)
    ask = _asking(estimate, attention_kernel)
    reference = _Reference(device, ask, _has_latent_kernel(attention_kernel, device))
    expectations = [_kernel(kernel, device, ask, reference) for kernel in kernels]
    return tuple(
        _inside_attention(expectation)
        if expectation is not None and expectation.kernel.work.op in reference.covered_ops
        else expectation
        for expectation in expectations
    )


def why_no_kernels(
    kernels: Iterable[StepKernel],
    hardware: Device | str,
    *,
    estimate: Estimator | None = None,
    attention_kernel: str | None = None,
) -> Finding | None:
    """Return why a kernel has no expected time, its name as the subject; None when all have."""

    device = get_hardware(hardware)
    ask = _asking(estimate, attention_kernel)
    reference = _Reference(device, ask, _has_latent_kernel(attention_kernel, device))
    of_all = why_no_time_here(device)  # no kernel is to be named where it is all of them
    # A product's reason says more than that of an elementwise kernel, which is built from a product's constants.
    for kernel in sorted(kernels, key=lambda kernel: kernel.work.op not in PRODUCTS):
        if _kernel(kernel, device, ask, reference) is None:
            work = _stand_ins(kernel.work)[0][0]
            why_not = of_all or why_no_expected(work, device, attention_kernel=attention_kernel)
            return of_all or replace(why_not or finding("no-expected-time", kind="none"), subject=kernel.name)
    return None


def expected_sequence(
    kernels: Sequence[KernelExpectation | None], device: Device | None = None, ideal_s: float | None = None
) -> ExpectedSequence | None:
    """Return the kernels of `expected_kernels` as a whole on one device, or None when one of them has no expected
    time. `ideal_s`: their ideal time, to stand beside it.
    """
    priced_kernels = tuple(priced for priced in kernels if priced is not None)
    if not priced_kernels or len(priced_kernels) < len(kernels):
        return None
    return ExpectedSequence(priced_kernels, 0.0, device=device, ideal_s=ideal_s)


def launch_floor(hardware: Device | str, *, estimate: Estimator | None = None) -> Triple | None:
    """Return the seconds of a kernel with next to nothing to do, or None where no product of the chip has a time.

    It is the launch inside the chip's own products. The smallest launch of a calibration is of an empty kernel, and
    shorter than any call of a library.
    """
    device = get_hardware(hardware)
    return _Reference(device, _asking(estimate, None), has_latent_kernel=False).floor()


def expected_step(
    prediction: ModelPrediction, hardware: Device | str, *, estimate: Estimator | None = None
) -> ExpectedStep | None:
    """Return the expected time of a predicted pass, or None when a product or attention has none (`why_no_step`)."""
    kernels = (priced.kernel for priced in prediction.kernels)
    named = prediction.attention_kernel
    whole = expected_sequence(expected_kernels(kernels, hardware, estimate=estimate, attention_kernel=named))
    if whole is None:
        return None
    launches, count = prediction.launches, prediction.launch_count
    all_reduce_s = prediction.expected_all_reduce_s
    kernels_s = whole.time_s + all_reduce_s
    extra_s = count * (launches.stream_gap_s - launches.graph_gap_s)
    stream_s = max(kernels_s + extra_s, count * launches.host_launch_s)
    return ExpectedStep(whole.kernels, all_reduce_s, stream_s, device=get_hardware(hardware), ideal_s=prediction.time_s)


def why_no_step(prediction: ModelPrediction, hardware: Device | str) -> Finding | None:
    """Return why a kernel has no expected time, its name as the subject; None when all have."""
    kernels = (priced.kernel for priced in prediction.kernels)
    return why_no_kernels(kernels, hardware, attention_kernel=prediction.attention_kernel)


def _asking(estimate: Estimator | None, attention_kernel: str | None) -> Estimator:
    """Return the estimator of a pass: `estimate`, and for attention the named kernel's model."""

    ask = estimate or expected_call
    if attention_kernel is None:
        return ask

    def ask_by_name(work: Operator, device: Device) -> ExpectedPrediction | None:
        if work.op != "attention":
            return ask(work, device)
        return predict_expected(work, device, attention_kernel=attention_kernel)

    return ask_by_name


def _has_latent_kernel(attention_kernel: str | None, device: Device) -> bool:
    """Return whether the library has MLA kernels: those of FlashAttention are no such model's."""
    return attention_kernel is None or ATTENTION_KERNELS[attention_kernel].model_on(device) == FITTED_MODEL


def expected_call(work: Operator, device: Device, *, allow_ceilings: bool = False) -> ExpectedPrediction | None:
    """Return the expected time of one call with cold operands, or None: the estimator that others stand in for."""
    sizes = dict(work.shape)
    if sizes.get("Dv", sizes.get("D")) != sizes.get("D") and device.calibration is None:
        return None  # the attention constants are of kernels with one head size
    return predict_expected(work, device, cache="cold", allow_ceilings=allow_ceilings)


def call_within_ceilings(work: Operator, device: Device) -> ExpectedPrediction | None:
    """Return the same, and where no kernel was timed what the ceilings of a calibrated machine allow.

    For those who know that something runs the call, or who say of a time that it rests on ceilings.
    """
    return expected_call(work, device, allow_ceilings=True)


def _kernel(kernel: StepKernel, device: Device, ask: Estimator, reference: _Reference) -> KernelExpectation | None:
    for parts in (((kernel.work, 1.0),), _stand_ins(kernel.work)):
        answer = _mean(kernel, parts, device, ask)
        if answer is None:
            continue
        answered, mean = answer
        if kernel.work.op == "attention":
            reference.covered_ops |= set(answered.covered_ops)
        if parts[0][0] is kernel.work:
            return mean
        return _at_least_ideal(reference.not_faster(mean) if kernel.work.op == "grouped_gemm" else mean, device)
    if kernel.work.op == "attention":
        return _at_least_ideal(reference.latent(kernel), device)
    return None if kernel.work.op in PRODUCTS else _at_least_ideal(reference.elementwise(kernel), device)


def _at_least_ideal(expectation: KernelExpectation | None, device: Device) -> KernelExpectation | None:
    """Return what was built from other kernels with no end of it below its own ideal; a calibrated CPU's as it was
    measured.
    """

    if expectation is None or not has_gpu_model(device):
        return expectation
    time_s, low_s, high_s = raised_to_ideal(
        expectation.time_s, expectation.low_s, expectation.high_s, *cold_limits(expectation.kernel.work, device)
    )
    return expectation.raised(time_s, low_s, high_s)


def _mean(
    kernel: StepKernel, parts: StandIns, device: Device, ask: Estimator
) -> tuple[ExpectedPrediction, KernelExpectation] | None:
    """Return the prediction of the part with the largest factor, and the sum of all; None when one has no expected
    time.
    """
    answers = [(factor, ask(work, device)) for work, factor in parts]
    answered = [(factor, answer) for factor, answer in answers if answer is not None]
    if len(answered) < len(answers):
        return None
    largest = max(answered, key=lambda pair: pair[0])[1]
    return largest, KernelExpectation(
        kernel,
        time_s=math.fsum(factor * answer.time_s for factor, answer in answered),
        low_s=math.fsum(factor * answer.low_s for factor, answer in answered),
        high_s=math.fsum(factor * answer.high_s for factor, answer in answered),
        binding=largest.binding,
        provenance=largest.provenance,
        finding=_borrowed(kernel.work, largest) if parts[0][0] is kernel.work else _STAND_INS[kernel.work.op],
        parts=tuple((name, factor * seconds) for factor, answer in answered for name, seconds in answer.parts),
    )


def _borrowed(work: Operator, answer: ExpectedPrediction) -> Finding | None:
    """Return what the attention model says where it was never measured with such queries; None for any other kernel."""
    is_narrow = work.op == "attention" and get_format(dict(work.formats)["q"]).element_bits < _WIDE_BITS
    return next((item for item in answer.findings if is_narrow and item.code == "unmeasured-attention"), None)


def _stand_ins(work: Operator) -> StandIns:
    """Return the operators whose expected times stand in for `work`, and the factor on each; `work` itself where none
    do.
    """
    sizes, formats = dict(work.shape), dict(work.formats)
    named = {"a": formats.get("a", ""), "b": formats.get("b", ""), "c": formats.get("c", "")}
    if work.op == "grouped_gemm":
        count = work.visited_count if isinstance(work, ExpertProduct) else float(sizes["groups"])
        rows = max(sizes["M"] / count, 1.0)
        return tuple(
            (gemm(some, groups * sizes["N"], sizes["K"], **named), share * part)
            for groups, share in _around(count)
            for some, part in _around(rows)
        )
    if work.op == "batched_gemm":
        return ((gemm(sizes["M"], sizes["batch"] * sizes["N"], sizes["K"], **named), 1.0),)
    if work.op in FUSED_PRODUCTS:
        return ((gemm(sizes["M"], sizes["N"], sizes["K"], **named), 1.0),)
    if work.op == "attention" and sizes.get("Dv", sizes["D"]) != sizes["D"] and sizes["Hkv"] > 1:
        same = attention(
            sizes["B"],
            sizes["Hq"],
            sizes["Hkv"],
            sizes["Sq"],
            sizes["Skv"],
            sizes["D"],
            q=formats["q"],
            kv=formats["kv"],
            o=formats["o"],
            p=formats.get("p"),
            causal=bool(sizes["causal"]),
            window=sizes["window"] or None,
        )
        return ((same, work.cost.total_flops / same.cost.total_flops),)
    return ((work, 1.0),)


def _around(value: float) -> list[tuple[int, float]]:
    """Return the whole numbers below and above `value` with shares whose mean it is; one of them where it is whole."""
    low = math.floor(value)
    share = value - low
    if share < _WHOLE or share > 1 - _WHOLE:
        return [(round(value), 1.0)]
    return [(low, 1 - share), (low + 1, share)]


def _inside_attention(expectation: KernelExpectation) -> KernelExpectation:
    return replace(expectation, time_s=0.0, low_s=0.0, high_s=0.0, binding="attention", parts=())


class _Reference:
    """Launch cost, DRAM rate and product rate of a chip; asked once, and only when needed."""

    def __init__(self, device: Device, ask: Estimator, has_latent_kernel: bool) -> None:
        self._device, self._ask, self._has_latent_kernel = device, ask, has_latent_kernel
        self._wide = "BF16" if device.declares("BF16") else "FP16"
        self._gemv: ExpectedPrediction | None = None
        self.covered_ops: set[str] = set()
        """Operators that an attention time which was used has inside."""

    def elementwise(self, kernel: StepKernel) -> KernelExpectation | None:
        """Return a launch and one pass over the kernel's bytes, or None when the chip has no GEMV constants."""
        streaming = self._streaming()
        if streaming is None:
            return None
        launch_s, moved_s = self._launch_s(streaming), self._moved_s(kernel, streaming)
        time_s = launch_s + moved_s
        return KernelExpectation(
            kernel,
            time_s,
            time_s * streaming.low_s / streaming.time_s,
            time_s * streaming.high_s / streaming.time_s,
            "launch" if launch_s > moved_s else "dram",
            streaming.provenance,
            finding("stand-in-kernel", kind="elementwise"),
            (("launch", launch_s), ("dram", moved_s)),
        )

    def floor(self) -> Triple | None:
        """Return a launch alone, with the interval of an elementwise kernel."""
        streaming = self._streaming()
        if streaming is None:
            return None
        launch_s = self._launch_s(streaming)
        low_ratio, high_ratio = streaming.low_s / streaming.time_s, streaming.high_s / streaming.time_s
        return launch_s * low_ratio, launch_s, launch_s * high_ratio

    def latent(self, kernel: StepKernel) -> KernelExpectation | None:
        """Return MLA decode: a launch and the longer of bytes and FLOPs; None when the chip has no constants, or it is
        not MLA.
        """
        if not self._has_latent_kernel:
            return None
        streaming, sizes, query = self._streaming(), dict(kernel.work.shape), get_format(dict(kernel.work.formats)["q"])
        is_narrow = query.element_bits < _WIDE_BITS
        if streaming is None or sizes.get("Dv", sizes["D"]) == sizes["D"] or (is_narrow and sizes["Hkv"] > 1):
            return None
        # Without the unit for narrow queries they are decoded: the product runs in the wide format.
        form = query.key if is_narrow and self._device.path(query.key).kind == "native" else self._wide
        product = gemm(_REFERENCE_ROWS, _REFERENCE_ROWS, _REFERENCE_ROWS, a=form)
        large = self._ask(product, self._device)
        if large is None:
            return None
        computed_s = kernel.work.cost.total_flops / product.cost.total_flops * large.time_s
        launch_s, moved_s = self._launch_s(streaming), self._moved_s(kernel, streaming)
        binding = "tensor" if computed_s > moved_s else "dram"
        time_s = launch_s + max(moved_s, computed_s)
        low, high = LATENT_INTERVAL
        return KernelExpectation(
            kernel,
            time_s,
            low * time_s,
            high * time_s,
            binding,
            streaming.provenance,
            finding("not-fitted", kind="latent-decode"),
            (("launch", launch_s), (binding, max(moved_s, computed_s))),
        )

    def not_faster(self, expectation: KernelExpectation) -> KernelExpectation:
        """Return a kernel that takes at least its bytes at the DRAM rate a large GEMV reaches."""
        streaming = self._streaming()
        if streaming is None:
            return expectation
        factor = max(1.0, self._moved_s(expectation.kernel, streaming) / expectation.time_s)
        return expectation.raised(factor * expectation.time_s, factor * expectation.low_s, factor * expectation.high_s)

    def _streaming(self) -> ExpectedPrediction | None:
        if self._gemv is None:
            self._gemv = self._ask(self._reference_gemv(), self._device)
        return self._gemv

    def _reference_gemv(self) -> Operator:
        return gemm(1, _REFERENCE_SIZE, _REFERENCE_SIZE, a=self._wide)

    def _launch_s(self, prediction: ExpectedPrediction) -> float:
        return dict(prediction.parts).get("launch", 0.0)

    def _moved_s(self, kernel: StepKernel, prediction: ExpectedPrediction) -> float:
        rate_s = (prediction.time_s - self._launch_s(prediction)) / self._reference_gemv().cost.total_bytes
        return kernel.work.cost.total_bytes * rate_s


def _rank(provenance: str) -> int:
    """Return how far a provenance is from a measurement of this very chip."""
    return _PROVENANCE_ORDER.index(provenance) if provenance in _PROVENANCE_ORDER else len(_PROVENANCE_ORDER)
