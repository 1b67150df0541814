"""The words of the API's refusals; `make wording` rewrites them."""

from __future__ import annotations

import pytest

pytest.importorskip("fastapi", reason="fastapi is not installed: pip install 'roofline-bench[api]'")

from fastapi.testclient import TestClient

PRODUCT = {"M": 1, "N": 4096, "K": 4096}
REFUSED = {
    "chip": ("/api/analyze?hardware_key=gb11", PRODUCT),
    "format": ("/api/analyze?hardware_key=gb10", PRODUCT | {"formats": ["INT5"]}),
    "size": ("/api/analyze?hardware_key=gb10", PRODUCT | {"N": 0}),
    "missing field": ("/api/analyze?hardware_key=gb10", {}),
    "unknown field": ("/api/analyze?hardware_key=gb10", PRODUCT | {"colour": "red"}),
    "model": ("/api/models/llama-9b/predict?hardware_key=gb10", {}),
    "run": ("/api/runs/nobody", None),
    "baseline": ("/api/diff?before=calibrated&after=nobody", None),
    "path": ("/api/nothing", None),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name, in_folder, snapshot):
    from reports.api.http.app import create_app

    path, body = REFUSED[name]
    with TestClient(create_app(in_folder / "bench.sqlite")) as client:
        response = client.get(path) if body is None else client.post(path, json=body)
    assert 400 <= response.status_code < 500
    problem = response.json()
    assert (problem["title"], problem["detail"], [error["message"] for error in problem["errors"]]) == snapshot
