"""`roofline predict attention`: fused attention on a chip, per format of cache and query, beside the unfused
kernels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from roofline_cli.predict.kernels import judged_time, show_kernels
from roofline_cli.shared.group import typed_pairs
from roofline_cli.shared.option_blocks import PredictOptions, Request, takes_blocks
from roofline_cli.shared.options import MeasuredTimeOption, parse_size

COMMANDS = {
    "predict attention": ("predict_attention", "Predict fused attention, per format of the cache."),
}


@dataclass(frozen=True, slots=True)
class AttentionOptions(PredictOptions):
    """The same, with formats of the cache and the query."""

    formats: Annotated[
        list[str] | None,
        typer.Option(
            "--formats", metavar="LIST", help="Comma-separated; CACHE.QUERY for mixed ones, e.g. BF16,FP8,NVFP4.BF16."
        ),
    ] = None


@takes_blocks
def predict_attention(
    heads: Annotated[str, typer.Option("--heads", metavar="INT", help="Query heads (Hq).")],
    head_dim: Annotated[str, typer.Option("--head-dim", metavar="INT", help="Elements of one head (D).")],
    q_len: Annotated[
        str, typer.Option("--q-len", metavar="INT", help="New tokens of a sequence (Sq); 1: decode.")
    ] = "1",
    kv_len: Annotated[
        str | None,
        typer.Option("--kv-len", metavar="INT", help="Tokens in the cache, new ones included (Skv; default: --q-len)."),
    ] = None,
    kv_heads: Annotated[
        str | None, typer.Option("--kv-heads", metavar="INT", help="Key/value heads (Hkv; default: --heads).")
    ] = None,
    batch: Annotated[str, typer.Option("--batch", metavar="INT", help="Sequences (B).")] = "1",
    causal: Annotated[bool, typer.Option("--causal", help="Mask the keys behind each query.")] = False,
    window: Annotated[
        str | None, typer.Option("--window", metavar="INT", help="Keys a query sees, itself among them (default: all).")
    ] = None,
    page_tokens: Annotated[
        str | None, typer.Option("--page-tokens", metavar="INT", help="Tokens of a page, where the cache is paged.")
    ] = None,
    kernel: Annotated[
        str | None,
        typer.Option(
            "--kernel",
            metavar="NAME",
            help=(
                "Kernel whose time is expected: fa1, fa2, fa3, fa4, trtllm, cudnn, flashinfer (default: trtllm's, "
                "fitted)."
            ),
        ),
    ] = None,
    measured_us: MeasuredTimeOption = None,
    *,
    options: AttentionOptions,
) -> None:
    """Predict fused attention, per format of the cache.

    softmax(Q·Kᵀ)·V as one kernel that reads Q, K and V once, beside the three kernels that it replaces.
    """
    from reports.present.predicted.kernels import attention_blocks
    from roofline_model.kernels.attention_kernels import find_attention_kernel
    from roofline_model.predictions.attention import AttentionQuestion, predict_attentions

    query_heads, new = parse_size("--heads", heads), parse_size("--q-len", q_len)
    question = AttentionQuestion(
        B=parse_size("--batch", batch),
        Hq=query_heads,
        Hkv=query_heads if kv_heads is None else parse_size("--kv-heads", kv_heads),
        Sq=new,
        Skv=new if kv_len is None else parse_size("--kv-len", kv_len),
        D=parse_size("--head-dim", head_dim),
        causal=causal,
        window=None if window is None else parse_size("--window", window),
        page_tokens=None if page_tokens is None else parse_size("--page-tokens", page_tokens),
    )
    named = None if kernel is None else find_attention_kernel(kernel)
    request = Request.read(options)
    table = predict_attentions(
        request.hardware,
        question,
        request.pairs("cache", "query"),
        request.user_formats,
        kernel=None if named is None else named.key,
    )
    blocks = attention_blocks(
        table,
        question,
        named,
        request.hardware,
        request.hardware_name,
        typed_pairs(),
        are_named=request.formats is not None,
        show_all=options.show_all,
    )
    show_kernels(table, blocks, judged_time(table, measured_us, request.hardware), as_json=options.as_json)
    if options.plot:
        from roofline_cli.plot.predicted import plotted_rows
        from roofline_cli.plot.view import show_predicted

        show_predicted(plotted_rows(table.predictions, [row.formats_name for row in table.predictions]))
