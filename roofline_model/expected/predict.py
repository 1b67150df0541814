"""The expected time of an operator call on a chip: what a good kernel reaches, with an 80 % interval and its source.

GEMM and GEMV on NVIDIA GPUs come from `products/`, attention from `attention/`; a machine without such constants
answers from its own calibration (`roofline calibrate`), where it has one: from the curve of that very kernel if it was
timed; ceilings alone are none (`kernels/known_kernels.py`). No answer is None, with a reason. Many products of one
shape are priced together (`ExpectedTimes`). Each of the two models is imported when it is first asked.

**Of the kernel that is named.** A GPU kernel of ours has the time of the constants that describe it, or none
(`kernels/described_kernels.py`). Without a name the answer is of the library's kernel that the constants were fitted
to.

**Never below the ideal time.** An expected time of cold operands is never below their ideal time, nor its interval, nor
a part below the roof of its unit. The tables that constants are fitted to rotate over copies of the weights only:
activations and the output stay in the L2, so that a wide, shallow product can be faster than a roofline that fetches
everything from memory. `roofline validate` predicts such rows as they were measured. A call whose operands all come
from memory cannot be. The interval is of such rows, too, and of lent constants wider still: its lower end is the ideal
time where the factors would reach below.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from roofline_model.chips.hardware import Device, ceilings_doubt, get_hardware
from roofline_model.core.answer import Estimate
from roofline_model.core.cost import OpCost
from roofline_model.core.elementwise import Numbers, larger
from roofline_model.core.errors import UnsupportedError
from roofline_model.core.finding import Finding, finding, finding_of, unsupported
from roofline_model.core.memo import Memo
from roofline_model.expected.beside_ideal import beside_ideal, beyond_ideal
from roofline_model.expected.calibrated import (
    KERNEL_VERSION,
    from_kernel,
    predict_calibrated,
    predict_kernel,
)
from roofline_model.expected.prediction import EXPECTED_VERSION, NORM_PARTS, ExpectedPrediction, is_far
from roofline_model.formats.catalog import NumberFormat, ScaleLevel, get_format
from roofline_model.ideal.operator_sequence import predict_operator
from roofline_model.ideal.roofline import Prediction, ProductRoof, beaten_ratio, predict
from roofline_model.kernels.attention_kernels import ATTENTION_KERNELS
from roofline_model.kernels.described_kernels import constants_of, why_not_described
from roofline_model.kernels.known_kernels import computed_activation, why_no_product_kernel, why_untimed
from roofline_model.operators.case import Case
from roofline_model.operators.product import Operator, check_dimension, gemm

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from roofline_model.expected.products.product import ProductModels

    Floats = NDArray[np.float64]

PRODUCTS = ("gemv", "gemm")

LAYOUT_GROUP_ELEMS = 64
"""Elements over which the scales of a kernel's own layout are spread to look up its constants."""


def predict_expected(
    work: Operator | OpCost,
    device: Device | str,
    *,
    cache: str = "cold",
    kernel: str | None = None,
    attention_kernel: str | None = None,
    dynamic_activation_quantization: bool = False,
    allow_ceilings: bool = False,
    ideal: Prediction | None = None,
) -> ExpectedPrediction | None:
    """Return the expected prediction of `work` in seconds with its 80 % interval, or None without a model for it.

    `why_no_expected` gives the reason of a None.

    - `cache="warm"`: calls repeat on the same operands, so weights that fit stay in the L2; any other state is cold.
    - `kernel`: the implementation. On a CPU its own curve is used where the calibration timed it. On a GPU the
      constants that describe it answer; of a kernel in `GPU_KERNELS` without any the answer is None.
    - `attention_kernel`: a key of `ATTENTION_KERNELS`, whose model is used for attention. None: the fitted model where
      the chip has one, else its calibration. Raises `UnknownNameError` for an unknown key.
    - `dynamic_activation_quantization`: the call quantises its 16-bit activation itself (FP8 and NVFP4 products).
    - `allow_ceilings`: where no kernel was timed, return the lower bound of a calibrated machine's ceilings.
    - `ideal`: the result of `roofline.predict` for the same work, chip and cache state, to save computing it again.

    >>> from roofline_model.operators.product import gemm
    >>> prediction = predict_expected(gemm(1, 4096, 4096, a="BF16"), "gb10")
    >>> [round(1e6 * time_s, 1) for time_s in (prediction.low_s, prediction.time_s, prediction.high_s)]
    [129.7, 149.0, 172.8]
    """
    chip = get_hardware(device)
    try:
        prediction = _predicted(
            work, chip, cache, dynamic_activation_quantization, kernel, allow_ceilings, ideal, attention_kernel
        )
        return _beside_ideal(prediction, ideal or predict(work, chip, cache=cache), chip, cache)
    except UnsupportedError:
        return None


