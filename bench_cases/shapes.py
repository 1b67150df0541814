"""Shape sets: which (M, N, K) are run, and which layer of which model each comes from. No torch here.

C(M×N) = A(M×K)·B(K×N): M counts tokens, N and K are the output and input features of a linear layer.
"""

from __future__ import annotations

import csv
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from roofline_model.errors import InvalidValueError, UnknownNameError
from roofline_model.operators import check_dimension, parse_shape

STANDARD_ROWS = (1, 8, 32, 128, 512, 2048)
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


@dataclass(frozen=True, slots=True)
class DecoderShape:
    """The dimensions of a decoder model that fix its linear layers. Names are those of config.json."""

    name: str
    source: str
    hidden_size: int
    intermediate_size: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    vocab_size: int
    mlp: str

    def layers(self) -> tuple[Layer, ...]:
        """Return the linear layers of one decoder block, fused and apart, and the output head."""
        query, key_value = self.num_attention_heads * self.head_dim, self.num_key_value_heads * self.head_dim
        hidden, inner = self.hidden_size, self.intermediate_size
        attention = (
            Layer("qkv_proj", query + 2 * key_value, hidden, True),
            Layer("o_proj", hidden, query, True),
            Layer("q_proj", query, hidden, False),
            Layer("k_proj", key_value, hidden, False),
        )
        up: tuple[Layer, ...]
        if self.mlp == "gated":
            up = (Layer("gate_up_proj", 2 * inner, hidden, True), Layer("gate_proj", inner, hidden, False))
        else:
            up = (Layer("up_proj", inner, hidden, True),)
        return (
            *attention,
            *up,
            Layer("down_proj", hidden, inner, True),
            Layer("lm_head", self.vocab_size, hidden, False),
        )


@cache
def models() -> Mapping[str, DecoderShape]:
    """Return the decoder models whose layer shapes we know, by name."""
    text = resources.files("bench_cases").joinpath("model_shapes.toml").read_text(encoding="utf-8")
    return MappingProxyType({name: DecoderShape(name=name, **table) for name, table in tomllib.loads(text).items()})


def resolve_shapes(text: str, device: Device = "cpu") -> tuple[Shape, ...]:
    """Return the shapes that `--roofline-shapes TEXT` asks for, each size once, in order.

    TEXT: quick, standard, full, llm:NAME, a list MxNxK,MxNxK or a CSV file with columns m, n, k.
    Raises `UnknownNameError` with the nearest names, or `InvalidValueError` naming the item or the line that is wrong.
    """
    asked = text.strip()
    name = asked.lower()
    if name in _SETS:
        return _once(_SETS[name](device))
    if name.startswith("llm:"):
        return _once(_model_shapes([_model(asked[4:])], STANDARD_ROWS, with_all_layers=True))
    if name.endswith(".csv"):
        return _once(read_csv(Path(asked).expanduser()))
    if asked[:1].isdigit() or asked.startswith("-"):
        items = [item for item in asked.split(",") if item.strip()]
        return _once(Shape(*parse_shape(item), origin="given") for item in items)
    raise UnknownNameError(
        "shape set",
        asked,
        [*_SETS, *(f"llm:{model}" for model in models())],
        fix="Or give MxNxK,… or a FILE.csv with columns m,n,k.",
    )


def read_csv(path: Path) -> list[Shape]:
    """Read shapes from a CSV file with columns m, n, k (any case, any order; others are ignored).

    A column `name` or `layer` becomes the origin. Raises `InvalidValueError` naming the file and line.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            return _read_rows(path, csv.reader(stream))
    except FileNotFoundError:
        raise InvalidValueError(
            f"shape file {path} does not exist; give the path of a CSV file with columns m,n,k"
        ) from None
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InvalidValueError(f"shape file {path} cannot be read as CSV: {error}") from None


def _read_rows(path: Path, reader: Iterator[list[str]]) -> list[Shape]:
    header = [cell.strip().lower() for cell in next(reader, [])]
    missing = [letter for letter in ("m", "n", "k") if letter not in header]
    if missing:
        found = ", ".join(cell for cell in header if cell) or "nothing"
        raise InvalidValueError(
            f"shape file {path}, line 1: column {', '.join(missing)} is missing; found {found}. Write the header m,n,k."
        )
    column = {cell: index for index, cell in reversed(list(enumerate(header)))}
    label = next((column[cell] for cell in ("name", "layer") if cell in column), None)
    shapes = []
    for line, cells in enumerate(reader, start=2):
        if not any(cell.strip() for cell in cells):
            continue
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


def _model(name: str) -> DecoderShape:
    wanted = name.strip().lower().replace("_", "-")
    for model in models().values():
        if wanted in (model.name, model.source.rpartition(" ")[2].lower()):
            return model
    raise UnknownNameError("model", name.strip(), models(), fix="Or list its layers as MxNxK,… or in a FILE.csv.")


def _model_shapes(chosen: Iterable[DecoderShape], rows: Iterable[int], *, with_all_layers: bool) -> Iterator[Shape]:
    for model in chosen:
        layers = [layer for layer in model.layers() if with_all_layers or layer.is_fused]
        # Shape-major: cases that share a weight matrix follow each other, so that it is generated once.
        for layer in layers:
            for m in rows:
                yield Shape(m, layer.out_features, layer.in_features, f"{model.name} {layer.name}")


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
    # Small enough for the kernels that are only emulated on a CPU (see shape_rules.emulated_small).
    yield Shape(1, 1024, 1024, "synthetic: small square")
    yield Shape(64, 1024, 1024, "synthetic: small square")


_SETS = {
    "quick": _quick,
    "standard": lambda device: _model_shapes(models().values(), STANDARD_ROWS, with_all_layers=False),
    "full": lambda device: _model_shapes(models().values(), FULL_ROWS, with_all_layers=True),
}
SHAPE_SETS = tuple(_SETS)


def _once(shapes: Iterable[Shape]) -> tuple[Shape, ...]:
    """Keep the first shape of every size; the origins of later ones are lost with them."""
    found: dict[tuple[int, int, int], Shape] = {}
    for shape in shapes:
        found.setdefault(shape.size, shape)
    return tuple(found.values())
