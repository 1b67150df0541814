"""Rows of a kernel table that are neither products nor attention: plain copies, and whole steps of a model."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from roofline_model.chips.hardware import Device
from roofline_model.core.errors import RooflineError
from roofline_model.core.finding import Finding, finding, finding_of
from roofline_model.expected.chip import ChipSpec
from roofline_model.expected.fitting.table import KernelTable
from roofline_model.expected.prediction import ExpectedBatch
from roofline_model.expected.products.fitted.library import find_gemm
from roofline_model.expected.products.fitted.rows import find_chip, usable_rows
from roofline_model.validation.model_rows import model_row_time

Floats = NDArray[np.float64]
Positions = NDArray[np.intp]

GroupTimes = tuple["Positions", "Floats", ExpectedBatch | None, Finding | None]
"""Rows, ideal seconds, expected times or None, and why there are none."""

COPY_INTERVAL = (0.87, 1.15)
"""80 % factors of a copy. A judgement: DRAM efficiencies of five fitted chips lie within ±6 %, copies mix reads and
writes.
"""


def copy_row_groups(
    table: KernelTable, problems: dict[int, Finding], machines: Mapping[str, Device] | None = None
) -> Iterator[GroupTimes]:
    """Yield the copy rows chip by chip: a launch, then `bytes` (all that is moved, read plus written) at the reached
    rate.

    The rate is the chip's achieved bandwidth where its file has one, else the fitted DRAM share of 16-bit products;
    what fits into L2 moves at the fitted L2 supply.
    """
    members: dict[str, list[int]] = defaultdict(list)
    for i in usable_rows(table, "copy"):
        members[table.texts["device"][i]].append(i)
    for name, positions in members.items():
        device = find_chip(table, name, positions, problems, machines)
        if device is None:
            continue
        rows = np.array(positions, dtype=np.intp)
        moved = table.numbers["bytes"][rows]
        try:
            yield rows, moved / device.bandwidth.value, _copy_times(device, moved), None
        except RooflineError as error:
            yield rows, moved / device.bandwidth.value, None, finding_of(error)


def _copy_times(device: Device, moved: Floats) -> ExpectedBatch:
    fitted = find_gemm(ChipSpec.of(device, "BF16"), "BF16")
    chip, constants = fitted.chip, fitted.constants
    reached = constants.dram_ratio * device.bandwidth.value
    if device.bandwidth_achieved is not None:
        reached = device.bandwidth_achieved.value
    launch = np.full(len(moved), constants.static_launch_s or constants.launch_s)
    fits = moved <= constants.l2_share_ratio * chip.l2_bytes
    dram = np.where(fits, 0.0, moved / reached)
    l2 = np.where(fits, moved / (constants.l2_ratio * chip.load_bytes_per_s), 0.0)
    time_s = launch + dram + l2
    low, high = COPY_INTERVAL
    return ExpectedBatch(
        time_s=time_s,
        low_s=time_s * low,
        high_s=time_s * high,
        parts={"launch": launch, "dram": dram, "l2": l2},
        binding=["l2" if hit else "dram" for hit in fits],
        provenance=f"{fitted.provenance} (copy: from products)",
        findings=(finding("not-fitted", kind="copy"),),
    )


def model_row_times(
    table: KernelTable, problems: dict[int, Finding], machines: Mapping[str, Device] | None = None
) -> Iterator[GroupTimes]:
    """Yield the rows of whole models one by one (see `model_rows.py`)."""
    for i in usable_rows(table, "model"):
        device = find_chip(table, table.texts["device"][i], [i], problems, machines)
        if device is not None:
            ideal_s, batch, problem = model_row_time(table, i, device)
            yield np.array([i], dtype=np.intp), np.array([ideal_s]), batch, problem
