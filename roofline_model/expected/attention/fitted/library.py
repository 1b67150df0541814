"""Attention constants for any chip: shipped with the package (`constants/attention-*.toml`), or transferred from other
chips.

Transferred constants are of a sibling or a relative, rescaled, with a wider interval. Rules: attention study of
2026-11-21, section 2.5. Ratios, floors and rates per clock are kept; what counts clocks goes with 1 / clock. A chip's
nearest relative is of its own class: constants of an mma.sync chip on Hopper or datacentre Blackwell (or the reverse)
were 20 to 84 % off as a whole, and are refused. Single decode kernels do run in both classes (A100, L40S, RTX PRO 6000
and H100 share the 16-bit one): across families each kernel takes the constants of the chips that run it.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import cache, lru_cache
from importlib import resources
from typing import Any

from roofline_model.chips.hardware import Device
from roofline_model.core.definition_text import shown
from roofline_model.core.errors import DefinitionError, RooflineError, UnsupportedError
from roofline_model.core.finding import Finding, finding
from roofline_model.core.toml_text import toml_text
from roofline_model.expected.attention.chip import AttentionChip
from roofline_model.expected.attention.decode import grouped_kernel
from roofline_model.expected.attention.fitted.constants import (
    GRIDS,
    MIXES,
    PHASES,
    REGIMES,
    WIDTHS,
    AttentionCorrection,
    FittedAttention,
    constant_ranges,
)
from roofline_model.expected.attention.flash.config import FlashAttentionVersion
from roofline_model.expected.attention.flash.versions import TRAITS
from roofline_model.expected.calibrated import MEASURED_HERE, known_dram
from roofline_model.expected.chip import broad_family, transfer_step
from roofline_model.expected.constants_file import (
    SCHEMA,
    check_one_chip,
    only,
    read_evidence,
    read_header,
    read_surface,
    surface_rows,
    table_at,
)
from roofline_model.expected.intervals import joined_factors, lent_half_widths

DRIFT: Mapping[str, float] = lent_half_widths("attention")
"""Of attention, as `intervals.DRIFT`: sibling; within the family or between sm89 and sm120, prefill-near and
decode-near, of which an 8-bit cache has its own, and on it the per-head kernel; prefill to another family by the kind
of its instructions, prefill-sync and prefill-async; decode-same, a 16-bit decode on a kernel that the lenders run, too;
decode-other, on another grouped kernel or from an 8-bit cache.
"""
SURFACE_TRUST = {"transferred-sibling": 0.75, "transferred-family": 0.5, "transferred-class": 0.0}
"""Share of the lender's library surface that the chip keeps."""
GENERIC_INTERVAL = (0.7, 1.45)
"""Factors where nothing is known of the constants, as where a fit without folds begins. A judgement."""

GROUPED = ("launch_us", "cta_us", "tile_growth", "token_ns", "combine_us", "combine_split_us")
PER_HEAD = ("head_launch_us", "head_cta_us", "head_token_ns", "head_split_us", "head_fill_us")
"""Constants of the two kinds of decode kernels, by stem."""
LAUNCH = "launch_us"
_ASYNCHRONOUS = ("gmma", "gen")

DOUBLE_EXP = {"efficiency_64": 1.22, "efficiency_128": 1.16, "efficiency_256": 1.10}
"""sm103 computes twice as many exponentials per clock as sm100.

Assumed: half of the softmax time is exp; not measured.
"""