def _beside_ideal(prediction: ExpectedPrediction, ideal: Prediction, device: Device, cache: str) -> ExpectedPrediction:
    """Return a time with what stands beside its ideal one."""
    if not is_far(prediction.time_s, ideal.time_s):
        return prediction
    memory_s = 0.0 if cache == "warm" else ideal.memory_time_s
    beyond_s = beyond_ideal(prediction.parts, memory_s, ideal.compute_time_s)
    clock_hz = device.sustained_clock_hz if ideal.bound == "compute" else None
    return replace(prediction, beside_ideal=beside_ideal(prediction.time_s, ideal.time_s, beyond_s, clock_hz=clock_hz))


def why_no_expected(
    work: Operator | OpCost,
    device: Device | str,
    *,
    cache: str = "cold",
    kernel: str | None = None,
    attention_kernel: str | None = None,
) -> Finding | None:
    """Return why `predict_expected` gives None; None when it does not."""
    try:
        _predicted(work, get_hardware(device), cache, False, kernel, attention_kernel=attention_kernel)
    except UnsupportedError as error:
        return finding_of(error)
    return None


def has_gpu_model(device: Device) -> bool:
    """Return whether the fitted models are asked first: of a GPU, not of a CPU or a machine calibrated as one."""
    return device.kind != "cpu" and (device.calibration is None or device.calibration.kind == "cuda")


def _predicted(
    work: Operator | OpCost,
    device: Device,
    cache: str,
    quantizes: bool,
    kernel: str | None = None,
    allow: bool = False,
    ideal: Prediction | None = None,
    attention_kernel: str | None = None,
) -> ExpectedPrediction:
    op = work.op if isinstance(work, Operator) else ""
    if kernel is not None and has_gpu_model(device):
        if (why_not := why_not_described(op, kernel)) is not None:
            raise unsupported(why_not)
        if attention_kernel is None and (constants := constants_of(op, kernel)) in ATTENTION_KERNELS:
            if device.match.capability is None:  # no chip of CUDA's: these kernels are not written for it
                raise unsupported(finding("no-expected-time", kernel, kind="kernel"))
            attention_kernel = constants
    if isinstance(work, Operator) and op == "attention" and attention_kernel is not None:
        return _above_roof(_attention(work, device, cache, attention_kernel), work, device, cache, ideal)
    reason: UnsupportedError | None = None
    if has_gpu_model(device):
        try:
            if isinstance(work, Operator) and op in (*PRODUCTS, "attention"):
                prediction = (
                    _attention(work, device, cache) if op == "attention" else _product(work, device, cache, quantizes)
                )
                return _above_roof(prediction, work, device, cache, ideal)
        except UnsupportedError as error:
            reason = error
    calibrated = predict_calibrated(work, device, cache=cache)
    if calibrated is not None:
        timed = predict_kernel(work, device, kernel=kernel) if isinstance(work, Operator) else None
        why_not = why_untimed(work, device) if timed is None else None
        if why_not is not None:
            if not allow:
                raise reason or unsupported(why_not)
            timed = None
        # Curves are of cold operands.
        return calibrated if timed is None or cache == "warm" else from_kernel(timed, calibrated)
    if reason is not None:
        raise reason
    if device.calibration is not None:  # not calibrated while quiet
        raise unsupported(ceilings_doubt(device.key, device.calibration))
    if op not in (*PRODUCTS, "attention"):
        raise unsupported(finding("no-expected-time", kind="operation", operation=op or "a plain cost"))
    raise unsupported(finding("no-expected-time", kind="never-calibrated", hardware=device.key))


def _above_roof(
    prediction: ExpectedPrediction, work: Operator, device: Device, cache: str, ideal: Prediction | None
) -> ExpectedPrediction:
    """Return a time with nothing of it below the roof of its work."""
    ideal = ideal or predict(work, device, cache=cache)
    beaten = beaten_ratio(work, device)
    # What warm operands cost at least depends on how much of them the cache keeps: only the arithmetic is known.
    return warm_under_roof(prediction, ideal, beaten) if cache == "warm" else at_least_ideal(prediction, ideal, beaten)


