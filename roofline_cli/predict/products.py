"""`roofline predict gemv` and `gemm`: how fast a product should run on a chip, for every format asked for."""

from __future__ import annotations

from roofline_cli.predict.kernels import judged_time, show_kernels
from roofline_cli.shared.group import typed_pairs
from roofline_cli.shared.option_blocks import PredictOptions, Request, takes_blocks
from roofline_cli.shared.options import (
    ColumnsOption,
    GemvRowsOption,
    InnerOption,
    MeasuredTimeOption,
    RowsOption,
    parse_size,
)
from roofline_model.core.errors import InvalidValueError
from roofline_model.operators.product import GEMV_MAX_ROWS

COMMANDS = {
    "predict gemv": ("predict_gemv", "Predict y = x·W of a decode step (M from 1 to 16)."),
    "predict gemm": ("predict_gemm", "Predict C(M×N) = A(M×K)·B(K×N)."),
}


@takes_blocks
def predict_gemv(
    N: ColumnsOption,
    K: InnerOption,
    M: GemvRowsOption = "1",
    measured_us: MeasuredTimeOption = None,
    *,
    options: PredictOptions,
) -> None:
    """Predict y = x·W of a decode step (M from 1 to 16)."""
    rows = parse_size("M", M)
    if rows > GEMV_MAX_ROWS:
        raise InvalidValueError(
            f"predict gemv takes M from 1 to {GEMV_MAX_ROWS}, got {rows}; use `roofline predict gemm`"
        )
    _predict((rows, parse_size("N", N), parse_size("K", K)), measured_us, options)


@takes_blocks
def predict_gemm(
    M: RowsOption, N: ColumnsOption, K: InnerOption, measured_us: MeasuredTimeOption = None, *, options: PredictOptions
) -> None:
    """Predict C(M×N) = A(M×K)·B(K×N)."""
    _predict((parse_size("M", M), parse_size("N", N), parse_size("K", K)), measured_us, options)


def _predict(shape: tuple[int, int, int], measured_us: str | None, options: PredictOptions) -> None:
    from reports.present.predicted.kernels import product_blocks
    from roofline_model.formats.catalog import format_pair
    from roofline_model.predictions.kernel import fastest
    from roofline_model.predictions.product import predict_products

    request = Request.read(options)
    chip, named = request.hardware, request.formats
    table = predict_products(chip, shape, named, request.user_formats)
    blocks = product_blocks(table, chip, request.hardware_name, typed_pairs(), named=named, show_all=options.show_all)
    show_kernels(table, blocks, judged_time(table, measured_us, chip), as_json=options.as_json)
    if options.plot:
        from roofline_cli.plot.predicted import expected_roof, plotted_rows
        from roofline_cli.plot.view import show_predicted

        rows, best = table.predictions, fastest(table.predictions)
        roof = () if best.expected is None else expected_roof(best.N, best.K, format_pair(best.format), chip)
        swept = "" if best.expected is None else f"{best.formats_name} at this N and K, M from 1 to 16,384"
        show_predicted(plotted_rows(rows, [row.formats_name for row in rows]), roof, swept)