_SIBLING, _FAMILY, _CLASS = "transferred-sibling", "transferred-family", "transferred-class"
# sm110 (Thor) has the tensor units of sm100 but a twentieth of its bandwidth: nobody has compared their attention.
_RELATIVES: Mapping[str, Mapping[str, str]] = {
    "sm80": {"sm80": _SIBLING, "sm89": _CLASS, "sm120": _CLASS},
    "sm86": {"sm80": _FAMILY, "sm89": _CLASS},
    "sm87": {"sm80": _FAMILY, "sm89": _CLASS},
    "sm89": {"sm89": _FAMILY, "sm120": _CLASS, "sm80": _CLASS},
    "sm90": {"sm90": _SIBLING, "sm100": _CLASS},
    "sm100": {"sm100": _SIBLING, "sm90": _CLASS},
    "sm103": {"sm100": _SIBLING, "sm90": _CLASS},
    "sm110": {"sm100": _CLASS},
    "sm120": {"sm120": _FAMILY, "sm89": _CLASS, "sm80": _CLASS},
    "sm121": {"sm120": _FAMILY, "sm89": _CLASS, "sm80": _CLASS},
}
"""Family → those whose constants it may take, nearest first, and what that is called."""


def nearest(
    chip: AttentionChip, phase: str, library: Sequence[FittedAttention], drift: Mapping[str, float] = DRIFT
) -> FittedAttention | None:
    """Return constants for `chip` from the nearest relative in `library`, or None where no family may lend any.

    Across families a decode kernel takes the constants of every chip that runs the same one. `drift` says how much each
    step adds to the interval.
    """
    own_fits = [
        fitted for fitted in library if fitted.provenance in ("fitted", "measured-here") and fitted.chip.key != chip.key
    ]
    own_fits = [fitted for fitted in own_fits if fitted.phase == phase]
    for family, provenance in _RELATIVES.get(chip.family, {}).items():
        sources = [fitted for fitted in own_fits if fitted.chip.family == family]
        if sources:
            # Several chips of one family: the one with the nearest clock shares the product line.
            source = min(sources, key=lambda source: abs(math.log(source.chip.clock_hz / chip.clock_hz)))
            lent = transferred(source, chip, provenance, drift)
            if phase == "decode" and broad_family(chip.family) != broad_family(family):
                return _by_kernel(lent, source, own_fits, drift)
            return lent
    return None


def transferred(
    source: FittedAttention, chip: AttentionChip, provenance: str, drift: Mapping[str, float] = DRIFT
) -> FittedAttention:
    """Return the constants of `source` as `chip` would have them, named by `provenance`."""
    stretch = source.chip.clock_hz / chip.clock_hz
    values = _rescaled(source, chip)
    findings: list[Finding] = []
    if source.phase == "prefill" and chip.accumulate_factor != source.chip.accumulate_factor:
        values = _with_accumulator(values, source.chip, chip)
        findings.append(finding("constants-adjusted", kind="accumulator", accumulate_factor=chip.accumulate_factor))
    if chip.family == "sm103" and source.chip.family == "sm100" and source.phase == "prefill":
        values = {name: value * _exp_gain(name) for name, value in values.items()}
        findings.append(finding("attention-assumption", kind="exponentials-doubled"))
    if abs(stretch - 1) > 0.005:
        findings.append(finding("constants-adjusted", kind="latencies", latency_factor=stretch))
    steps = _steps(chip, source.chip, source.phase, provenance)
    surface, share = source.correction, SURFACE_TRUST[provenance]
    return replace(
        source,
        chip=chip,
        values=values,
        intervals=_widened(source, {mix: drift[step] for mix, step in steps.items()}),
        provenance=provenance,
        sources=(source.chip.key,),
        findings=tuple(findings),
        correction=surface.scaled(share) if surface is not None and share > 0 else None,
        correction_chip=source.chip,
        head_half_width_log_ratio=_head_half_width(steps["cache8bit"], drift),
    )


def _head_half_width(step: str, drift: Mapping[str, float]) -> float:
    """Return what the per-head kernel adds beyond a step, in quadrature; nothing where the step has none of its own."""
    return math.sqrt(max(0.0, drift.get(f"{step}-head", 0.0) ** 2 - drift[step] ** 2))


