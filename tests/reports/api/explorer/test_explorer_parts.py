"""GET /api/explorer/{part}: what the page gets, without a browser. Numbers are those of the endpoints."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from reports.api.explorer.measured import asked_blocks
from reports.present.block_json import block_json
from reports.present.blocks import Cell, Column, Paragraph, Span, plain_text, table
from results import open_store
from results.exchange.exported.load import import_file
from results.rankings import StoredQuestion, recommend_from_store

ROOT = Path(__file__).parents[4]


def part(client, name, query=""):
    response = client.get(f"/api/explorer/{name}?{query}")
    assert response.status_code == 200, response.text
    return response.json()


def row_cells(answer, key):
    """Return header → cell of one format's row."""
    block = answer["sections"]["formats"][0]
    row = next(row for row in block["rows"] if row["anchor"] == f"format-{key}")
    return {column["header"]: cell for column, cell in zip(block["columns"], row["cells"], strict=True)}


def test_a_block_keeps_what_differs_from_its_default_and_every_text_is_cleaned():
    block = table("t", [Column("n", lambda x: Cell(str(x), float(x)), "number")], [1, 2])
    answer = block_json([block, Paragraph((Span("a\x00", "bold"), " b"))], lambda text: text.replace("\x00", "?"))
    assert answer[0]["columns"] == [{"type": "Column", "header": "n", "kind": "number"}]
    assert answer[0]["rows"][1]["cells"] == [{"type": "Cell", "content": "2", "value": 2.0}]
    assert answer[1] == {"type": "Paragraph", "text": [{"type": "Span", "text": "a?", "look": "bold"}, " b"]}
    json.dumps(answer)


def test_the_numbers_are_those_of_the_endpoints(api_client):
    answer = part(api_client, "answer", "M=512&hw=gb10")
    assert answer["title"] == "GEMM 512 × 4,096 × 4,096 on NVIDIA GB10 (DGX Spark)"
    body = {"M": 512, "N": 4096, "K": 4096, "precision": "FP16", "weight_precision": "INT4"}
    analyzed = api_client.post("/api/analyze?hardware_key=gb10", json=body).json()
    cells = row_cells(answer, "INT4.FP16")
    assert cells["Expected"]["value"] == analyzed["expected"]["time_s"]
    assert cells["vs FP16"]["value"] == analyzed["expected_speedup_ratio"]
    ranked = api_client.post("/api/recommend?hardware_key=gb10", json={"M": 512, "N": 4096, "K": 4096}).json()
    assert answer["sections"]["answer"][0]["text"] == ranked["short_answer"]["sentence"]
    (taken,) = [row for row in answer["sections"]["formats"][0]["rows"] if "take" in json.dumps(row)]
    assert taken["anchor"] == f"format-{ranked['best']['format']}"


@pytest.mark.parametrize("operator", ["product", "attention", "model"])
def test_every_part_answers_for_every_operator(api_client, operator):
    for name in ("answer", "chips", "measured", "gpu"):
        answer = part(api_client, name, f"op={operator}&compare=l4")
        assert any(answer["sections"].values()), name
    assert set(part(api_client, "batches", f"op={operator}")["sliders"]) == {"token", "first"}
    assert part(api_client, "answer", f"op={operator}")["figures"]["roofline"]["data"]


@pytest.mark.parametrize(
    ("query", "field", "words"),
    [
        ("N=0", "N", "N should be greater than or equal to 1"),
        ("N=", "N", "N is missing"),
        ("op=attention&Hkv=5", "Hkv", "Hkv=5"),
        ("op=model&batch=x", "batch", "Batch should be"),
        ("op=model&loss=-3", "loss", "Loss limit should be"),
        ("limit=-1", "limit", "Memory limit should be"),
        ("op=model&model=nothing", "model", "nothing"),
        ("hw=h100x", "hw", "No chip here is called “h100x”."),
        ("hw=auto", "hw", "this server was not told"),
    ],
)
def test_what_is_wrong_is_told_of_its_input_and_no_number_stays(api_client, query, field, words):
    answer = part(api_client, "answer", query)
    assert words in answer["errors"][field]
    assert not any(blocks for name, blocks in answer["sections"].items() if name != "answer")
    assert part(api_client, "chips", query)["sections"] == {"chips": []}


def test_a_format_that_the_chip_has_not_is_told_with_its_reason(api_client):
    answer = part(api_client, "answer", "hw=a100&formats=FP16,NVFP4.NVFP4,NOPE")
    assert "NOPE" in json.dumps(answer["sections"]["formats"])
    assert [each["key"] for each in answer["formats"] if each["is_chosen"]] == ["FP16", "NVFP4", "NOPE"]


def test_a_run_brings_its_points_and_its_cases_and_a_wrong_name_is_told(api_client):
    run = api_client.get("/api/runs/cases").json()["run"]
    answer = part(api_client, "measured", f"run={run['run_id']}&words=gemm")
    cases = api_client.get("/api/runs/cases/cases?status=measured&words=gemm").json()["cases"]
    (folded,) = [block for block in answer["sections"]["measured"] if block["type"] == "Folded"]
    assert [row["anchor"] for row in folded["blocks"][0]["rows"]] == [f"case-{case['case_key']}" for case in cases]
    keys = {key for trace in answer["figures"]["measured"]["data"] for key in trace.get("customdata", ())}
    assert keys & {f"case:{case['case_key']}" for case in cases}
    assert "unknown run" in json.dumps(part(api_client, "measured", "run=nope-nope")["sections"]).lower()
    assert part(api_client, "answer", "run=nope-nope")["sections"]["formats"]


def test_it_is_the_pages_own_and_any_text_is_an_answer(api_client):
    assert not [path for path in api_client.get("/api/openapi.json").json()["paths"] if "explorer" in path]
    for query in ("focus=%00&words=%00&run=%00", "compare=,,,,&formats=,,,", "op=%F0%9F%98%80", "token=x&op=model"):
        for name in ("answer", "chips", "batches", "measured"):
            part(api_client, name, query)
    assert api_client.get("/api/explorer/nothing").status_code == 422
    assert api_client.get("/api/explorer/answer?M=" + "1" * 500).status_code == 422


def test_of_several_modes_the_stored_runs_speak_for_eager_calls_of_the_cache_asked(tmp_path):
    runs = ROOT / "examples" / "runs" / "h200-sxm"
    with open_store(str(tmp_path / "r.db")) as store:
        for name in ("quick.json", "modes.json"):
            import_file(store, runs / name)
        answer = recommend_from_store(store, StoredQuestion(hardware_key="h200-sxm", shape=(1, 4096, 4096)))
    assert {ranking.question.mode for ranking in answer.rankings} >= {"eager", "burst"}
    for rankings in (answer.rankings, tuple(reversed(answer.rankings))):
        _, summary, *_ = asked_blocks(replace(answer, rankings=rankings), "cold")
        assert plain_text(summary.text).startswith("Take FP8 (W8A8)")
