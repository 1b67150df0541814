"""Fitted constants of one GEMM kernel family on one chip: values, the evidence behind them, and their TOML files.

`GemmConstants` is what a fit varies (`dataclasses.replace`); `FittedGemm` adds the chip numbers they belong to, the
interval, the evidence and the residual correction. One TOML file holds one chip: the chip's numbers once, one
`[[gemm]]` table per kernel family.

The residual correction is what the formulas leave over, a smooth surface over m, n and k (`expected/grid_surface.py`).
The worst tenth of the rows carries a third of the error: certain shapes for which a library picks a slow kernel. The
surface says how a library's choices on one chip differ from the cheapest candidate. Errors under cross-validation:
docs/theory/validation.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Literal

from roofline_model.core.definition_text import shown
from roofline_model.core.errors import DefinitionError, InvalidValueError, RooflineError
from roofline_model.core.finding import Finding
from roofline_model.core.toml_text import toml_text
from roofline_model.expected.chip import WEIGHT_ONLY_L2, ChipSpec, family_rules
from roofline_model.expected.constants_file import (
    SCHEMA,
    Evidence,
    check_one_chip,
    only,
    read_evidence,
    read_header,
    read_surface,
    surface_rows,
    table_at,
)
from roofline_model.expected.grid_surface import Grid
from roofline_model.expected.intervals import IntervalTable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

KERNEL_FAMILIES = ("BF16", "FP8", "NVFP4", "INT8", "INT4")
WEIGHT_ONLY = ("INT8", "INT4")
QUANTIZED = ("FP8", "NVFP4")
"""Both operands narrow: activations may be quantised on the fly."""

KNOTS_M = (0.0, 1.0, 4.0, 6.0, 8.0, 10.0, 13.0)
KNOTS_N = (5.0, 7.0, 9.0, 11.0, 13.0, 15.0, 17.0)
KNOTS_K = (5.0, 7.0, 9.0, 11.0, 13.0, 15.0, 17.0)
"""log2 of the sizes at the knots; outside, the surface goes on level."""
AXES = (KNOTS_M, KNOTS_N, KNOTS_K)
GRID = Grid(AXES)
KNOT_COUNT = GRID.knot_count


@dataclass(frozen=True, slots=True)
class Correction:
    """The surface of one kernel family on one chip."""

    log_ratio: tuple[float, ...]
    """ln(measured / predicted) at the knots, m-major, then n, then k."""

    def __post_init__(self) -> None:
        GRID.check(self.log_ratio)

    def logs(self, m: Floats, n: Floats, k: Floats) -> Floats:
        """Return ln of the factor on the predicted time of each row."""
        logs: Floats = GRID.logs(self.log_ratio, (m, n, k))
        return logs


def fit_correction(m: Floats, n: Floats, k: Floats, log_ratio: Floats, row_weights: Floats | None = None) -> Correction:
    """Return the surface through ln(measured / predicted) of some rows; robust and deterministic."""
    return Correction(GRID.fit((m, n, k), log_ratio, row_weights))


@dataclass(frozen=True, slots=True)
class GemmConstants:
    """Constants of one kernel family on one chip. None: the family has no such term.

    Letters in the notes are those of docs/theory/expected.md. Ratios are of the chip's own specified numbers.
    """

    launch_s: float
    """t0: one call with nothing to do, the activation cast's launch included where there is one."""
    tensor_ratio: float
    """e_c: tensor-pipe rate reached, before the other terms of the norm take their share."""
    dram_ratio: float
    """e_m: DRAM bandwidth reached."""
    l2_ratio: float
    """e_L2: operand supply of the L2 over 64 bytes per clock and SM, multicast included."""
    sm_ratio: float
    """e_sm: load path of one SM, in the same unit."""
    k_step_s: float
    """tau_k: serial latency of 64 elements of k."""
    output_ratio: float
    """kappa: cost of an output byte over an operand byte at the L2."""
    persistence_ratio: float
    """omega: 0, whole waves; 1, blocks follow each other without a seam."""
    split_s: float | None = None
    """t_sk: fixed cost of splitting k; None: the library never splits."""
    gemv_dram_ratio: float | None = None
    """e_g: DRAM bandwidth reached by the kernel for few rows."""
    gemv_element_s: float | None = None
    """tau_g: that kernel's serial time per element of k."""
    gemv_rows_count: float | None = None
    """m_g: up to this m a weight-only library uses that kernel whatever it costs; 16-bit: m = 1 where it is faster."""
    cast_ratio: float | None = None
    """c_q: rate of the quantising kernels over 64 bytes per clock and SM."""
    cast_element_s: float | None = None
    """tau_q: their serial time per element of k."""
    static_launch_s: float | None = None
    """t0 of a call that gets quantised activations and runs no cast of its own."""
    l2_share_ratio: float = 1.0
    """a: read data the L2 keeps over its size."""
    l2_edge_factor: float = 40.0
    """h: exponent of the fall from hit to miss."""
    output_l2_share_ratio: float = 0.5
    """a_O: the same share for the output."""
    clock_loss_ratio: float = 0.0
    """theta: tensor rate lost per doubling beyond 50 µs."""
    norm_order: Literal[3, 4] = 4
    """p of the norm that overlaps the terms: 4, FP8 with its cast 3."""

    @property
    def reached_dram_ratio(self) -> float:
        """The smaller of the two DRAM ratios: whichever kernel runs, it reaches this much."""
        return min(self.dram_ratio, self.gemv_dram_ratio or 1.0)

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name == "norm_order":
                if value not in (3, 4):
                    raise InvalidValueError(f"norm_order must be 3 or 4, got {value!r}")
            elif value is None:
                if field.name not in OPTIONAL:
                    raise InvalidValueError(f"GEMM constant {field.name} is missing")
            elif isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
                raise InvalidValueError(f"GEMM constant {field.name} must be a finite number ≥ 0, got {value!r}")
            elif value == 0 and field.name not in _MAY_BE_ZERO:
                raise InvalidValueError(f"GEMM constant {field.name} must be more than 0")


