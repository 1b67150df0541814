"""`roofline recommend --model …`: which formats for a whole model, from the options to the answer and the exit code."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reports.present.blocks import Paragraph
from reports.present.screen import present
from roofline_cli.predict.strategy import read_strategies
from roofline_cli.recommend.chips import chip_names, show_chips
from roofline_cli.screen.output_file import check_output
from roofline_cli.shared import completions
from roofline_cli.shared.group import typed_pairs
from roofline_cli.shared.options import (
    DevicesOption,
    LinkOption,
    check_max_context,
    find_chip,
    find_model_shape,
    parse_amount,
    parse_loss_limit,
    parse_number,
    parse_parallel,
    parse_size,
    register_formats,
    split_list,
)
from roofline_model.core.errors import InvalidValueError

if TYPE_CHECKING:
    from reports.present.blocks import Block
    from roofline_model.chips.hardware import Device
    from roofline_model.models.model_shapes import ModelShape
    from roofline_model.recommend.model import ModelRanking
    from roofline_model.recommend.search.model_problem import TrafficShare

ModelOption = Annotated[
    str | None,
    typer.Option(
        "--model",
        autocompletion=completions.models,
        metavar="NAME|PATH|ID",
        help="A whole model in place of a shape: shipped name, path of a config.json, or a hub id in the local cache.",
    ),
]
BatchOption = Annotated[
    str | None, typer.Option("--batch", metavar="INT", help="With --model: sequences in a pass (default: 1).")
]
ContextOption = Annotated[
    str | None,
    typer.Option(
        "--context",
        metavar="TOKENS",
        help="With --model: tokens a sequence has after the pass (default: 4096, or the model's longest).",
    ),
]
MaxContextOption = Annotated[
    str | None,
    typer.Option(
        "--max-context",
        metavar="TOKENS",
        help="With --model: longest context, where a checkpoint extends what the model declares.",
    ),
]
HeadroomOption = Annotated[
    str | None,
    typer.Option(
        "--memory-headroom", metavar="SHARE", help="With --model: share of the memory to keep free, e.g. 0.1."
    ),
]
LatencyOption = Annotated[
    str | None,
    typer.Option(
        "--max-latency-ms",
        metavar="MS",
        help="With --model: longest time of a pass; with --traffic by phase: decode=30,prefill=500.",
    ),
]
LossOption = Annotated[
    str | None,
    typer.Option(
        "--max-quality-loss",
        metavar="PERCENT",
        help="Most that perplexity may rise, or task accuracy fall where no perplexity was published (default: 3).",
    ),
]
LossesOption = Annotated[
    Path | None,
    typer.Option(
        "--losses",
        metavar="FILE.json",
        help=(
            "With --model or --stored: losses of the layers by format; with --model they start the search of a format "
            "per layer."
        ),
    ),
]
TrafficOption = Annotated[
    list[str] | None,
    typer.Option(
        "--traffic",
        metavar="PASS|FILE.json",
        help="With --model: a mix of passes, e.g. decode:batch=8,context=4096,share=0.7; repeatable, or a file.",
    ),
]
UniformOption = Annotated[
    list[str] | None,
    typer.Option(
        "--formats",
        autocompletion=completions.formats,
        metavar="LIST",
        help="With --model: uniform formats to rank instead of the usual ones, WEIGHT[.ACTIVATION[.KV]].",
    ),
]
StrategyOption = Annotated[
    list[str] | None,
    typer.Option(
        "--strategy",
        metavar="NAME|FILE",
        help="With --model: strategies to rank instead of the six named ones; repeatable.",
    ),
]
LayersOption = Annotated[
    bool, typer.Option("--layers", help="With --losses: the format of every layer, why, and the front.")
]
PlanOutputOption = Annotated[
    Path | None,
    typer.Option(
        "-o",
        "--output",
        metavar="FILE.json",
        help="With --model: file for the best plan, as --roofline-plan and apply_plan take it.",
    ),
]


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """Options about a whole model alone."""

    batch: BatchOption = None
    context: ContextOption = None
    tensor_parallel: DevicesOption = None
    link_gb_s: LinkOption = None
    max_context: MaxContextOption = None
    memory_headroom: HeadroomOption = None
    max_latency_ms: LatencyOption = None
    losses: LossesOption = None
    traffic: TrafficOption = None
    formats: UniformOption = None
    strategy: StrategyOption = None
    layers: LayersOption = False
    output: PlanOutputOption = None


@dataclass(frozen=True, slots=True)
class ModelQuestion:
    """What was typed for a whole model, not yet checked; None: left out."""

    model: str
    phase: str | None
    memory_limit_gb: float | None
    max_quality_loss: str | None
    formats_file: Path | None
    options: ModelOptions


def recommend_for_model(question: ModelQuestion, hw: str, *, as_json: bool, show_all: bool = False) -> None:
    """Answer for a whole model, with every plan where `show_all`; exits 1 when nothing meets the limits."""
    from reports.present.answers.models import model_advice
    from reports.present.encoder import command_json
    from reports.present.predicted.advice import added_by_all, model_answer, short_answer_blocks, workload
    from reports.present.predicted.details import excluded_lines, model_details
    from reports.present.predicted.layers import layer_blocks
    from roofline_model.recommend.plan_formats import plan_name

    options = question.options
    if options.layers and options.losses is None:
        raise InvalidValueError("--layers shows what the search chose, which needs --losses FILE.json")
    if options.output is not None:
        check_output(options.output, None)
    names = chip_names(hw)
    if len(names) > 1:
        if options.output is not None or options.layers:
            raise InvalidValueError("-o and --layers are about one chip: name one with --hw")
        show_chips(
            names,
            partial(answer, question),
            model_advice,
            workload,
            plan_name,
            as_json=as_json,
        )
        return
    chip = find_chip(hw)
    ranking, ranking_on = answer(question, chip), partial(answer, question)
    written = _written(question, ranking)

    def blocks() -> Iterator[Block]:
        are_named = bool(options.formats)
        shown = model_answer(ranking, chip, typed_pairs(), are_named=are_named, ranking_on=ranking_on)
        left_out = excluded_lines(ranking, {row.key for row in shown.rows}) if are_named and not show_all else ()
        yield from short_answer_blocks(shown, added_by_all(ranking, "plan"), show_all=show_all, left_out=left_out)
        yield from model_details(ranking) if show_all else ()
        yield from layer_blocks(ranking) if options.layers else ()
        if written:
            yield Paragraph(written)

    present(
        lambda: command_json(model_advice(ranking, chip, typed_pairs(), ranking_on)),
        blocks,
        as_json=as_json,
    )
    if ranking.choice is None:
        raise typer.Exit(1)


def _written(question: ModelQuestion, ranking: ModelRanking) -> str:
    """Write the best plan to the file of `-o`; return what to say of it, empty where nothing was asked or nothing was
    chosen.
    """
    from roofline_model.recommend.search.plan_file import write_plan

    output = question.options.output
    if output is None or ranking.choice is None:
        return ""
    plan = ranking.choice.plan
    write_plan(plan, find_model_shape(question.model), output)
    cache = f"; its {plan.kv} cache is not part of it (--roofline-kv, make_kv_cache)" if plan.kv != plan.wide else ""
    return f"plan written to {output}{cache}; next: pytest bench_cases -k model_quant --roofline-plan {output}"


def answer(question: ModelQuestion, chip: Device) -> ModelRanking:
    """Return the recommendation for what was typed; raises a `RooflineError` that names the option."""
    from roofline_model.recommend.model import recommend_model
    from roofline_model.recommend.search.losses_file import read_losses

    options = question.options
    user_formats = register_formats(question.formats_file)
    shape = _shape(question)
    context = None if options.context is None else parse_size("--context", options.context)
    traffic = _traffic(question)
    if options.max_context is not None:
        contexts = [share.workload.context_count for share in traffic or ()] if context is None else [context]
        check_max_context(contexts, shape.max_context_size)
    headroom = options.memory_headroom or "0"
    return recommend_model(
        chip,
        shape,
        phase=question.phase or "decode",
        batch=parse_size("--batch", options.batch or "1"),
        context=context,
        traffic=traffic,
        parallel=parse_parallel(question.options.tensor_parallel, question.options.link_gb_s),
        memory_limit_bytes=None if question.memory_limit_gb is None else question.memory_limit_gb * 1e9,
        memory_headroom_ratio=parse_number("--memory-headroom", headroom, "a share", below=1),
        max_latency_s=_latency_s(options.max_latency_ms),
        max_loss_pct=parse_loss_limit(question.max_quality_loss),
        losses=None if options.losses is None else read_losses(options.losses),
        formats=split_list(options.formats),
        extra_formats=[f"{fmt.key}.{shape.wide_format}" for fmt in user_formats],
        strategies=None if options.strategy is None else read_strategies(options.strategy, shape.layer_count),
    )


def _latency_s(text: str | None) -> float | dict[str, float] | None:
    """Return the limit of `--max-latency-ms` in seconds: one for every pass, or phase → its own."""
    if text is None or "=" not in text:
        latency_ms = parse_amount("--max-latency-ms", text, "milliseconds such as 30, or decode=30,prefill=500")
        return None if latency_ms is None else latency_ms * 1e-3
    limits_s: dict[str, float] = {}
    for part in text.split(","):
        name, _, amount = part.partition("=")
        phase = name.strip().lower()[:40]
        if phase in limits_s:
            raise InvalidValueError(f"--max-latency-ms names {phase} twice")
        latency_ms = parse_amount(f"--max-latency-ms {phase}", amount, "milliseconds such as 30")
        limits_s[phase] = (latency_ms or 0.0) * 1e-3
    return limits_s


def _shape(question: ModelQuestion) -> ModelShape:
    """Return the model that was asked for, with the longest context that was allowed."""
    shape = find_model_shape(question.model)
    if question.options.max_context is None:
        return shape
    return replace(shape, max_context_size=parse_size("--max-context", question.options.max_context))


def _traffic(question: ModelQuestion) -> list[TrafficShare] | None:
    """Return the passes of `--traffic`, None without; raises where another option says the same."""
    from roofline_model.recommend.search.traffic_file import traffic_from_text

    if question.options.traffic is None:
        return None
    for option, given in (
        ("--phase", question.phase),
        ("--batch", question.options.batch),
        ("--context", question.options.context),
    ):
        if given is not None:
            raise InvalidValueError(
                f"{option} says what --traffic says: PHASE:batch=…,context=…,share=… for each pass; leave one of the "
                "two out"
            )
    return [share for text in question.options.traffic for share in traffic_from_text(text)]
