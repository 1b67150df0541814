"""Expected time of fused attention on an NVIDIA GPU, prefill and decode, for whole arrays of shapes.

A call is everything an attention module launches: RoPE and cache append, the attention kernel, the reduction over KV
splits. The work is counted in `prefill.py` and `decode.py`; constants come from
`library.py`. An unfused or other library's kernel is not meant.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from roofline_model.chips.hardware import Device, get_hardware
from roofline_model.core.errors import InvalidValueError, UnsupportedError
from roofline_model.core.finding import Finding, finding
from roofline_model.expected.attention.cache_formats import cache_kernel
from roofline_model.expected.attention.chip import AttentionChip
from roofline_model.expected.attention.decode import DecodeWork, decode_terms, decode_work, kernels_of, unsplit_rows
from roofline_model.expected.attention.fitted.constants import (
    FLOOR_RATIO,
    MID_RATIO,
    FittedAttention,
    surface_sizes,
    surface_trust,
)
from roofline_model.expected.attention.fitted.library import attention_with_measured_bandwidth, find_attention
from roofline_model.expected.attention.prefill import PrefillWork, peak_us, prefill_terms, prefill_work
from roofline_model.expected.attention.published_kernel import VERSION, attention_constants_here
from roofline_model.expected.attention.shape import LARGEST_HEAD, AttentionShapes
from roofline_model.expected.chip import ChipSpec, fitted_numbers
from roofline_model.expected.prediction import ExpectedBatch, binding_of, with_library
from roofline_model.formats.catalog import NumberFormat, get_format

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    FloatArray = NDArray[Any]

CACHES = ("warm", "cold")
"""warm: calls follow each other on the same buffers, as benchmarks run; cold: the cache of earlier tokens comes from
DRAM.
"""

MAX_SPECULATED = 8
"""Up to this many new tokens on an older cache are a decode step: more query rows in the same kernel."""


def expected_attention(
    chip: AttentionChip | Device | ChipSpec | str,
    B: ArrayLike,
    Hq: ArrayLike,
    Hkv: ArrayLike,
    Sq: ArrayLike,
    Skv: ArrayLike,
    D: ArrayLike,
    *,
    causal: ArrayLike,
    window: ArrayLike | None = None,
    activation_format: str | NumberFormat = "BF16",
    kv_format: str | NumberFormat | None = None,
    phase: str | None = None,
    cache: str = "warm",
    cache_read_ratio: ArrayLike = 1.0,
    constants: FittedAttention | Sequence[FittedAttention] | None = None,
) -> ExpectedBatch:
    """Return the expected times of attention calls; sizes are arrays of one length or single numbers.

    `phase`: prefill or decode for all rows; None: decode where Sq is 1, or a few speculated tokens on older ones. Skv
    counts the new tokens, too; `window` 0 or None is full attention. `cache="cold"` fetches the KV of earlier tokens
    from DRAM, as between the layers of a model. `cache_read_ratio`: see `decode_work`. `constants`: a fitted phase or a
    library of them, instead of the shipped ones. Raises `InvalidValueError` for impossible sizes, `UnsupportedError`
    for a chip, width or format without constants.
    """
    if cache not in CACHES:
        raise InvalidValueError(f"cache must be {' or '.join(CACHES)}, got {cache!r}")
    device = get_hardware(chip) if isinstance(chip, str) else chip if isinstance(chip, Device) else None
    spec = attention_chip(chip if device is None else device)
    shapes = AttentionShapes.of(B, Hq, Hkv, Sq, Skv, D, causal=causal, window=window)
    if (largest := int(shapes.head_dim.max(initial=0))) > LARGEST_HEAD:
        raise UnsupportedError(
            f"no expected attention with D {largest}: heads up to {LARGEST_HEAD} were measured. The ideal time is used."
        )
    activation = get_format(activation_format)
    kv = activation if kv_format is None else get_format(kv_format)
    if phase is not None:
        return _one_phase(spec, device, shapes, phase, activation, kv, cache, cache_read_ratio, constants)
    is_decode = (shapes.query == 1) | ((shapes.query <= MAX_SPECULATED) & (shapes.query < shapes.keys))
    if is_decode.all() or not is_decode.any():
        only = "decode" if is_decode.all() else "prefill"
        return _one_phase(spec, device, shapes, only, activation, kv, cache, cache_read_ratio, constants)
    return _both_phases(spec, device, shapes, is_decode, activation, kv, cache, cache_read_ratio, constants)


def attention_chip(chip: AttentionChip | Device | ChipSpec | str) -> AttentionChip:
    """Return what the attention model needs of a chip, however it is named; a `ChipSpec` by its key."""
    if isinstance(chip, AttentionChip):
        return chip
    if isinstance(chip, ChipSpec):
        return AttentionChip.of(get_hardware(chip.key))
    return AttentionChip.of(get_hardware(chip))


def attention_constants(device: Device, phase: str) -> FittedAttention:
    """Return the constants of a phase on a chip, with what is known of the chip itself.

    Raises `UnsupportedError` where no chip of a related family was measured.
    """
    return attention_constants_here(find_attention(AttentionChip.of(device), phase), device)


def _one_phase(
    chip: AttentionChip,
    device: Device | None,
    shapes: AttentionShapes,
    phase: str,
    activation: NumberFormat,
    kv: NumberFormat,
    cache: str,
    cache_read_ratio: ArrayLike,
    constants: FittedAttention | Sequence[FittedAttention] | None,
) -> ExpectedBatch:
    if phase not in ("prefill", "decode"):
        raise InvalidValueError(f"phase must be prefill or decode, got {phase!r}")
    import numpy as np

    fitted = _constants(chip, device, phase, constants)
    if fitted.provenance in ("fitted", "measured-here"):
        chip = fitted_numbers(chip, fitted.chip) if chip.key == fitted.chip.key else fitted.chip
    kernel = cache_kernel(chip, phase, activation, kv, fitted.widths)
    is_8bit, cache_bytes = kernel.is_8bit, kernel.cache_bytes
    width = "8bit" if is_8bit else "16bit"
    _check_width(fitted, width, activation, kv, chip)
    is_cold = cache == "cold"
    work: PrefillWork | DecodeWork
    if phase == "prefill":
        work = prefill_work(
            chip,
            shapes,
            is_8bit=is_8bit,
            cache_bytes=cache_bytes,
            is_cold=is_cold,
            is_alone=fitted.is_kernel_alone,
        )
        time_us, terms_us = prefill_terms(work, fitted.values)
        kernels = [f"fmha/{'fp8' if is_8bit else '16bit'}"] * len(shapes)
        is_unsplit = [False] * len(shapes)
    else:
        work = decode_work(
            chip, shapes, cache_bytes=cache_bytes, is_8bit=is_8bit, is_cold=is_cold, cache_read_ratio=cache_read_ratio
        )
        time_us, terms_us = decode_terms(work, fitted.values)
        kernels, is_unsplit = kernels_of(work), unsplit_rows(work)
    if fitted.correction is not None:
        least_us = _unit_roofs(fitted, work, terms_us["dram"])
        formula_us, time_us = time_us, _corrected(fitted, work, shapes, width, time_us, least_us)
        terms_us = with_library(terms_us, formula_us, time_us, least_us)
    mix = "16bit" if kv.element_bits > 8 else "8bit" if activation.element_bits <= 8 else "cache8bit"
    low_us, high_us = _interval(fitted, time_us, kernel.factors(fitted.factors(mix), phase))
    if fitted.head_half_width_log_ratio and mix != "16bit" and isinstance(work, DecodeWork):
        low_us, high_us = _widened(
            time_us, low_us, high_us, np.where(work.per_head, fitted.head_half_width_log_ratio, 0.0)
        )
    parts = {name: value * 1e-6 for name, value in terms_us.items()}
    time_s = time_us * 1e-6
    batch = ExpectedBatch(
        time_s,
        low_us * 1e-6,
        high_us * 1e-6,
        parts,
        binding_of(parts, time_s),
        kernel.provenance(fitted.provenance),
        (*_evidence(fitted), *kernel.findings),
        kernels,
        is_unsplit=is_unsplit,
        is_kernel_alone=fitted.is_kernel_alone,
    )
    if fitted.faster is None or is_8bit:
        return batch
    quick = _one_phase(chip, device, shapes, phase, activation, kv, cache, cache_read_ratio, fitted.faster)
    return _reaching_to(quick, batch)


def _check_width(
    fitted: FittedAttention, width: str, activation: NumberFormat, kv: NumberFormat, chip: AttentionChip
) -> None:
    if width not in fitted.widths:
        raise UnsupportedError(
            f"no expected {fitted.phase} attention with {activation.key} maths and a {kv.key} cache on {chip.key}: "
            f"only {' and '.join(fitted.widths)} kernels were measured ({fitted.evidence.source}). Use a 16-bit cache, "
            "or fit."
        )


def _reaching_to(quick: ExpectedBatch, slow: ExpectedBatch) -> ExpectedBatch:
    """Return the times of a faster kernel with an interval that reaches up to that of the slower one."""
    import numpy as np

    kernels = [f"{VERSION.value}/16bit"] * len(quick.kernel)
    return replace(quick, high_s=np.maximum(quick.high_s, slow.high_s), kernel=kernels)


def _corrected(
    fitted: FittedAttention,
    work: PrefillWork | DecodeWork,
    shapes: AttentionShapes,
    width: str,
    time_us: FloatArray,
    least_us: Mapping[str, FloatArray],
) -> FloatArray:
    """Return the times with what the library surface says, as far as each row trusts it."""
    import numpy as np

    assert fitted.correction is not None
    trusted = surface_trust(work, fitted.correction_chip or fitted.chip)
    factor = np.exp(trusted * fitted.correction.logs(width, surface_sizes(shapes)))
    # A surface is a mean over shapes: it must not carry one of them past the tensor peak or the DRAM's bandwidth.
    light_us = np.maximum.reduce(list(least_us.values()))
    return np.maximum(time_us * factor, np.minimum(time_us, light_us))  # type: ignore[no-any-return]


def _unit_roofs(fitted: FittedAttention, work: PrefillWork | DecodeWork, dram_us: FloatArray) -> dict[str, FloatArray]:
    """Return what the specified bandwidth and the tensor peak allow at best."""
    dram = {"dram": dram_us * fitted.values["dram_ratio"]}
    return {**dram, "tensor": peak_us(work)} if isinstance(work, PrefillWork) else dram


def _interval(
    fitted: FittedAttention, time_us: FloatArray, factors: list[tuple[float, float]]
) -> tuple[FloatArray, FloatArray]:
    """Return the interval of times in µs with the (low, high) factors of each regime."""
    import numpy as np

    floor = fitted.floor_us
    regime = np.searchsorted((FLOOR_RATIO * floor, MID_RATIO * floor), time_us, side="right")
    low, high = np.array(factors).T
    return time_us * low[regime], time_us * high[regime]


def _widened(
    time_us: FloatArray, low_us: FloatArray, high_us: FloatArray, half_width: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the interval with an independent error of a half-width (a log) for each row."""
    import numpy as np

    low, high = (np.exp(np.hypot(np.log(ratio), half_width)) for ratio in (time_us / low_us, high_us / time_us))
    return time_us / low, time_us * high


