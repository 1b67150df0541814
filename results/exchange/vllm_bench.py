"""vLLM's benchmark JSON: `bench serve`, `bench latency`, `bench throughput`, and the scripts they were before.

Field names: vllm/benchmarks/{serve,latency,throughput}.py and benchmarks/benchmark_{serving,latency,throughput}.py in
vllm-project/vllm, read 2026-11-21. Percentiles end in `_ms`; everything else is in seconds. Older serving files have
`input_throughput` and no `total_token_throughput`, and no `max_concurrency`. Latency and throughput files name neither
model nor sizes: the user has to, or the latency's copy in PyTorch's layout (vllm/benchmarks/lib/utils.py) does.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from results.exchange.fields import Fields, Located
from results.exchange.foreign import ForeignFile, ForeignRow, PassRun, Stated
from results.exchange.measured import from_one_figure, from_samples
from results.exchange.model_cases import kernel_name, model_case
from results.exchange.model_names import NamedModel, model_of_hub_id, stated_model
from results.records.plain_form import FormError
from roofline_model.core.finding import Finding, finding
from roofline_model.models.format_plan import AS_PUBLISHED
from roofline_model.operators.case import Case

SERVE, LATENCY, THROUGHPUT = "vllm-serve", "vllm-latency", "vllm-throughput"

_PERCENTILE = re.compile(r"(?:mean|median|std|p[0-9.]+)_(?:ttft|tpot|itl|e2el)_ms")
_RATES = (
    "request_throughput",
    "output_throughput",
    "input_throughput",
    "total_token_throughput",
    "duration",
    "completed",
    "total_input_tokens",
    "total_output_tokens",
    "request_rate",
    "max_concurrency",
    "num_prompts",
    "burstiness",
)


def vllm_kind(value: Any) -> str | None:
    """Return which of vLLM's benchmarks wrote a JSON value, None where it was none of them."""
    if not isinstance(value, Mapping):
        return None
    if "total_output_tokens" in value and ("output_throughput" in value or "mean_tpot_ms" in value):
        return SERVE
    if ("avg_latency" in value and "latencies" in value) or _is_latency_with_arguments(value):
        return LATENCY
    if "elapsed_time" in value and "tokens_per_second" in value:
        return THROUGHPUT
    return None


def _is_latency_with_arguments(value: Mapping[str, Any]) -> bool:
    """Whether this is a latency in the layout of PyTorch's benchmark database (`….pytorch.json`), which keeps the
    arguments.
    """
    metric = value.get("metric")
    return "benchmark" in value and isinstance(metric, Mapping) and metric.get("name") == "latency"


def read_vllm(values: Iterable[Located], name: str, stated: Stated) -> ForeignFile:
    """Return the results of a file, all of one benchmark. Raises `FormError` naming the result and the field."""
    readers = {SERVE: _serve_rows, LATENCY: _latency_rows, THROUGHPUT: _throughput_rows}
    rows: list[ForeignRow] = []
    kinds: set[str] = set()
    for where, value in values:
        kind = vllm_kind(value)
        if kind is None:
            raise FormError(f"{where or 'the object'} is not a result of vLLM's benchmarks")
        kinds.add(kind)
        rows += readers[kind](Fields(value, where), stated)
    if len(kinds) != 1:
        raise FormError(f"it mixes results of {' and '.join(sorted(kinds))}: import them one by one")
    facts = {"engine": "vllm"}
    return ForeignFile(kinds.pop(), name, tuple(rows), facts=facts, class_facts=facts)