OPTIONAL = frozenset(
    {
        "split_s",
        "gemv_dram_ratio",
        "gemv_element_s",
        "gemv_rows_count",
        "cast_ratio",
        "cast_element_s",
        "static_launch_s",
    }
)
"""Constants of terms that not every kernel family has."""
_MAY_BE_ZERO = frozenset({"clock_loss_ratio", "gemv_element_s", "cast_element_s", "persistence_ratio", "split_s"})

FITTED_BOUNDS: dict[str, tuple[float, float]] = {
    "launch_s": (2e-7, 5e-5),
    "tensor_ratio": (0.45, 1.0),
    "dram_ratio": (0.4, 0.97),
    "l2_ratio": (0.05, 3.0),
    "sm_ratio": (0.2, 4.0),
    "k_step_s": (5e-9, 2e-6),
    "split_s": (1e-7, 3e-5),
    "output_ratio": (0.5, 6.0),
    "persistence_ratio": (0.01, 0.7),
    "gemv_dram_ratio": (0.4, 1.0),
    "gemv_element_s": (1e-12, 1e-8),
    "cast_ratio": (0.02, 4.0),
    "cast_element_s": (1e-13, 1e-7),
}
"""What a fit may vary, and how far: physical bounds, so that a constant cannot take another's load without limit."""


@dataclass(frozen=True, slots=True)
class FittedGemm:
    """Constants of one kernel family on one chip, the chip numbers they belong to, their interval and evidence."""

    family: str
    """Kernel family: BF16, FP8, NVFP4, INT8 or INT4."""
    chip: ChipSpec
    constants: GemmConstants
    intervals: IntervalTable
    evidence: Evidence
    provenance: str = "fitted"
    """fitted; transferred-sibling; transferred-family; transferred-class; measured-here."""
    sources: tuple[str, ...] = ()
    """Chips that the constants were transferred from; empty when they are the chip's own."""
    findings: tuple[Finding, ...] = ()
    correction: Correction | None = None
    """What the formulas leave over on this chip; None: nothing is known about it."""
    correction_chip: ChipSpec | None = None
    """The chip whose rows the correction was learnt on; None: this one."""


