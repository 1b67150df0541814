"""Turn matplotlib's SVG file into a part of a page: its colours follow the theme, and it takes a third of the bytes.

Only tags are rewritten. What stands between them, a run's own words among it, stays as matplotlib escaped it. Everything here
relies on how matplotlib writes: attributes in double quotes, and `<`, `>` and `"` inside of them escaped.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache

from reports.figures.palette import all_colours

_TAG = re.compile(r"<[^>]*>")
_ATTRIBUTE = re.compile(r'\s([\w:-]+)="([^"]*)"')
_REFERENCE = re.compile(r'(?<=href="#)[^"]+|(?<=url\(#)[^)]+')
_TWO_DECIMALS = re.compile(r"(\d\.\d\d)\d+")
_NAMED_COLOUR = re.compile(r"((?:fill|stroke):)(#[0-9a-f]{6})")
_LEAST_REPEATS = 3
"""A style that occurs so often becomes a class of its own."""


def inline_svg(svg: str, prefix: str) -> str:
    """Return the `<svg>` element of a file of matplotlib's for a page: no prolog, no namespaces, nothing that has no effect.

    `prefix` makes its ids and classes its own: several plots share one page. The style that matplotlib gives to every element
    and its font are the page's (`.plot svg` in report.css).
    """
    body = svg[svg.index("<svg") :]
    body = re.sub(r"<!--.*?-->|<metadata>.*?</metadata>|<style\b.*?</style>", "", body, flags=re.DOTALL)
    body = re.sub(r">\s+<", "><", body).replace("<defs></defs>", "")
    targets = dict.fromkeys(name for tag in _TAG.findall(body) for name in _REFERENCE.findall(tag))
    names = {name: f"{prefix}{number}" for number, name in enumerate(targets)}
    tags = (_tag(found, names) for found in _TAG.findall(body))
    pieces = _unwrapped([piece for pair in zip(_TAG.split(body), [*tags, ""], strict=True) for piece in pair if piece])
    return _classed(pieces, prefix)


def _tag(tag: str, names: Mapping[str, str]) -> str:
    """Return a tag with what it needs: an id only where something refers to it, numbers as fine as a screen shows them."""
    kept = []
    for name, value in _ATTRIBUTE.findall(tag):
        if name.startswith("xmlns") or name == "version" or (tag.startswith("<svg") and name in ("width", "height")):
            continue
        if name == "id":
            if value not in names:
                continue
            value = names[value]
        elif name == "xlink:href" or name == "clip-path":
            value = re.sub(r"#([^)]+)", lambda found: f"#{names.get(found[1], found[1])}", value)
        elif name == "style":
            value = _style(value)
        elif name == "transform":
            if value.startswith("rotate(-0 "):
                continue
            value = _TWO_DECIMALS.sub(r"\1", value)
        elif name in ("d", "x", "y", "points", "width", "height"):
            # A hundredth of a point is finer than any screen.
            value = re.sub(r"\s*([A-Za-z])\s*", r"\1", _TWO_DECIMALS.sub(r"\1", value)).strip()
        kept.append(f' {name.removeprefix("xlink:")}="{value}"')
    end = "/>" if tag.endswith("/>") else ">"
    start = re.match(r"</?[\w:]+", tag)
    return tag if start is None else f"{start[0]}{''.join(kept)}{end}"


@lru_cache(maxsize=1024)
def _style(text: str) -> str:
    """Return a style without the font family, which is the page's, and with the plots' colours as variables."""
    variables = {ink.light: f"var({ink.variable})" for ink in all_colours()}
    parts = [re.sub(r"\s*:\s*", ":", part.strip(), count=1) for part in text.split(";") if part.strip()]
    kept = ";".join(part for part in parts if not part.startswith("font-family:"))
    return _NAMED_COLOUR.sub(lambda found: found[1] + variables.get(found[2], found[2]), kept)


def _unwrapped(pieces: list[str]) -> list[str]:
    """Return the pieces without the groups that have no attribute: they change nothing."""
    kept: list[str] = []
    open_groups: list[bool] = []
    for piece in pieces:
        if piece.startswith("<g") and not piece.endswith("/>"):
            open_groups.append(piece != "<g>")
            if piece == "<g>":
                continue
        elif piece == "</g>" and not open_groups.pop():
            continue
        kept.append(piece)
    return kept


def _classed(pieces: list[str], prefix: str) -> str:
    """Return the text of the pieces, with a class in the place of each style that is repeated."""
    pattern = re.compile(r' style="([^"]*)"')
    counts = Counter(match[1] for piece in pieces if piece.startswith("<") and (match := pattern.search(piece)))
    repeated = [style for style, count in counts.items() if count >= _LEAST_REPEATS and style]
    classes = {style: f"{prefix}s{number}" for number, style in enumerate(repeated)}

    def replaced(found: re.Match[str]) -> str:
        return f' class="{classes[found[1]]}"' if found[1] in classes else found[0]

    text = "".join(pattern.sub(replaced, piece) if piece.startswith("<") else piece for piece in pieces)
    if not classes:
        return text
    rules = "".join(f".plot .{name}{{{style}}}" for style, name in classes.items())
    return re.sub(r"^<svg[^>]*>", lambda found: f"{found[0]}<style>{rules}</style>", text, count=1)
