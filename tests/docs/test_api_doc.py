"""docs/reference/api.md: its curl lines work as printed, its Python runs, its tables hold every status and slug that
the code has."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from curl_lines import curl_lines, parsed

testclient = pytest.importorskip("fastapi.testclient", reason="fastapi is not installed")

import diff_runs  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "reference" / "api.md").read_text(encoding="utf-8")
LINES = [line for block in re.findall(r"```console\n(.*?)```", TEXT, re.DOTALL) for line in curl_lines(block)]


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    from reports.api.http.app import create_app

    path = tmp_path_factory.mktemp("api-doc") / "results.db"
    diff_runs.stored(path, *diff_runs.pair({}, cases=3, processes=3))
    with testclient.TestClient(create_app(path), base_url="http://localhost:8000") as client:
        yield client


@pytest.mark.parametrize("line", LINES, ids=lambda line: parsed(line).path[:50])
def test_every_curl_line_works_as_printed(client, line):
    request_parts = parsed(line)
    request = client.request(
        request_parts.method, request_parts.path, headers=request_parts.headers, content=request_parts.body
    )
    assert request.status_code == 200, request.text


def test_every_endpoint_is_shown(client):
    documented = {parsed(line).path.partition("?")[0] for line in LINES} | set(re.findall(r"/api/[\w/{}.]+", TEXT))
    patterns = [re.sub(r"\{\w+\}", r"[^/]+", path) for path in client.get("/api/openapi.json").json()["paths"]]
    assert len(patterns) >= 22
    assert not [pattern for pattern in patterns if not any(re.fullmatch(pattern, path) for path in documented)]


def slugs_of_the_api() -> set[str]:
    """Return the slugs that the API's own code gives to its problems."""
    given: list[ast.expr] = []
    for path in (ROOT / "reports" / "api").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                given += [keyword.value for keyword in node.keywords if keyword.arg == "slug"]
                given += node.args[1:2] if ast.unparse(node.func) in ("ProblemError", "_refused") else []
    return {slug.value for slug in given if isinstance(slug, ast.Constant) and isinstance(slug.value, str)}


def test_every_slug_is_explained():
    rows = [line for line in TEXT.splitlines() if line.startswith("| ")]
    explained = set(re.findall(r"`([a-z-]+)`", "\n".join(rows)))
    headings = set(
        re.findall(
            r"^## ([a-z-]+)$", (ROOT / "docs" / "reference" / "errors.md").read_text(encoding="utf-8"), re.MULTILINE
        )
    )
    slugs = slugs_of_the_api()
    assert {"sweep-too-large", "no-database", "unauthorized"} <= slugs
    assert not slugs - explained - headings
    assert not explained - slugs - headings - {"method-not-allowed", "not-found", "not-json", "http-error"}


def test_the_limits_are_those_of_the_code():
    from reports.api.http.guard import OPEN_PATHS
    from reports.api.http.service import Limits

    limits = Limits()
    assert (limits.max_body_bytes, limits.max_sweep_points_count, limits.max_page_count) == (2**20, 100_000, 1_000)
    assert limits.min_reading_interval_s == 0.2
    for text in (
        "1 MiB",
        "100,000 predictions at most",
        "most 1,000",
        "every 0.2 s",
        *OPEN_PATHS,
    ):
        assert text in TEXT


def test_the_python_of_the_page_runs():
    (block,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    scope: dict[str, object] = {}
    exec(block, scope)
    assert scope["app"].url_path_for("openapi") == "/api/openapi.json"


def test_options_named_in_the_text_exist():
    import typer.main

    from roofline_cli.main import app

    flags = {flag for param in typer.main.get_command(app).commands["serve"].params for flag in param.opts}
    of_others = {"--hw", "--formats-file", "--factory", "--model", "--stored", "--losses"}
    assert set(re.findall(r"(?<![\w-])(--[a-z][a-z-]+)", TEXT)) - flags - of_others == set()
