"""Rows of whole models: one pass (or a run of decode steps) as the sum of its kernels' expected times.

A row has `model`, `phase`, `batch`, `context` (tokens a new token may see in the end), `n_tokens` (tokens of each sequence
that the time is for: the prompt in prefill; in decode the steps, 1 where empty or equal to the batch), `n_devices` and
`weight_bytes` (as stored: a llama.cpp file mixes formats, so its size says more than a format's name).
No pass of a whole model was fitted: kernels are added up, an engine's own overhead is unknown, the interval is a judgement.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from roofline_model.decoder.tensor_parallel import Parallel
from roofline_model.errors import RooflineError
from roofline_model.expected.batch import ExpectedBatch
from roofline_model.expected.chip import ChipSpec
from roofline_model.expected.gemm.constants import FittedGemm
from roofline_model.expected.gemm.library import find_gemm
from roofline_model.expected.predict import predict_expected
from roofline_model.expected.tables.table import KernelTable
from roofline_model.formats import get_format
from roofline_model.hardware import Device

if TYPE_CHECKING:
    from roofline_model.decoder.llm import KernelPrediction, ModelPrediction
    from roofline_model.decoder.model_shapes import ModelShape

INTERVAL = (0.80, 1.35)
"""80 % factors of a whole pass: engines fuse some kernels, and add sampling and scheduling. A judgement."""
OTHER_KERNELS_RATIO = 0.75
"""Share of the ideal rate that kernels without a model of their own reach (grouped expert products). A judgement."""
LINK_BYTES_PER_S = 450e9
"""One direction of NVLink 4: taken where a row has several devices, because no column says how they are connected."""


@dataclass(frozen=True, slots=True)
class ModelRow:
    """One row of a whole model, read and completed."""

    shape: ModelShape
    phase: str
    formats: str
    kv: str | None
    batch_count: int
    context_count: int
    new_count: int
    """Tokens of each sequence in one pass."""
    steps_count: int
    """Passes that the row's time is for."""
    device_count: int
    weight_bytes: float | None


def model_row_time(table: KernelTable, i: int, device: Device) -> tuple[float, ExpectedBatch | None, str]:
    """Return (ideal seconds, expected time or None, why there is none) of one row; ideal is NaN where there is none."""
    try:
        row = read_model_row(table, i)
        pass_s = _ideal_pass(row, device)
        found = find_gemm(ChipSpec.of(device, "BF16"), "BF16")
    except RooflineError as error:
        return math.nan, None, str(error)
    ideal_s, expected_s, launches_s = _times(row, pass_s, device, found)
    return ideal_s, _batch(expected_s, launches_s, found.provenance), ""


def read_model_row(table: KernelTable, i: int) -> ModelRow:
    """Return one row of a table with its defaults filled in.

    Raises `UnknownNameError` for a model that is not in the registry, `InvalidValueError` for sizes it cannot have.
    """
    from roofline_model.decoder.model_registry import get_model

    def number(name: str) -> float | None:
        value = float(table.numbers[name][i])
        return None if math.isnan(value) else value

    shape = get_model(table.text("model")[i])
    batch, tokens = int(number("batch") or 1), number("n_tokens")
    given = table.text("phase")[i]
    phase = given or ("decode" if tokens is None or tokens <= batch else "prefill")
    if phase == "decode":
        new, steps = 1, 1 if tokens is None or tokens == batch else int(tokens)
        context = int(number("context") or 0) + steps // 2  # half of the steps' own tokens are there on average
    else:
        new, steps = int(tokens or number("context") or 1), 1
        context = max(int(number("context") or 0), new)
    return ModelRow(
        shape=shape,
        phase=phase,
        formats=_formats(table, i, shape, number("weight_bytes")),
        kv=table.text("kv_format")[i] or None,
        batch_count=batch,
        context_count=max(context, 1),
        new_count=new,
        steps_count=steps,
        device_count=int(number("n_devices") or 1),
        weight_bytes=number("weight_bytes"),
    )


