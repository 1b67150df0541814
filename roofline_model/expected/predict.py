"""The expected time of one operator call on one chip: what a good kernel reaches, with an 80 % interval and its source.

GEMM and GEMV on NVIDIA GPUs come from `gemm/formula.py`, attention from `attention/model.py`; a machine without such
constants answers from its own calibration (`roofline calibrate`), where it has one: from the curve of that very kernel if it
was timed; ceilings alone are none (`known_kernels.py`). No answer is None, with a reason.
"""

from __future__ import annotations

from dataclasses import replace

from roofline_model.chips.hardware import Device, get_hardware
from roofline_model.core.cost import OpCost
from roofline_model.core.errors import UnsupportedError
from roofline_model.core.finding import Finding, finding, finding_of, unsupported
from roofline_model.expected.calibrated import (
    KERNEL_VERSION,
    CalibratedPrediction,
    KernelTime,
    predict_calibrated,
    predict_kernel,
)
from roofline_model.expected.fitted_range import extrapolation
from roofline_model.expected.ideal_floor import at_least_ideal, warm_under_roof
from roofline_model.expected.prediction import ExpectedBatch, ExpectedPrediction
from roofline_model.formats.catalog import NumberFormat, ScaleLevel, get_format
from roofline_model.ideal.published_rate import beaten_ratio
from roofline_model.ideal.roofline import Prediction, predict
from roofline_model.kernels.known_kernels import computed_activation, why_no_product_kernel, why_untimed
from roofline_model.operators.product import Operator

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
    """Return the expected prediction of `work`, or None where there is no model for it (`why_no_expected` says why).

    `cache="warm"`: calls follow each other on the same operands, so weights that fit stay in the L2; any other state is
    cold. `kernel`: the implementation, whose own curve answers where the machine's calibration timed it; the fitted models
    do not ask for it, and a kernel that was not timed has no expected time by having a name.
    `attention_kernel`: a key of `ATTENTION_KERNELS`, whose model answers for attention or nothing does; None: the fitted model
    where the chip has one, else its calibration. Raises `UnknownNameError` for one that nobody knows.
    `dynamic_activation_quantization`: the call quantises its 16-bit activation itself (FP8 and NVFP4 products).
    `allow_ceilings`: what the ceilings of a calibrated machine allow is an answer where no kernel was timed: for those who
    print it as a lower bound (`≥`), or make it a part of a longer time.
    `ideal`: what `roofline.predict` gives for the same work, chip and cache state, of those who have asked for it already.
    """
    try:
        return _predicted(
            work,
            get_hardware(device),
            cache,
            dynamic_activation_quantization,
            kernel,
            allow_ceilings,
            ideal,
            attention_kernel,
        )
    except UnsupportedError:
        return None


def why_no_expected(
    work: Operator | OpCost, device: Device | str, *, cache: str = "cold", attention_kernel: str | None = None
) -> Finding | None:
    """Return why `predict_expected` gives None; None when it does not."""
    try:
        _predicted(work, get_hardware(device), cache, False, attention_kernel=attention_kernel)
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
    if isinstance(work, Operator) and op == "attention" and attention_kernel is not None:
        return _above_roof(_attention(work, device, cache, attention_kernel), work, device, cache, ideal)
    reason: UnsupportedError | None = None
    if has_gpu_model(device):
        try:
            if isinstance(work, Operator) and op in (*PRODUCTS, "attention"):
                found = (
                    _attention(work, device, cache) if op == "attention" else _product(work, device, cache, quantizes)
                )
                return _above_roof(found, work, device, cache, ideal)
        except UnsupportedError as error:
            reason = error
    calibrated = predict_calibrated(work, device, cache=cache)
    if calibrated is not None:
        timed = predict_kernel(work, device, kernel=kernel) if isinstance(work, Operator) else None
        why_not = why_untimed(work, device) if timed is None else None
        if why_not is not None and not allow:
            raise reason or unsupported(why_not)
        # Curves are of cold operands.
        return _from_calibration(calibrated) if timed is None or cache == "warm" else _from_kernel(timed, calibrated)
    if reason is not None:
        raise reason
    if op not in (*PRODUCTS, "attention"):
        raise unsupported(finding("no-expected-model", operation=op or "a plain cost"))
    raise unsupported(finding("never-calibrated", hardware=device.key))


