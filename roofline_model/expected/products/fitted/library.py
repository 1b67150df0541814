"""Constants of products for any chip: shipped with the package (`constants/*.toml`), or transferred from other chips.

Transferred constants have wider intervals and are never called fitted:

1. A chip of the same family: constants copied (supply terms count per SM and clock, so they scale with the chip).
2. Another family of the same class (mma: sm80, sm89, sm120; tma: sm90, sm100): geometric mean, supply terms normalised
   to the tensor peak: chips are built so that operand supply follows the tensor rate (16-bit: 0.009 to 0.014 bytes per
   FLOP from L2 and 0.022 to 0.033 per SM on five chips of four generations). sm89 and sm120 use only each other.
3. The other class: the same, low confidence.

In 2 and 3, serial latencies count in clocks, and a kernel family that few chips were measured with leans on one that
the chip itself has: the launches of weight-only kernels follow those of 16-bit ones, NVFP4 supply and latency follow
FP8. Source: the expected-GEMM study of 2026-11-21, section on transfer; leave-one-chip-out errors are in
docs/theory/validation.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from importlib import resources

from roofline_model.chips.hardware import Device
from roofline_model.core.errors import UnsupportedError
from roofline_model.core.finding import finding
from roofline_model.expected.calibrated import MEASURED_HERE, known_dram
from roofline_model.expected.chip import LIKE_RATE_RATIO, ChipSpec, family_rules, transfer_step
from roofline_model.expected.intervals import DRIFT, drift_of, drifted, hull
from roofline_model.expected.products.fitted.constants import (
    FITTED_BOUNDS,
    Correction,
    FittedGemm,
    GemmConstants,
    read_constants,
    with_family,
)

SUPPLY = ("l2_ratio", "sm_ratio")
"""Constants that count 64 bytes per clock and SM."""
_MEANS = (
    "launch_s",
    "tensor_ratio",
    "dram_ratio",
    "k_step_s",
    "output_ratio",
    "persistence_ratio",
    "split_s",
    "gemv_dram_ratio",
    "gemv_element_s",
    "gemv_rows_count",
    "cast_ratio",
    "cast_element_s",
    "static_launch_s",
)
IN_CLOCKS = ("k_step_s", "gemv_element_s", "cast_element_s")
"""Serial latencies: the same number of clocks on another family."""


@dataclass(frozen=True, slots=True)
class Anchor:
    """The better-known kernel family of the same chip that a transfer leans on."""

    family: str
    ratios: tuple[str, ...]
    """Constants that keep the sources' ratio to that family."""
    copies: tuple[str, ...] = ()
    """Constants taken from that family as they are."""


_WEIGHT_ONLY = Anchor("BF16", ("launch_s", "split_s"), ("dram_ratio",))
ANCHORS = {
    "INT8": _WEIGHT_ONLY,
    "INT4": _WEIGHT_ONLY,
    "NVFP4": Anchor("FP8", ("k_step_s", "cast_ratio"), ("l2_ratio", "sm_ratio", "output_ratio")),
}
"""With the clocks, leaving one chip out: INT8 A100 28 → 17 %, L40S 39 → 16 %; INT4 32 → 19 %, 49 → 21 %; NVFP4 B200
37 → 16 %, RTX PRO 6000 30 → 16 %."""

_LENT = {
    "transferred-sibling": ("constants-of-family", "family"),
    "transferred-family": ("constants-of-others", "family"),
    "transferred-class": ("constants-of-others", "class"),
}
"""Provenance → code and kind of the finding that names the lenders."""

SURFACE_TRUST = {"transferred-sibling": 0.75, "transferred-family": 0.5, "transferred-class": 0.25}
"""Share of the sources' library surface that the chip keeps. Libraries choose alike across families: the slope of one
chip's residuals on another's surface is 0.7 to 1.1 between sm89 and sm120 and 0.3 to 1.2 between sm90 and sm100."""

