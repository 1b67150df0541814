"""A test of llama-bench as a measurement of a model's pass: pp is a prefill, tg are decode steps, pp+tg both in a
row.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from results.exchange.fields import Fields, Located
from results.exchange.foreign import ForeignFile, ForeignRow, PassRun, Stated
from results.exchange.llama_bench import KIND
from results.exchange.measured import from_samples
from results.exchange.model_cases import kernel_name, model_case
from results.exchange.model_names import NamedModel, model_of_gguf, quantization_of, stated_model
from results.records.plain_form import FormError
from roofline_model.core.finding import Finding, finding
from roofline_model.formats.gguf import BLOCKS, bytes_per_element
from roofline_model.validation.model_rows import nearest_formats

_LONG_ROW = 4096
"""A row that whole blocks of every type make up."""

MAX_ROWS = 200_000
_DISAGREEMENT_RATIO = 0.01
"""Between a test's own figures: they are rounded to whole nanoseconds and to two digits of a token."""

_CACHE_FORMATS = {
    "f32": "FP32",
    "f16": "FP16",
    "bf16": "BF16",
    "q8_0": "INT8",
    "q4_0": "INT4",
    "q4_1": "INT4",
    "iq4_nl": "INT4",
}
"""`type_k` and `type_v`; narrow ones carry a 16-bit scale per 32 elements that our formats count per 128."""

# What makes two tests different cases, beyond model, sizes and formats: (field, word, what needs no word).
_WORDS = (
    ("n_gpu_layers", "ngl", None), ("flash_attn", "fa", None), ("n_batch", "b", 2048), ("n_ubatch", "ub", 512),
    ("n_cpu_moe", "ncmoe", 0), ("no_kv_offload", "nkvo", False), ("split_mode", "sm_", "layer"),
    ("embeddings", "embd", False),
)  # fmt: skip
_SETTINGS = (
    "n_gpu_layers",
    "n_threads",
    "n_batch",
    "n_ubatch",
    "flash_attn",
    "type_k",
    "type_v",
    "split_mode",
    "tensor_split",
    "no_kv_offload",
    "n_cpu_moe",
    "backends",
)
_IDENTITY = (
    "model_type",
    "model_size",
    "model_n_params",
    "n_prompt",
    "n_gen",
    "n_depth",
    "test_time",
    "avg_ns",
    "stddev_ns",
    "avg_ts",
    "stddev_ts",
    *_SETTINGS,
)
"""The same test has these in JSON, JSON lines and CSV; `samples_ns`, with which they have to agree, only in two of
them.
"""


def read_llama_bench(tests: Iterable[Located], name: str, stated: Stated) -> ForeignFile:
    """Return the tests of a file. Raises `FormError` for a file without any, of several machines, or of too many."""
    rows: list[ForeignRow] = []
    first: Fields | None = None
    for where, value in tests:
        if len(rows) >= MAX_ROWS:
            raise FormError(f"it holds more than {MAX_ROWS:,} tests: split it")
        fields = Fields(value, where or "[0]")
        first = first or fields
        for fact in ("cpu_info", "gpu_info"):
            if first.data.get(fact) != fields.data.get(fact):
                raise FormError(f"{fields.where}.{fact} differs from {first.where}: import a file for each machine")
        rows.append(_foreign_row(fields, stated))
    if first is None:
        raise FormError("it holds no test of llama-bench")
    facts = {
        fact: first.data[fact]
        for fact in ("build_commit", "build_number", "cpu_info", "gpu_info", "backends")
        if first.has(fact) and isinstance(first.data[fact], str | int)
    }
    # Of several equal GPUs the name of one, of different ones all, which no chip is called.
    gpus = [part.strip() for part in first.text("gpu_info", "").split(",") if part.strip()]
    device_name = gpus[0] if gpus and len(set(gpus)) == 1 else ", ".join(gpus)
    return ForeignFile(
        KIND,
        name,
        tuple(rows),
        facts=facts,
        class_facts={"engine": KIND, "device": device_name or str(facts.get("cpu_info", ""))},
        device_name=device_name,
    )


