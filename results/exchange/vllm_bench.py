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

from results.exchange.fields import Fields
from results.exchange.foreign import ForeignFile, ForeignRow, PassRun, Stated
from results.exchange.measured import from_one_figure, from_samples
from results.exchange.model_cases import NamedModel, kernel_name, model_case
from results.exchange.model_names import KnownModel, model_of_hub_id, stated_model
from results.records.plain_form import FormError
from roofline_model.core.finding import Finding, finding
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


def read_vllm(values: Iterable[tuple[str, Any]], name: str, stated: Stated) -> ForeignFile:
    """Return the results of a file, all of one benchmark. Raises `FormError` naming the result and the field."""
    rows: list[ForeignRow] = []
    kinds: set[str] = set()
    for where, value in values:
        kind = vllm_kind(value)
        if kind is None:
            raise FormError(f"{where or 'the object'} is not a result of vLLM's benchmarks")
        kinds.add(kind)
        fields = Fields(value, where)
        if kind == SERVE:
            rows += _serve_rows(fields, stated)
        else:
            rows.append(_latency_row(fields, stated) if kind == LATENCY else _throughput_row(fields, stated))
    if len(kinds) != 1:
        raise FormError(f"it mixes results of {' and '.join(sorted(kinds))}: import them one by one")
    started = min((row.created_at for row in rows if row.created_at), default="")
    facts = {"engine": "vllm"}
    return ForeignFile(kinds.pop(), name, tuple(rows), started_at=started, facts=facts, class_facts=facts)