def _constants(
    chip: AttentionChip,
    device: Device | None,
    phase: str,
    constants: FittedAttention | Sequence[FittedAttention] | None,
) -> FittedAttention:
    if isinstance(constants, FittedAttention):
        if constants.phase != phase:
            raise InvalidValueError(f"constants are for {constants.phase}, the rows are {phase}")
        return constants
    fitted = find_attention(chip, phase, None if constants is None else tuple(constants))
    if device is None:
        return fitted
    # Constants that were given are asked for themselves, not for a faster kernel in their place.
    at_hand = attention_constants_here if constants is None else attention_with_measured_bandwidth
    return at_hand(fitted, device)


_LENT = {
    "transferred-sibling": ("constants-of-family", "sibling"),
    "transferred-family": ("constants-of-others", "attention-family"),
    "transferred-class": ("constants-of-others", "attention-class"),
}
"""Provenance → code and kind of the finding that names the lenders."""


def _evidence(fitted: FittedAttention) -> tuple[Finding, ...]:
    """Return what the constants rest on: rows of this chip, or another's constants."""
    if fitted.provenance in _LENT:
        code, kind = _LENT[fitted.provenance]
        return (finding(code, kind=kind, chips=fitted.sources), *fitted.findings)
    evidence = fitted.evidence
    return (finding("rows-fitted", row_count=evidence.row_count, mean_error_ratio=evidence.cv_mape_ratio),)


