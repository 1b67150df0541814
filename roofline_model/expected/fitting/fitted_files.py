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
    own = path.with_name(path.name.removeprefix(FILE_PREFIX) or path.name)
    return own, own.with_name(FILE_PREFIX + own.name)


def is_attention_file(path: Path) -> bool:
    """Return whether a file holds attention constants as `roofline fit` writes them."""
    try:
        read_attention(read_definition_text(path, "constants file", ""), str(path))
    except DefinitionError:
        return False
    return True


def fitted_texts(found: TableFit, device: str, path: Path, comment: str) -> list[tuple[Path, str]]:
    """Return (file, text) of what was fitted for one chip: `path` for products, its neighbour for attention."""
    texts = []
    gemm = [one for one in found.gemm if one.chip.key == device]
    if gemm:
        texts.append((path, constants_text(gemm, comment=comment)))
    attention = [one for one in found.attention if one.chip.key == device]
    if attention:
        texts.append((fitted_paths(path)[1], attention_text(attention, comment=comment)))
    return texts


def read_fitted(path: Path) -> tuple[tuple[FittedGemm, ...], tuple[FittedAttention, ...]]:
    """Return the library with what was fitted in place of what ships for those chips; either file may be absent.

    Raises `DefinitionError` when neither can be read.
    """
    advice = "give the file that `roofline fit -o FILE.toml` wrote"
    path, beside = fitted_paths(path)
    gemm: list[FittedGemm] = []
    attention: list[FittedAttention] = []
    if path.exists() or not beside.exists():
        gemm = read_constants(read_definition_text(path, "constants file", advice), str(path))
    if beside.exists():
        attention = read_attention(read_definition_text(beside, "constants file", advice), str(beside))
    own = {(one.chip.key, one.family) for one in gemm}
    own_phases = {(one.chip.key, one.phase) for one in attention}
    return (
        (*gemm, *(one for one in shipped_gemm() if (one.chip.key, one.family) not in own)),
        (*attention, *(one for one in shipped_attention() if (one.chip.key, one.phase) not in own_phases)),
    )
