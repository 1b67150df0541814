"""Predictions of a call that another program measured: those of `predict model`, summed over its passes."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from results.exchange.foreign import ModelAsk, PassRun
from results.records.records import PredictionRecord
from roofline_model.chips.hardware import Device, doubt_of_ideals
from roofline_model.core.finding import Finding, finding
from roofline_model.ideal.limits import limit_s
from roofline_model.ideal.roofline import error_ratio, weakest_provenance

if TYPE_CHECKING:
    from roofline_model.models.llm import ModelPrediction
    from roofline_model.validation.model_rows import PricedPass

PASSES_VERSION = "imported-pass-1"
"""Changes whenever the same question would get another time; stored with every such prediction."""


class CallPrediction(NamedTuple):
    """What is predicted of a measured call, and the shortest time that its chip allows."""

    predictions: tuple[PredictionRecord, ...]
    reason: Finding | None
    """Why one is missing; None where none is."""
    least_s: float
    """No engine can be faster; 0 where no number of the chip is a limit."""


def model_predictions(ask: ModelAsk, device: Device, measured_s: float) -> CallPrediction:
    """Return the ideal and, where the chip has one, the expected time of a call, and why something is missing.

    Weights are counted as the file stores them where it says how many bytes there are. The interval is the one that
    `roofline validate` gives whole models: a judgement, engines differ. Raises `RooflineError` where the pass cannot
    be.
    """
    from roofline_model.validation.model_rows import INTERVAL, priced_pass

    priced: list[tuple[PassRun, ModelPrediction, PricedPass]] = []
    for run in ask.passes:
        prediction = _predicted(ask, run, device)
        priced.append((run, prediction, priced_pass(prediction, device, ask.weight_bytes)))
    ideal = _ideal(priced, device, measured_s)
    limit = _limit_s(priced, ask, device, ideal)
    problem = next((prediction.problem for _, _, prediction in priced if prediction.expected_s is None), None)
    expected_s = math.fsum(
        run.times_count * prediction.expected_s for run, _, prediction in priced if prediction.expected_s is not None
    )
    if problem is not None:
        return CallPrediction((ideal,), problem, limit)
    least_s = math.fsum(run.times_count * priced_run.least_s for run, _, priced_run in priced)
    low, high = INTERVAL
    expected = ideal.expected(
        expected_s,
        measured_s,
        provenance=f"{priced[0][2].provenance} (sum of kernels)",
        low_s=max(low * expected_s, least_s),
        high_s=high * expected_s,
        findings=(finding("not-fitted", kind="model"),),
    )
    return CallPrediction((ideal, expected), None, limit)


def _limit_s(
    priced: list[tuple[PassRun, ModelPrediction, PricedPass]], ask: ModelAsk, device: Device, ideal: PredictionRecord
) -> float:
    """Return the shortest time that the chip allows for a call, whatever the engine fuses, seconds.

    Every pass reads its weights, those of the fewest experts, and in decode its cache; what kernels hand to each other
    may stay on the chip. Narrow weights of a wide product may be multiplied in a faster format than the one asked for,
    so that their arithmetic is no limit.
    """
    from roofline_model.models.llm import read_weight_bytes
    from roofline_model.models.model_memory import plan_kv_bytes
    from roofline_model.models.tensor_parallel import shard

    if doubt_of_ideals(device) is not None:
        return 0.0
    limits_s = []
    for run, prediction, _ in priced:
        part, stored_ratio = shard(ask.shape, ask.device_count), 1.0
        if ask.weight_bytes is not None:
            stored_ratio = ask.weight_bytes / ask.device_count / prediction.memory.weights_bytes
        read = stored_ratio * read_weight_bytes(part, prediction.plan)
        if run.phase == "decode":
            read += plan_kv_bytes(part, prediction.plan, run.context_count - run.new_count, run.batch_count)
        compute_s = math.fsum(each.kernel.calls_count * each.prediction.compute_time_s for each in prediction.kernels)
        of_pass = replace(
            ideal, read_bytes=read, write_bytes=0.0, compute_time_s=compute_s if ideal.path == "native" else None
        )
        limits_s.append(run.times_count * limit_s(of_pass, device))
    return math.fsum(limits_s)


def _predicted(ask: ModelAsk, run: PassRun, device: Device) -> ModelPrediction:
    from roofline_model.models.format_plan import stored_plan
    from roofline_model.models.llm import predict_model
    from roofline_model.models.tensor_parallel import Parallel

    return predict_model(
        device,
        ask.shape,
        run.phase,
        batch=run.batch_count,
        context=run.context_count,
        new_tokens=run.new_count,
        formats=stored_plan(ask.formats, ask.shape, kv=ask.kv_format, weight_bytes=ask.weight_bytes),
        max_context=max(run.context_count, ask.shape.max_context_size),
        parallel=Parallel(ask.device_count, ask.link_bytes_per_s),
    )


def _ideal(
    priced: list[tuple[PassRun, ModelPrediction, PricedPass]], device: Device, measured_s: float
) -> PredictionRecord:
    time_s = math.fsum(run.times_count * priced_run.ideal_s for run, _, priced_run in priced)
    kernels = [
        (run.times_count * kernel.kernel.calls_count, kernel)
        for run, priced_run, _ in priced
        for kernel in priced_run.kernels
    ]
    more_bytes = math.fsum(run.times_count * priced_run.more_bytes for run, _, priced_run in priced)
    read = math.fsum(calls * kernel.prediction.read_bytes for calls, kernel in kernels)
    flops = math.fsum(calls * kernel.prediction.flops for calls, kernel in kernels)
    compute_s = math.fsum(calls * kernel.prediction.compute_time_s for calls, kernel in kernels)
    memory_s = math.fsum(calls * kernel.prediction.memory_time_s for calls, kernel in kernels)
    longest = max(priced, key=lambda entry: entry[0].times_count * entry[2].ideal_s)[1]
    busiest = max(longest.kernels, key=lambda priced_kernel: priced_kernel.flops)
    paths = {kernel.prediction.path for _, kernel in kernels if kernel.flops > 0.01 * longest.flops}
    findings = dict.fromkeys(item for _, priced_run, _ in priced for item in priced_run.findings)
    return PredictionRecord(
        kind="ideal",
        model_version=PASSES_VERSION,
        hardware_key=device.key,
        profile_hash=device.content_hash,
        time_s=time_s,
        memory_time_s=memory_s + more_bytes / device.bandwidth.value,
        compute_time_s=compute_s,
        bound=longest.bound,
        flops=flops,
        read_bytes=read + more_bytes,
        write_bytes=math.fsum(calls * kernel.prediction.write_bytes for calls, kernel in kernels),
        bandwidth_bytes_per_s=device.bandwidth.value,
        peak_flops_per_s=flops / compute_s if compute_s else None,
        compute_format=busiest.prediction.compute_format,
        path=next((path for path in ("emulated", "dequantize") if path in paths), "native"),
        memory_level="DRAM",
        provenance=weakest_provenance(priced_run.provenance for _, priced_run, _ in priced),
        findings=tuple(findings),
        error_ratio=error_ratio(time_s, measured_s),
    )
