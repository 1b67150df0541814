"""A table of measured engine runs beside what the engine model says of each row.

Columns as in public collections of runs: chip, engine, base_model, weight_format, activation_format, kv_format, the
layout over devices, load, concurrency, lengths, and the measured `tpot_s`, `ttft_s`, `power_w`.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from statistics import fmean, median
from typing import Literal, NamedTuple

from roofline_model.chips.hardware import Device, get_hardware
from roofline_model.core.errors import InvalidValueError, RooflineError, UnknownNameError
from roofline_model.core.finding import Finding, finding_of
from roofline_model.core.table_file import TextTable, cut
from roofline_model.engines.amounts import Layout, StoredModel
from roofline_model.engines.checkpoints import CACHE_8_BIT, CACHE_16_BIT, fetched_weights, format_key, stored_model
from roofline_model.engines.engine import Engine, EngineConstants, get_engine
from roofline_model.engines.loads import Load, client_times, closed_load
from roofline_model.engines.power import mean_power_w
from roofline_model.engines.steps import StepModel
from roofline_model.models.decoders import Checkpoint, get_decoder, plain_name, published_formats, published_weights
from roofline_model.models.hf.stored_formats import CheckpointFormats
from roofline_model.models.layer_kinds import Decoder

REQUIRED = ("chip", "engine", "base_model", "input_len", "output_len", "tpot_s")
Quantity = Literal["tpot", "ttft", "power"]
QUANTITIES: Mapping[Quantity, str] = {"tpot": "tpot_s", "ttft": "ttft_s", "power": "power_w"}
"""What is predicted → the column of its measurement."""
_ENGINES = {"llama.cpp": "llama-cpp", "vllm.cpp": "vllm"}
"""Name in a table → engine here, where they differ."""
_INPUT, _OUTPUT = 30, 256
"""Tokens where a row does not say them: a short question and an answer."""
_CHUNK = re.compile(r"max_num_batched_tokens[ =:]*(\d+)")
_TEN_WAVES = {(1024, 1024), (1024, 8192), (8192, 1024)}
"""Lengths of the benchmarks that run ten waves of their concurrency (InferenceX)."""
_WHOLE_REQUEST = "wall time"
"""In the notes of rows whose time per token is that of the whole request over its tokens."""


@dataclass(frozen=True, slots=True)
class EngineTable:
    """The rows as they were read."""

    name: str
    sha256: str
    header: tuple[str, ...]
    rows: tuple[Mapping[str, str], ...]
    line_numbers: tuple[int, ...]

    def measured(self, quantity: Quantity, row: int) -> float | None:
        """Return a measurement of a row; None where it has none."""
        value = _number(self.rows[row], QUANTITIES[quantity])
        return value if value is not None and value > 0 else None


class Expected(NamedTuple):
    """An expected value and its 80 % interval, in the unit of the quantity."""

    value: float
    interval: tuple[float, float]


@dataclass(frozen=True, slots=True)
class RowPrediction:
    """What the engine model says of one row."""

    expected: Mapping[Quantity, Expected]
    reason: Finding | None = None
    """Why there is none."""
    is_scored: bool = True
    """False of rows that are marked as not comparable, or that speculate: their step is not one token."""


@dataclass(frozen=True, slots=True)
class EngineAccuracy:
    """How far one quantity of a group of rows is off. Errors are of the ratio, so that 2× and ½× count alike."""

    quantity: Quantity
    chip: str
    engine: str
    model_class: str
    load: str
    row_count: int
    median_ratio: float
    mean_ratio: float
    bias_ratio: float
    """Median of predicted over measured, less one."""
    coverage_ratio: float
    """Share of rows inside their 80 % interval."""


def is_engine_table(header: Sequence[str]) -> bool:
    """Return whether a header is that of engine runs, not of kernels."""
    return {"engine", "tpot_s"} <= set(header)


def engine_table(path: Path, read: TextTable) -> EngineTable:
    """Return a table that was read from `path` as runs of engines; raises `InvalidValueError` for one without the
    needed columns.
    """
    missing = [name for name in REQUIRED if name not in read.header]
    if missing:
        raise InvalidValueError(f"engine table {cut(str(path))} has no column {' and no column '.join(missing)}")
    blank = dict.fromkeys(read.header, "")
    rows = tuple(blank | dict(zip(read.header, map(str.strip, cells), strict=False)) for cells in read.rows)
    return EngineTable(cut(path.name), read.sha256, read.header, rows, read.line_numbers)


def predict_engine_rows(table: EngineTable, folder: Path | None = None) -> list[RowPrediction]:
    """Return a prediction for each row; `folder`: config.json files of models that are not shipped."""
    shapes = _Shapes(cache(partial(get_decoder, folder=folder)), cache(partial(_published, folder=folder)))
    return [_predicted(row, shapes) for row in table.rows]


class _Shapes(NamedTuple):
    """Decoders and checkpoints of the models of a table by name, each read once."""

    decoder: Callable[[str], Decoder]
    published: Callable[[str, Decoder], CheckpointFormats | None]
    """What the checkpoint of exactly this name stores, where its config is there."""


def _published(name: str, decoder: Decoder, folder: Path | None) -> CheckpointFormats | None:
    return None if folder is None else published_formats(name, folder, decoder)


def _predicted(row: Mapping[str, str], shapes: _Shapes) -> RowPrediction:
    is_scored = row.get("comparable", "").lower() != "false" and not row.get("speculative")
    try:
        expected = _expected(row, shapes)
    except RooflineError as error:
        return RowPrediction({}, finding_of(error), is_scored)
    return RowPrediction(expected, None, is_scored)


def _expected(row: Mapping[str, str], shapes: _Shapes) -> dict[Quantity, Expected]:
    decoder = _decoder(row, shapes)
    device = get_hardware(row["chip"])
    engine = _engine(row)
    constants = engine.constants_for(device.key)
    chunk = _CHUNK.search(row.get("notes", ""))
    if chunk is not None:
        constants = replace(constants, prompt_chunk_tokens=max(1, int(chunk.group(1))))
    stored = _stored(row, decoder, engine, constants, device, shapes)
    steps = StepModel(stored, device, constants, _layout(row))
    load = _load(row, constants)
    times = client_times(steps, load)
    values: dict[Quantity, float] = {"tpot": times.token_s}
    if constants.first_token_step_count is None:
        values["ttft"] = times.first_token_s
    if constants.power is not None:
        values["power"] = mean_power_w(steps, load, times, constants.power)
    factors = {name: constants.interval(name, load.kind, stored.model_class) for name in values}
    return {
        name: Expected(value, (value * factors[name][0], value * factors[name][1])) for name, value in values.items()
    }


def _engine(row: Mapping[str, str]) -> Engine:
    engine = get_engine(_ENGINES.get(row["engine"], row["engine"]))
    inner = next((key for part, key in engine.runs_in.items() if part in row.get("model", "")), None)
    return engine if inner is None else get_engine(inner)


def _decoder(row: Mapping[str, str], shapes: _Shapes) -> Decoder:
    try:
        return shapes.decoder(row["base_model"])
    except UnknownNameError:
        if not row.get("model"):
            raise
        return shapes.decoder(row["model"])


def _stored(
    row: Mapping[str, str],
    decoder: Decoder,
    engine: Engine,
    constants: EngineConstants,
    device: Device,
    shapes: _Shapes,
) -> StoredModel:
    """Return the model as its checkpoint's own config says, else as published checkpoints of the row's format are."""
    weights = format_key(row.get("weight_format") or fetched_weights(engine, published_weights(row["base_model"])))
    is_block = weights == "FP8_E4M3" and "fp8_block" in row.get("notes", "")
    return stored_model(
        Checkpoint(decoder, shapes.published(row.get("model", ""), decoder), published_weights(row["base_model"])),
        weights,
        engine,
        constants,
        device,
        activations=row.get("activation_format") or None,
        cache_bytes=_cache_bytes(row, weights, constants.multiplied_in("MXFP4", device)),
        has_block_scales=is_block or None,
    )


def _cache_bytes(row: Mapping[str, str], weights: str, experts_in: str) -> float:
    """Return the bytes of a cached element: as stated, else 16 bit but for the checkpoints that ask for FP8.

    `experts_in`: what the engine multiplies MXFP4 experts in on that chip.
    """
    stated = row.get("kv_format", "")
    if stated:
        return CACHE_8_BIT if stated.startswith("FP8") else CACHE_16_BIT
    base = plain_name(row["base_model"])
    asks = base.startswith("llama") and weights != "BF16" and row["engine"] in ("vllm", "tensorrt-llm")
    return CACHE_8_BIT if asks or (base.startswith("gpt-oss") and experts_in == "FP8_E4M3") else CACHE_16_BIT


def _layout(row: Mapping[str, str]) -> Layout:
    def count(name: str) -> int:
        return max(1, int(_number(row, name) or 1))

    return Layout(count("n_gpus"), count("tp"), count("attention_dp"), count("moe_tp") * count("moe_ep"))


def _load(row: Mapping[str, str], constants: EngineConstants) -> Load:
    lengths = int(_number(row, "input_len") or _INPUT), int(_number(row, "output_len") or _OUTPUT)
    concurrency = _number(row, "batch" if constants.protocols else "concurrency") or _number(row, "concurrency") or 1.0
    cached = int(_number(row, "context") or 0)
    if row.get("load") != "open":
        load = closed_load(constants, *lengths, concurrency, cached)
        if load.kind == "steady":
            return _as_benchmarked(load, constants)
        return replace(load, counts_first_token=_WHOLE_REQUEST in row.get("notes", ""))
    rate = _number(row, "request_rate_per_s")
    if rate is None or _number(row, "concurrency") is None:
        raise InvalidValueError("an open load needs request_rate_per_s, and the concurrency that it leads to")
    return Load("arrivals", *lengths, max(1.0, concurrency), cached, rate)


def _as_benchmarked(load: Load, constants: EngineConstants) -> Load:
    """Return a load as the benchmarks behind the constants met the engine at these lengths."""
    lengths, together = (load.input_tokens, load.output_tokens), constants.sweep_together
    if together is not None and all(
        least <= length <= most for length, (least, most) in zip(lengths, together, strict=True)
    ):
        return replace(load, kind="wave")
    return replace(load, protocol="ten-waves" if lengths in _TEN_WAVES else "sweep")


def _number(row: Mapping[str, str], name: str) -> float | None:
    try:
        value = float(row.get(name) or "nan")
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def engine_accuracies(table: EngineTable, predictions: Sequence[RowPrediction]) -> list[EngineAccuracy]:
    """Return the errors by quantity, chip, engine, class of model and load; rows that are not scored are left out."""
    groups: dict[tuple[Quantity, str, str, str, str], list[tuple[float, Expected]]] = defaultdict(list)
    for place, (row, prediction) in enumerate(zip(table.rows, predictions, strict=True)):
        for quantity, expected in prediction.expected.items() if prediction.is_scored else ():
            measured = table.measured(quantity, place)
            if measured is not None:
                key = quantity, row["chip"], row["engine"], row.get("model_class", ""), row.get("load", "")
                groups[key].append((measured, expected))
    return [_accuracy(key, members) for key, members in sorted(groups.items())]


def _accuracy(key: tuple[Quantity, str, str, str, str], members: Sequence[tuple[float, Expected]]) -> EngineAccuracy:
    logs = [math.log(expected.value / measured) for measured, expected in members]
    inside = [expected.interval[0] <= measured <= expected.interval[1] for measured, expected in members]
    errors = [math.expm1(abs(log)) for log in logs]
    return EngineAccuracy(*key, len(members), median(errors), fmean(errors), math.expm1(median(logs)), fmean(inside))
