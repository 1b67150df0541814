"""A test of llama-bench as a measurement of a model's pass: pp is a prefill, tg are decode steps, pp+tg both in a
row.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from results.exchange.fields import Fields
from results.exchange.foreign import ForeignFile, ForeignRow, PassRun, Stated
from results.exchange.llama_bench import KIND, MAX_ROWS, BenchRow
from results.exchange.measured import from_samples
from results.exchange.model_cases import NamedModel, kernel_name, model_case
from results.exchange.model_names import KnownModel, model_of_gguf, quantization_of, stated_model
from results.records.plain_form import FormError
from roofline_model.core.finding import Finding, finding

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


def read_llama_bench(rows: Iterable[BenchRow], name: str, stated: Stated) -> ForeignFile:
    """Return the tests of a file. Raises `FormError` for a file without any, of several machines, or of too many."""
    foreign_rows: list[ForeignRow] = []
    first: Fields | None = None
    for row in rows:
        if len(foreign_rows) >= MAX_ROWS:
            raise FormError(f"it holds more than {MAX_ROWS:,} tests: split it")
        first = first or row.fields
        _check_same_machine(first, row.fields)
        foreign_rows.append(_foreign_row(row, stated))
    if first is None:
        raise FormError("it holds no test of llama-bench")
    facts = {
        name: first.data[name]
        for name in ("build_commit", "build_number", "cpu_info", "gpu_info", "backends")
        if first.has(name) and isinstance(first.data[name], str | int)
    }
    device_name = _gpu_name(first)
    class_facts = {"engine": KIND, "device": device_name or str(facts.get("cpu_info", ""))}
    started = min((row.created_at for row in foreign_rows if row.created_at), default="")
    return ForeignFile(
        KIND,
        name,
        tuple(foreign_rows),
        started_at=started,
        facts=facts,
        class_facts=class_facts,
        device_name=device_name,
    )


def _check_same_machine(first: Fields, other: Fields) -> None:
    for name in ("cpu_info", "gpu_info"):
        if first.data.get(name) != other.data.get(name):
            raise FormError(f"{other.where}.{name} differs from {first.where}: import a file for each machine")


def _gpu_name(fields: Fields) -> str:
    """Return the GPU's name; of several equal ones the first, of different ones all, which no chip is called."""
    names = [part.strip() for part in fields.text("gpu_info", "").split(",") if part.strip()]
    return names[0] if names and len(set(names)) == 1 else ", ".join(names)


def _foreign_row(row: BenchRow, stated: Stated) -> ForeignRow:
    fields = row.fields
    description = fields.text("model_type")
    model, why_unknown = _model(fields, description, stated)
    named_model = _named(fields, description, model, stated)
    test = "+".join(
        [f"pp{row.prompt_count}"] * (row.prompt_count > 0) + [f"tg{row.new_count}"] * (row.new_count > 0)
    ) + (f"@d{row.depth_count}" if row.depth_count else "")
    kernel = kernel_name(KIND, fields.text("backends", "CPU"), named_model.quantization, test, *_words(fields))
    phase, passes, steps = _passes(row)
    case, ask, reason = model_case(named_model, phase, passes, kernel, stated, why_unknown, output_count=row.new_count)
    reason = _not_comparable(fields, model, stated) or reason
    tokens = row.prompt_count + row.new_count
    samples_s = [time_s / steps for time_s in row.samples_s]
    facts: dict[str, Any] = {"statistic": "mean" if row.is_mean else "samples", "test": test}
    if row.rate_std_per_s is not None:
        facts["rate_std_tokens_per_s"] = row.rate_std_per_s
    facts |= {
        key: fields.data[key] for key in ("model_filename", "model_type") if isinstance(fields.data.get(key), str)
    }
    return ForeignRow(
        where=fields.where,
        content=_picked(fields, _IDENTITY),
        case=case,
        measurement=from_samples(samples_s, steps),
        settings=_picked(fields, _SETTINGS),
        created_at=fields.date("test_time"),
        test_id=f"{description} {test}",
        facts={**facts, **named_model.facts},
        tokens_per_call=tokens if steps == 1 else 1,
        ask=None if reason else ask,
        reason=reason,
    )


