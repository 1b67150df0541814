"""`roofline check`: whether a rate that somebody claims is what an engine should reach."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from roofline_cli.predict.serve import EngineOption, parse_output, present_serving
from roofline_cli.shared import completions
from roofline_cli.shared.options import AllOption, JsonOption, find_chip, parse_amount, parse_size, split_list
from roofline_model.core.errors import InvalidValueError

if TYPE_CHECKING:
    from roofline_model.engines.claims import Claim

COMMANDS = {
    "check": ("check", "Is a claimed rate possible and good?"),
}


def check(
    claim: Annotated[
        str | None, typer.Argument(metavar="[CLAIM]", help='In one line, e.g. "70B Q4_K_M gb10 47 tok/s".')
    ] = None,
    params: Annotated[
        str | None, typer.Option("--params", metavar="SIZE", help="70B, or 120B-A5B with what a token visits.")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option("--model", metavar="NAME|PATH|ID", autocompletion=completions.models, help="In place of a size."),
    ] = None,
    weights: Annotated[
        str | None, typer.Option("--format", metavar="FORMAT", help="Of the weights: Q4_K_M, FP8, NVFP4, BF16, …")
    ] = None,
    hw: Annotated[
        str | None, typer.Option("--hw", metavar="NAME|FILE|auto", autocompletion=completions.chips, help="The chip.")
    ] = None,
    engine: EngineOption = None,
    tokens_s: Annotated[
        str | None, typer.Option("--tokens-s", metavar="TOKENS/S", help="The rate, of all requests together.")
    ] = None,
    concurrency: Annotated[str, typer.Option("--concurrency", metavar="COUNT", help="Requests at once.")] = "1",
    input_tokens: Annotated[str, typer.Option("--input", metavar="TOKENS", help="Tokens of a prompt.")] = "512",
    output_tokens: Annotated[str, typer.Option("--output", metavar="TOKENS", help="Tokens of an answer.")] = "256",
    show_all: AllOption = False,
    as_json: JsonOption = False,
) -> None:
    """Is a claimed rate possible and good?

    A size alone is priced as the shipped model of the next size, with as many layers as make up the count.
    """
    from roofline_model.engines.checkpoints import format_key
    from roofline_model.engines.claims import Claim, read_claim, sized, with_part
    from roofline_model.engines.serving import Demand, serve
    from roofline_model.engines.verdict import rate_verdict
    from roofline_model.models.decoders import find_checkpoint

    said = Claim() if claim is None else read_claim(claim)
    if params is not None:
        said = with_part(said, checkpoint=sized(params))
    if model is not None:
        said = with_part(said, checkpoint=find_checkpoint(model))
    if weights is not None:
        said = with_part(said, weights=format_key(weights))
    if hw is not None:
        said = with_part(said, device=find_chip(hw))
    if tokens_s is not None:
        said = with_part(said, tokens_per_s=parse_amount("--tokens-s", tokens_s, "tokens per second"))
    checkpoint, device, rate = said.checkpoint, said.device, said.tokens_per_s
    if checkpoint is None or device is None or rate is None:
        raise InvalidValueError(f'a claim needs {_missing(said)}; e.g. "70B Q4_K_M gb10 47 tok/s"')
    demand = Demand(
        parse_size("--input", input_tokens),
        parse_output(output_tokens),
        (parse_size("--concurrency", concurrency),),
    )
    engines = split_list(engine) or ([said.engine] if said.engine else [])
    formats = [said.weights or checkpoint.main_format]
    answer = serve(checkpoint, device, demand, formats=formats, engines=engines)
    verdict = rate_verdict(checkpoint, answer.ranked[0], demand, rate) if answer.ranked else None
    present_serving(answer, verdict, show_all=show_all, as_json=as_json)


def _missing(said: Claim) -> str:
    parts = {
        "a size or model": said.checkpoint,
        "a chip (--hw)": said.device,
        "a rate (--tokens-s)": said.tokens_per_s,
    }
    return ", ".join(what for what, value in parts.items() if value is None)
