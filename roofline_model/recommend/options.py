"""The options of a product on a chip: which formats take part, with which operands, and what each costs at a shape.

A format that the chip computes natively gets both operands in that format (W8A8, W4A4); any other is weight-only: the
weight is stored in the format, the activation stays in 16 bit and so does the arithmetic (W8A16, W4A16).
Where both operands are integers they carry no group scales (the convention of the original documents). Weight-only INT4
carries those that its kernels read (`with_group_scales` in `operators/product.py`), so that it is weighed against MXFP4
and NVFP4 with theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import cast

from roofline_model.chips.hardware import Device
from roofline_model.core.answer import (
    Estimate,
    Exclusion,
    Loss,
    Memory,
    Option,
    Times,
    is_comparable,
)
from roofline_model.core.errors import InvalidValueError, UnsupportedError
from roofline_model.core.finding import Finding, finding
from roofline_model.core.memo import Memo
from roofline_model.core.ranking_display import OPTION_NAMES
from roofline_model.expected.products.parameters import reference_kernel
from roofline_model.formats.catalog import SIXTEEN_BIT, NumberFormat, format_name, get_format, method_of
from roofline_model.formats.usual import WEIGHED
from roofline_model.ideal.roofline import ProductRoof, RoofTimes
from roofline_model.kernels.checkpoints import PUBLISHED_FORMATS
from roofline_model.kernels.known_kernels import engine_gap, kernel_gap
from roofline_model.models.chip_and_model import no_sixteen_bit
from roofline_model.operators.case import Case
from roofline_model.operators.product import WEIGHT_GROUP_ELEMS, gemm, product_op, stored_weight
from roofline_model.recommend.loss import REFERENCE, product_loss

LAUNCH_BOUND_RATIO = 0.1
"""Where the ideal is less than this part of the expected time, neither bytes nor arithmetic say which format is
faster.
"""

# Whose word makes an INT4 unit usable: an invented chip's or the user's own. On real chips no library uses it.
_DECLARED = ("placeholder", "declared", "measured-here")

CaseTimes = Callable[[Case], Estimate | None]
"""A better time of a case than the ideal one, or None. One with a method `many` is asked for all cases at once."""


@dataclass(frozen=True, slots=True)
class ProductFormat:
    """What holds of one format on a chip, whatever the shape."""

    fmt: NumberFormat
    weight: NumberFormat
    """As it lies in memory (`stored_weight`)."""
    wide: NumberFormat
    """The 16-bit format that weight-only products compute and that all products write."""
    is_both: bool
    """Whether the activation has the format, too."""
    roof: ProductRoof
    method: str
    saved_ratio: float
    """Share of the 16-bit weight bytes that is saved."""
    formats: tuple[tuple[str, str], ...]
    """Operand → format key, as in a `Case`."""
    loss: Loss
    findings: tuple[Finding, ...]
    """What holds at every shape: how it is reached, which kernels are missing."""

    @property
    def is_wide(self) -> bool:
        """Whether it is a 16-bit format itself: the baseline."""
        return self.method == "none"


ProductFormats = tuple[tuple[ProductFormat, ...], tuple[Exclusion, ...]]
"""The formats that take part on a chip, the 16-bit baseline first, and the others."""

_PRODUCT_FORMATS: Memo[ProductFormats] = Memo(256)


def product_formats(
    device: Device, wanted: Sequence[NumberFormat] | None, baseline: NumberFormat | None = None
) -> ProductFormats:
    """Return the formats that take part, kept for the next shape, and the others.

    `wanted` replaces `WEIGHED` (of which those count that the chip declares).

    `baseline`: the 16-bit format to compare with in place of the one with the faster unit; weight-only formats keep the
    activation of that one, for which their kernels are. A 16-bit format in `wanted` comes before it.
    Raises `UnsupportedError` for a chip without a 16-bit rate.
    """
    if any(fmt.key in SIXTEEN_BIT for fmt in wanted or ()):
        baseline = None
    return _PRODUCT_FORMATS.of((device, baseline, *(wanted or ())), lambda: _product_formats(device, wanted, baseline))


def product_options(
    device: Device,
    shape: tuple[int, int, int],
    formats: Sequence[ProductFormat],
    *,
    model_parameters: float | None = None,
    times: CaseTimes | None = None,
) -> list[Option]:
    """Return the option of each format for C(M×N) = A(M×K)·B(K×N), the baseline first as in `formats`.

    Memory is that of the weights of a whole model where `model_parameters` is given, else of this product's operands.
    `times`: better times than the ideals, asked for all formats in one pass where it can.
    """
    roofs = [each.roof.at(*shape) for each in formats]
    estimates = _estimates(shape, formats, times)
    baseline_rate = device.peak_flops_per_s(formats[0].fmt.key)
    options: list[Option] = []
    baseline: Option | None = None
    for each, roof, estimate in zip(formats, roofs, estimates, strict=True):
        shape_findings = _shape_findings(each, roof, estimate, formats[0], roofs[0], baseline_rate)
        option_times = Times.of(roof.time_s, estimate)
        speedup_ratio, ideal_speedup_ratio = speedups(option_times, baseline)
        total_bytes = (
            roof.total_bytes if model_parameters is None else model_parameters * each.weight.traffic_bytes_per_element
        )
        options.append(
            Option(
                key=each.fmt.key,
                formats=each.formats,
                method=each.method,
                path=each.roof.path,
                bound=roof.bound,
                times=option_times,
                memory=Memory(total_bytes, saved_ratio=each.saved_ratio),
                loss=each.loss,
                speedup_ratio=speedup_ratio,
                ideal_speedup_ratio=ideal_speedup_ratio,
                findings=shape_findings,
            )
        )
        baseline = options[0]
    return options


def default_formats(device: Device) -> tuple[str, ...]:
    """Return those of `WEIGHED` to weigh on a chip: the ones it declares, and all on a custom chip, whose file
    names units and no kernels. Any chip can decode weights.
    """
    return tuple(key for key in WEIGHED if device.declares(key) or device.kind == "custom")


def fastest_sixteen_bit(device: Device, shape: tuple[int, int, int], times: CaseTimes) -> NumberFormat | None:
    """Return the 16-bit format with the shorter time on a CPU, FP16 at a tie, or the one that has a time; None
    elsewhere, or where neither has.

    A GPU runs FP16 and BF16 at one rate. A CPU may have instructions for one of them only, and its library's kernels
    differ by far more than that, either way with the shape: measured comparisons take the fastest 16-bit kernel, so
    predictions do.
    """
    if device.kind != "cpu" or not all(device.declares(key) for key in SIXTEEN_BIT):
        return None
    estimates = {key: times(gemm(*shape, a=key).case("*")) for key in SIXTEEN_BIT}
    timed = {key: estimate for key, estimate in estimates.items() if estimate is not None}
    if len({estimate.source for estimate in timed.values()}) != 1:
        return None
    return get_format(min(timed, key=lambda key: timed[key].time_s))


def baseline_format(device: Device) -> str | None:
    """Return the 16-bit format that speed-ups refer to on a chip; None where it declares none."""
    try:
        return _fastest_unit(device, ()).key
    except UnsupportedError:
        return None


def product_baseline(device: Device, shape: tuple[int, int, int]) -> str | None:
    """Return the 16-bit format that a recommendation for this product compares with: on a CPU the faster one at this
    shape.
    """
    from roofline_model.expected.predict import expected_times

    fastest = fastest_sixteen_bit(device, shape, expected_times(device))
    return baseline_format(device) if fastest is None else fastest.key


def _product_formats(
    device: Device, wanted: Sequence[NumberFormat] | None, baseline: NumberFormat | None
) -> ProductFormats:
    """Choose the baseline and every format that takes part; those that cannot are excluded."""
    wide = _fastest_unit(device, wanted or ())
    if wanted is None:
        wanted = [get_format(key) for key in WEIGHED if device.declares(key)]
    first = baseline or wide
    taking_part = [_product_format(device, first, first)]
    excluded: list[Exclusion] = []
    for fmt in wanted:
        if fmt.key in (wide.key, first.key):
            continue
        if fmt.traffic_bytes_per_element >= wide.traffic_bytes_per_element:
            excluded.append(
                Exclusion(fmt.key, (finding("format-excluded", fmt.key, kind="as-wide", baseline=wide.key),))
            )
            continue
        try:
            taking_part.append(_product_format(device, fmt, wide))
        except UnsupportedError as error:
            excluded.append(Exclusion(fmt.key, (finding("cannot-run", fmt.key, error=str(error)),)))
    return tuple(taking_part), tuple(excluded)


def named_formats(formats: Iterable[str]) -> list[str]:
    """Return the names that a caller gives, one or several; raises `InvalidValueError` for none."""
    names = [formats] if isinstance(formats, str) else list(formats)
    if not names:
        raise InvalidValueError("formats is empty; name at least one format, or leave it out for the default ones")
    return names


def _fastest_unit(device: Device, wanted: Sequence[NumberFormat]) -> NumberFormat:
    """Return the 16-bit format of the comparison: one the caller names, else the faster native one, FP16 at a tie.

    GPUs run both at one rate; a CPU may have instructions for one of them only, and then the other is no baseline.
    """
    named = [fmt.key for fmt in wanted if fmt.key in SIXTEEN_BIT]
    order = [key for key in (*named, *SIXTEEN_BIT) if device.declares(key)]
    if not order:
        raise no_sixteen_bit(device)
    native = [key for key in order if device.path(key).kind == "native"]
    fastest = max(native or order, key=device.peak_flops_per_s)  # max keeps the first of equals: FP16
    return get_format(named[0] if named and named[0] in order else fastest)


def _product_format(device: Device, fmt: NumberFormat, wide: NumberFormat) -> ProductFormat:
    """Raise `UnsupportedError` when the chip cannot compute in the format."""
    is_wide = fmt.key == wide.key
    is_both = is_wide or takes_both_operands(device, fmt, wide)
    weight = fmt if is_both else stored_weight(fmt, wide)
    activation = fmt if is_both else wide
    return ProductFormat(
        fmt=fmt,
        weight=weight,
        wide=wide,
        is_both=is_both,
        roof=ProductRoof.of(device, activation=activation, weight=weight, output=wide),
        method="none" if is_wide else method_of(fmt.key, is_both=is_both),
        saved_ratio=1 - weight.traffic_bytes_per_element / wide.traffic_bytes_per_element,
        formats=(("a", activation.key), ("b", fmt.key), ("c", wide.key)),
        loss=REFERENCE if is_wide else product_loss(fmt.key, is_both=is_both),
        findings=() if is_wide else _format_findings(device, fmt, activation, is_both=is_both),
    )


def takes_both_operands(device: Device, fmt: NumberFormat, wide: NumberFormat) -> bool:
    """Return whether the activation is quantised too: the unit exists, is no slower than 16 bit, and kernels use it."""
    path = device.path(fmt.key)
    if path.kind != "native" or path.dense.value < device.peak_flops_per_s(wide.key):
        return False
    # AWQ keeps activations in 16 bit, and neither cuBLAS nor torch multiplies INT4 by INT4, although A100 and Ada have
    # the unit. A placeholder's or a user's own rate is taken at its word.
    return fmt.key != "INT4" or path.dense.status in _DECLARED


def _format_findings(
    device: Device, fmt: NumberFormat, activation: NumberFormat, *, is_both: bool
) -> tuple[Finding, ...]:
    """Return what holds of a narrow format at every shape."""
    findings = [] if is_both else [finding("weight-only", fmt.key, activation=activation.key)]
    if fmt.key == "INT4":
        findings.append(
            finding("awq-scales", fmt.key, kind="both")
            if is_both
            else finding("awq-scales", fmt.key, kind="weights", group=WEIGHT_GROUP_ELEMS)
        )
    if fmt.key not in PUBLISHED_FORMATS:
        findings.append(finding("no-checkpoints", fmt.key))
    gaps = (kernel_gap(device, fmt.key, activation.key), engine_gap(device, fmt.key, activation.key))
    return (*findings, *(replace(gap, subject=fmt.key) for gap in gaps if gap is not None))


def _estimates(
    shape: tuple[int, int, int], formats: Sequence[ProductFormat], times: CaseTimes | None
) -> Sequence[Estimate | None]:
    if times is None:
        return [None] * len(formats)
    sizes = tuple(zip(("M", "N", "K"), shape, strict=True))
    cases = [Case(product_op(shape[0]), sizes, each.formats, "*", cache="cold") for each in formats]
    many = getattr(times, "many", None)
    if many is None:
        return [times(case) for case in cases]
    return cast("Sequence[Estimate | None]", many(cases))


def speedups(times: Times, baseline: Option | None) -> tuple[float, float]:
    """Return the speed-up over the baseline by its best evidence, and ideal against ideal."""
    if baseline is None:
        return 1.0, 1.0
    ideal, their_ideal, best, theirs = times.ideal, baseline.times.ideal, times.best, baseline.times.best
    assert ideal is not None  # every option has an ideal time
    assert their_ideal is not None
    ideal_ratio = their_ideal.time_s / ideal.time_s
    return (theirs.time_s / best.time_s if is_comparable(best.source, theirs.source) else ideal_ratio), ideal_ratio


def _shape_findings(
    each: ProductFormat,
    roof: RoofTimes,
    estimate: Estimate | None,
    baseline: ProductFormat,
    baseline_roof: RoofTimes,
    baseline_rate: float,
) -> tuple[Finding, ...]:
    """Return what limits an option at this shape, then what holds of its format."""
    bound = _bound_finding(each, roof, estimate, baseline, baseline_roof, baseline_rate)
    if estimate is not None and estimate.source == "expected" and not each.is_both:
        kernel = reference_kernel(each.fmt.key, each.formats[0][1], estimate.provenance)
        if kernel:
            return (bound, *each.findings, finding("reference-kernel", each.fmt.key, kind="option", kernel=kernel))
    return (bound, *each.findings)


def _bound_finding(
    each: ProductFormat,
    roof: RoofTimes,
    estimate: Estimate | None,
    baseline: ProductFormat,
    baseline_roof: RoofTimes,
    baseline_rate: float,
) -> Finding:
    key, wide = each.fmt.key, baseline.fmt.key
    if estimate is not None and estimate.source == "expected" and roof.time_s < LAUNCH_BOUND_RATIO * estimate.time_s:
        return finding("bound-by", key, kind="launch")
    if key == wide:
        return finding("bound-by", key, kind="baseline", bound=roof.bound)
    if roof.bound == "memory":
        return finding(
            "bound-by", key, kind="memory", moved_ratio=roof.total_bytes / baseline_roof.total_bytes, baseline=wide
        )
    if each.is_both:
        rate = each.roof.peak_flops_per_s
        return finding(
            "bound-by", key, kind="compute", peak_flops_per_s=rate, baseline_flops_per_s=baseline_rate, baseline=wide
        )
    return finding("bound-by", key, kind="compute-widened", baseline=wide)


def product_name(option: Option) -> str:
    """Return the name that people are shown for a product's formats: `NVFP4 (W4A4)`."""
    operands = dict(option.formats)
    return format_name(operands["b"], operands["a"])


OPTION_NAMES["shape"] = product_name