def _picked(fields: Fields, names: Sequence[str]) -> dict[str, Any]:
    """Return some fields by name; true is 1, as the CSV writes it: the same test is equal in every form."""
    picked = {key: fields.data[key] for key in names if key in fields.data}
    return {key: int(value) if isinstance(value, bool) else value for key, value in picked.items()}


def _model(fields: Fields, description: str, stated: Stated) -> tuple[KnownModel | None, Finding | None]:
    if stated.model is not None:
        return stated_model(stated.model), None
    count = fields.number("model_n_params", least=1) if fields.has("model_n_params") else None
    return model_of_gguf(fields.text("model_filename", ""), description, count)


def _named(fields: Fields, description: str, model: KnownModel | None, stated: Stated) -> NamedModel:
    from roofline_model.validation.model_rows import nearest_formats

    quantization = quantization_of(description, fields.text("model_filename", ""))
    size = float(fields.count("model_size", least=1)) if fields.has("model_size") else None
    formats = stated.formats
    if formats is None and quantization is not None:
        formats = quantization.formats
        if model is not None and size is not None:
            experts = quantization.experts or model.shape.expert_format
            if quantization.is_mixed or experts is not None:
                formats = nearest_formats(model.shape, size, experts)
    caches = {fields.text(name, "f16").lower() for name in ("type_k", "type_v")}
    cache = _CACHE_FORMATS.get(caches.pop()) if len(caches) == 1 else None
    return NamedModel(
        name=model.shape.name if model is not None else description,
        shape=model.shape if model is not None else None,
        recognised=model.why if model is not None else "",
        quantization=quantization.name if quantization else "",
        formats=formats,
        kv_format=stated.kv_format or cache,
        weight_bytes=None if stated.formats else size,
    )


def _words(fields: Fields) -> Sequence[str]:
    """Return how it ran, as words of the kernel's name: tests that differ in one are different cases."""
    name_parts: list[str] = []
    for name, word, usual in _WORDS:
        value: Any = fields.data.get(name)
        if value is None or (usual is not None and value == usual):
            continue
        name_parts.append(f"{word}{int(value) if isinstance(value, bool) else value}")
    if "CPU" in fields.text("backends", "CPU") and fields.has("n_threads"):
        name_parts.append(f"t{fields.count('n_threads', least=1)}")
    return name_parts


def _passes(row: BenchRow) -> tuple[str, tuple[PassRun, ...], int]:
    """Return the phase, the passes of one call, and the calls of one repetition: a decode step is a call of its own."""
    depth, prompt, new = row.depth_count, row.prompt_count, row.new_count
    prefill = PassRun("prefill", 1, depth + prompt, prompt, 1.0)
    if new == 0:
        return "prefill", (prefill,), 1
    middle = max(depth + prompt + new // 2, 1)  # half of the steps' own tokens are there on average
    if prompt == 0:
        return "decode", (PassRun("decode", 1, middle, 1, 1.0),), new
    return "generate", (prefill, PassRun("decode", 1, middle, 1, float(new))), 1


def _not_comparable(fields: Fields, model: KnownModel | None, stated: Stated) -> Finding | None:
    """Return why one chip's prediction would be of something else than what ran; None where it is not."""
    backend = fields.text("backends", "CPU")
    if backend == "CPU" and stated.hardware is not None and stated.hardware.kind == "gpu":
        return finding("foreign-not-predicted", kind="cpu", hardware=stated.hardware.key)
    layers = fields.data.get("n_gpu_layers")
    if backend != "CPU" and model is not None and isinstance(layers, int) and 0 <= layers < model.shape.layer_count:
        return finding("foreign-not-predicted", kind="layers", gpu_count=layers, layer_count=model.shape.layer_count)
    if fields.data.get("n_cpu_moe") not in (None, 0) or "=CPU" in fields.text("tensor_buft_overrides", ""):
        return finding("foreign-not-predicted", kind="experts")
    if fields.data.get("no_kv_offload") in (True, 1):
        return finding("foreign-not-predicted", kind="cache")
    if fields.text("split_mode", "layer") in ("row", "tensor") and "," in fields.text("gpu_info", ""):
        return finding("foreign-not-predicted", kind="divided")
    return None