def _both_phases(
    chip: AttentionChip,
    device: Device | None,
    shapes: AttentionShapes,
    is_decode: FloatArray,
    activation: NumberFormat,
    kv: NumberFormat,
    cache: str,
    cache_read_ratio: ArrayLike,
    constants: FittedAttention | Sequence[FittedAttention] | None,
) -> ExpectedBatch:
    """Return prefill and decode rows of one call, in their order."""
    import numpy as np

    ratio = np.broadcast_to(np.asarray(cache_read_ratio, dtype=np.float64), (len(shapes),))
    halves = [
        (rows, _one_phase(chip, device, shapes.take(rows), phase, activation, kv, cache, ratio[rows], constants))
        for phase, rows in (("prefill", np.flatnonzero(~is_decode)), ("decode", np.flatnonzero(is_decode)))
    ]

    def joined(values: list[FloatArray]) -> FloatArray:
        whole = np.zeros(len(shapes))
        for (rows, _), value in zip(halves, values, strict=True):
            whole[rows] = value
        return whole

    names = list(dict.fromkeys(name for _, batch in halves for name in batch.parts))
    parts = {name: joined([batch.parts.get(name, np.zeros(len(rows))) for rows, batch in halves]) for name in names}
    kernels = np.empty(len(shapes), dtype=object)
    is_unsplit = np.zeros(len(shapes), dtype=bool)
    for rows, batch in halves:
        kernels[rows] = batch.kernel
        is_unsplit[rows] = batch.is_unsplit
    time_s, low_s, high_s = (
        joined([getattr(batch, name) for _, batch in halves]) for name in ("time_s", "low_s", "high_s")
    )
    first, second = (batch for _, batch in halves)
    same = first.provenance == second.provenance
    return ExpectedBatch(
        time_s,
        low_s,
        high_s,
        parts,
        binding_of(parts, time_s),
        first.provenance if same else f"{first.provenance}+{second.provenance}",
        tuple(dict.fromkeys((*first.findings, *second.findings))),
        kernels.tolist(),
        is_unsplit=is_unsplit.tolist(),
    )
