"""`roofline predict model`: one pass of a whole decoder model on a chip, kernel by kernel."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reports.present.blocks import Paragraph
from reports.present.screen import present
from roofline_cli.shared import completions
from roofline_cli.shared.group import typed_pairs
from roofline_cli.shared.options import (
    AllOption,
    DevicesOption,
    FormatsFileOption,
    HardwareOption,
    JsonOption,
    LinkOption,
    PlotOption,
    check_max_context,
    check_plot,
    checked_phase,
    find_chip,
    find_model_shape,
    parse_number,
    parse_parallel,
    parse_size,
    register_formats,
    split_list,
)
from roofline_model.chips.hardware import doubts_of
from roofline_model.core.errors import InvalidValueError
from roofline_model.core.finding import finding, short_text
from roofline_model.models.chip_and_model import in_wide_format
from roofline_model.operators.product import MAX_DIMENSION

if TYPE_CHECKING:
    from reports.present.blocks import Block
    from roofline_model.chips.hardware import Device
    from roofline_model.models.format_plan import FormatPlan
    from roofline_model.models.model_shapes import ModelShape
    from roofline_model.models.strategies.config import MixedPrecisionConfig
    from roofline_model.predictions.model import PassPrediction

    Used = list[tuple[MixedPrecisionConfig, PassPrediction]]

COMMANDS = {
    "predict model": ("predict_model_command", "Predict a whole model: time by operator, tokens/s, memory."),
}

ModelOption = Annotated[
    str,
    typer.Option(
        "--model",
        autocompletion=completions.models,
        metavar="NAME|PATH|ID",
        help="Shipped model, path of a config.json, or a hub id that is in the local cache.",
    ),
]
PhaseOption = Annotated[str, typer.Option("--phase", metavar="decode|prefill", help="Decode step or prompt.")]
ContextOption = Annotated[
    str | None,
    typer.Option(
        "--context",
        metavar="TOKENS",
        help="Tokens a sequence has after the pass, the new ones among them (default: 4096, or the model's longest).",
    ),
]
BatchOption = Annotated[
    str, typer.Option("--batch", metavar="LIST", help="Sequences; several, e.g. 1,8,64, are compared.")
]
NewTokensOption = Annotated[
    str | None,
    typer.Option(
        "--new-tokens",
        metavar="TOKENS",
        help="New tokens of each sequence (default: 1 in decode, the whole context in prefill).",
    ),
]
ModelFormatsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--formats",
        autocompletion=completions.formats,
        metavar="LIST",
        help=(
            "WEIGHT, WEIGHT.ACTIVATION or WEIGHT.ACTIVATION.KV; several are compared (default: as the checkpoint is "
            "published)."
        ),
    ),
]
StrategyOption = Annotated[
    list[str] | None,
    typer.Option(
        "--strategy",
        metavar="NAME|FILE",
        help=(
            "Mixed-precision strategy by name, or its .toml or .json file; repeatable, compared with each other and "
            "--formats."
        ),
    ),
]
KvOption = Annotated[
    str | None,
    typer.Option("--kv", metavar="FORMAT", help="Format of the KV cache (default: the 16-bit activations')."),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="PART[@LAYERS]=FORMATS",
        help="Exception for a part or layers, e.g. lm_head=BF16, ffn@0-3=FP8 or q_proj@0-3=FP8; repeatable.",
    ),
]
AttentionKernelOption = Annotated[
    str | None,
    typer.Option(
        "--attention-kernel",
        metavar="NAME",
        help=(
            "Kernel whose attention time is expected: fa1, fa2, fa3, fa4, trtllm, cudnn, flashinfer (default: "
            "trtllm's, fitted)."
        ),
    ),
]
MaxContextOption = Annotated[
    str | None,
    typer.Option(
        "--max-context", metavar="TOKENS", help="Longest context, where a checkpoint extends what the model declares."
    ),
]
LatencyOption = Annotated[
    str | None,
    typer.Option("--all-reduce-us", metavar="µS", help="Latency of one all-reduce, in the expected time (default: 6)."),
]
HeadroomOption = Annotated[
    str,
    typer.Option("--memory-headroom", metavar="SHARE", help="Share of the memory to keep free, e.g. 0.1."),
]
GroupScalesOption = Annotated[
    bool,
    typer.Option(
        "--no-group-scales", help="Count INT4 and INT2 weights as the original documents do: without their scales."
    ),
]


MOST_PASSES = 500
"""Passes of one call, each some 10 ms: more would run for long without a word."""


def predict_model_command(
    model: ModelOption,
    hw: HardwareOption = "auto",
    phase: PhaseOption = "decode",
    context: ContextOption = None,
    batch: BatchOption = "1",
    new_tokens: NewTokensOption = None,
    formats: ModelFormatsOption = None,
    strategy: StrategyOption = None,
    kv: KvOption = None,
    exceptions: SetOption = None,
    attention_kernel: AttentionKernelOption = None,
    formats_file: FormatsFileOption = None,
    max_context: MaxContextOption = None,
    tensor_parallel: DevicesOption = None,
    link_gb_s: LinkOption = None,
    all_reduce_us: LatencyOption = None,
    memory_headroom: HeadroomOption = "0",
    no_group_scales: GroupScalesOption = False,
    show_all: AllOption = False,
    plot: PlotOption = False,
    as_json: JsonOption = False,
) -> None:
    """Predict a whole model: time by operator, tokens/s, memory."""
    from roofline_cli.predict.strategy import read_strategies
    from roofline_model.models.format_plan import AS_PUBLISHED
    from roofline_model.models.llm import predict_model
    from roofline_model.models.strategies.model_plan import strategy_plan
    from roofline_model.predictions.model import pass_prediction

    check_plot(plot, as_json)
    register_formats(formats_file)
    _check_one_chip(hw)
    chip, own_shape = find_chip(hw), find_model_shape(model)
    checked_phase(phase)
    shape = in_wide_format(own_shape, chip)
    parallel = parse_parallel(tensor_parallel, link_gb_s, all_reduce_us)
    strategies = read_strategies(strategy, shape.layer_count, chip)
    if strategies and (kv is not None or exceptions):
        raise InvalidValueError("--kv and --set change --formats; with --strategy write them into the strategy's file")
    named = split_list(formats) or ([] if strategies else [AS_PUBLISHED])
    plans: list[str | FormatPlan] = [*(strategy_plan(config, shape) for config in strategies), *named]
    tokens, longest = _contexts(context, max_context, shape)
    batches = _batches(batch, len(plans), tokens)
    new_count = None if new_tokens is None else parse_size("--new-tokens", new_tokens)
    headroom = parse_number("--memory-headroom", memory_headroom, "a share", below=1)
    if plot and len(plans) * len(batches) > 1:
        raise InvalidValueError("--plot draws one pass; give one batch and one plan of formats")
    steps = [
        pass_prediction(
            predict_model(
                chip,
                shape,
                phase,
                batch=size,
                context=tokens,
                new_tokens=new_count,
                formats=plan,
                kv=kv,
                exceptions=tuple(exceptions or ()),
                parallel=parallel,
                max_context=longest,
                has_group_scales=False if no_group_scales else None,
                memory_headroom_ratio=headroom,
                attention_kernel=attention_kernel,
            ),
            chip,
        )
        for plan in plans
        for size in batches
    ]
    used = list(zip((config for config in strategies for _ in batches), steps, strict=False))
    present(
        lambda: _document(steps, used, chip),
        lambda: _blocks(steps, used, chip, hw, own_shape, show_all),
        as_json=as_json,
    )
    if plot:
        _plot(steps[0])


def _blocks(
    steps: list[PassPrediction], used: Used, chip: Device, hw: str, own_shape: ModelShape, show_all: bool
) -> Iterator[Block]:
    """Yield the passes, of those made with a strategy what it is, gains and claims, and whose 16-bit format they
    have.
    """
    from reports.present.predicted.passes import pass_blocks, passes_blocks
    from reports.present.predicted.strategies import strategy_blocks

    if len(steps) > 1:
        yield from passes_blocks(steps, chip, hw, typed_pairs(), show_all=show_all)
    else:
        yield from pass_blocks(steps[0], chip, hw, typed_pairs(), show_all=show_all)
    yield from strategy_blocks([(config, step.ideal) for config, step in used], chip, with_operators=len(steps) == 1)
    wide = steps[0].ideal.model.wide_format
    if wide != own_shape.wide_format:
        note = finding("other-wide-format", own_shape.name, own=own_shape.wide_format, wide=wide)
        yield Paragraph(f"Note: {short_text(note)}", "warning")


def _document(steps: list[PassPrediction], used: Used, chip: Device) -> dict[str, Any]:
    """Return what --json prints: the passes, the model's shape, of one pass the times to the first token (of one
    request alone, and of all prompts of the batch in one pass), and the strategies.
    """
    from reports.present.encoder import answer_json, command_json
    from roofline_cli.predict.strategy import strategy_json
    from roofline_model.models.llm import first_token_pass
    from roofline_model.models.step_expected import expected_step
    from roofline_model.predictions.kernel import PredictionTable

    ideal = steps[0].ideal
    document = command_json(PredictionTable(tuple(steps), (), tuple(doubts_of(chip))))
    document["model_shape"] = answer_json(ideal.model)
    if len(steps) == 1:
        for name, prompts in (("time_to_first_token", 1), ("all_prompts_time", ideal.workload.batch_count)):
            first = first_token_pass(ideal, chip, batch=prompts)
            expected = expected_step(first, chip)
            document[f"{name}_s"] = first.time_s
            document[f"expected_{name}_s"] = None if expected is None else expected.time_s
    if used:
        document["strategies"] = [strategy_json(config, step.ideal, chip) for config, step in used]
    return document


def _contexts(context: str | None, max_context: str | None, shape: ModelShape) -> tuple[int, int | None]:
    """Return the tokens of a sequence, and the longest context that memory has to hold where one was given."""
    from roofline_model.models.model_shapes import DEFAULT_CONTEXT

    longest = None if max_context is None else parse_size("--max-context", max_context)
    default = min(DEFAULT_CONTEXT, shape.max_context_size if longest is None else longest)
    tokens = default if context is None else parse_size("--context", context)
    if longest is not None:
        check_max_context([tokens], longest)
    return tokens, longest


def _batches(text: str, plan_count: int, context: int) -> list[int]:
    """Return the sequences of each pass. Raises `InvalidValueError` for more than `MOST_PASSES` with all plans, and
    where the prompts of a batch are more tokens than one product has rows.
    """
    items = [item.strip() for item in text.split(",")]
    if not all(items):
        raise InvalidValueError(f"--batch has an empty entry: {text[:40]!r}; write e.g. --batch 1,8,64")
    batches = [parse_size("--batch", item) for item in dict.fromkeys(items)]
    if plan_count * len(batches) > MOST_PASSES:
        raise InvalidValueError(
            f"--batch and --formats ask for {plan_count * len(batches):,} passes, more than {MOST_PASSES}: name fewer"
        )
    if (most := max(batches)) * context > MAX_DIMENSION:
        raise InvalidValueError(
            f"--batch {most:,} with --context {context:,} makes {most * context:,} tokens of prompts, more than "
            f"{MAX_DIMENSION:,}: give a smaller --batch or a shorter --context"
        )
    return batches


def _plot(step: PassPrediction) -> None:
    """Draw every kernel of a pass."""
    from roofline_cli.plot.figure import letter_of
    from roofline_cli.plot.predicted import PlottedPrediction
    from roofline_cli.plot.view import show_predicted

    drawn = [kernel for kernel in step.kernels if kernel.ideal.flops]
    show_predicted(
        [
            PlottedPrediction(
                letter_of(index),
                kernel.name,
                kernel.ideal,
                # The time of a kernel that works inside the attention is the attention's.
                kernel.expected.time_s if kernel.expected and kernel.expected.binding != "attention" else None,
            )
            for index, kernel in enumerate(drawn)
        ]
    )


def _check_one_chip(hw: str) -> None:
    if "," in hw and not Path(hw).exists():
        raise InvalidValueError(
            f"--hw takes one chip here, got {hw[:60]!r}; predict the model once for each (only `roofline sweep` takes "
            "a list)"
        )