EASIER_RATIO = 1.25
"""A source's DRAM that feeds each SM this much more per clock than the chip's own asks more of its SMs. A judgement."""


def transferred(
    chip: ChipSpec, kernel_family: str, library: Sequence[FittedGemm], drift: Mapping[str, float] = DRIFT
) -> FittedGemm | None:
    """Return constants for `chip` from the nearest of `library`, or None when none of them is of this kernel family.

    `drift` says how much each step adds to the interval (`intervals.DRIFT`).
    """
    same_format = [fitted for fitted in library if fitted.family == kernel_family and fitted.chip.key != chip.key]
    lenders = {
        "transferred-sibling": [fitted for fitted in same_format if fitted.chip.family == chip.family],
        "transferred-family": _same_class(chip, same_format),
        "transferred-class": same_format,
    }
    provenance = next((step for step, sources in lenders.items() if sources), None)
    if provenance is None:
        return None
    sources = lenders[provenance]
    lent = _lent(chip, kernel_family, sources, provenance)
    steps: tuple[str, ...] = (_step(chip, sources[0].chip),)
    if steps == ("near",) and kernel_family in ANCHORS:
        steps = ("format",)  # measured on chips of two families only: nobody knows a nearer one
    if provenance == "transferred-sibling":
        lent = _with_easier_dram(lent, library)
    else:
        lent, leans_on = _anchored(lent, sources, library)
        steps = steps if leans_on is None else ("format", *leans_on)
    hull_of_sources = hull([source.intervals for source in sources])
    return replace(lent, intervals=drifted(hull_of_sources, drift_of(steps, kernel_family, drift)))


def _with_easier_dram(fitted: FittedGemm, library: Sequence[FittedGemm]) -> FittedGemm:
    """Return a sibling's constants with the DRAM share of its 16-bit kernels, where the DRAM asks less of each SM.

    A narrow format whose kernel reached less of a fast DRAM than the 16-bit one was held up by its SMs. Where the DRAM
    feeds each of them fewer bytes per clock (GB10: 2.4, its source 3.6), it is the DRAM that rules.
    """
    source = fitted.correction_chip
    if source is None or EASIER_RATIO * _dram_bytes_per_clock(fitted.chip) > _dram_bytes_per_clock(source):
        return fitted
    wide = next((fitted for fitted in library if fitted.family == "BF16" and fitted.chip.key == source.key), None)
    if wide is None or wide.constants.dram_ratio <= fitted.constants.dram_ratio:
        return fitted
    findings = (*fitted.findings, finding("constants-adjusted", kind="wide-kernels"))
    return replace(fitted, constants=replace(fitted.constants, dram_ratio=wide.constants.dram_ratio), findings=findings)


def _dram_bytes_per_clock(chip: ChipSpec) -> float:
    return chip.bandwidth_bytes_per_s / (chip.sm_count * chip.clock_hz)


def _anchored(
    fitted: FittedGemm, sources: Sequence[FittedGemm], library: Sequence[FittedGemm]
) -> tuple[FittedGemm, tuple[str, ...] | None]:
    """Return the constants leaning on the chip's better-known kernel family, and the steps that one was transferred by.

    The steps are None, and the constants unchanged, where there is no such family or it is not known.
    """
    anchor = ANCHORS.get(fitted.family)
    if anchor is None:
        return fitted, None
    names = {source.chip.key for source in sources}
    theirs = [fitted for fitted in library if fitted.family == anchor.family and fitted.chip.key in names]
    own_fit = next(
        (measured for measured in library if measured.family == anchor.family and measured.chip.key == fitted.chip.key),
        None,
    )
    steps: tuple[str, ...] = ()
    if own_fit is None:
        own_fit = transferred(fitted.chip, anchor.family, library)
        steps = () if own_fit is None else (_step_of(own_fit),)
    if own_fit is None or len(theirs) < len(names):
        return fitted, None
    values = {name: getattr(own_fit.constants, name) for name in anchor.copies}
    for name in anchor.ratios:
        before, mine = _mean_of(name, sources), getattr(own_fit.constants, name)
        base = _mean_of(name, theirs)
        if before is not None and mine is not None and base is not None:
            values[name] = before * mine / base
    if fitted.constants.gemv_dram_ratio is not None:
        # 1 on a chip where the kernel for few rows is never DRAM-bound says nothing about one where it is.
        values["gemv_dram_ratio"] = max(own_fit.constants.dram_ratio, own_fit.constants.gemv_dram_ratio or 0.0)
    findings = [*fitted.findings, finding("constants-adjusted", kind="other-kernels", family=anchor.family)]
    if "launch_s" in values:
        # A small product may be slower with narrow weights: it was on both measured chips (docs/theory/validation.md).
        ratio = values["launch_s"] / own_fit.constants.launch_s
        findings.append(finding("constants-adjusted", kind="launch", launch_factor=ratio, family=anchor.family))
    return replace(fitted, constants=replace(fitted.constants, **values), findings=tuple(findings)), steps