def _product(work: Operator, device: Device, cache: str, quantizes: bool) -> ExpectedPrediction:
    from roofline_model.expected.products.product import ProductModel

    if (why_not := why_no_product_kernel(work, device)) is not None:
        raise unsupported(why_not)
    sizes, formats = dict(work.shape), dict(work.formats)
    weight, activation, output = formats["b"], formats["a"], formats["c"]
    decoded = dict(work.cost.write_bytes).get("B decoded")
    if decoded is not None:
        # The whole weight is written in the activation's format and read again: a product of that format, after a pass.
        weight = activation
    computed = computed_activation(device, weight, activation)
    model, *others = (
        ProductModel.of(device, weight=_as_read(work, weight), activation=key, output=output)
        for key in dict.fromkeys((activation, computed))
    )
    sizes_mnk = sizes["M"], sizes["N"], sizes["K"]
    calls = [
        candidate.expected(*sizes_mnk, cache=cache, quantizes_activations=quantizes) for candidate in (model, *others)
    ]
    prediction = ExpectedPrediction.of(device.key, max(calls, key=lambda call: call.time_s))
    if (beyond := extrapolation(work, prediction.provenance)) is not None:
        prediction = replace(prediction, findings=(*prediction.findings, beyond))
    if computed != activation:
        decoded_pair = finding("pair-decoded", weight=weight, activation=activation, compute_format=computed)
        prediction = replace(prediction, findings=(*prediction.findings, decoded_pair))
    if decoded is None:
        return prediction
    moved = decoded + dict(work.cost.read_bytes)["B"]
    constants = model.fitted.constants
    pass_s = constants.launch_s + moved / (constants.dram_ratio * model.chip.bandwidth_bytes_per_s)
    return _with_pass(prediction, pass_s)


def _as_read(work: Operator, weight: str) -> NumberFormat:
    """Return the weight's format with the scales that the work counts beyond the catalog's: a kernel's own layout."""
    fmt, sizes = get_format(weight), dict(work.shape)
    read_bytes = dict(work.cost.read_bytes).get("B")
    if read_bytes is None:
        return fmt
    extra_bits = 8 * (read_bytes / (sizes["N"] * sizes["K"]) - fmt.traffic_bytes_per_element)
    # Groups of any size with the same bits per element move the same bytes.
    group_bits = round(extra_bits * LAYOUT_GROUP_ELEMS, 3)
    return replace(fmt, scales=(*fmt.scales, ScaleLevel(group_bits, LAYOUT_GROUP_ELEMS))) if group_bits > 0 else fmt


def _with_pass(prediction: ExpectedPrediction, pass_s: float) -> ExpectedPrediction:
    """Return a product with the kernel that decodes its weight before it."""
    return replace(
        prediction,
        time_s=prediction.time_s + pass_s,
        low_s=prediction.low_s + pass_s * prediction.low_s / prediction.time_s,
        high_s=prediction.high_s + pass_s * prediction.high_s / prediction.time_s,
        parts=(*prediction.parts, ("dequantize", pass_s)),
        terms=(*prediction.terms, ("dequantize", pass_s)),
        binding="dequantize" if pass_s > prediction.time_s / 2 else prediction.binding,
        findings=(*prediction.findings, finding("product-held", kind="decoded-first")),
    )


def _attention(work: Operator, device: Device, cache: str, kernel: str | None = None) -> ExpectedPrediction:
    from roofline_model.expected.attention.predict import predict_attention

    return predict_attention(work, device, cache=cache, kernel=kernel)


def at_least_ideal(prediction: ExpectedPrediction, ideal: Prediction, beaten_ratio: float = 1.0) -> ExpectedPrediction:
    """Return the prediction with its time and interval at least the ideal time, its parts as `under_roofs` has them.

    Where the time is raised, the upper end of the interval keeps its ratio to the time.
    `beaten_ratio`: a published rate over the peak, where a chip was faster than its rated one (`published_over_peak`).
    """
    memory_s, compute_s = ideal.memory_time_s, ideal.compute_time_s / beaten_ratio
    time_s, low_s, high_s = raised_to_ideal(prediction.time_s, prediction.low_s, prediction.high_s, memory_s, compute_s)
    roofed = under_roofs(prediction, memory_s, compute_s, time_s)
    if time_s <= prediction.time_s:
        return roofed if low_s <= prediction.low_s else replace(roofed, low_s=low_s)
    findings = (*prediction.findings, finding("product-held", kind="ideal"))
    return replace(roofed, low_s=low_s, high_s=high_s, binding=_bound(memory_s, compute_s), findings=findings)


