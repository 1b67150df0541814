"""Which elementwise operators and feed-forward blocks are run, at the widths of the models. No torch here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from bench_cases.shapes.calibration import BLOCK_SIZES, ORIGIN, ROW_SIZES
from bench_cases.shapes.products import Device, models_of
from roofline_model.models.model_shapes import ModelShape

STANDARD_ROWS = (8, 512)
FULL_ROWS = (1, 8, 64, 512, 4096)
SOFTMAX_KEYS = 4096
"""Keys that the scores of a row belong to: a cache of that length."""

Sizes = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class OperatorShape:
    """One operator call and where it comes from."""

    op: str
    """Name of the function in roofline_model: softmax, rmsnorm, residual_add, rope, silu_mul, ffn, quantize,
    dequantize.
    """
    sizes: Sizes
    """rows (tokens; of softmax: queries of all heads) and width; of ffn: rows, hidden, intermediate."""
    origin: str
    formats: tuple[str, ...] | None = None
    """Formats that the shape is run with; None: all. A small set has room for few."""


def operator_shapes(text: str, device: Device = "cpu") -> tuple[OperatorShape, ...]:
    """Return the shapes that `--roofline-shapes TEXT` asks for: of quick, standard, full and llm:NAME.

    A list MxNxK or a CSV file names products only: no shapes. Raises as `shapes.resolve_shapes` does for unknown
    models.
    """
    name = text.strip().lower()
    if name == "quick":
        return tuple(_quick(device))
    if name == "calibration":
        return tuple(_calibration())
    rows = FULL_ROWS if name == "full" else STANDARD_ROWS
    shapes: dict[tuple[str, Sizes], OperatorShape] = {}
    for shape in _model_operators(models_of(text), rows):
        shapes.setdefault((shape.op, shape.sizes), shape)
    return tuple(shapes.values())


def _model_operators(models: Iterable[ModelShape], row_counts: tuple[int, ...]) -> Iterator[OperatorShape]:
    for model in models:
        hidden, name = model.hidden_size, model.name
        for rows in row_counts:
            yield _plain("softmax", model.query_heads * rows, SOFTMAX_KEYS, f"{name} scores of {rows} queries")
            if model.norm == "rmsnorm":
                yield _plain("rmsnorm", rows, hidden, f"{name} norm")
            yield _plain("residual_add", rows, hidden, f"{name} residual")
            if model.latent is None and model.rotary_ratio == 1:
                yield _plain("rope", rows, model.query_width + model.kv_width, f"{name} queries and keys")
            yield _plain("quantize", rows, hidden, f"{name} activation")
            yield _plain("dequantize", rows, hidden, f"{name} activation")
            inner = model.ffn_size or (model.experts.ffn_size if model.experts else 0)
            if model.ffn == "gated" and model.activation == "silu" and inner:
                yield _plain("silu_mul", rows, inner, f"{name} feed-forward")
                yield _block(rows, hidden, inner, f"{name} feed-forward")


def _quick(device: Device) -> Iterator[OperatorShape]:
    """Each operator once; milliseconds on two cores. A GPU gets more rows, or it would only show its launches."""
    is_cuda = device == "cuda"
    rows = 4096 if is_cuda else 512
    only = ("BF16", "INT8", "FP8_E4M3")
    yield _plain("softmax", 32 * rows // 16, SOFTMAX_KEYS, f"llama-3-8b scores of {rows // 16} queries", only)
    yield _plain("rmsnorm", rows, 4096, "llama-3-8b norm", only)
    yield _plain("residual_add", rows, 4096, "llama-3-8b residual", only)
    yield _plain("rope", rows, 5120, "llama-3-8b queries and keys", only)
    yield _plain(
        "silu_mul", rows, 14336 if is_cuda else 5632, f"{'llama-3-8b' if is_cuda else 'tinyllama'} feed-forward", only
    )
    if is_cuda:
        yield _block(8, 4096, 14336, "llama-3-8b feed-forward", only)
    else:
        yield _block(1, 2048, 5632, "tinyllama feed-forward", only)
    yield _plain("quantize", rows, 4096, "llama-3-8b activation", only)
    yield _plain("dequantize", rows, 4096, "llama-3-8b activation", only)


def _calibration() -> Iterator[OperatorShape]:
    only = ("BF16", "INT8", "FP8_E4M3")
    for op, sizes in ROW_SIZES.items():
        yield from (_plain(op, rows, width, ORIGIN, only) for rows, width in sizes)
    for block in BLOCK_SIZES:
        yield _block(*block, ORIGIN, only)


def _plain(op: str, rows: int, width: int, origin: str, formats: tuple[str, ...] | None = None) -> OperatorShape:
    return OperatorShape(op, (("rows", rows), ("width", width)), origin, formats)


def _block(rows: int, hidden: int, inner: int, origin: str, formats: tuple[str, ...] | None = None) -> OperatorShape:
    return OperatorShape("ffn", (("rows", rows), ("hidden", hidden), ("intermediate", inner)), origin, formats)
