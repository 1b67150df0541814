"""The palette of every figure and page: colours and shapes, on white and on a dark page, the same on every surface.

The hues follow Okabe and Ito ("Color Universal Design", 2008), told apart by colour-blind readers; lightness differs
too, so that neighbours stay apart in grey print. Shape carries the operator, fill carries measured or predicted. The
page and the explorer get the palette as data.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple


class Colour(NamedTuple):
    """A colour on white, its counterpart on a dark page, and the CSS name that the page switches by."""

    light: str
    dark: str
    variable: str


INK = Colour("#1a1f26", "#e8ebef", "--plot-ink")
MUTED = Colour("#5b6573", "#a3adba", "--plot-muted")
GRID = Colour("#e4e8ed", "#2b323b", "--plot-grid")
SURFACE = Colour("#fffffe", "#161b21", "--plot-surface")
"""Not pure white, so that it is found again in an SVG among colours that really are white."""
ACCENT = Colour("#b00058", "#ff7ab8", "--plot-accent")
"""The best configuration; no format has this colour."""

PAGE_COLOURS = (
    Colour("#f6f7f9", "#0e1216", "--page"),
    Colour("#ffffff", SURFACE.dark, "--card"),
    Colour("#f9fafb", "#1a2027", "--stripe"),
    Colour(INK.light, INK.dark, "--ink"),
    Colour(MUTED.light, MUTED.dark, "--quiet"),
    Colour("#dfe4ea", GRID.dark, "--line"),
    Colour(ACCENT.light, ACCENT.dark, "--accent"),
    Colour("#0060a8", "#7fbdf0", "--link"),
    Colour("#00664b", "#5fd6ae", "--good"),
    Colour("#a8201a", "#ff9a92", "--bad"),
    Colour("#fff4e0", "#33270f", "--warn-bg"),
    Colour("#6b4400", "#f5cf86", "--warn-ink"),
    Colour("#fdf0f6", "#2d1a26", "--best-bg"),
    Colour("#ffffff", "#0e1216", "--field"),
    Colour("#8a94a1", "#6d7886", "--edge"),
    Colour("#b9c6d4", "#3b4a5a", "--bar"),
    Colour("#44617b", "#9dbcd8", "--spread"),
    Colour("#eceff3", "#232a32", "--even-bg"),
    Colour("#dcefe8", "#17352d", "--up-1"),
    Colour("#b4dfd0", "#17493b", "--up-2"),
    Colour("#7fc9b0", "#12634e", "--up-3"),
    Colour("#fbe9da", "#3a2a1b", "--down-1"),
    Colour("#f6d0ae", "#553716", "--down-2"),
    Colour("#eeb27d", "#74470f", "--down-3"),
)
"""Of the report and of the explorer: grounds, letters, lines, verdicts; speed-ups (`up`) and slow-downs by size."""

_FORMAT_COLOURS: dict[str, Colour] = {
    "FP64": Colour("#3a3a3b", "#c9c9ca", "--plot-fp64"),
    "FP32": Colour("#6e7681", "#aab2bd", "--plot-fp32"),
    "TF32": Colour("#8a5a2b", "#d3a06b", "--plot-tf32"),
    "BF16": Colour("#0060a8", "#58a6e8", "--plot-bf16"),
    "FP16": Colour("#3fa2dd", "#8fd0f7", "--plot-fp16"),
    "FP8": Colour("#8d4a9e", "#cf9be0", "--plot-fp8"),
    "FP8 (W8A16)": Colour("#b98ac6", "#e6c8ef", "--plot-fp8-wo"),
    "FP8 E5M2": Colour("#a8327f", "#ec8fca", "--plot-fp8-e5m2"),
    "MXFP8": Colour("#5a3a8c", "#ab92df", "--plot-mxfp8"),
    "INT8": Colour("#00664b", "#3cc79c", "--plot-int8"),
    "INT8 (W8A16)": Colour("#21a67c", "#7fe3bf", "--plot-int8-wo"),
    "MXINT8": Colour("#6a8f1f", "#b5d96a", "--plot-mxint8"),
    "INT4": Colour("#cc5500", "#ff9a56", "--plot-int4"),
    "NVFP4": Colour("#d99a00", "#f5c64a", "--plot-nvfp4"),
    "NVFP4 (W4A16)": Colour("#e3bd5c", "#fbe3a4", "--plot-nvfp4-wo"),
    "MXFP4": Colour("#a08a00", "#d8c640", "--plot-mxfp4"),
    "MXFP6": Colour("#7a4b6b", "#c795b6", "--plot-mxfp6"),
    "NF4": Colour("#a8412c", "#e98f7c", "--plot-nf4"),
    "INT2": Colour("#8c2f39", "#e38a93", "--plot-int2"),
}
_OTHER_COLOURS = (
    Colour("#44617b", "#9dbcd8", "--plot-other-1"),
    Colour("#76640f", "#cdb956", "--plot-other-2"),
    Colour("#2f6f73", "#86c6ca", "--plot-other-3"),
    Colour("#9a6a8e", "#dcb2d1", "--plot-other-4"),
    Colour("#51545a", "#b9bdc4", "--plot-other-5"),
)

PART_COLOURS: dict[str, Colour] = {
    "ideal": Colour("#c9d1da", "#4a5663", "--plot-part-ideal"),
    "memory": _FORMAT_COLOURS["BF16"],
    "tiles": _FORMAT_COLOURS["FP16"],
    "exp": _FORMAT_COLOURS["MXINT8"],
    "launch": _FORMAT_COLOURS["NVFP4"],
    "widening": _FORMAT_COLOURS["INT4"],
    "host": _FORMAT_COLOURS["TF32"],
    "supply": _FORMAT_COLOURS["FP8"],
    "kernel": _FORMAT_COLOURS["INT8"],
    "clock": _FORMAT_COLOURS["INT2"],
    "unexplained": Colour("#98a1ac", "#818c99", "--plot-part-unexplained"),
}
"""By part of a measured time (`roofline_model.expected.gap.PARTS`)."""

HATCHED_PARTS = ("unexplained",)
"""Drawn with stripes: what the model does not know is no part like the others."""

Shape = Literal[
    "circle", "square", "diamond", "plus", "cross", "up", "down", "pentagon", "hexagon", "left", "right", "star",
    "dash", "bar", "thin-plus", "thin-cross",
]  # fmt: skip
"""What a mark looks like; the last four are strokes."""

_OPERATOR_SHAPES: dict[str, Shape] = {
    "gemv": "circle",
    "gemm": "square",
    "attention": "diamond",
    "batched_gemm": "plus",
    "grouped_gemm": "cross",
}
_OTHER_SHAPES: tuple[Shape, ...] = ("up", "down", "pentagon", "hexagon", "left", "right", "plus", "cross", "star")


def format_colours(precisions: Iterable[str]) -> dict[str, Colour]:
    """Return a colour per precision label: fixed for known formats; a user's own, and rare variants, take a spare
    one. Caches come after products: a format's own colour is that of its weights, in every figure of a page.
    """
    colours: dict[str, Colour] = {}
    for precision in sorted(dict.fromkeys(precisions), key=lambda label: label.endswith("KV")):
        family = max((key for key in _FORMAT_COLOURS if precision.startswith(key)), key=len, default="")
        candidates = (_FORMAT_COLOURS.get(family), *_OTHER_COLOURS)
        free = [colour for colour in candidates if colour is not None and colour not in colours.values()]
        colours[precision] = free[0] if free else _OTHER_COLOURS[len(colours) % len(_OTHER_COLOURS)]
    return colours


def operator_shapes(operators: Iterable[str]) -> dict[str, Shape]:
    """Return a shape per operator: fixed for products and attention, in order of appearance for the others."""
    operators = tuple(dict.fromkeys(operators))
    taken = {_OPERATOR_SHAPES[operator] for operator in operators if operator in _OPERATOR_SHAPES}
    shapes: dict[str, Shape] = {}
    for operator in operators:
        free = [shape for shape in _OTHER_SHAPES if shape not in taken and shape not in shapes.values()]
        shapes[operator] = _OPERATOR_SHAPES.get(operator) or (free or list(_OTHER_SHAPES))[0]
    return shapes


def all_colours() -> tuple[Colour, ...]:
    """Return every colour that a figure may use, each CSS name once; the page maps each to its variable."""
    every = (INK, MUTED, GRID, SURFACE, ACCENT, *_FORMAT_COLOURS.values(), *_OTHER_COLOURS, *PART_COLOURS.values())
    return tuple({colour.variable: colour for colour in every}.values())


def theme_css(colours: Iterable[Colour]) -> str:
    """Return the style sheet of colours as variables, light and dark; print is always light.

    Dark is what the system asks for unless the page was set to light, and what the page was set to.
    """
    chosen = tuple(colours)
    light = " ".join(f"{colour.variable}: {colour.light};" for colour in chosen)
    dark = " ".join(f"{colour.variable}: {colour.dark};" for colour in chosen)
    return (
        f":root {{ {light} }}\n"
        f'@media screen and (prefers-color-scheme: dark) {{ :root:not([data-theme="light"]) {{ {dark} }} }}\n'
        f'@media screen {{ :root[data-theme="dark"] {{ {dark} }} }}\n'
        ':root[data-theme="light"] { color-scheme: light; }\n:root[data-theme="dark"] { color-scheme: dark; }\n'
    )
