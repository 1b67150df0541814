"""One pass of a model as a library really runs it: the work that a benchmark case of a whole model declares.

The ideal time is that of the format: fused kernels, every byte once. The expected time is that of the kernels that run:
where a library decodes a weight in a step of its own, that step is counted and the product is a 16-bit one. On a CPU
what the framework spends between kernels is added where it was measured; a GPU's time is the device's alone, as it is
measured, with a launch floor for each kernel that an engine would not launch. The two differ exactly by what the
library leaves on the table.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from roofline_model.chips.hardware import Device, get_hardware
from roofline_model.core.cost import OpCost
from roofline_model.core.errors import UnsupportedError
from roofline_model.core.finding import Finding, finding
from roofline_model.expected.calibrated import Triple
from roofline_model.expected.gap import PASS_PART
from roofline_model.expected.predict import predict_expected
from roofline_model.expected.prediction import ExpectedPrediction
from roofline_model.formats.catalog import NumberFormat, get_format
from roofline_model.ideal.roofline import WARM_CACHE_SHARE, Prediction
from roofline_model.kernels.known_kernels import why_no_time_here
from roofline_model.models.decoder_step import StepKernel, Workload, step_kernels
from roofline_model.models.format_plan import FormatPlan
from roofline_model.models.llm import ModelPrediction, predict_model
from roofline_model.models.model_shapes import ModelShape
from roofline_model.models.step_expected import (
    ExpectedSequence,
    KernelExpectation,
    beside_ideal_of,
    call_within_ceilings,
    expected_kernels,
    expected_sequence,
    launch_floor,
    why_no_kernels,
)
from roofline_model.operators.case import Case
from roofline_model.operators.product import Operator, gemm
from roofline_model.operators.quantize import dequantize

PASS_VERSION = "pass-3"
"""Changes whenever the same pass and constants would get another expected time; stored with every such prediction."""

MAPPED_BYTES = 2**25
"""A CPU buffer of at least so many bytes is mapped anew by every call, and each of its pages faults at its first touch:
the most that glibc's malloc raises its threshold to on 64 bits (mallopt(3), M_MMAP_THRESHOLD). Smaller ones are taken
from the heap again.
"""

_PRODUCTS = ("gemv", "gemm")
_DECODED = "B decoded"
_PASSES = ("dequantize_weights", "widen_weights")
"""Kernels that read a weight and write it wider, beside the product."""


@dataclass(frozen=True, slots=True)
class LinearPath:
    """What a library does per call of a Linear beyond the product that its formats name."""

    weights: str
    activations: str
    """Format keys of the Linear, as the plan names them."""
    decoded: str | None = None
    """Format in which the whole weight is written and read again by every call; the product is then one of that
    format.
    """
    is_scaled: bool = True
    """Whether that step multiplies by the scales; False: it is a cast, and the product is scaled afterwards."""
    widened_bytes_per_element: float = 0.0
    """Bytes per weight that a pass beside the product writes and reads again (sums of a widened copy, …)."""
    unmodelled: Finding | None = None
    """Why there is no expected time for it (an emulation in many steps); None: there is one."""
    source: str = ""
    """Where this is known from."""


@dataclass(frozen=True, slots=True)
class HostTime:
    """Time of the framework between the kernels of one pass on a CPU. Seconds, with its measured spread."""

    time_s: float
    low_s: float
    high_s: float
    source: str
    page_s_per_byte: float = 0.0
    """First touch of a byte of fresh memory; 0 where it was not measured. See `MAPPED_BYTES`."""


@dataclass(frozen=True, slots=True)
class ModelPass:
    """The work of one pass. A benchmark declares it like an operator."""

    shape: ModelShape
    workload: Workload
    plan: FormatPlan
    paths: tuple[LinearPath, ...] = ()
    """What the library does in other ways than a good engine, by formats; not named: one fused kernel."""
    host: HostTime | None = None
    """None: not measured, and left out of the expected time (a finding says so), as it always is on a GPU."""
    launch_count: int | None = None
    """Kernels that one call launches on a GPU, as they were counted; None: not counted, and the kernels of an engine
    are taken.
    """

    @property
    def token_count(self) -> int:
        """Tokens the pass computes: one per sequence in decode, the prompts in prefill."""
        return self.workload.row_count

    def case(self, op: str, kernel: str, *, cache: str = "warm", mode: str = "eager") -> Case:
        """Return the case that runs this pass: B sequences, Sq new tokens each, Skv tokens in the end."""
        work, base = self.workload, self.plan.base
        sizes = (("B", work.batch_count), ("Sq", work.new_count), ("Skv", work.context_count))
        formats = (("a", base.activations), ("b", base.weights), ("kv", self.plan.kv))
        return Case(op, sizes, formats, kernel, cache, mode)

    def ideal(self, hardware: Device | str) -> Prediction:
        """Return the ideal prediction: the sum of the kernels' ideal times, in DRAM even where calls follow each other.

        A pass touches every weight once, so that nothing but a model smaller than the last-level cache is found there
        again; a finding says so where it is. Raises as `predict_model`.
        """
        device = get_hardware(hardware)
        prediction = self.predicted(device)
        kernels = prediction.kernels
        flops = prediction.flops
        compute_s = math.fsum(priced.kernel.calls_count * priced.prediction.compute_time_s for priced in kernels)
        busiest = max(kernels, key=lambda priced: priced.flops)
        read = math.fsum(priced.kernel.calls_count * priced.prediction.read_bytes for priced in kernels)
        paths = {priced.prediction.path for priced in kernels if priced.flops > 0.01 * flops}
        return Prediction(
            hardware=device.key,
            time_s=prediction.time_s,
            memory_time_s=math.fsum(priced.kernel.calls_count * priced.prediction.memory_time_s for priced in kernels),
            compute_time_s=compute_s,
            bound="compute" if prediction.bound == "compute" else "memory",
            flops=flops,
            read_bytes=read,
            write_bytes=prediction.moved_bytes - read,
            bandwidth_bytes_per_s=device.bandwidth.value,
            peak_flops_per_s=flops / compute_s,
            compute_format=busiest.prediction.compute_format,
            path=next((kind for kind in ("emulated", "dequantize") if kind in paths), "native"),
            memory_level="DRAM",
            provenance=prediction.provenance,
            findings=(*prediction.findings, *self._cache_finding(prediction, device)),
        )

    def predicted(self, hardware: Device | str) -> ModelPrediction:
        """Return the ideal prediction kernel by kernel, with the memory that the pass needs."""
        work = self.workload
        return predict_model(
            hardware,
            self.shape,
            work.phase,
            batch=work.batch_count,
            context=work.context_count,
            new_tokens=work.new_count,
            formats=self.plan,
        )

    def executed_kernels(self) -> tuple[StepKernel, ...]:
        """Return the kernels of one pass as the library runs them: decode passes apart, products in the decoded
        format.
        """
        executed: list[StepKernel] = []
        for kernel in step_kernels(self.shape, self.workload, self.plan):
            executed += self._executed(kernel)
        return tuple(executed)

    def expected(self, hardware: Device | str) -> ExpectedPrediction | None:
        """Return the expected prediction of the kernels that run, or None where one of them has none
        (`why_no_expected`).
        """
        device = get_hardware(hardware)
        if self._unmodelled is not None or why_no_time_here(device):
            return None
        kernels = self.executed_kernels()
        try:
            whole = expected_sequence(expected_kernels(kernels, device, estimate=_estimate))
        except UnsupportedError:
            return None
        return None if whole is None else self._with_host(whole, device)

    def why_no_expected(self, hardware: Device | str) -> Finding | None:
        """Return why a kernel has no expected time; None when all have."""
        device = get_hardware(hardware)
        return (
            self._unmodelled
            or why_no_time_here(device)
            or why_no_kernels(self.executed_kernels(), device, estimate=call_within_ceilings)
        )

    @property
    def _unmodelled(self) -> Finding | None:
        return next((path.unmodelled for path in self.paths if path.unmodelled and self._uses(path)), None)

    def _with_host(self, whole: ExpectedSequence, device: Device) -> ExpectedPrediction:
        """Add what the framework takes beside the kernels: the host's time on a CPU, further launches on a GPU."""
        parts, findings = dict(_parts(whole.kernels)), list(whole.findings)
        low_s, time_s, high_s = whole.low_s, whole.time_s, whole.high_s
        host = self.host
        if device.kind != "cpu":
            extra_count = self._extra_launch_count(whole)
            if extra_count:
                low_s, time_s, high_s = (
                    kernels_s + extra_count * launch_s
                    for kernels_s, launch_s in zip((low_s, time_s, high_s), _floor(device), strict=True)
                )
                parts["extra_launches"] = time_s - whole.time_s
            findings.append(self._device_finding(extra_count))
        elif host is None:
            findings.append(finding("host-time-unknown"))
        else:
            pages_s = host.page_s_per_byte * _mapped_bytes(whole.kernels)
            parts |= {"host": host.time_s, "page_faults": pages_s}
            low_s, time_s, high_s = (
                kernels_s + host_s + pages_s
                for kernels_s, host_s in ((low_s, host.low_s), (time_s, host.time_s), (high_s, host.high_s))
            )
            findings.append(finding("host-time", source=host.source))
            if pages_s:
                findings.append(finding("weights-mapped-anew"))
        present = tuple((name, seconds) for name, seconds in parts.items() if seconds > 0)
        return ExpectedPrediction(
            hardware=device.key,
            time_s=time_s,
            low_s=low_s,
            high_s=high_s,
            parts=present,
            binding=max(present, key=lambda part: part[1])[0],
            kernel="",
            provenance=whole.provenance,
            findings=tuple(dict.fromkeys((*findings, *self._library_findings()))),
            terms=_terms(whole, parts),
            model_version=f"{whole.model_version}+{PASS_VERSION}",
            beside_ideal=beside_ideal_of(
                whole.kernels,
                device,
                time_s,
                self.predicted(device).time_s,
                {name: parts[name] for name in ("host", "page_faults", "extra_launches") if name in parts},
            ),
        )

    def _extra_launch_count(self, whole: ExpectedSequence) -> int:
        """Return how many kernels were counted beyond those that have a time already; 0 where none were counted."""
        priced_count = sum(priced.kernel.calls_count for priced in whole.kernels)
        return 0 if self.launch_count is None else max(0, self.launch_count - priced_count)

    def _device_finding(self, extra_count: int) -> Finding:
        if self.launch_count is None:
            return finding("device-time", kind="step")
        return finding("device-time", kind="counted", launch_count=self.launch_count, extra_count=extra_count or None)

    def _executed(self, kernel: StepKernel) -> Iterator[StepKernel]:
        path = self._path_of(kernel.work)
        if path is None:
            yield kernel
            return
        sizes, formats = dict(kernel.work.shape), dict(kernel.work.formats)
        N, K = sizes["N"], sizes["K"]
        product = kernel.work
        if path.decoded is not None:
            stored, wide = self.plan.stored(formats["b"]), get_format(path.decoded).key
            work = dequantize(N, K, stored, wide) if path.is_scaled else _cast(N, K, stored, wide)
            yield replace(kernel, name="dequantize_weights", work=work)
            product = _of_decoded(gemm(sizes["M"], N, K, a=wide, b=wide, c=formats["c"]))
        if path.widened_bytes_per_element:
            copied = path.widened_bytes_per_element * N * K
            read = get_format(formats["b"]).traffic_bytes_per_element * N * K
            cost = OpCost(read_bytes={"B": read, "B widened": copied}, write_bytes={"B widened": copied})
            yield replace(
                kernel,
                name="widen_weights",
                work=Operator("widen", (("rows", N), ("width", K)), (("x", formats["b"]),), cost),
            )
        yield replace(kernel, work=product)

    def _path_of(self, work: Operator) -> LinearPath | None:
        if work.op not in _PRODUCTS:
            return None
        formats = dict(work.formats)
        return next(
            (path for path in self.paths if (path.weights, path.activations) == (formats["b"], formats["a"])), None
        )

    def _uses(self, path: LinearPath) -> bool:
        kernels = step_kernels(self.shape, self.workload, self.plan)
        return any(self._path_of(priced.work) is path for priced in kernels)

    def _library_findings(self) -> Iterator[Finding]:
        for path in self.paths:
            if path.source and self._uses(path):
                yield finding("library-path", source=path.source)

    def _cache_finding(self, prediction: ModelPrediction, device: Device) -> tuple[Finding, ...]:
        last = device.last_level_cache
        if last is None or prediction.memory.weights_bytes > WARM_CACHE_SHARE * last.capacity_bytes:
            return ()
        return (finding("cached-in-part", kind="model", level=last.name),)


