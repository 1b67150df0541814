"""The scripts of the page and the policy that lets these run, and nothing else."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from importlib import resources

OWN = (
    "words.js",
    "core.js",
    "numbers.js",
    "theme.js",
    "filters.js",
    "tooltip.js",
    "figures.js",
    "roofline.js",
    "rows.js",
    "timeline.js",
    "pareto.js",
    "table.js",
    "page.js",
)
"""Our scripts in the order they build on each other; one function each, joined into one script."""
FIGURE = "figure.js"
"""The script that page and explorer share; here it is no module."""
BUNDLE = "plotly-report.min.js"


@cache
def scripts() -> tuple[str, ...]:
    """Return the texts of the page's script elements: the vendored bundle, then our own."""
    shared = _read("figures", "static", FIGURE).replace("export function", "function")
    own = "".join(map(_without_comments, (shared, *(_read("page", "static", name) for name in OWN))))
    return _read("page", "vendor", BUNDLE), f'(() => {{\n"use strict";\n{own}}})();'


@cache
def script_policy() -> str:
    """Return the Content-Security-Policy of the page: its own scripts by their hash, inline style, pictures made in the page."""
    hashes = " ".join(f"'sha256-{_digest(text)}'" for text in scripts())
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )


@cache
def interactive_css() -> str:
    """Return the style sheet of the interactive part."""
    return tight_css(_read("page", "static", "interactive.css"))


def tight_css(text: str) -> str:
    """Return a style sheet without comments, line ends and spaces that mean nothing; what stands in quotes is left as it is."""
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    pieces = re.split(r'("[^"]*")', text)
    for at, piece in enumerate(pieces[::2]):
        pieces[2 * at] = re.sub(r"(?<=[;,{}]) | (?=[{}])|(?<=[\w-]:) ", "", re.sub(r"\s+", " ", piece))
    return "".join(pieces).replace(";}", "}").strip()


def _without_comments(text: str) -> str:
    """Return a script without indentation and lines that are a comment: a tenth of it. No text of ours goes over several lines."""
    lines = (line.strip() for line in text.splitlines())
    return "".join(f"{line}\n" for line in lines if line and not line.startswith("//"))


def _digest(text: str) -> str:
    # A browser hashes the text after it has made every line end a line feed; ours have no others.
    return base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")


def _read(*path: str) -> str:
    return resources.files("reports").joinpath(*path).read_text(encoding="utf-8")
