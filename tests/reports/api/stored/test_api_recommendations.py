"""GET /api/recommendations: the document of `roofline recommend --stored --json`, with links that lead to the
evidence.
"""

from __future__ import annotations

import pytest

from reports.api.stored.stored_advice_models import StoredRecommendationList
from reports.present.answers.rankings import recommendations_json
from results.rankings import StoredQuestion, recommend_from_store


@pytest.fixture(scope="module")
def answer(api_client):
    response = api_client.get("/api/recommendations")
    assert response.status_code == 200
    return response.json()


def rows_of(answer):
    return [row for ranking in answer["rankings"] for row in ranking["rows"]]


def test_it_is_the_document_of_the_command_line(api_client, api_database):
    from results.store.store import open_store

    answer = api_client.get("/api/recommendations?hardware_key=B10&op=gemv").json()
    with open_store(api_database, create=False, read_only=True) as store:
        recommendations = recommend_from_store(store, StoredQuestion(hardware_key="b10", op="gemv"))
    wanted = recommendations_json(recommendations)
    assert answer["rankings"]
    assert [ranking["title"] for ranking in answer["rankings"]] == [ranking["title"] for ranking in wanted["rankings"]]
    for answered_row, row in zip(rows_of(answer), rows_of(wanted), strict=True):
        for name in (
            "rank",
            "time_s",
            "time_source",
            "low_s",
            "speedup_ratio",
            "confidence",
            "process_count",
            "kernel_gap",
        ):
            assert answered_row[name] == row[name]


def test_force_asks_for_results_of_disturbed_times_too(api_client, api_database):
    from results.store.store import open_store

    answer = api_client.get("/api/recommendations?force=true").json()
    with open_store(api_database, create=False, read_only=True) as store:
        wanted = recommendations_json(recommend_from_store(store, StoredQuestion(is_forced=True)))
    assert [ranking["summary"] for ranking in answer["rankings"]] == [
        wanted_ranking["summary"] for wanted_ranking in wanted["rankings"]
    ]


def test_every_answer_keeps_its_schema_and_says_why(answer):
    model = StoredRecommendationList.model_validate(answer)
    assert model.page.total_count == len(model.rankings) > 1
    assert {row.time_source for ranking in model.rankings for row in ranking.rows} >= {"measured"}
    assert all(row.reason and row.confidence_reason for ranking in model.rankings for row in ranking.rows)
    assert [row.rank for row in model.rankings[0].rows] == list(range(1, len(model.rankings[0].rows) + 1))


def test_links_lead_to_the_very_case(api_client, answer):
    row = next(row for row in rows_of(answer) if row["time_source"] == "measured" and len(row["evidence"]) == 1)
    (evidence,) = row["evidence"]
    assert api_client.get(evidence["run_url"]).json()["run"]["run_id"] == evidence["run_id"]
    case_answer = api_client.get(evidence["case_url"]).json()
    assert case_answer["page"]["total_count"] == 1
    (case,) = case_answer["cases"]
    assert case["measured_s"] == row["time_s"]
    assert case["record_id"] in evidence["record_ids"]
    assert api_client.get(row["history_url"]).json()["case_key"] == case["case_key"]


def test_what_changed_since_the_run_before_is_told(answer):
    changes = [change for ranking in answer["rankings"] for change in ranking["changes"]]
    assert any(change["verdict"] == "SLOWER" and change["change_ratio"] > 0.05 for change in changes)
    assert all(change["sentence"] for change in changes)


def test_pages_lead_on(api_client, answer):
    first = api_client.get("/api/recommendations?limit=1").json()
    assert (len(first["rankings"]), first["page"]["next_offset"]) == (1, 1)
    second = api_client.get("/api/recommendations?limit=1&offset=1").json()
    assert [*first["rankings"], *second["rankings"]] == answer["rankings"][:2]


def test_limits_refuse_with_a_reason(api_client):
    answer = api_client.get("/api/recommendations?memory_limit_gb=0.000001").json()
    assert not rows_of(answer)
    assert all(refusal["reason"] for ranking in answer["rankings"] for refusal in ranking["refused"])


@pytest.mark.parametrize(
    ("query", "field", "words"),
    [
        ("M=1", "N", "M, N and K together"), ("M=1&N=1&K=1&model=x", "model", "one of the two"), ("phase=both", "phase", "decode"),
        ("hardware_key=mi300x", "hardware_key", "no run of mi300x is stored"), ("hardware_key=MI300X", "hardware_key", "stored chips: b10"),
        ("hardware_key=auto", "hardware_key", "name a chip"), ("hardware_key=mi30x", "hardware_key", "Did you mean mi300x"),
        ("hardware_key=%2Fetc%2Fpasswd", "hardware_key", "unknown hardware"), ("max_loss_pct=nan", "max_loss_pct", "got 'nan'"),
        ("limit=0", "limit", "got '0'"), ("limit=100000", "limit", "got 100000"),
    ],
)  # fmt: skip
def test_a_wrong_filter_names_its_field(api_client, query, field, words):
    answer = api_client.get(f"/api/recommendations?{query}")
    assert answer.status_code == 422
    (error,) = answer.json()["errors"]
    assert (error["field"], error["location"]) == (field, "query")
    assert words in error["message"]


def test_hostile_names_are_text_of_bounded_length(answer):
    text = str(answer)
    assert "‮" not in text
    assert max(len(row["label"]) for row in rows_of(answer)) <= 1_000


def test_without_a_database_it_says_what_to_do(tmp_path):
    from fastapi.testclient import TestClient

    from reports.api.http.app import create_app

    with TestClient(create_app(tmp_path / "secret-folder" / "none.db")) as client:
        answer = client.get("/api/recommendations")
    assert (answer.status_code, answer.json()["slug"]) == (404, "no-database")
    assert "secret-folder" not in answer.text