def _of_decoded(product: Operator) -> Operator:
    """Return a product whose weight was written just before it: counted alike, under a name of its own."""
    cost = product.cost
    read = {_DECODED if name == "B" else name: size for name, size in cost.read_bytes}
    return replace(product, cost=OpCost(flops=dict(cost.flops), read_bytes=read, write_bytes=dict(cost.write_bytes)))


def _estimate(work: Operator, device: Device) -> ExpectedPrediction | None:
    """Return the expected time of one call: a GEMV finds a weight in the cache that was decoded there just before it.

    Products of more rows are bound by their arithmetic, of which the curves of cold operands know more.
    """
    decoded = dict(work.cost.read_bytes).get(_DECODED)
    last = device.last_level_cache
    fits = decoded is not None and last is not None and decoded <= WARM_CACHE_SHARE * last.capacity_bytes
    if fits and work.op == "gemv":
        return predict_expected(work, device, cache="warm", allow_ceilings=True)
    return call_within_ceilings(work, device)


def _floor(device: Device) -> Triple:
    """Return the launch floor of a chip that has expected times of products."""
    floor = launch_floor(device, estimate=_estimate)
    assert floor is not None, "a pass without the time of a product has no expected time"
    return floor


def _cast(rows: int, width: int, source: NumberFormat, target: str) -> Operator:
    """Return the cast of a weight without its scales."""
    read, written = (rows * width * fmt.traffic_bytes_per_element for fmt in (source, get_format(target)))
    cost = OpCost(read_bytes={"X": read}, write_bytes={"Y": written})
    return Operator("cast", (("rows", rows), ("width", width)), (("x", source.key), ("o", target)), cost)