def _foreign_row(fields: Fields, stated: Stated) -> ForeignRow:
    prompt, new = fields.count("n_prompt"), fields.count("n_gen")
    depth = fields.count("n_depth") if fields.has("n_depth") else 0
    if prompt + new == 0:
        raise FormError(f"{fields.where}: n_prompt and n_gen are both 0: nothing was computed")
    samples_s, statistic = _samples_s(fields, prompt + new)
    named_model = _named(fields, stated)
    words = [f"pp{prompt}"] * (prompt > 0) + [f"tg{new}"] * (new > 0)
    test = "+".join(words) + (f"@d{depth}" if depth else "")
    backend = fields.text("backends", "CPU")
    kernel = kernel_name(KIND, backend, named_model.quantization, test, *_words(fields, backend))
    # A decode step is a call of its own; half of the steps' own tokens are there on average.
    steps = 1 if prompt else new
    decode = PassRun("decode", 1, max(depth + prompt + new // 2, 1), 1, new / steps)
    passes = (PassRun("prefill", 1, depth + prompt, prompt, 1.0),) * (prompt > 0) + (decode,) * (new > 0)
    phase = "generate" if len(passes) > 1 else passes[0].phase
    case, ask, reason = model_case(named_model, phase, passes, kernel, stated, output_count=new)
    reason = _not_comparable(fields, backend, named_model, stated) or reason
    facts: dict[str, Any] = {"statistic": statistic, "test": test, **named_model.facts}
    if fields.has("stddev_ts"):
        facts["rate_std_tokens_per_s"] = fields.number("stddev_ts", least=0)
    facts |= {
        key: fields.data[key] for key in ("model_filename", "model_type") if isinstance(fields.data.get(key), str)
    }
    return ForeignRow(
        where=fields.where,
        content=fields.picked(*_IDENTITY),
        case=case,
        measurement=from_samples([time_s / steps for time_s in samples_s], steps),
        settings=fields.picked(*_SETTINGS),
        created_at=fields.date("test_time"),
        test_id=f"{fields.text('model_type')} {test}",
        facts=facts,
        tokens_per_call=(prompt + new) // steps,
        ask=None if reason else ask,
        reason=reason,
    )


def _samples_s(fields: Fields, tokens: int) -> tuple[tuple[float, ...], str]:
    """Return the seconds of whole repetitions, or their mean where the form keeps no more, and which of both.

    Raises `FormError` where the repetitions, their mean time and their mean rate are not of the same test. avg_ts is
    the mean of the rates (`get_ts` in llama-bench.cpp), by Jensen's inequality at least the rate of the mean time; how
    much more, only the repetitions tell.
    """
    samples_s = fields.times_s("samples_ns", 1e-9)
    if not samples_s and not fields.has("avg_ns"):
        rate = fields.number("avg_ts", least=0)
        if rate == 0:
            raise FormError(f"{fields.where}.avg_ts is 0 tokens/s: no time follows from it")
        return (tokens / rate,), "mean"
    times_s, source = samples_s, "samples_ns"
    if fields.has("avg_ns"):
        mean_s = fields.time_s("avg_ns", 1e-9)
        if not samples_s:
            times_s, source = (mean_s,), "avg_ns"
        elif abs(mean_s - (right_s := statistics.fmean(samples_s))) > _DISAGREEMENT_RATIO * right_s + 1e-9:
            said = fields.data["avg_ns"]
            raise FormError(f"{fields.where}.avg_ns is {said}, but the mean of samples_ns {right_s * 1e9:.0f}")
    if fields.has("avg_ts"):
        rate, least = fields.number("avg_ts", least=0), statistics.fmean(tokens / time_s for time_s in times_s)
        is_spread = rate and not samples_s and fields.has("stddev_ts")
        spread = fields.number("stddev_ts", least=0) / rate if is_spread else 0.0
        if not least * (1 - _DISAGREEMENT_RATIO) <= rate <= least * (1 + _DISAGREEMENT_RATIO + 4 * spread**2):
            raise FormError(f"{fields.where}.avg_ts is {rate:g} tokens/s, but {source} says {least:g}")
    return times_s, "samples" if samples_s else "mean"


def _named(fields: Fields, stated: Stated) -> NamedModel:
    description, file_name = fields.text("model_type"), fields.text("model_filename", "")
    if stated.model is not None:
        named_model = stated_model(stated.model)
    else:
        count = fields.number("model_n_params", least=1) if fields.has("model_n_params") else None
        named_model = model_of_gguf(file_name, description, count)
    size = float(fields.count("model_size", least=1)) if fields.has("model_size") else None
    quantization = quantization_of(description, file_name)
    formats, shape = stated.formats, named_model.shape
    if formats is None and quantization is not None:
        formats = quantization.formats
        if shape is not None and size is not None:
            experts = quantization.experts or shape.expert_format
            if quantization.is_mixed or experts is not None:
                named_bits = (
                    8 * bytes_per_element(quantization.name, _LONG_ROW) if quantization.name in BLOCKS else None
                )
                formats = nearest_formats(shape, size, experts, named_bits)
    caches = {fields.text(name, "f16").lower() for name in ("type_k", "type_v")}
    return replace(
        named_model,
        quantization=quantization.name if quantization else "",
        formats=formats,
        kv_format=stated.kv_format or (_CACHE_FORMATS.get(caches.pop()) if len(caches) == 1 else None),
        weight_bytes=None if stated.formats else size,
    )


def _words(fields: Fields, backend: str) -> list[str]:
    """Return how it ran, as words of the kernel's name: tests that differ in one are different cases."""
    values = fields.picked(*(name for name, _, _ in _WORDS))
    words = [
        f"{word}{value}"
        for name, word, usual in _WORDS
        if (value := values.get(name)) is not None and (usual is None or value != usual)
    ]
    return [*words, f"t{fields.count('n_threads', least=1)}"] if "CPU" in backend and fields.has("n_threads") else words


def _not_comparable(fields: Fields, backend: str, named_model: NamedModel, stated: Stated) -> Finding | None:
    """Return why one chip's prediction would be of something else than what ran; None where it is not."""
    chip, shape, layers = stated.hardware, named_model.shape, fields.data.get("n_gpu_layers")
    facts: dict[str, Any] = {}
    if backend == "CPU" and chip is not None and chip.kind == "gpu":
        facts = {"kind": "cpu", "hardware": chip.key}
    elif backend != "CPU" and shape is not None and isinstance(layers, int) and 0 <= layers < shape.layer_count:
        facts = {"kind": "layers", "gpu_count": layers, "layer_count": shape.layer_count}
    elif fields.data.get("n_cpu_moe") not in (None, 0) or "=CPU" in fields.text("tensor_buft_overrides", ""):
        facts = {"kind": "experts"}
    elif fields.data.get("no_kv_offload") in (True, 1):
        facts = {"kind": "cache"}
    elif fields.text("split_mode", "layer") in ("row", "tensor") and "," in fields.text("gpu_info", ""):
        facts = {"kind": "divided"}
    return finding("foreign-not-predicted", **facts) if facts else None