def under_roofs(
    prediction: ExpectedPrediction, memory_s: float, compute_s: float, time_s: float | None = None
) -> ExpectedPrediction:
    """Return the prediction with the time `time_s`, and terms and parts that agree with the ideal roofs.

    A term, the time of one unit alone, is at least that unit's roof. The parts share the time: the part of the longer
    roof gets at least that roof, taken first from the parts that overlap it, then from the others.
    """
    time_s = prediction.time_s if time_s is None else time_s
    parts, terms = dict(prediction.parts), dict(prediction.terms)
    # A kernel that decodes the weight first moves a part of the bytes.
    roofs = {"dram": max(0.0, memory_s - parts.get("dequantize", 0.0)), "tensor": compute_s}
    side = _bound(memory_s, compute_s)
    low = {name: roof_s for name, roof_s in roofs.items() if terms.get(name, 0.0) < roof_s}
    if not low and time_s == prediction.time_s and parts.get(side, 0.0) >= roofs[side]:
        return prediction
    terms |= low
    parts[side] = parts.get(side, 0.0) + (time_s - prediction.time_s)
    missing_s = min(roofs[side], time_s) - parts[side]
    if missing_s > 0:
        parts[side] += missing_s
        overlapped = [name for name in parts if name in NORM_PARTS and name != side]
        for names in (overlapped, [name for name in parts if name != side]):
            missing_s -= _taken(parts, names, missing_s)
    present = tuple((name, value) for name, value in parts.items() if value > 0)
    return replace(prediction, time_s=time_s, parts=present, terms=tuple(terms.items()))


def _taken(parts: dict[str, float], names: list[str], wanted_s: float) -> float:
    """Take `wanted_s` from these parts in proportion, as far as they go; return how much that was."""
    whole_s = sum(parts[name] for name in names)
    taken_s = min(wanted_s, whole_s)
    for name in names:
        parts[name] *= 1 - taken_s / whole_s if taken_s > 0 else 1.0
    return taken_s


def warm_under_roof(prediction: ExpectedPrediction, ideal: Prediction, beaten_ratio: float = 1.0) -> ExpectedPrediction:
    """Return the same of warm operands, whose time stays: only where arithmetic binds is its roof known."""
    compute_s = ideal.compute_time_s / beaten_ratio
    return under_roofs(prediction, 0.0, compute_s) if compute_s > ideal.memory_time_s else prediction


def _bound(memory_s: float, compute_s: float) -> str:
    return "dram" if memory_s >= compute_s else "tensor"


def cold_limits(work: Operator, device: Device) -> tuple[float, float]:
    """Return what memory and arithmetic take at least of a call with cold operands, for `raised_to_ideal`."""
    ideal = predict_operator(work, device)
    return ideal.memory_time_s, ideal.compute_time_s / beaten_ratio(work, device)


def raised_to_ideal(
    time_s: Numbers, low_s: Numbers, high_s: Numbers, memory_s: Numbers, compute_s: Numbers
) -> tuple[Numbers, Numbers, Numbers]:
    """Return times and the ends of their intervals, at least the ideal time; the upper end keeps its ratio to the time.

    Numbers or arrays.
    """
    limit_s = larger(memory_s, compute_s)
    if isinstance(time_s, float) and time_s >= limit_s:
        return time_s, larger(low_s, limit_s), high_s
    raised_s = larger(time_s, limit_s)
    return raised_s, larger(low_s, limit_s), high_s * (raised_s / time_s)


def arrays_raised_to_ideal(
    expected_s: Floats, low_s: Floats, high_s: Floats, binding: list[str], ideal_s: Floats, memory_s: Floats
) -> tuple[Floats, Floats, Floats, list[str]]:
    """Return `raised_to_ideal` of arrays: times, both ends of the interval, and binding terms."""
    import numpy as np

    is_low = expected_s < ideal_s
    sides = np.where(memory_s >= ideal_s, "dram", "tensor")
    named = [str(side) if low else name for name, low, side in zip(binding, is_low, sides, strict=True)]
    return *raised_to_ideal(expected_s, low_s, high_s, memory_s, ideal_s), named


LARGEST_FITTED_FLOPS = 1.879e13
"""FLOPs of the largest of the 18,000 fitted products (M up to 32,768, N and K up to 65,536; 7 to 99 ms). Source: the
measured tables of docs/theory/validation.md; 2026-11-22.
"""


def extrapolation(work: Operator, provenance: str) -> Finding | None:
    """Return that a product is larger than any fitted one; None where it is not, or its time was not fitted.

    The clock's loss grows with every doubling of the work, as fitted up to 50 ms; a real chip settles at some power.
    """
    flops = work.cost.total_flops
    if flops <= LARGEST_FITTED_FLOPS or provenance == "measured-here":
        return None
    return finding("extrapolated", flops_factor=flops / LARGEST_FITTED_FLOPS)


Operands = tuple[NumberFormat, NumberFormat, NumberFormat]
"""Formats of a, b and c."""


