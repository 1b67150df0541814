"""`roofline compare`: your M, N, K: predicted and measured per format, then the ranked recommendation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reports.present.encoder import SCHEMA_VERSION
from reports.present.screen import present, show_json
from roofline_cli.shared.database import reading, writing
from roofline_cli.shared.group import typed, typed_pairs
from roofline_cli.shared.measuring import MeasuringPlan, check_can_measure, measure
from roofline_cli.shared.option_blocks import takes_blocks
from roofline_cli.shared.options import (
    AllOption,
    ColumnsOption,
    DatabaseOption,
    FormatsFileOption,
    FormatsOption,
    GemvRowsOption,
    HardwareOption,
    InnerOption,
    JsonOption,
    RowsOption,
    find_chip,
    parse_size,
    register_formats,
    split_list,
    with_user_formats,
)
from roofline_model.core.errors import InvalidValueError
from roofline_model.formats.catalog import format_pair
from roofline_model.operators.product import GEMV_MAX_ROWS, product_op

if TYPE_CHECKING:
    from roofline_cli.compare.view import Comparison
    from roofline_model.formats.catalog import NumberFormat

COMMANDS = {
    "compare": ("app", "Predicted against measured for your M, N, K, per format."),
}

app = typer.Typer(help="Predicted against measured for your M, N, K, per format.")

NoMeasureOption = Annotated[bool, typer.Option("--no-measure", help="Predict only: needs no torch and no GPU.")]
CacheOption = Annotated[
    str,
    typer.Option(
        "--cache",
        metavar="cold|flushed|warm",
        help=(
            "Where operands come from: DRAM (own operands per call), DRAM (caches flushed before each call), or cache "
            "where they fit."
        ),
    ),
]


@dataclass(frozen=True, slots=True)
class CompareRequest:
    """What was typed, checked."""

    shape: tuple[int, int, int]
    hw: str
    formats: list[str] | None
    db: str | None
    cache: str
    show_all: bool
    as_json: bool

    @property
    def op(self) -> str:
        """gemv up to M = 16, else gemm, whatever was typed."""

        return product_op(self.shape[0])


@dataclass(frozen=True, slots=True)
class CompareOptions:
    """What every `compare` is told beside the shape."""

    hw: HardwareOption = "auto"
    no_measure: NoMeasureOption = False
    formats: FormatsOption = None
    formats_file: FormatsFileOption = None
    cache: CacheOption = "cold"
    db: DatabaseOption = None
    show_all: AllOption = False
    as_json: JsonOption = False


@app.command("gemv")
@takes_blocks
def compare_gemv(N: ColumnsOption, K: InnerOption, M: GemvRowsOption = "1", *, options: CompareOptions) -> None:
    """Compare formats for a decode step, M from 1 to 16.

    Exits 1 when a kernel computed a wrong result. Times of a busy machine give no result and exit 0.
    """

    rows = parse_size("M", M)
    if rows > GEMV_MAX_ROWS:
        raise InvalidValueError(
            f"compare gemv takes M from 1 to {GEMV_MAX_ROWS}, got {rows}; use `roofline compare gemm`"
        )
    _compare((rows, N, K), options)


@app.command("gemm")
@takes_blocks
def compare_gemm(M: RowsOption, N: ColumnsOption, K: InnerOption, *, options: CompareOptions) -> None:
    """Compare formats for a matrix product of any M.

    Up to M = 16 it is measured as gemv. Exits 1 when a kernel computed a wrong result. Times of a busy machine give no
    result and exit 0.
    """
    _compare((parse_size("M", M), N, K), options)


def _compare(typed: tuple[int, str, str], options: CompareOptions) -> None:
    if options.cache not in ("cold", "flushed", "warm"):
        raise InvalidValueError(f"--cache must be cold, flushed or warm, got {options.cache[:40]!r}")
    user_formats = register_formats(options.formats_file)
    shape = (typed[0], parse_size("N", typed[1]), parse_size("K", typed[2]))
    request = CompareRequest(
        shape,
        options.hw,
        split_list(options.formats),
        options.db,
        options.cache,
        options.show_all,
        options.as_json,
    )
    for name in request.formats or ():
        format_pair(name)
    if user_formats and not options.no_measure:
        raise InvalidValueError(
            "formats of your own have no kernel to measure: add --no-measure, or measure yours with the roofline "
            "fixture"
        )
    if options.no_measure:
        _show_predicted(request, user_formats)
        return
    comparison, all_correct = _measured(request)
    _show_measured(request, comparison)
    if not all_correct:
        raise typer.Exit(1)


def _show_predicted(request: CompareRequest, user_formats: list[NumberFormat]) -> None:
    from reports.present.answers.products import shape_advice
    from reports.present.blocks import Paragraph
    from reports.present.encoder import answer_json, command_json
    from reports.present.predicted.advice import added_by_all, product_answer, short_answer_blocks
    from reports.present.predicted.kernels import product_blocks
    from reports.present.screen import show_blocks
    from roofline_model.expected.predict import expected_times
    from roofline_model.predictions.product import predict_products
    from roofline_model.recommend.options import default_formats
    from roofline_model.recommend.shape import recommend_quantization

    chip = find_chip(request.hw)
    table = predict_products(chip, request.shape, request.formats, user_formats)
    ranked = with_user_formats(request.formats, user_formats, default_formats(chip))
    advice = recommend_quantization(chip, *request.shape, formats=_weight_formats(ranked), times=expected_times(chip))
    if request.as_json:
        predicted = command_json(table)
        recommendation = answer_json(shape_advice(advice, typed_pairs()))
        show_json({**predicted, "is_measured": False, "run_id": None, "recommendation": recommendation})
        return
    answer, added = product_answer(advice, typed_pairs()), added_by_all(advice, "format")
    show_blocks(short_answer_blocks(answer, added, show_all=request.show_all))
    show_blocks([Paragraph("")])
    named, show_all = request.formats, request.show_all
    show_blocks(product_blocks(table, chip, request.hw, named=named, show_all=show_all, has_next=False))


def _weight_formats(formats: list[str] | None) -> tuple[str, ...] | None:
    """Return what the recommender may choose from: the weight formats asked for, or None for all."""
    if formats is None:
        return None
    return tuple(dict.fromkeys(format_pair(name)[0].key for name in formats))


def _measured(request: CompareRequest) -> tuple[Comparison, bool]:
    from roofline_cli.compare.view import comparison_from_store

    options = ("--roofline-cache", request.cache)
    plan = MeasuringPlan(request.op, request.shape, request.hw, request.db, _weight_formats(request.formats), options)
    check_can_measure()
    # A chip or a database that cannot be used is said now, in one line, not by pytest a second later.
    if request.hw.strip().lower() != "auto":
        find_chip(request.hw)
    with writing(request.db):
        pass
    label, all_correct = measure(plan)
    with reading(request.db) as store:
        return comparison_from_store(store, label), all_correct


def _show_measured(request: CompareRequest, comparison: Comparison) -> None:
    from roofline_cli.compare.view import comparison_blocks, comparison_json

    def document() -> dict[str, Any]:
        m, n, k = request.shape
        asked = {"is_measured": comparison.is_measured, "op": request.op, "M": m, "N": n, "K": k}
        return {"schema_version": SCHEMA_VERSION, **asked, **comparison_json(comparison)}

    present(
        document,
        lambda: comparison_blocks(comparison, db_option=typed("--db"), show_all=request.show_all),
        as_json=request.as_json,
    )