def _mapped_bytes(kernels: tuple[KernelExpectation, ...]) -> float:
    """Return the bytes of all buffers of a pass that are too large to be kept: what decoding writes beside the
    product.
    """
    buffers = (
        (priced.kernel.calls_count, priced.kernel.work.cost.total_write_bytes)
        for priced in kernels
        if priced.kernel.name in _PASSES
    )
    return math.fsum(count * size for count, size in buffers if size >= MAPPED_BYTES)


def _parts(kernels: tuple[KernelExpectation, ...]) -> Iterator[tuple[str, float]]:
    """Yield kernel → seconds of all its calls; kernels of one name together."""
    total: dict[str, float] = {}
    for priced in kernels:
        total[priced.kernel.name] = total.get(priced.kernel.name, 0.0) + priced.kernel.calls_count * priced.time_s
    yield from total.items()


def _terms(whole: ExpectedSequence, parts: dict[str, float]) -> tuple[tuple[str, float], ...]:
    """Return the terms that a gap is explained with: passes over the weights, launches, the host, and the kernels' own.

    Beside them each part of the pass under its name, with `PASS_PART` before it.
    """
    passes_s = math.fsum(parts.get(name, 0.0) for name in _PASSES)
    terms = {
        "dequantize": passes_s + parts.get("page_faults", 0.0),
        "launch": parts.get("extra_launches", 0.0),
        "host": parts.get("host", 0.0),
        "kernel": whole.time_s - passes_s,
    }
    terms |= {f"{PASS_PART}{name}": seconds for name, seconds in parts.items()}
    return tuple((name, seconds) for name, seconds in terms.items() if seconds > 0)