def _above_roof(
    found: ExpectedPrediction, work: Operator, device: Device, cache: str, ideal: Prediction | None
) -> ExpectedPrediction:
    """Return a time with nothing of it below the roof of its work."""
    ideal = ideal or predict(work, device, cache=cache)
    beaten = beaten_ratio(work, device)
    # What warm operands cost at least depends on how much of them the cache keeps: only the arithmetic is known.
    return warm_under_roof(found, ideal, beaten) if cache == "warm" else at_least_ideal(found, ideal, beaten)


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
        ProductModel.of(device, weight=_as_read(work, weight), activation=one, output=output)
        for one in dict.fromkeys((activation, computed))
    )
    asked = sizes["M"], sizes["N"], sizes["K"]
    calls = [one.expected(*asked, cache=cache, quantizes_activations=quantizes) for one in (model, *others)]
    found = _from_call(device, max(calls, key=lambda call: call.time_s))
    if (beyond := extrapolation(work, found.provenance)) is not None:
        found = replace(found, findings=(*found.findings, beyond))
    if computed != activation:
        decoded_pair = finding("pair-decoded", weight=weight, activation=activation, compute_format=computed)
        found = replace(found, findings=(*found.findings, decoded_pair))
    if decoded is None:
        return found
    moved = decoded + dict(work.cost.read_bytes)["B"]
    constants = model.fitted.constants
    pass_s = constants.launch_s + moved / (constants.dram_ratio * model.chip.bandwidth_bytes_per_s)
    return _with_pass(found, pass_s)


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


def _with_pass(found: ExpectedPrediction, pass_s: float) -> ExpectedPrediction:
    """Return a product with the kernel that decodes its weight before it."""
    return replace(
        found,
        time_s=found.time_s + pass_s,
        low_s=found.low_s + pass_s * found.low_s / found.time_s,
        high_s=found.high_s + pass_s * found.high_s / found.time_s,
        parts=(*found.parts, ("dequantize", pass_s)),
        terms=(*found.terms, ("dequantize", pass_s)),
        binding="dequantize" if pass_s > found.time_s / 2 else found.binding,
        findings=(*found.findings, finding("weight-decoded-first")),
    )


def _attention(work: Operator, device: Device, cache: str, kernel: str | None = None) -> ExpectedPrediction:
    from roofline_model.expected.attention.predict import predict_attention

    return predict_attention(work, device, cache=cache, kernel=kernel)


def _from_call(device: Device, call: ExpectedBatch) -> ExpectedPrediction:
    return ExpectedPrediction(
        hardware=device.key,
        time_s=call.time_s,
        low_s=call.low_s,
        high_s=call.high_s,
        parts=tuple((name, value) for name, value in call.additive_parts().items() if value > 0),
        binding=call.binding[0],
        kernel=call.kernel[0],
        provenance=call.provenance,
        findings=call.findings,
        terms=tuple((name, value) for name, value in call.parts.items() if value > 0),
    )


def _from_calibration(found: CalibratedPrediction) -> ExpectedPrediction:
    """Return the calibrated prediction in the same form: the longer of memory and compute, plus floor and cast."""
    longer = "tensor" if found.bound == "compute" else "dram"
    parts = (
        ("launch", found.floor_s),
        (longer, max(found.memory_time_s, found.compute_time_s)),
        ("cast", found.cast_s),
    )
    named = tuple((name, seconds) for name, seconds in parts if seconds > 0)
    terms = {"dram": found.memory_time_s, "tensor": found.compute_time_s, "launch": found.floor_s, "cast": found.cast_s}
    return ExpectedPrediction(
        hardware=found.hardware,
        time_s=found.time_s,
        low_s=found.low_s,
        high_s=found.high_s,
        parts=named,
        binding=max(named, key=lambda part: part[1])[0],
        kernel=found.access_mix,
        provenance=found.provenance,
        findings=found.findings,
        terms=tuple((name, seconds) for name, seconds in terms.items() if seconds > 0),
        model_version=found.model_version,
    )


def _from_kernel(found: KernelTime, ceilings: CalibratedPrediction) -> ExpectedPrediction:
    """Return the time of a timed kernel: its fixed cost, what the ceilings account for, and what the kernel takes beyond them.

    A kernel that beats the ceilings (its operands were not as cold as the micro-kernels') has no part of its own.
    """
    fixed_s = min(ceilings.floor_s, found.time_s)
    left_s = found.time_s - fixed_s
    bound_s = min(max(ceilings.memory_time_s, ceilings.compute_time_s), left_s)
    cast_s = min(ceilings.cast_s, left_s - bound_s)
    longer = "tensor" if ceilings.bound == "compute" else "dram"
    kernel_s = left_s - bound_s - cast_s
    parts = (("launch", fixed_s), (longer, bound_s), ("cast", cast_s), ("kernel", kernel_s))
    named = tuple((name, seconds) for name, seconds in parts if seconds > 0)
    terms = {"dram": ceilings.memory_time_s, "tensor": ceilings.compute_time_s, "launch": fixed_s, "cast": cast_s}
    known = tuple((name, seconds) for name, seconds in terms.items() if seconds > 0)
    return ExpectedPrediction(
        hardware=ceilings.hardware,
        time_s=found.time_s,
        low_s=found.low_s,
        high_s=found.high_s,
        parts=named,
        binding=max(named, key=lambda part: part[1])[0],
        kernel=found.curve.kernel,
        provenance=ceilings.provenance,
        findings=found.findings,
        terms=(*known, ("kernel", kernel_s)),
        model_version=KERNEL_VERSION,
    )