def _steps(chip: AttentionChip, lender: AttentionChip, phase: str, provenance: str) -> dict[str, str]:
    """Return the step of each of `MIXES` from a lender, a key of `DRIFT`; decode across families has its own
    (`class_steps`).
    """
    kind = "sync" if chip.rules.is_sync else "async"
    if provenance == "transferred-class":
        return dict.fromkeys(MIXES, f"prefill-{kind}" if phase == "prefill" else "decode-other")
    is_sibling = provenance == "transferred-sibling" and transfer_step(chip, lender) == "sibling"
    if is_sibling and not (phase == "prefill" and chip.family != lender.family):
        return dict.fromkeys(MIXES, "sibling")
    if phase == "prefill":
        # Exponentials at twice the rate (sm103) are another design; no two asynchronous chips of one family are known.
        return dict.fromkeys(MIXES, "prefill-near" if chip.rules.is_sync else "prefill-async")
    return {mix: "decode-near" if mix == "16bit" else "decode-near-8bit" for mix in MIXES}


def class_steps(chip: AttentionChip, phase: str, library: Sequence[FittedAttention]) -> dict[str, str]:
    """Return the step of each of `MIXES` when `library`, of which none is of the chip's family, lends to it."""
    if phase == "prefill":
        return dict.fromkeys(MIXES, f"prefill-{'sync' if chip.rules.is_sync else 'async'}")
    _, is_same = _grouped_lenders(chip, "16bit", library)
    return {mix: "decode-same" if is_same and mix == "16bit" else "decode-other" for mix in MIXES}


def _rescaled(source: FittedAttention, chip: AttentionChip) -> dict[str, float]:
    """Return the constants in the chip's clock: what counts clocks goes with 1 / clock."""
    ranges = constant_ranges(source.phase)
    stretch = source.chip.clock_hz / chip.clock_hz
    return {name: value * (stretch if ranges[name].is_cycles else 1.0) for name, value in source.values.items()}


def _with_accumulator(values: Mapping[str, float], source: AttentionChip, chip: AttentionChip) -> dict[str, float]:
    """Return prefill constants as of a chip whose tensor unit sums at another speed.

    What a kernel does beside its products takes the clocks per SM that it took; the products alone take longer:

        clocks = (beside^p + products^p)^(1/p)          in clocks of the unit at its full rate

    p is that of FlashAttention-2 (`flash/versions.py`), which is written with the same instruction.
    """
    order = TRAITS[FlashAttentionVersion.FA2].overlap_factor
    changed = dict(values)
    for name, efficiency in values.items():
        if name.startswith("efficiency_"):
            before, after = source.accumulate_factor, chip.accumulate_factor
            beside = max(0.0, (before / efficiency) ** order - before**order)
            changed[name] = after / (beside + after**order) ** (1 / order)
    return changed


def _by_kernel(
    fitted: FittedAttention, source: FittedAttention, library: Sequence[FittedAttention], drift: Mapping[str, float]
) -> FittedAttention:
    """Return decode constants with those of every chip that runs the same kernel, in place of one relative's.

    Grouped kernels: the geometric mean over the chips that run the same one, else over those that run another
    asynchronous one. The per-head kernel is plain CUDA and the same everywhere: the median over all chips, because one
    of them (L40S, 8-bit cache) is four times as slow as the others. So is the launch floor of a kernel that nobody
    shares: it is software, not silicon (B200's is twice that of four other chips).
    """
    chip, lenders = fitted.chip, {source.chip.key}
    values = dict(fitted.values)
    for width in fitted.widths:
        grouped, is_same = _grouped_lenders(chip, width, library)
        for stem in GROUPED if grouped else ():
            lent = [_rescaled(lender, chip)[f"{stem}_{theirs}"] for lender, theirs in grouped]
            values[f"{stem}_{width}"] = math.exp(math.fsum(map(math.log, lent)) / len(lent))
        everyone = [fitted for fitted in library if width in fitted.widths]
        for stem in PER_HEAD if is_same else (*PER_HEAD, LAUNCH):
            values[f"{stem}_{width}"] = statistics.median(
                _rescaled(lender, chip)[f"{stem}_{width}"] for lender in everyone
            )
        lenders |= {borrower.chip.key for borrower, _ in grouped} | {lender.chip.key for lender in everyone}
    half_widths = {mix: drift[step] for mix, step in class_steps(chip, "decode", library).items()}
    names = tuple(sorted(lenders))
    findings = (finding("constants-adjusted", kind="kernel-by-kernel"),)
    return replace(fitted, values=values, intervals=_widened(source, half_widths), sources=names, findings=findings)