def family_defaults(family: str, kernel_family: str) -> dict[str, float | int]:
    """Return the constants that a GPU family and a kernel family fix: the L2 row and the order of the norm."""
    rules = family_rules(family)
    row = (rules.l2_share_ratio, rules.l2_edge_factor, rules.output_l2_share_ratio, rules.clock_loss_ratio)
    share, edge, output_share, loss = WEIGHT_ONLY_L2 if kernel_family in WEIGHT_ONLY else row
    return {
        "l2_share_ratio": share,
        "l2_edge_factor": edge,
        "output_l2_share_ratio": output_share,
        "clock_loss_ratio": loss,
        "norm_order": 3 if kernel_family == "FP8" else 4,
    }


def generic_start(chip: ChipSpec, kernel_family: str) -> GemmConstants:
    """Return physically plausible constants of a chip that nothing is known about: where a fit without sources begins.

    Supply terms follow the tensor peak (0.012 and 0.027 bytes per FLOP, nearly universal over five chips and four
    generations for 16-bit products; a chip's narrow formats get the same per 16-bit FLOP).
    """
    narrowing = {"FP8": 2.0, "NVFP4": 4.0}.get(kernel_family, 1.0)
    unit = chip.peak_flops_per_s / narrowing / chip.load_bytes_per_s
    is_quantized, is_weight_only = kernel_family in QUANTIZED, kernel_family in WEIGHT_ONLY
    start = GemmConstants(
        launch_s={"FP8": 12e-6, "NVFP4": 5.5e-6, "INT8": 7e-6, "INT4": 7e-6}.get(kernel_family, 2.5e-6),
        tensor_ratio=0.9,
        dram_ratio=0.78,
        l2_ratio=min(max(0.012 * unit, 0.06), 2.8),
        sm_ratio=min(max(0.027 * unit, 0.25), 3.8),
        k_step_s=1e-7,
        output_ratio=3.0,
        persistence_ratio=0.5 if is_weight_only else 0.1,
        split_s=None if kernel_family == "NVFP4" else 2.5e-6,
        gemv_dram_ratio=0.9 if is_weight_only or (kernel_family == "BF16" and chip.rules.has_gemv_kernel) else None,
        gemv_element_s=1e-9 if is_weight_only else None,
        gemv_rows_count=4.0 if is_weight_only else None,
        cast_ratio=0.17 if is_quantized else None,
        cast_element_s=1e-10 if is_quantized else None,
        static_launch_s=2.5e-6 if is_quantized else None,
    )
    return with_family(start, chip.family, kernel_family)


def with_family(constants: GemmConstants, family: str, kernel_family: str) -> GemmConstants:
    """Return the constants with the L2 row and the norm of a GPU family and kernel family."""
    return replace(constants, **family_defaults(family, kernel_family))  # type: ignore[arg-type]


def fitted_names(constants: GemmConstants, kernel_family: str) -> tuple[str, ...]:
    """Return the constants that a fit of this kernel family varies: bounded, present, and used by it."""
    fixed = {"persistence_ratio"} if kernel_family in WEIGHT_ONLY else set()
    return tuple(name for name in FITTED_BOUNDS if name not in fixed and getattr(constants, name) is not None)


def from_values(values: Mapping[str, float], family: str, kernel_family: str) -> GemmConstants:
    """Return constants from a table of values, the family's row filling what it does not name.

    Raises `InvalidValueError` for an unknown or missing name.
    """
    names = {field.name for field in fields(GemmConstants)}
    unknown = sorted(set(values) - names)
    if unknown:
        raise InvalidValueError(f"unknown GEMM constant {unknown[0]!r}; known: {', '.join(sorted(names))}")
    merged = {**family_defaults(family, kernel_family), **values}
    missing = sorted(names - set(merged) - OPTIONAL)
    if missing:
        raise InvalidValueError(f"GEMM constant {missing[0]} is missing")
    return GemmConstants(**merged)  # type: ignore[arg-type]


