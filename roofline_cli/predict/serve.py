"""`roofline predict serve`: what users see of a model in an engine, and whether a measured rate is good."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from reports.present.encoder import answer_json, command_json
from reports.present.screen import present
from roofline_cli.predict.model import ModelOption
from roofline_cli.shared import completions
from roofline_cli.shared.options import (
    AllOption,
    DevicesOption,
    HardwareOption,
    JsonOption,
    LinkOption,
    find_chip,
    parse_amount,
    parse_parallel,
    parse_size,
    split_list,
)
from roofline_model.core.errors import InvalidValueError

if TYPE_CHECKING:
    from roofline_model.engines.amounts import Layout
    from roofline_model.engines.serving import ServingAnswer
    from roofline_model.engines.verdict import RateVerdict

COMMANDS = {
    "predict serve": ("predict_serve", "Predict serving: engine, users at once, first token, tokens/s, power."),
}

EngineOption = Annotated[
    list[str] | None,
    typer.Option(
        "--engine",
        metavar="LIST",
        autocompletion=completions.engines,
        help="Engines: vllm, sglang, tensorrt-llm, llama-cpp, ollama, mlx (default: all that run the model there).",
    ),
]
_FormatsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--formats",
        metavar="LIST",
        help="Formats of the weights: BF16, FP8, NVFP4, MXFP4, INT4, Q4_K_M, … (default: as published).",
    ),
]
_ConcurrencyOption = Annotated[
    str, typer.Option("--concurrency", metavar="LIST", help="Requests in flight; several, e.g. 1,8,32, are compared.")
]
_InputOption = Annotated[str, typer.Option("--input", metavar="TOKENS", help="Tokens of a prompt.")]
_OutputOption = Annotated[str, typer.Option("--output", metavar="TOKENS", help="Tokens of an answer.")]
_CachedOption = Annotated[
    str | None,
    typer.Option("--cached", metavar="TOKENS", help="Tokens before the prompt that the cache holds already."),
]
_RateOption = Annotated[
    str | None,
    typer.Option("--rate", metavar="LIST", help="Requests that arrive per second, in place of --concurrency."),
]
_FirstLimitOption = Annotated[
    str | None, typer.Option("--max-ttft-ms", metavar="MS", help="Limit of the mean time to the first token.")
]
_TokenLimitOption = Annotated[
    str | None, typer.Option("--max-tpot-ms", metavar="MS", help="Limit of the mean time per token.")
]
_CacheOption = Annotated[
    str | None, typer.Option("--kv", metavar="FORMAT", help="BF16 or FP8 (default: as the checkpoint asks, else BF16).")
]
_MeasuredOption = Annotated[
    str | None,
    typer.Option(
        "--measured-tokens-s",
        metavar="TOKENS/S",
        help="A rate of your own, of all requests together: is it good? With one --concurrency.",
    ),
]
_MeasuredFirstOption = Annotated[
    str | None,
    typer.Option("--measured-ttft-ms", metavar="MS", help="A mean time to the first token of your own, beside it."),
]


def predict_serve(
    model: ModelOption,
    hw: HardwareOption = "auto",
    engine: EngineOption = None,
    formats: _FormatsOption = None,
    concurrency: _ConcurrencyOption = "1",
    input_tokens: _InputOption = "1024",
    output_tokens: _OutputOption = "512",
    cached: _CachedOption = None,
    rate: _RateOption = None,
    max_ttft_ms: _FirstLimitOption = None,
    max_tpot_ms: _TokenLimitOption = None,
    kv: _CacheOption = None,
    tensor_parallel: DevicesOption = None,
    link_gb_s: LinkOption = None,
    measured_tokens_s: _MeasuredOption = None,
    measured_ttft_ms: _MeasuredFirstOption = None,
    show_all: AllOption = False,
    as_json: JsonOption = False,
) -> None:
    """Predict serving: engine, users at once, first token, tokens/s, power.

    Times are means that a client sees. Each comes from public runs of that engine on such a chip
    (docs/theory/engines.md); an engine without any is left out.
    """
    from roofline_model.engines.checkpoints import format_key
    from roofline_model.engines.serving import Demand, serve
    from roofline_model.engines.verdict import rate_verdict
    from roofline_model.models.decoders import find_checkpoint

    demand = Demand(
        parse_size("--input", input_tokens),
        parse_output(output_tokens),
        _counts(concurrency),
        _rates(rate),
        0 if cached is None else parse_size("--cached", cached),
        _limit("--max-ttft-ms", max_ttft_ms),
        _limit("--max-tpot-ms", max_tpot_ms),
    )
    measured = parse_amount("--measured-tokens-s", measured_tokens_s, "tokens per second")
    measured_first_s = _limit("--measured-ttft-ms", measured_ttft_ms)
    if measured is None and measured_first_s is not None:
        raise InvalidValueError("--measured-ttft-ms is judged beside a rate: give --measured-tokens-s, too")
    if measured is not None and len(demand.rates_per_s or demand.concurrencies) > 1:
        raise InvalidValueError("--measured-tokens-s is of one load: give one --concurrency or one --rate")
    checkpoint = find_checkpoint(model)
    answer = serve(
        checkpoint,
        find_chip(hw),
        demand,
        formats=[format_key(name) for name in split_list(formats) or ()],
        engines=split_list(engine) or (),
        layout=_layout(tensor_parallel, link_gb_s),
        cache_bytes=_cache_bytes(kv),
    )
    verdict = None
    if measured is not None and answer.ranked:
        verdict = rate_verdict(checkpoint, answer.ranked[0], demand, measured, measured_first_s)
    present_serving(answer, verdict, show_all=show_all, as_json=as_json)


def present_serving(answer: ServingAnswer, verdict: RateVerdict | None, *, show_all: bool, as_json: bool) -> None:
    """Print a serving answer, with the verdict on a measured rate where one was asked; exits 1 where no engine serves
    the model, or none keeps the limits.
    """
    from reports.present.predicted.serving import serving_blocks

    def document() -> dict[str, Any]:
        return command_json(answer) | ({} if verdict is None else {"verdict": answer_json(verdict)})

    present(document, lambda: serving_blocks(answer, verdict, show_all=show_all), as_json=as_json)
    if not any(each.best.is_within_limits for each in answer.ranked):
        raise typer.Exit(1)


def parse_output(text: str) -> int:
    """Return the tokens of an answer. Raises `InvalidValueError` for one alone, which has no time per token."""
    count = parse_size("--output", text)
    if count < 2:
        raise InvalidValueError("--output must be 2 tokens or more: a single one has no time per token")
    return count


def _counts(text: str) -> tuple[int, ...]:
    counts = tuple(parse_size("--concurrency", item) for item in text.split(","))
    if max(counts) > 4096:
        raise InvalidValueError(f"--concurrency must be at most 4,096, got {max(counts):,}")
    return tuple(dict.fromkeys(counts))


def _rates(text: str | None) -> tuple[float, ...]:
    if text is None:
        return ()
    rates = (parse_amount("--rate", item, "requests per second") or 0.0 for item in text.split(","))
    return tuple(dict.fromkeys(rates))


def _limit(option: str, text: str | None) -> float | None:
    value = parse_amount(option, text, "milliseconds")
    return None if value is None else value / 1e3


def _layout(devices: str | None, link_gb_s: str | None) -> Layout:
    from roofline_model.engines.amounts import Layout

    parallel = parse_parallel(devices, link_gb_s)
    count = parallel.device_count
    return Layout(count, count, expert_rank_count=count, link_bytes_per_s=parallel.link_bytes_per_s)


def _cache_bytes(kv: str | None) -> float | None:
    from roofline_model.formats.catalog import get_format

    if kv is None:
        return None
    stored = get_format(kv)
    if stored.key not in ("BF16", "FP16", "FP8_E4M3"):
        raise InvalidValueError(f"--kv must be BF16 or FP8 here, got {kv[:20]!r}")
    return stored.nominal_bits / 8
