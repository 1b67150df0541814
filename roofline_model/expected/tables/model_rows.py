"""Rows of whole models: one pass (or a run of decode steps) with the expected time that `predict model` gives it.

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
from roofline_model.expected.tables.table import KernelTable
from roofline_model.formats import get_format
from roofline_model.hardware import Device

if TYPE_CHECKING:
    from roofline_model.decoder.llm import ModelPrediction
    from roofline_model.decoder.model_shapes import ModelShape

INTERVAL = (0.80, 1.35)
"""80 % factors of a whole pass: engines fuse some kernels, and add sampling and scheduling. A judgement."""
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
    from roofline_model.decoder.step_expected import expected_step, why_no_step

    try:
        row = read_model_row(table, i)
        one = _ideal_pass(row, device)
        step = expected_step(one, device)
        more = _more_weights_ratio(row, one)
    except RooflineError as error:
        return math.nan, None, str(error)
    extra_bytes = more * math.fsum(
        kernel.kernel.calls_count * dict(kernel.kernel.work.cost.read_bytes).get("B", 0.0) for kernel in one.kernels
    )
    ideal_s = one.time_s + extra_bytes / device.bandwidth.value
    if step is None:
        return row.steps_count * ideal_s, None, why_no_step(one, device)
    # What waits for its weights takes as much longer as there are more of them; what computes does not.
    waiting_s = math.fsum(
        part.kernel.calls_count * part.time_s
        for part in step.kernels
        if part.binding != "tensor" and "B" in dict(part.kernel.work.cost.read_bytes)
    )
    expected_s = step.time_s + more * waiting_s
    if one.ideal_is_bound:
        expected_s = max(expected_s, ideal_s)
    least_s = ideal_s if one.ideal_is_bound else 0.0
    return row.steps_count * ideal_s, _batch(row.steps_count, expected_s, least_s, step.provenance), ""


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


def _more_weights_ratio(row: ModelRow, one: ModelPrediction) -> float:
    """Return by how much the stored weights exceed those of the row's plan; 0 where the row does not say."""
    if row.weight_bytes is None:
        return 0.0
    return row.weight_bytes / row.device_count / one.memory.weights_bytes - 1


def _batch(steps: int, expected_s: float, least_s: float, provenance: str) -> ExpectedBatch:
    import numpy as np

    low, high = INTERVAL
    time_s = np.array([steps * expected_s])
    return ExpectedBatch(
        time_s=time_s, low_s=np.maximum(low * time_s, steps * least_s), high_s=high * time_s, parts={"kernels": time_s},
        binding=["kernels"], provenance=f"{provenance} (sum of kernels)", confidence="no whole model was fitted",
    )  # fmt: skip
