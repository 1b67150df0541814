"""Shape sets: which (M, N, K) are run, and which layer of which model each comes from. No torch here.

C(M×N) = A(M×K)·B(K×N): M counts tokens, N and K are the output and input features of a linear layer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from bench_cases.shapes.calibration import ORIGIN, PRODUCT_SIZES
from roofline_model.core.definition_text import shortened, user_path
from roofline_model.core.errors import InvalidValueError, UnknownNameError
from roofline_model.core.table_file import read_table
from roofline_model.models.hf.parameters import attention_matrices
from roofline_model.models.model_registry import get_model, list_models
from roofline_model.models.model_shapes import ModelShape
from roofline_model.operators.product import check_dimension, parse_shape

STANDARD_ROWS = (1, 8, 32, 128, 512, 2048)
MAX_CSV_SHAPES = 20_000
"""More shapes than a night can measure are a mistake, and collecting them would take longer than anybody waits."""
FULL_ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192)

Device = Literal["cpu", "cuda"]


@dataclass(frozen=True, slots=True)
class Shape:
    """One product's size and where it comes from."""

    M: int
    N: int
    K: int
    origin: str
    """Model and layer, file and line, or `given`."""

    @property
    def size(self) -> tuple[int, int, int]:
        """M, N, K: two shapes of one size are one case."""
        return self.M, self.N, self.K


@dataclass(frozen=True, slots=True)
class Layer:
    """A weight matrix of a decoder model: `out_features` × `in_features`."""

    name: str
    out_features: int
    in_features: int
    is_fused: bool
    """Part of the fused set that inference engines run (qkv and gate+up as one product each)."""


STANDARD_MODELS = (
    "llama-3-8b",
    "llama-3-70b",
    "qwen3-8b",
    "qwen3-32b",
    "mistral-7b",
    "phi-4",
    "phi-2",
    "tinyllama",
)
"""The models whose layers make up the standard and full sets."""


def linear_layers(model: ModelShape) -> tuple[Layer, ...]:
    """Return the linear layers of a decoder block, fused and apart, and the output head.

    Of a mixture: one expert's matrices, the shared experts' and the router's; latent attention is never fused.
    """
    hidden, experts = model.hidden_size, model.experts
    matrices = attention_matrices(model)
    if model.latent is None:
        layers = [
            Layer("qkv_proj", model.query_width + 2 * model.kv_width, hidden, True),
            Layer("o_proj", *matrices["o_proj"], True),
            Layer("q_proj", *matrices["q_proj"], False),
            Layer("k_proj", *matrices["k_proj"], False),
        ]
    else:
        layers = [Layer(name, *size, True) for name, size in matrices.items()]
    if model.ffn_size:
        layers += _feed_forward("", model.ffn, model.ffn_size, hidden)
    if experts is not None:
        layers += _feed_forward("expert_", model.ffn, experts.ffn_size, hidden)
        layers.append(Layer("router", experts.expert_count, hidden, False))
        if experts.shared_ffn_size:
            layers += _feed_forward("shared_", model.ffn, experts.shared_ffn_size, hidden)
    return (*layers, Layer("lm_head", model.vocab_size, hidden, False))


def _feed_forward(prefix: str, kind: str, inner: int, hidden: int) -> list[Layer]:
    if kind == "gated":
        up = [
            Layer(f"{prefix}gate_up_proj", 2 * inner, hidden, True),
            Layer(f"{prefix}gate_proj", inner, hidden, False),
        ]
    else:
        up = [Layer(f"{prefix}up_proj", inner, hidden, True)]
    return [*up, Layer(f"{prefix}down_proj", hidden, inner, True)]


@cache
def models() -> Mapping[str, ModelShape]:
    """Return the decoder models whose layer shapes we know, by name: those of roofline_model/models/catalog/*.toml."""
    return MappingProxyType({model.name: model for model in list_models()})


def resolve_shapes(text: str, device: Device = "cpu") -> tuple[Shape, ...]:
    """Return the shapes that `--roofline-shapes TEXT` asks for, each size once, in order.

    TEXT: quick, standard, full, calibration (what `roofline calibrate` times), llm:NAME (a shipped model, or anything
    `model_registry.get_model` takes), a list MxNxK,MxNxK or a CSV file with columns m, n, k. Raises `UnknownNameError`
    with the nearest names, or `InvalidValueError` naming the item or the line that is wrong.
    """
    stripped = text.strip()
    name = stripped.lower()
    if name in _SETS:
        return _once(_SETS[name](device))
    if name.startswith("llm:"):
        return _once(_model_shapes([get_model(stripped[4:])], STANDARD_ROWS, with_all_layers=True))
    if name.endswith(".csv"):
        return _once(read_csv(user_path(stripped)))
    if is_product_list(stripped):
        items = [item for item in stripped.split(",") if item.strip()]
        return _once(Shape(*parse_shape(item), origin="given") for item in items)
    raise UnknownNameError(
        "shape set",
        stripped,
        [*_SETS, *(f"llm:{model}" for model in models())],
        fix="Or give MxNxK,… or a FILE.csv with columns m,n,k.",
    )