def _formats(table: KernelTable, i: int, shape: ModelShape, weight_bytes: float | None) -> str:
    """Return the plan of a row: its columns; else the nearest format to the stored size; else the checkpoint's own."""
    from roofline_model.decoder.format_plan import AS_PUBLISHED
    from roofline_model.decoder.model_parameters import parameter_counts

    weight, activation = table.text("weight_format")[i], table.text("activation_format")[i]
    if weight:
        if activation in ("", weight) and get_format(weight).kind in ("int", "table"):
            activation = "BF16"
        return weight if activation in ("", weight) else f"{weight}.{activation}"
    if weight_bytes is None:
        return AS_PUBLISHED
    bits = 8 * weight_bytes / parameter_counts(shape).total_count
    return "BF16" if bits > 11 else "INT8.BF16" if bits > 6.3 else "INT4.BF16"


def _ideal_pass(row: ModelRow, device: Device) -> ModelPrediction:
    from roofline_model.decoder.llm import predict_model

    return predict_model(
        device, row.shape, row.phase, batch=row.batch_count, context=row.context_count, new_tokens=row.new_count,
        formats=row.formats, kv=row.kv, max_context=max(row.context_count, row.shape.max_context_size),
        parallel=Parallel(row.device_count, LINK_BYTES_PER_S if row.device_count > 1 else None),
    )  # fmt: skip


def _times(row: ModelRow, one: ModelPrediction, device: Device, found: FittedGemm) -> tuple[float, float, float]:
    """Return (ideal, expected, of that launch floors) seconds of the row."""
    launch_s = found.constants.static_launch_s or found.constants.launch_s
    reached = found.constants.dram_ratio * device.bandwidth.value
    expected_s = one.expected_all_reduce_s + math.fsum(
        kernel.kernel.calls_count * _kernel_s(kernel, device, found) for kernel in one.kernels
    )
    extra_bytes = _extra_bytes(row, one)
    ideal_s = one.time_s + extra_bytes / device.bandwidth.value
    expected_s += extra_bytes / reached
    floor_s = launch_s * one.launch_count
    return row.steps_count * ideal_s, row.steps_count * max(expected_s, ideal_s), row.steps_count * floor_s


def _kernel_s(kernel: KernelPrediction, device: Device, found: FittedGemm) -> float:
    """Return the expected seconds of one call."""
    expected = predict_expected(kernel.kernel.work, device)
    constants, ideal = found.constants, kernel.prediction
    launch_s = constants.static_launch_s or constants.launch_s
    moved = ideal.read_bytes + ideal.write_bytes
    if expected is not None:
        # Weight-only kernels were fitted where DRAM never bound them: what they read still comes at the share it reaches.
        return max(expected.time_s, moved / (constants.dram_ratio * device.bandwidth.value))
    if ideal.compute_time_s > ideal.memory_time_s or "B" in dict(kernel.kernel.work.cost.read_bytes):
        return launch_s + ideal.time_s / OTHER_KERNELS_RATIO
    # Activations that were written a kernel ago are still in L2.
    is_near = moved < constants.l2_share_ratio * found.chip.l2_bytes
    near, far = constants.l2_ratio * found.chip.load_bytes_per_s, constants.dram_ratio * device.bandwidth.value
    return launch_s + moved / (max(near, far) if is_near else far)


def _extra_bytes(row: ModelRow, one: ModelPrediction) -> float:
    """Return the weight bytes a pass reads beyond those of its plan, where the row says how large the weights are."""
    if row.weight_bytes is None:
        return 0.0
    read = math.fsum(
        kernel.kernel.calls_count * dict(kernel.kernel.work.cost.read_bytes).get("B", 0.0) for kernel in one.kernels
    )
    return read * (row.weight_bytes / row.device_count / one.memory.weights_bytes - 1)


def _batch(expected_s: float, launches_s: float, provenance: str) -> ExpectedBatch:
    import numpy as np

    time_s = np.array([expected_s])
    launch = np.minimum(np.array([launches_s]), time_s)
    return ExpectedBatch(
        time_s=time_s, low_s=time_s * INTERVAL[0], high_s=time_s * INTERVAL[1],
        parts={"launch": launch, "kernels": time_s - launch}, binding=["kernels"],
        provenance=f"{provenance} (sum of kernels)", confidence="no whole model was fitted",
    )  # fmt: skip