def _grouped_lenders(
    chip: AttentionChip, width: str, library: Sequence[FittedAttention]
) -> tuple[list[tuple[FittedAttention, str]], bool]:
    """Return (lender, its width) for the grouped kernel of a width, and whether they run the same kernel as the chip.

    Nobody lends to an mma kernel but those that run one.
    """
    kernel = grouped_kernel(chip, is_8bit=width == "8bit")
    every = [
        (fitted, theirs, grouped_kernel(fitted.chip, is_8bit=theirs == "8bit"))
        for fitted in library
        for theirs in fitted.widths
    ]
    same = [(lender, theirs) for lender, theirs, runs in every if runs == kernel and theirs == width]
    same = same or [(lender, theirs) for lender, theirs, runs in every if runs == kernel]
    if same:
        return same, True
    akin = kernel in _ASYNCHRONOUS
    return [(lender, theirs) for lender, theirs, runs in every if akin and runs in _ASYNCHRONOUS], False


def _exp_gain(name: str) -> float:
    return next((gain for stem, gain in DOUBLE_EXP.items() if name.startswith(f"{stem}_")), 1.0)


def _widened(source: FittedAttention, half_widths: Mapping[str, float]) -> dict[str, tuple[float, float]]:
    """Return the interval factors of transferred constants: the lender's own and the transfer's error, by formats.

    `half_widths` has one entry per mix of formats; rows of a mix without one get the widest.
    """
    widest = max(half_widths.values())
    plain = {regime: joined_factors(source.intervals[regime], widest) for regime in REGIMES}
    of_mix = {
        f"{regime}-{mix}": joined_factors(source.factors(mix)[number], half_width)
        for mix, half_width in half_widths.items()
        for number, regime in enumerate(REGIMES)
    }
    return {**plain, **of_mix}


FILE_PREFIX = "attention-"


@cache
def shipped_attention() -> tuple[FittedAttention, ...]:
    """Return the constants of every chip and phase that ship with the package."""
    folder = resources.files("roofline_model.expected").joinpath("constants")
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.startswith(FILE_PREFIX))
    return tuple(
        fitted
        for name in names
        for fitted in read_attention(folder.joinpath(name).read_text(encoding="utf-8"), f"expected/constants/{name}")
    )


@lru_cache(maxsize=256)
def find_attention(
    chip: AttentionChip, phase: str, lenders: tuple[FittedAttention, ...] | None = None
) -> FittedAttention:
    """Return the constants for `chip`: its own, else those of the nearest relative, rescaled.

    `lenders` replace the shipped library. Raises `UnsupportedError` when no chip of a related family was measured.
    """
    library = shipped_attention() if lenders is None else lenders
    own_fits = [fitted for fitted in library if fitted.chip.key == chip.key and fitted.phase == phase]
    if own_fits:
        return own_fits[0]
    lent = nearest(chip, phase, library)
    if lent is None:
        measured = ", ".join(sorted({f"{fitted.chip.key} ({fitted.chip.family})" for fitted in library})) or "none"
        raise UnsupportedError(
            f"no expected {phase} attention for {chip.key} ({chip.family}): no chip of its family was measured. "
            f"Measured: {measured}. Fit constants with `roofline fit --from FILE`; the ideal time is used."
        )
    return lent


