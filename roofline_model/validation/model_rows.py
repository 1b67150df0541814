"""Rows of whole models: one pass (or a run of decode steps) with the expected time that `predict model` gives it.

A row has `model`, `phase`, `batch`, `context` (tokens a new token may see in the end), `n_tokens` (tokens of each
sequence that the time is for: the prompt in prefill; in decode the steps, 1 where empty or equal to the batch),
`n_devices` and `weight_bytes` (as stored: a llama.cpp file mixes formats, so its size says more than a format's name).
No pass of a whole model was fitted: kernels are added up, an engine's own overhead is unknown, the interval is a
judgement.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from roofline_model.chips.hardware import Device
from roofline_model.core.errors import RooflineError
from roofline_model.core.finding import Finding, finding, finding_of
from roofline_model.expected.fitting.table import KernelTable
from roofline_model.expected.prediction import ExpectedBatch
from roofline_model.formats.catalog import get_format, is_weight_only
from roofline_model.models.format_plan import AS_PUBLISHED, stored_plan
from roofline_model.models.hf.parameters import parameter_counts
from roofline_model.models.llm import ModelPrediction, predict_model
from roofline_model.models.model_registry import get_model
from roofline_model.models.step_expected import expected_step, why_no_step
from roofline_model.models.tensor_parallel import Parallel

if TYPE_CHECKING:
    from roofline_model.models.model_shapes import ModelShape


INTERVAL = (0.80, 1.35)
"""80 % factors of a whole pass: engines fuse some kernels, and add sampling and scheduling. A judgement."""


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


@dataclass(frozen=True, slots=True)
class PricedPass:
    """Ideal and expected time of one pass whose weights are stored in so many bytes. Of one device."""

    ideal_s: float
    more_bytes: float
    """What is read beyond the weights of the pass's plan; below 0 where less is stored."""
    expected_s: float | None
    least_s: float
    """No pass can be faster; 0 where the ideal time is no bound."""
    provenance: str
    problem: Finding | None = None
    """Why there is no expected time."""


def priced_pass(prediction: ModelPrediction, device: Device, weight_bytes: float | None) -> PricedPass:
    """Return the times of a pass, its weights counted as `weight_bytes` (of all devices; None: as its plan stores
    them).

    A file that mixes formats holds more or less than any one format's name says: what waits for its weights takes as
    much longer as there are more of them, what computes does not.
    """

    step = expected_step(prediction, device)
    more = 0.0
    if weight_bytes is not None:
        more = weight_bytes / prediction.parallel.device_count / prediction.memory.weights_bytes - 1
    more_bytes = more * math.fsum(
        kernel.kernel.calls_count * dict(kernel.kernel.work.cost.read_bytes).get("B", 0.0)
        for kernel in prediction.kernels
    )
    ideal_s = prediction.time_s + more_bytes / device.bandwidth.value
    least_s = ideal_s if prediction.ideal_is_bound else 0.0
    if step is None:
        problem = why_no_step(prediction, device)
        return PricedPass(ideal_s, more_bytes, None, least_s, prediction.provenance, problem)
    waiting_s = math.fsum(
        part.kernel.calls_count * part.time_s
        for part in step.kernels
        if part.binding != "tensor" and "B" in dict(part.kernel.work.cost.read_bytes)
    )
    expected_s = max(step.time_s + more * waiting_s, least_s)
    return PricedPass(ideal_s, more_bytes, expected_s, least_s, step.provenance)


def model_row_time(table: KernelTable, i: int, device: Device) -> tuple[float, ExpectedBatch | None, Finding | None]:
    """Return (ideal seconds, expected time or None, why there is none) of one row; ideal is NaN where there is none."""
    try:
        row = read_model_row(table, i)
        priced = priced_pass(_ideal_pass(row, device), device, row.weight_bytes)
    except RooflineError as error:
        return math.nan, None, finding_of(error)
    ideal_s = row.steps_count * priced.ideal_s
    if priced.expected_s is None:
        return ideal_s, None, priced.problem
    return ideal_s, _batch(row.steps_count, priced.expected_s, priced.least_s, priced.provenance), None


def read_model_row(table: KernelTable, i: int) -> ModelRow:
    """Return one row of a table with its defaults filled in.

    Raises `UnknownNameError` for a model that is not in the registry, `InvalidValueError` for sizes it cannot have.
    """

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

    weight, activation = table.text("weight_format")[i], table.text("activation_format")[i]
    if weight:
        if activation in ("", weight) and is_weight_only(get_format(weight)):
            activation = "BF16"
        return weight if activation in ("", weight) else f"{weight}.{activation}"
    return AS_PUBLISHED if weight_bytes is None else nearest_formats(shape, weight_bytes, shape.expert_format)


def nearest_formats(
    shape: ModelShape, weight_bytes: float, experts: str | None, named_bits: float | None = None
) -> str:
    """Return the plan whose size is nearest to that of a file whose formats are not named, or mixed.

    Routed experts have the format `experts` where the file's size leaves room for it and for the rest, as in
    `INT8.BF16 experts=MXFP4.BF16`. `named_bits`: of an element in the format that the file is named by; a file of that
    very size has no other for its experts.
    """
    counts = parameter_counts(shape)
    if shape.experts is not None and experts is not None:
        rest_bytes = weight_bytes - counts.expert_count * get_format(experts).traffic_bytes_per_element
        rest_bits = 8 * rest_bytes / (counts.total_count - counts.expert_count)
        if named_bits is not None and abs(8 * weight_bytes / counts.total_count / named_bits - 1) < _SAME_SIZE_RATIO:
            return _weight_only(named_bits)
        if _LEAST_REST_BITS < rest_bits < _MOST_REST_BITS:
            return f"{_weight_only(rest_bits)} experts={experts}.BF16"
    return _weight_only(8 * weight_bytes / counts.total_count)


_SAME_SIZE_RATIO = 0.02
"""Heads and embeddings of other types make a file so much larger or smaller than its name says."""
_LEAST_REST_BITS, _MOST_REST_BITS = 3.5, 20.0
"""What is not an expert has four bits or more, and 16 with norms and biases in FP32 at most: beyond either, the
experts have another format.
"""


def _weight_only(bits: float) -> str:
    return "BF16" if bits > 11 else "INT8.BF16" if bits > 6.3 else "INT4.BF16"


def _ideal_pass(row: ModelRow, device: Device) -> ModelPrediction:
    return predict_model(
        device,
        row.shape,
        row.phase,
        batch=row.batch_count,
        context=row.context_count,
        new_tokens=row.new_count,
        formats=stored_plan(row.formats, row.shape, kv=row.kv, weight_bytes=row.weight_bytes),
        max_context=max(row.context_count, row.shape.max_context_size),
        parallel=Parallel(row.device_count),
    )


def _batch(steps: int, expected_s: float, least_s: float, provenance: str) -> ExpectedBatch:
    low, high = INTERVAL
    time_s = np.array([steps * expected_s])
    return ExpectedBatch(
        time_s=time_s,
        low_s=np.maximum(low * time_s, steps * least_s),
        high_s=high * time_s,
        parts={"kernels": time_s},
        binding=["kernels"],
        provenance=f"{provenance} (sum of kernels)",
        findings=(finding("not-fitted", kind="model"),),
    )
