"""The GEMM rows of a kernel table that share a chip, formats and cast: arrays ready for the model."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roofline_model.chips.hardware import Device, get_hardware
from roofline_model.core.errors import RooflineError
from roofline_model.core.finding import Finding, finding, finding_of
from roofline_model.expected.chip import ChipSpec, fitted_numbers
from roofline_model.expected.fitting.table import KernelTable
from roofline_model.expected.prediction import ExpectedBatch
from roofline_model.expected.products.fitted.constants import FittedGemm
from roofline_model.expected.products.fitted.library import shipped_gemm
from roofline_model.expected.products.formula import expected_gemm
from roofline_model.expected.products.parameters import GemmFormats, gemm_formats, rotated_copies
from roofline_model.formats.catalog import get_format

Floats = NDArray[np.float64]
Positions = NDArray[np.intp]


@dataclass(frozen=True, slots=True, eq=False)
class GemmRows:
    """Rows of one chip, one pair of formats and one cast. Arrays have one entry per row."""

    device: Device
    chip: ChipSpec | None
    """What the expected model needs of the chip; None where `problem` says why there is none."""
    weight_format: str
    activation_format: str
    output_format: str
    formats: GemmFormats
    computes_wide: bool
    """The chip has no unit for the formats: both operands are widened to 16 bit."""
    quantizes: bool
    """The time includes the kernels that quantise the activations."""
    rows: Positions
    """Positions in the table."""
    m: Floats
    n: Floats
    k: Floats
    copies: Floats
    """Weight copies between two uses of the same one, as the benchmark rotates them."""
    problem: Finding | None = None
    """Why no expected time can be had; the ideal one can."""


def gemm_row_groups(
    table: KernelTable, problems: dict[int, Finding], machines: Mapping[str, Device] | None = None
) -> list[GemmRows]:
    """Return the table's usable GEMM rows by chip, formats and cast; `problems` gets a reason for each unusable one.

    `machines` are chips that replace the registry's (with what this machine measured about itself).
    A weight format must be given; the activation defaults to it (16 bit for narrow integers), the output to BF16.
    """
    device, weight = table.texts["device"], table.text("weight_format")
    activation, output = table.text("activation_format"), table.text("output_format")
    quantizes = table.numbers["dynamic_activation_quantization"] == 1
    members: dict[tuple[str, str, str, str, bool], list[int]] = defaultdict(list)
    for i in usable_rows(table, "gemm"):
        if not weight[i]:
            problems[i] = finding("row-refused", kind="weight-format")
            continue
        members[device[i], weight[i], activation[i], output[i], bool(quantizes[i])].append(i)
    groups = []
    for (name, weight_key, activation_key, output_key, casts), rows in members.items():
        chip = find_chip(table, name, rows, problems, machines)
        if chip is None:
            continue
        pair = weight_key, activation_key or default_activation(weight_key), output_key or "BF16"
        groups.append(_group(table, chip, pair, casts, np.array(rows, dtype=np.intp)))
    return groups


def find_chip(
    table: KernelTable,
    name: str,
    rows: Sequence[int],
    problems: dict[int, Finding],
    machines: Mapping[str, Device] | None,
) -> Device | None:
    """Return the chip of a group of rows, or None after giving each row the reason."""
    try:
        chip = get_hardware(name)
    except RooflineError as error:
        problems.update(dict.fromkeys(rows, finding_of(error)))
        return None
    return (machines or {}).get(chip.key, chip)


def usable_rows(table: KernelTable, op: str) -> Iterable[int]:
    """Return the positions of the rows of an operator that have no reason against them."""
    ops, reasons = table.texts["op"], table.reasons
    return (i for i in range(len(table)) if ops[i] == op and not reasons[i])


def taken(rows: Any, index: Positions) -> Any:
    """Return a dataclass with its arrays cut to `index`, everything else as it is."""
    arrays = {
        field.name: value[index] for field in fields(rows) if isinstance(value := getattr(rows, field.name), np.ndarray)
    }
    return replace(rows, **arrays)


def default_activation(weight_format: str) -> str:
    """Return the activation of a row that names none: narrow integers are weight-only, everything else is symmetric."""
    fmt = get_format(weight_format)
    return "BF16" if fmt.kind in ("int", "table") else fmt.key


def _group(
    table: KernelTable, device: Device, pair: tuple[str, str, str], quantizes: bool, rows: Positions
) -> GemmRows:
    weight, activation, output = pair
    m, n, k, given = (table.numbers[name][rows] for name in ("m", "n", "k", "weight_copies"))
    formats = gemm_formats(weight, activation, output)
    chip, problem, is_wide = None, None, False
    try:
        is_wide = device.path(formats.compute_format).kind != "native"
        if is_wide:
            formats = gemm_formats(weight, activation, output, computes_wide=True)
        chip = spec_of(device, formats)
    except RooflineError as error:
        problem = finding_of(error)
    copies = _copies(chip, formats, n, k, given)
    return GemmRows(
        device, chip, weight, activation, output, formats, is_wide, quantizes, rows, m, n, k, copies, problem
    )


def spec_of(device: Device, formats: GemmFormats) -> ChipSpec:
    """Return the chip's numbers as its shipped constants round them; a description that differs keeps its own."""
    chip = ChipSpec.of(device, formats.compute_format)
    own_chips = (
        fitted.chip for fitted in shipped_gemm() if fitted.chip.key == chip.key and fitted.family == formats.family
    )
    return fitted_numbers(chip, next(own_chips, chip))


def _copies(chip: ChipSpec | None, formats: GemmFormats, n: Floats, k: Floats, given: Floats) -> Floats:
    """Return the rotation of each row: the column `weight_copies` where it is filled, else the collector's rule."""
    if chip is None:
        return np.ones(len(n))
    return np.where(np.isfinite(given), given, rotated_copies(chip, formats.family, n, k))


def expected_of_group(group: GemmRows, constants: FittedGemm) -> ExpectedBatch:
    """Return the expected times of a group that has a chip, with the constants given."""

    assert group.chip is not None  # a group without one says so in `problem`
    return expected_gemm(
        group.chip,
        group.m,
        group.n,
        group.k,
        weight_format=group.weight_format,
        activation_format=group.activation_format,
        output_format=group.output_format,
        dynamic_activation_quantization=group.quantizes,
        weight_copies=group.copies,
        constants=constants,
        computes_wide=group.computes_wide,
    )