def _step_of(lent: FittedGemm) -> str:
    """Return the step by which constants were transferred."""
    assert lent.correction_chip is not None  # every transfer names the chip it comes from
    return _step(lent.chip, lent.correction_chip)


def _step(chip: ChipSpec, source: ChipSpec) -> str:
    """Return the step between two chips; a sister whose tensor units are faster or slower is only near."""
    step, ratio = transfer_step(chip, source), chip.load_bytes_per_flop / source.load_bytes_per_flop
    return "near" if step == "sibling" and not 1 / LIKE_RATE_RATIO < ratio < LIKE_RATE_RATIO else step


def _same_class(chip: ChipSpec, library: Sequence[FittedGemm]) -> list[FittedGemm]:
    """Return sources of the same class; sm80 is left out where the two newer mma families can help each other."""
    mine = chip.rules.supply_class
    sources = [fitted for fitted in library if family_rules(fitted.chip.family).supply_class == mine]
    if chip.family in ("sm89", "sm120"):
        newer = [source for source in sources if source.chip.family in ("sm89", "sm120")]
        return newer or sources
    return sources


def _lent(chip: ChipSpec, kernel_family: str, sources: Sequence[FittedGemm], provenance: str) -> FittedGemm:
    names = tuple(source.chip.key for source in sources)
    code, kind = _LENT[provenance]
    return FittedGemm(
        kernel_family,
        chip,
        _mean(chip, kernel_family, sources, is_normalised=provenance != "transferred-sibling"),
        sources[0].intervals,
        sources[0].evidence,
        provenance,
        names,
        (finding(code, kind=kind, chips=names),),
        _surface(sources, SURFACE_TRUST[provenance]),
        sources[0].chip,
    )


def _surface(sources: Sequence[FittedGemm], share: float) -> Correction | None:
    """Return `share` of the mean library surface of the sources, or None when one of them has none."""
    surfaces = [source.correction for source in sources if source.correction is not None]
    if len(surfaces) < len(sources):
        return None
    columns = zip(*(surface.log_ratio for surface in surfaces), strict=True)
    return Correction(tuple(share * math.fsum(values) / len(values) for values in columns))


def _mean(chip: ChipSpec, kernel_family: str, sources: Sequence[FittedGemm], *, is_normalised: bool) -> GemmConstants:
    """Return the geometric mean of the sources' constants, with the chip's own family row."""
    start = sources[0].constants
    values: dict[str, float | None] = {}
    clocks = _geometric([source.chip.clock_hz for source in sources]) / chip.clock_hz if is_normalised else 1.0
    for name in _MEANS:
        mean = _mean_of(name, sources)
        values[name] = mean * clocks if mean is not None and name in IN_CLOCKS else mean
    for name in SUPPLY:
        values[name] = _geometric(
            [
                getattr(source.constants, name)
                * (source.chip.load_bytes_per_flop / chip.load_bytes_per_flop if is_normalised else 1.0)
                for source in sources
            ]
        )
    if values["gemv_rows_count"] is not None:
        values["gemv_rows_count"] = float(max(1, round(values["gemv_rows_count"])))
    if not chip.rules.has_gemv_kernel and kernel_family == "BF16":
        values["gemv_dram_ratio"] = None
    return with_family(replace(start, **values), chip.family, kernel_family)  # type: ignore[arg-type]