def _serve_rows(fields: Fields, stated: Stated) -> list[ForeignRow]:
    """Return the decode step of a serving benchmark and, where no request waited for others, its prefill."""
    if fields.data.get("completed") == 0:
        where = f"{fields.where}." if fields.where else ""
        raise FormError(f"{where}completed is 0: no request was completed, nothing was measured")
    completed = fields.count("completed", least=1)
    _check_totals(fields, completed)
    prompt = _mean_tokens(fields, "total_input_tokens", completed, stated.input_count)
    output = _mean_tokens(fields, "total_output_tokens", completed, stated.output_count)
    named_model, why_unknown = _named(fields.text("model_id", ""), stated)
    in_flight, source, why_unknown_count = _in_flight(fields, completed, output, stated)
    facts = {key: value for key, value in fields.data.items() if _PERCENTILE.fullmatch(key) or key in _RATES}
    facts |= {"mean_input_tokens": prompt, "mean_output_tokens": output, "in_flight": source}
    content = {key: fields.data[key] for key in ("date", "model_id", "label", "backend", *_RATES) if key in fields.data}
    content |= {key: value for key, value in facts.items() if _PERCENTILE.fullmatch(key)}
    name_parts = [f"tp{stated.device_count}"] if stated.device_count > 1 else []
    if fields.has("request_rate") and fields.data["request_rate"] != "inf":
        name_parts.append(f"rate{fields.data['request_rate']}")
    settings = {
        key: fields.data[key]
        for key in ("backend", "endpoint_type", "request_rate", "max_concurrency")
        if key in fields.data
    }
    created = fields.date("date")
    rows = []
    for phase, metric, passes, tokens, reason in (
        (
            "decode",
            "tpot",
            PassRun("decode", in_flight or 1, max(prompt + output // 2, 1), 1, 1.0),
            in_flight or 1,
            _speculating(fields) or why_unknown_count,
        ),
        (
            "prefill",
            "ttft",
            PassRun("prefill", 1, max(prompt, 1), max(prompt, 1), 1.0),
            max(prompt, 1),
            _waiting(in_flight),
        ),
    ):
        statistic = next((name for name in ("median", "mean") if fields.has(f"{name}_{metric}_ms")), None)
        if statistic is None or fields.data[f"{statistic}_{metric}_ms"] == 0:
            continue  # 0: no request had two tokens, or the backend does not stream
        time_s = fields.time_s(f"{statistic}_{metric}_ms", 1e-3)
        kernel = kernel_name(
            "vllm-serve", named_model.quantization, metric, f"c{in_flight}" if in_flight else "", *name_parts
        )
        case, ask, why = model_case(named_model, phase, (passes,), kernel, stated, why_unknown)
        if reason:  # of no pass of its own: it must not be taken for one
            sizes = ((("B", in_flight),) if in_flight is not None else ()) + (("Sin", prompt), ("Sout", output))
            case, ask, why = (
                Case(f"{metric}:{case.op.partition(':')[2]}", sizes, case.formats, kernel, "none"),
                None,
                reason,
            )
        rows.append(
            ForeignRow(
                where=fields.where or "the object",
                content={**content, "metric": metric},
                case=case,
                measurement=from_one_figure(time_s, 1),
                settings=settings,
                created_at=created,
                test_id=f"{named_model.name} {metric}",
                facts={**facts, "statistic": f"{statistic} {metric}", **named_model.facts},
                tokens_per_call=None if reason else tokens,
                ask=ask,
                reason=why,
            )
        )
    if not rows:
        raise FormError(f"{fields.where or 'the object'} has neither tpot nor ttft: nothing was timed per token")
    return rows


def _check_totals(fields: Fields, completed: int) -> None:
    """Raise `FormError` for totals that cannot stand beside the times of the requests."""
    if fields.has("duration"):
        fields.time_s("duration")
    has_tpot = any(fields.has(name) and fields.data[name] != 0 for name in ("median_tpot_ms", "mean_tpot_ms"))
    total = fields.count("total_output_tokens") if fields.has("total_output_tokens") else None
    if has_tpot and total is not None and total <= completed:
        raise FormError(
            f"{fields.where or 'the object'}.total_output_tokens is {total:,} of {completed:,} requests: "
            "a time per output token needs a second token"
        )


def _mean_tokens(fields: Fields, name: str, completed: int, stated: int | None) -> int:
    return stated if stated is not None else round(fields.count(name) / completed)


def _speculating(fields: Fields) -> Finding | None:
    """Return that several tokens were accepted a step, so that a time per token is of no step."""
    if not fields.data.get("spec_decode_acceptance_length"):
        return None
    token_count = fields.number("spec_decode_acceptance_length")
    return finding("foreign-not-predicted", kind="speculated", token_count=token_count)


def _waiting(in_flight: int | None) -> Finding | None:
    return None if in_flight == 1 else finding("foreign-not-predicted", kind="waited")


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


def _latency_row(fields: Fields, stated: Stated) -> ForeignRow:
    """Return the call of `bench latency`: a batch of prompts, then the rest of their tokens step by step."""
    if _is_latency_with_arguments(fields.data):
        return _latency_row(*_with_arguments(fields, stated))
    samples_s = fields.times_s("latencies")
    if not samples_s or any(time_s <= 0 for time_s in samples_s):
        raise FormError(f"{fields.where or 'the object'}.latencies is empty or holds 0: nothing was timed")
    named_model, why_unknown = _named(fields.text("model_id", ""), stated)
    batch, prompt, output = stated.batch_count, stated.input_count, stated.output_count
    absent = [
        option
        for option, value in (("--batch", batch), ("--input-len", prompt), ("--output-len", output))
        if value is None
    ]
    kernel = kernel_name(
        LATENCY, named_model.quantization, f"tp{stated.device_count}" if stated.device_count > 1 else ""
    )
    if absent or batch is None or prompt is None or output is None:
        label = " ".join(named_model.name.split())
        case, ask = Case(f"generate:{label}", (), (), kernel, "none", "eager"), None
        reason: Finding | None = finding("import-incomplete", kind="tokens", options=tuple(absent))
    else:
        passes = _generation(batch, prompt, output)
        case, ask, reason = model_case(
            named_model,
            "generate" if output > 1 else "prefill",
            passes,
            kernel,
            stated,
            why_unknown,
            output_count=output,
        )
    tokens = batch * output if batch is not None and output is not None else None
    return ForeignRow(
        where=fields.where or "the object",
        content={key: fields.data[key] for key in ("latencies", "percentiles", "arguments") if key in fields.data},
        case=case,
        measurement=from_samples(samples_s, 1),
        test_id=f"{named_model.name} latency",
        facts={"statistic": "samples", **named_model.facts},
        tokens_per_call=tokens,
        ask=None if reason else ask,
        reason=reason,
    )


def _with_arguments(fields: Fields, stated: Stated) -> tuple[Fields, Stated]:
    """Return the same result as `--output-json` writes it, and what its arguments say where the user did not."""
    metric, arguments = fields.inside("metric"), fields.inside("benchmark").inside("extra_info").inside("args")
    sizes = {
        name: arguments.count(argument, least=1) if arguments.has(argument) else None
        for name, argument in (
            ("batch_count", "batch_size"),
            ("input_count", "input_len"),
            ("output_count", "output_len"),
        )
    }
    devices = arguments.count("tensor_parallel_size", least=1) if arguments.has("tensor_parallel_size") else 1
    if stated.device_count not in (1, devices):
        raise FormError(f"{arguments.where}.tensor_parallel_size is {devices}: leave --tensor-parallel out")
    identity = replace(
        stated,
        device_count=devices,
        batch_count=stated.batch_count or sizes["batch_count"],
        input_count=stated.input_count or sizes["input_count"],
        output_count=stated.output_count or sizes["output_count"],
    )
    model_id = stated.model or (arguments.text("model") if arguments.has("model") else "")
    plain = {
        "latencies": metric.data.get("benchmark_values"),
        "model_id": model_id,
        "arguments": {**{name: value for name, value in sizes.items() if value is not None}, "model": model_id},
    }
    return Fields(plain, fields.where), identity


def _generation(batch: int, prompt: int, output: int) -> tuple[PassRun, ...]:
    """Return the passes of a generation: the prefill gives the first token, each step one more."""
    prefill = PassRun("prefill", batch, prompt, prompt, 1.0)
    if output <= 1:
        return (prefill,)
    return prefill, PassRun("decode", batch, prompt + (output + 1) // 2, 1, output - 1.0)


def _throughput_row(fields: Fields, stated: Stated) -> ForeignRow:
    """Return the whole of `bench throughput`; how its requests were batched only the engine knows."""
    named_model, _ = _named("", stated)
    elapsed_s = fields.time_s("elapsed_time")
    requests = fields.count("num_requests", least=1)
    tokens = fields.count("total_num_tokens", least=1)
    kernel = kernel_name(
        THROUGHPUT, named_model.quantization, f"tp{stated.device_count}" if stated.device_count > 1 else ""
    )
    case = Case(
        f"serve:{' '.join(named_model.name.split())}", (("requests", requests), ("tokens", tokens)), (), kernel, "none"
    )
    return ForeignRow(
        where=fields.where or "the object",
        content={key: fields.data[key] for key in ("elapsed_time", "num_requests", "total_num_tokens")},
        case=case,
        measurement=from_one_figure(elapsed_s, 1),
        test_id=f"{named_model.name} throughput",
        facts={"statistic": "one run", **named_model.facts},
        tokens_per_call=tokens,
        reason=finding("foreign-not-predicted", kind="throughput"),
    )


def _named(model_id: str, stated: Stated) -> tuple[NamedModel, Finding | None]:
    """Return the model of a result and why it is not known; vLLM names a checkpoint, whose formats are its own."""
    from roofline_model.models.format_plan import AS_PUBLISHED

    model: KnownModel | None
    formats: str | None = None
    if stated.model is not None:
        model = stated_model(stated.model)
    elif model_id:
        model, formats = model_of_hub_id(model_id)
    else:
        model = None
    why_unknown = None
    if model is None:
        why_unknown = (
            finding("import-incomplete", kind="model", options="--model NAME or its config.json", model=model_id[:80])
            if model_id
            else finding("import-incomplete", kind="model-unnamed", options="--model")
        )
    plan = stated.formats or formats or (AS_PUBLISHED if model is not None else None)
    name = model.shape.name if model is not None else model_id or "unnamed"
    return NamedModel(
        name=name,
        shape=model.shape if model is not None else None,
        recognised=model.why if model is not None else "",
        quantization="" if plan in (None, AS_PUBLISHED) else str(plan),
        formats=plan,
        kv_format=stated.kv_format,
    ), why_unknown
