"""Fitted constants as files: products in `OUT.toml`, attention in `attention-OUT.toml` beside it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from roofline_model.core.definition_text import read_definition_text
from roofline_model.core.errors import DefinitionError
from roofline_model.expected.attention.fitted.constants import FittedAttention
from roofline_model.expected.attention.fitted.library import (
    FILE_PREFIX,
    attention_text,
    read_attention,
    shipped_attention,
)
from roofline_model.expected.products.fitted.constants import FittedGemm, constants_text, read_constants
from roofline_model.expected.products.fitted.library import shipped_gemm

if TYPE_CHECKING:
    from roofline_model.expected.fitting.fit import TableFit


def fitted_paths(path: Path) -> tuple[Path, Path]:
    """Return the two files that constants named `path` may be in: of products, and of attention beside it."""
    shipped_place = path.with_name(path.name.removeprefix(FILE_PREFIX) or path.name)
    return shipped_place, shipped_place.with_name(FILE_PREFIX + shipped_place.name)


def is_attention_file(path: Path) -> bool:
    """Return whether a file holds attention constants as `roofline fit` writes them."""
    try:
        read_attention(_text(path), str(path))
    except DefinitionError:
        return False
    return True


def fitted_texts(fit: TableFit, device: str, path: Path, comment: str) -> list[tuple[Path, str]]:
    """Return (file, text) of what was fitted for one chip: `path` for products, its neighbour for attention."""
    texts = []
    gemm = [fitted for fitted in fit.gemm if fitted.chip.key == device]
    if gemm:
        texts.append((path, constants_text(gemm, comment=comment)))
    attention = [fitted for fitted in fit.attention if fitted.chip.key == device]
    if attention:
        texts.append((fitted_paths(path)[1], attention_text(attention, comment=comment)))
    return texts


def read_fitted(path: Path) -> tuple[tuple[FittedGemm, ...], tuple[FittedAttention, ...]]:
    """Return the library with what was fitted in place of what ships for those chips; either file may be absent.

    Raises `DefinitionError` when neither can be read.
    """
    path, beside = fitted_paths(path)
    gemm: list[FittedGemm] = []
    attention: list[FittedAttention] = []
    if path.exists() or not beside.exists():
        gemm = read_constants(_text(path), str(path))
    if beside.exists():
        attention = read_attention(_text(beside), str(beside))
    fitted_keys = {(fitted.chip.key, fitted.family) for fitted in gemm}
    own_phases = {(fitted.chip.key, fitted.phase) for fitted in attention}
    return (
        (*gemm, *(shipped for shipped in shipped_gemm() if (shipped.chip.key, shipped.family) not in fitted_keys)),
        (
            *attention,
            *(shipped for shipped in shipped_attention() if (shipped.chip.key, shipped.phase) not in own_phases),
        ),
    )


def _text(path: Path) -> str:
    return read_definition_text(path, "constants file", fix="give the file that `roofline fit -o FILE.toml` wrote")