def _mean_of(name: str, sources: Sequence[FittedGemm]) -> float | None:
    """Return the geometric mean of one constant over the sources that have it."""
    present = [value for source in sources if (value := getattr(source.constants, name)) is not None]
    return _geometric(present) if present else None


def _geometric(values: Sequence[float]) -> float:
    return math.exp(math.fsum(math.log(max(value, 1e-30)) for value in values) / len(values))


ATTENTION_PREFIX = "attention-"
"""Files of the attention model lie beside the GEMM ones."""


@cache
def shipped_gemm() -> tuple[FittedGemm, ...]:
    """Return every GEMM kernel family whose constants ship with the package, chip by chip."""
    folder = resources.files("roofline_model.expected").joinpath("constants")
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".toml"))
    return tuple(
        fitted
        for name in names
        if not name.startswith(ATTENTION_PREFIX)
        for fitted in read_constants(folder.joinpath(name).read_text(encoding="utf-8"), f"expected/constants/{name}")
    )


@lru_cache(maxsize=512)
def find_gemm(chip: ChipSpec, kernel_family: str, lenders: tuple[FittedGemm, ...] | None = None) -> FittedGemm:
    """Return the constants for `chip`: fitted on it, else transferred (same family, same class, other class).

    `lenders` replace the shipped library (a fit's own result, or a library with one chip left out). Raises
    `UnsupportedError` when no chip was ever measured with this kernel family.
    """
    library = shipped_gemm() if lenders is None else lenders
    own_fits = [fitted for fitted in library if fitted.chip.key == chip.key and fitted.family == kernel_family]
    if own_fits:
        return own_fits[0]
    lent = transferred(chip, kernel_family, library)
    if lent is None:
        measured = ", ".join(sorted({fitted.family for fitted in library})) or "none"
        raise UnsupportedError(
            f"no expected time for {kernel_family} products on {chip.key}: no chip was measured with them. "
            f"Measured: {measured}. Fit constants with `roofline fit --from FILE`; the ideal time is used."
        )
    return lent


def with_measured_bandwidth(fitted: FittedGemm, device: Device) -> FittedGemm:
    """Return transferred constants of products with the chip's own DRAM share; unchanged where nothing is known of it.

    Constants fitted on this chip stay: rows of whole kernels say more than a micro-kernel.
    """
    dram = (
        None if fitted.provenance == "fitted" else known_dram(device, fitted.chip.bandwidth_bytes_per_s, fitted.sources)
    )
    if dram is None:
        return fitted
    before, gemv = fitted.constants.dram_ratio, fitted.constants.gemv_dram_ratio
    share = dram.applied(before, FITTED_BOUNDS["dram_ratio"])
    if gemv is not None and dram.is_measured:
        # The kernel for few rows keeps its ratio to the others.
        gemv = min(gemv * share / before, FITTED_BOUNDS["gemv_dram_ratio"][1])
    elif gemv is not None:
        gemv = dram.applied(gemv, FITTED_BOUNDS["gemv_dram_ratio"])
    constants = replace(fitted.constants, dram_ratio=share, gemv_dram_ratio=gemv)
    if constants == fitted.constants and not dram.is_measured:
        return fitted
    if dram.is_measured:
        findings = (dram.finding_over(fitted.provenance), *fitted.findings)
        return replace(fitted, constants=constants, provenance=MEASURED_HERE, findings=findings)
    return replace(fitted, constants=constants, findings=(*fitted.findings, dram.finding_over(fitted.provenance)))