def read_attention(text: str, where: str) -> list[FittedAttention]:
    """Return the phases of one constants file; `where` names it in messages.

    Raises `DefinitionError` for anything missing, unknown or out of range.
    """
    data = read_header(text, where, ("schema", "device", "spec", *PHASES))
    try:
        chip = AttentionChip(key=data["device"], **{"peak_8bit_flops_per_s": None, **data["spec"]})
    except (KeyError, TypeError, RooflineError) as error:
        raise DefinitionError(f"constants file {where}: device or [spec] is incomplete: {error}") from None
    phases = [_phase(f"{where}, [{phase}]", chip, phase, data[phase]) for phase in PHASES if phase in data]
    if not phases:
        raise DefinitionError(f"constants file {where}: needs [prefill] or [decode]")
    return phases


def attention_text(fitted: Sequence[FittedAttention], *, comment: str = "") -> str:
    """Return the TOML text of the phases of one chip; `read_attention` reads it back to equal values."""
    check_one_chip(family.chip.key for family in fitted)
    spec = fitted[0].chip.to_dict()
    document: dict[str, Any] = {"schema": SCHEMA, "device": spec.pop("key"), "spec": spec}
    for family in fitted:
        surfaces = {} if family.correction is None else family.correction.log_ratio
        width = len(GRIDS[family.phase].axes[-1])
        document[family.phase] = {
            "constants": family.values,
            "interval": family.intervals,
            "evidence": asdict(family.evidence),
            "correction": {f"log_ratio_{name}": surface_rows(values, width) for name, values in surfaces.items()}
            or None,
        }
    return toml_text(document, comment=comment)


def _phase(where: str, chip: AttentionChip, phase: str, table: Any) -> FittedAttention:
    only(where, table_at(where, table), ("constants", "interval", "evidence", "correction"))
    parts = [table.get(name) for name in ("constants", "interval", "evidence")]
    if not all(isinstance(part, dict) for part in parts):
        raise DefinitionError(f"constants file {where}: needs constants, interval and evidence")
    values, intervals, evidence = (dict(part) for part in parts if part is not None)
    try:
        factors = {name: _pair(pair) for name, pair in intervals.items()}
        correction = _correction(f"{where}, correction", phase, table.get("correction"))
        return FittedAttention(chip, phase, values, factors, read_evidence(evidence), correction=correction)
    except (RooflineError, TypeError, ValueError) as error:
        raise DefinitionError(f"constants file {where}: {error}") from None


def _correction(where: str, phase: str, table: Any) -> AttentionCorrection | None:
    """Return the surfaces of a phase that has some; files from before they existed have none."""
    if table is None:
        return None
    only(where, table_at(where, table), [f"log_ratio_{width}" for width in WIDTHS])
    surfaces = {name.removeprefix("log_ratio_"): read_surface(where, name, rows) for name, rows in table.items()}
    return AttentionCorrection(phase, surfaces)


def _pair(value: Any) -> tuple[float, float]:
    if not isinstance(value, list) or len(value) != 2 or not all(isinstance(number, int | float) for number in value):
        raise ValueError(f"an interval is [low, high], got {shown(value)}")
    return float(value[0]), float(value[1])


def attention_with_measured_bandwidth(fitted: FittedAttention, device: Device) -> FittedAttention:
    """Return transferred constants of attention with the chip's own DRAM share, by the same rule."""
    dram = (
        None if fitted.provenance == "fitted" else known_dram(device, fitted.chip.bandwidth_bytes_per_s, fitted.sources)
    )
    if dram is None:
        return fitted
    bounds = constant_ranges(fitted.phase)["dram_ratio"]
    share = dram.applied(fitted.values["dram_ratio"], (bounds.low_value, bounds.high_value))
    values = {**fitted.values, "dram_ratio": share}
    if dram.is_measured:
        findings = (dram.finding_over(fitted.provenance), *fitted.findings)
        return replace(fitted, values=values, provenance=MEASURED_HERE, findings=findings)
    if share == fitted.values["dram_ratio"]:
        return fitted
    return replace(fitted, values=values, findings=(*fitted.findings, dram.finding_over(fitted.provenance)))