@dataclass(frozen=True, slots=True)
class _Priced:
    """Formats on a chip, and how those of them that the fitted model knows are priced together."""

    roofs: tuple[ProductRoof | None, ...]
    """One per triple of formats; None: it is asked for by itself (a machine's own calibration, or both operands
    widened).
    """
    models: ProductModels | None
    """Of the triples with a roof, in their order; None where there is none."""
    unknown: frozenset[int]
    """Places of the triples that have no expected time at all."""


_PRICED: Memo[_Priced] = Memo(256)


@dataclass(frozen=True, slots=True)
class ExpectedTimes:
    """The expected times of one chip."""

    device: Device

    def __call__(self, case: Case) -> Estimate | None:
        """Return the expected time of one product, or None; see `expected_times`."""
        if not _is_product(case):
            return None
        sizes, formats = dict(case.shape), dict(case.formats)
        work = gemm(sizes["M"], sizes["N"], sizes["K"], a=formats["a"], b=formats["b"], c=formats["c"])
        prediction = predict_expected(work, self.device, cache=case.cache)
        if prediction is None or prediction.model_version not in (EXPECTED_VERSION, KERNEL_VERSION):
            return None
        return prediction.estimate

    def many(self, cases: Sequence[Case]) -> list[Estimate | None]:
        """Return the expected time of each case: the same as one by one, sooner for the formats of one cold shape."""
        if not cases:
            return []
        first = cases[0]
        is_one_shape = _is_product(first) and all(
            case.op in PRODUCTS and case.cache == "cold" and case.shape == first.shape for case in cases
        )
        if not is_one_shape or not has_gpu_model(self.device):
            return [self(case) for case in cases]
        for name, size in first.shape:
            check_dimension(name, size)
        named = [dict(case.formats) for case in cases]
        triples = [
            (get_format(operands["a"]), get_format(operands["b"]), get_format(operands["c"])) for operands in named
        ]
        key = (self.device, *(fmt for triple in triples for fmt in triple))
        priced = _PRICED.of(key, lambda: _priced(self.device, triples))
        sizes = dict(first.shape)
        together = iter(_estimates(priced, sizes["M"], sizes["N"], sizes["K"]))
        return [
            next(together) if roof is not None else None if place in priced.unknown else self(case)
            for place, (case, roof) in enumerate(zip(cases, priced.roofs, strict=True))
        ]


def _is_product(case: Case) -> bool:
    """Return whether a case is a product with its sizes: a kernel of somebody's own may be called one and have
    others.
    """
    return case.op in PRODUCTS and {"M", "N", "K"} <= dict(case.shape).keys()


def expected_times(hardware: Device | str) -> ExpectedTimes:
    """Return the function that gives the expected time of a product on a chip, for `recommend_quantization(times=…)`.

    The function returns None for other operators than gemv and gemm, for chips without expected times, and where only
    the ceilings of a calibrated machine are known. The recommendation then uses the ideal time, and a finding says so.
    Raises `UnknownNameError` for an unknown chip.
    """
    return ExpectedTimes(get_hardware(hardware))


def _priced(device: Device, triples: Sequence[Operands]) -> _Priced:
    from roofline_model.expected.products.product import ProductModel, ProductModels

    roofs: list[ProductRoof | None] = []
    models, unknown = [], set()
    for place, (activation, weight, output) in enumerate(triples):
        roof = None
        try:
            if (why_not := why_no_product_kernel(gemm(1, 1, 1, a=activation, b=weight, c=output), device)) is not None:
                raise unsupported(why_not)
            model = ProductModel.of(device, weight=weight.key, activation=activation.key, output=output.key)
            if not model.computes_wide:
                roof = ProductRoof.of(device, activation=activation, weight=weight, output=output)
                models.append(model)
        except UnsupportedError:
            if device.calibration is None:
                unknown.add(place)
        roofs.append(roof)
    return _Priced(tuple(roofs), ProductModels.of(models) if models else None, frozenset(unknown))


def _estimates(priced: _Priced, M: int, N: int, K: int) -> list[Estimate]:
    """Return the expected times of the triples that are priced together."""
    if priced.models is None:
        return []
    roofs = [roof for roof in priced.roofs if roof is not None]
    estimates = []
    for roof, model, times in zip(roofs, priced.models.models, priced.models.expected(M, N, K), strict=True):
        ideal = roof.at(M, N, K)
        time_s, low_s, high_s = raised_to_ideal(*times, ideal.memory_s, ideal.compute_s / roof.beaten_ratio)
        estimates.append(Estimate(time_s, low_s, high_s, "expected", model.parameters.provenance))
    return estimates
