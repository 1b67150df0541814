"""The API calls of the original documents, as printed: the curl lines and the list of endpoints."""

from __future__ import annotations

import pytest
from curl_lines import curl_lines, parsed

testclient = pytest.importorskip("fastapi.testclient", reason="fastapi is not installed")

SEED_000 = r"""
curl -X POST "localhost:8000/api/recommend?hardware_key=b10" \
  -H "Content-Type: application/json" -d '{"M":1,"N":4096,"K":4096}'
"""
SEED_001 = r"""
curl -X POST localhost:8000/api/analyze?hardware_key=b10 \
  -H "Content-Type: application/json" \
  -d '{"M":1,"N":4096,"K":4096,"precision":"FP16"}'

curl localhost:8000/api/nvml/status
curl localhost:8000/api/hardware
"""
ENDPOINTS = ("/api/analyze", "/api/recommend", "/api/nvml/status", "/api/hardware", "/api/sweep", "/api/tiling")


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    from reports.api.http.app import create_app

    with testclient.TestClient(
        create_app(tmp_path_factory.mktemp("api") / "none.db"), base_url="http://localhost:8000"
    ) as client:
        yield client


def answer(client, line):
    request_parts = parsed(line)
    request = client.request(
        request_parts.method, request_parts.path, headers=request_parts.headers, content=request_parts.body
    )
    assert request.status_code == 200, request.text
    return request.json()


def test_recommend_as_printed(client):
    (line,) = curl_lines(SEED_000)
    document = answer(client, line)
    assert (document["precision"], document["method"], document["summary"]) == (
        "INT4",
        "AWQ",
        "INT4 (AWQ) 4.0x speedup",
    )
    assert document["best"]["memory_saved_ratio"] == 0.75


def test_analyze_status_and_hardware_as_printed(client):
    analyze, status, hardware = (answer(client, line) for line in curl_lines(SEED_001))
    # The table of the document: 33.6 us, intensity 1.00, memory-bound, critical intensity 200.
    assert round(analyze["time_s"] * 1e6, 1) == 33.6
    assert round(analyze["intensity_flop_per_byte"], 2) == 1.0
    assert analyze["critical_intensity_flop_per_byte"] == 200
    assert analyze["bound"] == "memory"
    assert status["available"] is False
    assert "b10" in [chip["key"] for chip in hardware["hardware"]]


def test_every_endpoint_of_the_documents_is_there(client):
    assert set(ENDPOINTS) <= set(client.get("/api/openapi.json").json()["paths"])


def test_the_decode_table_of_the_document(client):
    for precision, time_us in (("FP16", 33.6), ("FP8", 16.8), ("INT8", 16.8), ("NVFP4", 9.5), ("INT4", 8.4)):
        response = client.post(
            "/api/analyze?hardware_key=b10", json={"M": 1, "N": 4096, "K": 4096, "precision": precision}
        )
        assert round(response.json()["time_s"] * 1e6, 1) == time_us