def is_product_list(text: str) -> bool:
    """Return whether `--roofline-shapes TEXT` gives sizes of products (a list or a CSV file) and not a set of
    models.
    """
    stripped = text.strip()
    if stripped.lower().startswith("llm:"):
        return False
    return stripped.lower().endswith(".csv") or stripped[:1].isdigit() or stripped.startswith("-")


def models_of(text: str) -> tuple[ModelShape, ...]:
    """Return the models behind `--roofline-shapes TEXT`, a text that `resolve_shapes` takes: none for sizes of
    products.
    """
    stripped = text.strip()
    if is_product_list(stripped):
        return ()
    return (get_model(stripped[4:]),) if stripped.lower().startswith("llm:") else tuple(_standard_models())


def read_csv(path: Path) -> list[Shape]:
    """Read shapes from a CSV file with columns m, n, k (any case, any order; others are ignored).

    A column `name` or `layer` becomes the origin. Raises `InvalidValueError` naming the file and line, and for more
    than `MAX_CSV_SHAPES` of them.
    """
    table = read_table(path, "shape file")
    header = [cell.lower() for cell in table.header]
    missing = [letter for letter in ("m", "n", "k") if letter not in header]
    if missing:
        columns = ", ".join(cell for cell in header if cell) or "nothing"
        raise InvalidValueError(
            f"shape file {path}, line 1: column {', '.join(missing)} is missing; found {shortened(columns)}. Write the "
            "header m,n,k."
        )
    column = {cell: index for index, cell in reversed(list(enumerate(header)))}
    label = next((column[cell] for cell in ("name", "layer") if cell in column), None)
    shapes: list[Shape] = []
    for line, cells in zip(table.line_numbers, table.rows, strict=True):
        if not any(cell.strip() for cell in cells):
            continue
        if len(shapes) == MAX_CSV_SHAPES:
            raise InvalidValueError(
                f"shape file {path}, line {line}: more than {MAX_CSV_SHAPES:,} shapes; give a part of them, or several "
                "files in several runs"
            )
        m, n, k = (_csv_number(path, line, letter, cells, column[letter]) for letter in ("m", "n", "k"))
        origin = cells[label].strip() if label is not None and label < len(cells) else ""
        shapes.append(Shape(m, n, k, origin or f"{path.name} line {line}"))
    if not shapes:
        raise InvalidValueError(f"shape file {path} holds a header but no shape; add a line such as 1,4096,4096")
    return shapes


def _csv_number(path: Path, line: int, letter: str, cells: list[str], index: int) -> int:
    where = f"shape file {path}, line {line}"
    text = cells[index].strip() if index < len(cells) else ""
    if not (text.isdecimal() and text.isascii() and len(text) < 20):
        raise InvalidValueError(f"{where}: {letter.upper()} must be a whole number, got {text[:40]!r}")
    try:
        check_dimension(letter.upper(), int(text))
    except InvalidValueError as error:
        raise InvalidValueError(f"{where}: {error}") from None
    return int(text)


def _model_shapes(chosen: Iterable[ModelShape], rows: Iterable[int], *, with_all_layers: bool) -> Iterator[Shape]:
    for model in chosen:
        layers = [layer for layer in linear_layers(model) if with_all_layers or layer.is_fused]
        # Shape-major: cases that share a weight matrix follow each other, so that it is generated once.
        for layer in layers:
            for m in rows:
                yield Shape(m, layer.out_features, layer.in_features, f"{model.name} {layer.name}")


def _standard_models() -> Iterator[ModelShape]:
    return (models()[name] for name in STANDARD_MODELS)


def _quick(device: Device) -> Iterator[Shape]:
    """A few shapes that tell the formats apart: on two cores `pytest bench_cases` stays under 90 s."""
    yield Shape(1, 4096, 4096, "llama-3-8b o_proj")
    yield Shape(8, 4096, 4096, "llama-3-8b o_proj")
    if device == "cuda":
        yield Shape(512, 4096, 4096, "llama-3-8b o_proj")
        yield Shape(1, 28672, 4096, "llama-3-8b gate_up_proj")
        yield Shape(2048, 4096, 14336, "llama-3-8b down_proj")
        return
    yield Shape(128, 4096, 4096, "llama-3-8b o_proj")
    yield Shape(1, 11264, 2048, "tinyllama gate_up_proj")
    # Small enough for the kernels that are only emulated on a CPU (see kernels.rules.emulated_small).
    yield Shape(1, 1024, 1024, "synthetic: small square")
    yield Shape(64, 1024, 1024, "synthetic: small square")


_SETS = {
    "quick": _quick,
    "standard": lambda device: _model_shapes(_standard_models(), STANDARD_ROWS, with_all_layers=False),
    "full": lambda device: _model_shapes(_standard_models(), FULL_ROWS, with_all_layers=True),
    "calibration": lambda device: (Shape(*size, origin=ORIGIN) for size in PRODUCT_SIZES),
}
SHAPE_SETS = tuple(_SETS)


def _once(shapes: Iterable[Shape]) -> tuple[Shape, ...]:
    """Keep the first shape of every size; the origins of later ones are lost with them."""
    by_size: dict[tuple[int, int, int], Shape] = {}
    for shape in shapes:
        by_size.setdefault(shape.size, shape)
    return tuple(by_size.values())