def _serve_rows(fields: Fields, stated: Stated) -> list[ForeignRow]:
    """Return the decode step of a serving benchmark and, where no request waited for others, its prefill."""
    where = fields.where or "the object"
    if fields.data.get("completed") == 0:
        raise FormError(f"{fields.name('completed')} is 0: no request was completed, nothing was measured")
    completed = fields.count("completed", least=1)
    if fields.has("duration"):
        fields.time_s("duration")
    has_tpot = any(fields.has(name) and fields.data[name] != 0 for name in ("median_tpot_ms", "mean_tpot_ms"))
    if has_tpot and fields.has("total_output_tokens") and (total := fields.count("total_output_tokens")) <= completed:
        raise FormError(
            f"{where}.total_output_tokens is {total:,} of {completed:,} requests: "
            "a time per output token needs a second token"
        )
    prompt, output = (
        round(fields.count(name) / completed) if count is None else count
        for name, count in (("total_input_tokens", stated.input_count), ("total_output_tokens", stated.output_count))
    )
    named_model = _named(fields.text("model_id", ""), stated)
    in_flight, source, why_unknown_count = _in_flight(fields, completed, output, stated)
    percentiles = {key: value for key, value in fields.data.items() if _PERCENTILE.fullmatch(key)}
    content = {**fields.picked("date", "model_id", "label", "backend", *_RATES), **percentiles}
    facts = {**fields.picked(*_RATES), **percentiles, **named_model.facts}
    facts |= {"mean_input_tokens": prompt, "mean_output_tokens": output, "in_flight": source}
    rate = fields.data["request_rate"] if fields.has("request_rate") else "inf"
    speculated = fields.data.get("spec_decode_acceptance_length") and finding(
        "foreign-not-predicted", kind="speculated", token_count=fields.number("spec_decode_acceptance_length")
    )
    waited = None if in_flight == 1 else finding("foreign-not-predicted", kind="waited")
    decode = PassRun("decode", in_flight or 1, max(prompt + output // 2, 1), 1, 1.0)
    prefill = PassRun("prefill", 1, max(prompt, 1), max(prompt, 1), 1.0)
    rows = []
    for metric, run, why_no_pass in (("tpot", decode, speculated or why_unknown_count), ("ttft", prefill, waited)):
        name = next((name for name in (f"median_{metric}_ms", f"mean_{metric}_ms") if fields.has(name)), None)
        if name is None or fields.data[name] == 0:
            continue  # 0: no request had two tokens, or the backend does not stream
        words = (f"c{in_flight}" if in_flight else "", stated.parallel_word, "" if rate == "inf" else f"rate{rate}")
        kernel = kernel_name(SERVE, named_model.quantization, metric, *words)
        case, ask, reason = model_case(named_model, run.phase, (run,), kernel, stated)
        if why_no_pass:  # it must not be taken for one
            sizes = ((("B", in_flight),) if in_flight is not None else ()) + (("Sin", prompt), ("Sout", output))
            case, ask, reason = replace(case, op=f"{metric}:{named_model.label}", shape=sizes), None, why_no_pass
        rows.append(
            ForeignRow(
                where=where,
                content={**content, "metric": metric},
                case=case,
                measurement=from_one_figure(fields.time_s(name, 1e-3), 1),
                settings=fields.picked("backend", "endpoint_type", "request_rate", "max_concurrency"),
                created_at=fields.date("date"),
                test_id=f"{named_model.name} {metric}",
                facts={**facts, "statistic": f"{name.partition('_')[0]} {metric}"},
                tokens_per_call=None if why_no_pass else run.batch_count * run.new_count,
                ask=ask,
                reason=reason,
            )
        )
    if not rows:
        raise FormError(f"{where} has neither tpot nor ttft: nothing was timed per token")
    return rows


def _in_flight(fields: Fields, completed: int, output: int, stated: Stated) -> tuple[int | None, str, Finding | None]:
    """Return how many sequences a decode step served, how that is known, and why it is not.

    Stated; else `max_concurrency` under an unlimited request rate; else by Little's law, L = λ·W (J. D. C. Little, "A
    proof for the queuing formula: L = λW", Operations Research 9(3), 1961): requests per second times the mean time of
    one, and never more than `max_concurrency` let in.
    """
    if stated.batch_count is not None:
        return stated.batch_count, "stated", None
    unlimited = fields.data.get("request_rate", "inf") in ("inf", math.inf)
    most = min(fields.count("max_concurrency", least=1), completed) if fields.has("max_concurrency") else completed
    if unlimited and fields.has("max_concurrency"):
        return most, "max_concurrency", None
    missing = tuple(name for name in ("duration", "mean_ttft_ms", "mean_tpot_ms") if not fields.has(name))
    if missing:
        return None, "", finding("import-incomplete", kind="batch", options="--batch", missing=missing)
    each_s = 1e-3 * (
        fields.number("mean_ttft_ms", least=0) + fields.number("mean_tpot_ms", least=0) * max(output - 1, 0)
    )
    return min(max(1, round(completed / fields.time_s("duration") * each_s)), most), "Little's law", None


def _latency_rows(fields: Fields, stated: Stated) -> list[ForeignRow]:
    """Return the call of `bench latency`: a batch of prompts, then the rest of their tokens step by step."""
    if _is_latency_with_arguments(fields.data):
        fields, stated = _with_arguments(fields, stated)
    where = fields.where or "the object"
    samples_s = fields.times_s("latencies")
    if not samples_s:
        raise FormError(f"{where}.latencies is empty: nothing was timed")
    named_model = _named(fields.text("model_id", ""), stated)
    kernel = kernel_name(LATENCY, named_model.quantization, stated.parallel_word)
    batch, prompt, output = stated.batch_count, stated.input_count, stated.output_count
    if batch is None or prompt is None or output is None:
        options = {"--batch": batch, "--input-len": prompt, "--output-len": output}
        absent = tuple(option for option, count in options.items() if count is None)
        case, ask = Case(f"generate:{named_model.label}", (), (), kernel, "none"), None
        reason: Finding | None = finding("import-incomplete", kind="tokens", options=absent)
    else:
        # The prefill gives the first token, each step one more.
        prefill = PassRun("prefill", batch, prompt, prompt, 1.0)
        steps = (PassRun("decode", batch, prompt + (output + 1) // 2, 1, output - 1.0),) if output > 1 else ()
        phase = "generate" if steps else "prefill"
        case, ask, reason = model_case(named_model, phase, (prefill, *steps), kernel, stated, output_count=output)
    return [
        ForeignRow(
            where=where,
            content=fields.picked("latencies", "percentiles", "arguments"),
            case=case,
            measurement=from_samples(samples_s, 1),
            test_id=f"{named_model.name} latency",
            facts={"statistic": "samples", **named_model.facts},
            tokens_per_call=batch * output if batch is not None and output is not None else None,
            ask=ask,
            reason=reason,
        )
    ]


def _with_arguments(fields: Fields, stated: Stated) -> tuple[Fields, Stated]:
    """Return the same result as `--output-json` writes it, and what its arguments say where the user did not."""
    metric, arguments = fields.inside("metric"), fields.inside("benchmark").inside("extra_info").inside("args")
    names = {"batch_count": "batch_size", "input_count": "input_len", "output_count": "output_len"}
    sizes = {size: arguments.count(name, least=1) for size, name in names.items() if arguments.has(name)}
    devices = arguments.count("tensor_parallel_size", least=1) if arguments.has("tensor_parallel_size") else 1
    if stated.device_count not in (1, devices):
        raise FormError(f"{arguments.where}.tensor_parallel_size is {devices}: leave --tensor-parallel out")
    counts: dict[str, Any] = {size: getattr(stated, size) or count for size, count in sizes.items()}
    model_id = stated.model or (arguments.text("model") if arguments.has("model") else "")
    plain = {
        "latencies": metric.data.get("benchmark_values"),
        "model_id": model_id,
        "arguments": {**sizes, "model": model_id},
    }
    return Fields(plain, fields.where), replace(stated, device_count=devices, **counts)


def _throughput_rows(fields: Fields, stated: Stated) -> list[ForeignRow]:
    """Return the whole of `bench throughput`; how its requests were batched only the engine knows."""
    named_model = _named("", stated)
    elapsed_s = fields.time_s("elapsed_time")
    requests, tokens = (fields.count(name, least=1) for name in ("num_requests", "total_num_tokens"))
    kernel = kernel_name(THROUGHPUT, named_model.quantization, stated.parallel_word)
    return [
        ForeignRow(
            where=fields.where or "the object",
            content=fields.picked("elapsed_time", "num_requests", "total_num_tokens"),
            case=Case(f"serve:{named_model.label}", (("requests", requests), ("tokens", tokens)), (), kernel, "none"),
            measurement=from_one_figure(elapsed_s, 1),
            test_id=f"{named_model.name} throughput",
            facts={"statistic": "one run", **named_model.facts},
            tokens_per_call=tokens,
            reason=finding("foreign-not-predicted", kind="throughput"),
        )
    ]


def _named(model_id: str, stated: Stated) -> NamedModel:
    """Return the model of a result; vLLM names a checkpoint, whose formats are its own."""
    named_model = model_of_hub_id(model_id) if stated.model is None else stated_model(stated.model)
    formats = stated.formats or named_model.formats or (AS_PUBLISHED if named_model.shape is not None else None)
    quantization = "" if formats in (None, AS_PUBLISHED) else str(formats)
    return replace(named_model, formats=formats, quantization=quantization, kv_format=stated.kv_format)