_CHIP_FIELDS = ("family", "sm_count", "clock_hz", "bandwidth_bytes_per_s", "l2_bytes")
_TABLE_FIELDS = ("format", "peak_flops_per_s", "constants", "interval", "evidence")


def read_constants(text: str, where: str) -> list[FittedGemm]:
    """Return the fitted kernel families of one constants file.

    `where` names the file in messages. Raises `DefinitionError` for anything missing, unknown or out of range.
    """
    data = read_header(text, where, ("schema", "device", "spec", "gemm"))
    device = data.get("device")
    if not isinstance(device, str) or not device:
        raise DefinitionError(f"constants file {where}: device must name the chip")
    spec = table_at(f"{where}, [spec]", data.get("spec"))
    only(f"{where}, [spec]", spec, _CHIP_FIELDS, needed=_CHIP_FIELDS)
    tables = data.get("gemm")
    if not isinstance(tables, list) or not tables:
        raise DefinitionError(f"constants file {where}: needs at least one [[gemm]] table")
    families = [_fitted(f"{where}, [[gemm]] {number}", device, spec, table) for number, table in enumerate(tables, 1)]
    names = [fitted.family for fitted in families]
    if len(set(names)) < len(names):
        raise DefinitionError(f"constants file {where}: a format has two [[gemm]] tables; keep one of each")
    return families


def constants_text(fitted: Sequence[FittedGemm], *, comment: str = "") -> str:
    """Return the TOML text of the kernel families of one chip; `read_constants` reads it back to equal values."""
    chip = fitted[0].chip
    check_one_chip(family.chip.key for family in fitted)
    tables = [
        {
            "format": family.family,
            "peak_flops_per_s": family.chip.peak_flops_per_s,
            "constants": asdict(family.constants),
            "interval": family.intervals.pairs(),
            "evidence": asdict(family.evidence),
            "correction": family.correction and {"log_ratio": surface_rows(family.correction.log_ratio, len(KNOTS_K))},
        }
        for family in fitted
    ]
    spec = {name: getattr(chip, name) for name in _CHIP_FIELDS}
    return toml_text({"schema": SCHEMA, "device": chip.key, "spec": spec, "gemm": tables}, comment=comment)


def _fitted(where: str, device: str, spec: dict[str, Any], table: Any) -> FittedGemm:
    table = table_at(where, table)
    only(where, table, (*_TABLE_FIELDS, "correction"), needed=_TABLE_FIELDS)
    family = table["format"]
    if family not in KERNEL_FAMILIES:
        raise DefinitionError(f"{where}: format must be one of {', '.join(KERNEL_FAMILIES)}, got {shown(family)}")
    constants, interval, evidence = (table_at(f"{where}, {name}", table[name]) for name in _TABLE_FIELDS[2:])
    try:
        chip = ChipSpec(key=device, peak_flops_per_s=table["peak_flops_per_s"], **spec)
        values = from_values(constants, chip.family, family)
        pairs = {name: (pair[0], pair[1]) for name, pair in interval.items() if len(pair) == 2}
        correction = None
        if (surface := table.get("correction")) is not None:
            only(f"{where}, correction", table_at(f"{where}, correction", surface), ("log_ratio",), ("log_ratio",))
            correction = Correction(read_surface(f"{where}, correction", "log_ratio", surface["log_ratio"]))
        return FittedGemm(
            family, chip, values, IntervalTable.from_pairs(pairs), read_evidence(evidence), correction=correction
        )
    except (RooflineError, TypeError, KeyError) as error:
        raise DefinitionError(f"constants file {where}: {error}") from None
