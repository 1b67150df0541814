"""Colours, marker shapes and ink of the plots: one place, so that a format looks the same in every report.

The hues follow Okabe and Ito ("Color Universal Design", 2008), told apart by colour-blind readers; lightness differs too,
so that neighbours stay apart in grey print. Shape carries the operator, fill carries measured or predicted.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

PLAIN_TEXT: dict[str, Any] = {"parse_math": False}
"""For every text that holds a name from outside: a `$` in a label is a dollar sign, not a formula."""


class Ink(NamedTuple):
    """A colour on white, its counterpart on a dark page, and the CSS name the page switches by."""

    light: str
    dark: str
    variable: str


INK = Ink("#1a1f26", "#e8ebef", "--plot-ink")
MUTED = Ink("#5b6573", "#a3adba", "--plot-muted")
GRID = Ink("#e4e8ed", "#2b323b", "--plot-grid")
SURFACE = Ink("#fffffe", "#161b21", "--plot-surface")
"""Not pure white, so that it is found again in an SVG among colours that really are white."""
ACCENT = Ink("#b00058", "#ff7ab8", "--plot-accent")
"""The best configuration; no format has this colour."""

_FORMAT_INKS: tuple[tuple[str, Ink], ...] = (
    ("FP64", Ink("#3a3a3b", "#c9c9ca", "--plot-fp64")),
    ("FP32", Ink("#6e7681", "#aab2bd", "--plot-fp32")),
    ("TF32", Ink("#8a5a2b", "#d3a06b", "--plot-tf32")),
    ("BF16", Ink("#0060a8", "#58a6e8", "--plot-bf16")),
    ("FP16", Ink("#3fa2dd", "#8fd0f7", "--plot-fp16")),
    ("FP8", Ink("#8d4a9e", "#cf9be0", "--plot-fp8")),
    ("FP8_E4M3 W8A16", Ink("#b98ac6", "#e6c8ef", "--plot-fp8-wo")),
    ("FP8_E5M2", Ink("#a8327f", "#ec8fca", "--plot-fp8-e5m2")),
    ("MXFP8", Ink("#5a3a8c", "#ab92df", "--plot-mxfp8")),
    ("INT8", Ink("#00664b", "#3cc79c", "--plot-int8")),
    ("INT8 W8A16", Ink("#21a67c", "#7fe3bf", "--plot-int8-wo")),
    ("MXINT8", Ink("#6a8f1f", "#b5d96a", "--plot-mxint8")),
    ("INT4", Ink("#cc5500", "#ff9a56", "--plot-int4")),
    ("NVFP4", Ink("#d99a00", "#f5c64a", "--plot-nvfp4")),
    ("NVFP4 W4A16", Ink("#e3bd5c", "#fbe3a4", "--plot-nvfp4-wo")),
    ("MXFP4", Ink("#a08a00", "#d8c640", "--plot-mxfp4")),
    ("MXFP6", Ink("#7a4b6b", "#c795b6", "--plot-mxfp6")),
    ("NF4", Ink("#a8412c", "#e98f7c", "--plot-nf4")),
    ("INT2", Ink("#8c2f39", "#e38a93", "--plot-int2")),
)
_OTHER_INKS = (
    Ink("#44617b", "#9dbcd8", "--plot-other-1"),
    Ink("#76640f", "#cdb956", "--plot-other-2"),
    Ink("#2f6f73", "#86c6ca", "--plot-other-3"),
    Ink("#9a6a8e", "#dcb2d1", "--plot-other-4"),
    Ink("#51545a", "#b9bdc4", "--plot-other-5"),
)

_OP_MARKERS = {"gemv": "o", "gemm": "s", "attention": "D", "batched_gemm": "P", "grouped_gemm": "X"}
_OTHER_MARKERS = ("^", "v", "p", "h", "<", ">")


def format_inks(precisions: Iterable[str]) -> dict[str, Ink]:
    """Return a colour per precision label: fixed for known formats; a user's own, and rare variants, take a spare one."""
    known, inks = dict(_FORMAT_INKS), dict[str, Ink]()
    for precision in dict.fromkeys(precisions):
        family = max((key for key in known if precision.startswith(key)), key=len, default="")
        free = [ink for ink in (known.get(family), *_OTHER_INKS) if ink is not None and ink not in inks.values()]
        inks[precision] = free[0] if free else _OTHER_INKS[len(inks) % len(_OTHER_INKS)]
    return inks


def op_markers(ops: Iterable[str]) -> dict[str, str]:
    """Return a marker shape per operator: fixed for ours, in order of appearance for a user's own."""
    markers: dict[str, str] = {}
    for op in dict.fromkeys(ops):
        free = [marker for marker in _OTHER_MARKERS if marker not in markers.values()]
        markers[op] = _OP_MARKERS.get(op) or (free or list(_OTHER_MARKERS))[0]
    return markers


def all_inks() -> tuple[Ink, ...]:
    """Return every colour a plot may use; the page maps each to its CSS variable."""
    return (INK, MUTED, GRID, SURFACE, ACCENT, *(ink for _, ink in _FORMAT_INKS), *_OTHER_INKS)
