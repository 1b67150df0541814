"""The explorer page: a fixed list of files, read when the server starts. A request chooses among them, never a path."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from types import MappingProxyType

from fastapi import APIRouter, Request
from fastapi.responses import Response

from reports.api.http.entity_tag import tag_of, tagged_as
from reports.api.http.problem import ProblemError
from reports.figures.palette import PAGE_COLOURS, theme_css

PAGE_POLICY = "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
"""Everything from this server, and as files.

What plotly would write into the page as styles is `explorer/plotly.css`.
"""

CONTENT_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
FOLDERS = {"explorer": "explorer", "figures": "figures/static", "vendor": "page/vendor"}
"""First part of the path → folder of the package `reports`."""
STYLE = "explorer/explorer.css"
"""The style sheet that gets the colours of the report in front."""

router = APIRouter(include_in_schema=False)


@dataclass(frozen=True, slots=True)
class PageFile:
    """One file with what its answer needs."""

    content: bytes
    content_type: str
    tag: str


@cache
def page_files() -> Mapping[str, PageFile]:
    """Return every file of the page by its path, `explorer/explorer.js`."""
    files = {}
    for name, folder in FOLDERS.items():
        place = resources.files("reports").joinpath(folder)
        if not place.is_dir():
            continue
        for path, entry in _entries(place):
            kind = CONTENT_TYPES.get(f".{entry.name.rpartition('.')[2]}")
            if kind is not None:
                content = entry.read_bytes()
                if f"{name}/{path}" == STYLE:
                    content = theme_css(PAGE_COLOURS).encode("utf-8") + content
                files[f"{name}/{path}"] = PageFile(content, kind, tag_of(content))
    return MappingProxyType(files)


def _entries(folder: Traversable, prefix: str = "") -> Iterator[tuple[str, Traversable]]:
    """Yield every file of a folder and of those in it, with its path inside."""
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _entries(entry, f"{prefix}{entry.name}/")
        else:
            yield f"{prefix}{entry.name}", entry


@router.get("/")
async def index(request: Request) -> Response:
    """Answer with the explorer page."""
    return _sent(request, "explorer/index.html")


@router.get("/explorer/{name:path}")
async def explorer_file(request: Request, name: str) -> Response:
    """Answer with one of the page's own files."""
    return _sent(request, f"explorer/{name}")


@router.get("/figures/{name}")
async def figure_file(request: Request, name: str) -> Response:
    """Answer with a script that the explorer shares with reports."""
    return _sent(request, f"figures/{name}")


@router.get("/vendor/{name}")
async def vendored_file(request: Request, name: str) -> Response:
    """Answer with one of the libraries the page uses, or its licence."""
    return _sent(request, f"vendor/{name}")


def _sent(request: Request, path: str) -> Response:
    page_file = page_files().get(path)
    if page_file is None:
        raise ProblemError(
            404, "not-found", "there is nothing at this path; / is the explorer, /api/openapi.json lists the endpoints"
        )
    return tagged_as(
        request, page_file.content, page_file.tag, page_file.content_type, {"Content-Security-Policy": PAGE_POLICY}
    )
