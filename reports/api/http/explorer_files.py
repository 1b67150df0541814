"""The explorer page and the files that it shares with reports."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from fastapi import FastAPI
from fastapi.responses import FileResponse, Response
from fastapi.staticfiles import StaticFiles

from reports.figures.drawing.palette import PAGE_COLOURS, theme_css

FOLDERS = {"explorer": "explorer", "figures": "figures/static", "vendor": "page/vendor"}
"""First part of the path → folder of the package `reports`."""


def serve_files(app: FastAPI) -> None:
    """Serve the page at `/` and its files below `FOLDERS`."""
    reports = Path(str(resources.files("reports")))
    # A style sheet cannot import the colours of the report: they stand in front of it.
    style = theme_css(PAGE_COLOURS) + (reports / "explorer/explorer.css").read_text(encoding="utf-8")

    @app.get("/", include_in_schema=False)
    async def index() -> FileResponse:
        return FileResponse(reports / "explorer/index.html")

    @app.get("/explorer/explorer.css", include_in_schema=False)
    async def style_sheet() -> Response:
        return Response(style, media_type="text/css")

    for path, folder in FOLDERS.items():
        app.mount(f"/{path}", StaticFiles(directory=reports / folder))
