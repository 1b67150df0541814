"""Runs, cases, histories, diffs and reports over HTTP: the database's own numbers, page by page."""

from __future__ import annotations

import json

import pytest
from fastapi.testclient import TestClient
from typer.testing import CliRunner

from reports.present.encoder import SCHEMA_VERSION
from results.store.store import open_store
from roofline_cli.main import app


def get(client, path, status=200, **options):
    response = client.get(path, **options)
    assert response.status_code == status, response.text
    return response


def test_runs_are_listed_newest_first_page_by_page(api_client):
    whole = get(api_client, "/api/runs").json()
    assert [run["label"] for run in whole["runs"]][:3] == ["b", "a", "cases"]
    assert whole["page"] == {"offset": 0, "limit": 100, "total_count": 4, "next_offset": None}
    first = get(api_client, "/api/runs?limit=3").json()
    rest = get(api_client, f"/api/runs?limit=3&offset={first['page']['next_offset']}").json()
    assert first["runs"] + rest["runs"] == whole["runs"]
    assert rest["page"]["next_offset"] is None


def test_a_run_is_named_as_on_the_command_line(api_client, make):
    for name in (make.RUN_ID, make.RUN_ID[:6], "cases"):
        assert get(api_client, f"/api/runs/{name}").json()["run"]["run_id"] == make.RUN_ID
    assert get(api_client, "/api/runs/latest").json()["run"]["label"] == "b"


def test_a_run_counts_its_cases(api_client, make):
    answer = get(api_client, "/api/runs/cases").json()
    assert answer["counts"] == {"measured": 27, "predicted": 0, "skipped": 1, "failed": 1}
    assert answer["case_count"] == len(make.cpu_records())
    assert answer["environment"]["git"] == {"commit": "abc1234"}


def test_cases_hold_the_databases_own_numbers(api_client, api_database, make):
    with open_store(api_database, create=False, read_only=True) as store:
        records = {record.case.case_key: record for record in store.records(make.RUN_ID)}
    case_rows = get(api_client, "/api/runs/cases/cases").json()["cases"]
    assert len(case_rows) == len(records)
    for case in case_rows:
        record = records[case["case_key"]]
        measured = record.measurement if record.status == "measured" else None
        assert case["status"] == record.status
        assert case["measured_s"] == (None if measured is None else measured.median_s)
        assert case["ideal_s"] == (None if record.ideal is None else record.ideal.time_s)
        assert case["shape"] == dict(record.case.shape)
        assert case["formats"] == dict(record.case.formats)
        if record.status != "measured":
            assert case["reason"]


def test_cases_are_chosen_by_words_and_status(api_client):
    words = get(api_client, "/api/runs/cases/cases?words=GEMV int4&limit=2").json()
    assert words["page"]["total_count"] >= 2
    assert all("int4" in case["case_id"].lower() and case["op"] == "gemv" for case in words["cases"])
    failed = get(api_client, "/api/runs/cases/cases?status=failed").json()["cases"]
    assert [case["status"] for case in failed] == ["failed"]
    assert get(api_client, "/api/runs/cases/cases?words=nothinglikeit").json()["cases"] == []


def test_an_answer_changes_with_what_is_stored(tmp_path, make):
    from reports.api.http.app import create_app

    path = tmp_path / "results.db"
    record = make.record((1, 64, 64), "BF16", "BF16", "matmul", 1e-3, run_id=make.RUN_ID)
    with open_store(path) as store, TestClient(create_app(path)) as client:
        store.add_run(make.run(), [], [record])
        assert get(client, "/api/runs/nightly/cases").json()["cases"][0]["flags"] == []
        store.flag_records([record.record_id], "quarantined")
        assert get(client, "/api/runs/nightly/cases").json()["cases"][0]["flags"] == ["quarantined"]


def test_the_next_page_is_not_read_anew(api_client, monkeypatch):
    first = get(api_client, "/api/runs/cases/cases?limit=2").json()
    monkeypatch.setattr("results.store.store.ResultStore.records", None)
    second = get(api_client, "/api/runs/cases/cases?limit=2&offset=2").json()
    assert first["page"]["total_count"] == second["page"]["total_count"]
    assert not {case["record_id"] for case in first["cases"]} & {case["record_id"] for case in second["cases"]}


def test_a_diff_is_the_one_of_the_command_line(api_client):
    answer = get(api_client, "/api/diff?before=a&after=b").json()
    assert ([run["label"] for run in answer["before"]], answer["exit_code"]) == (["a"], 1)
    assert [run["label"] for run in answer["after"]] == ["b"]
    assert answer["counts"]["SLOWER"] == 1
    slower = next(case for case in answer["cases"] if case["verdict"] == "SLOWER")
    assert slower["change_ratio"] == pytest.approx(0.105, abs=0.02)
    assert slower["low_ratio"] < slower["change_ratio"] < slower["high_ratio"]
    assert get(api_client, "/api/diff").json() == answer  # latest~1 and latest


def test_the_command_line_gives_the_same_answers(api_client, api_database):
    def ask(*arguments):
        result = CliRunner().invoke(app, [*arguments, "--db", str(api_database), "--json"])
        document = json.loads(result.stdout)
        assert document["schema_version"] == SCHEMA_VERSION
        return document

    listed = [{key: row[key] for key in row if key != "holds"} for row in ask("runs")["runs"]]
    assert (
        listed[:3] == get(api_client, "/api/runs").json()["runs"][:3]
    )  # the last one has hostile texts, which the API cleans
    shown = ask("show", "cases")
    assert shown.pop("cases") == get(api_client, "/api/runs/cases/cases?limit=1000").json()["cases"]
    detail = get(api_client, "/api/runs/cases").json()
    assert {key: shown[key] for key in detail} == detail
    assert ask("diff", "a", "b") == get(api_client, "/api/diff?before=a&after=b").json()
    key = get(api_client, "/api/runs/b/cases?limit=1").json()["cases"][0]["case_key"]
    assert ask("history", key) == get(api_client, f"/api/cases/{key}/history").json()


def test_a_run_cannot_be_compared_with_itself(api_client):
    answer = get(api_client, "/api/diff?before=a&after=a", 422).json()
    assert "both sides" in answer["detail"]


def test_a_case_over_its_nights(api_client):
    key = get(api_client, "/api/runs/b/cases?limit=1").json()["cases"][0]["case_key"]
    answer = get(api_client, f"/api/cases/{key}/history").json()
    assert (answer["case_key"], answer["metric"]["key"], answer["metric"]["unit"]) == (key, "time", "s")
    assert answer["night_count"] == 2
    nights = [point for segment in answer["segments"] for point in segment["nights"]]
    assert [point["label"] for point in nights] == ["a", "b"]
    assert all(5e-4 < point["value"] < 2e-3 for point in nights)
    assert get(api_client, f"/api/cases/{key}/history?since=2026-03-02").json()["night_count"] == 1


@pytest.mark.parametrize(
    ("path", "status", "slug"),
    [
        ("/api/runs/nosuch", 404, "unknown-run"), ("/api/runs/latest~99", 404, "unknown-run"),
        ("/api/runs/nosuch/cases", 404, "unknown-run"), ("/api/runs/nosuch/report", 404, "unknown-run"),
        ("/api/cases/0123456789abcdef/history", 404, "unknown-case"), ("/api/cases/zz/history", 422, "invalid-value"),
        ("/api/diff?before=nosuch", 422, "unknown-run"), ("/api/runs?limit=0", 422, "invalid-value"),
        ("/api/runs?limit=100000", 422, "invalid-value"), ("/api/runs?offset=-1", 422, "invalid-value"),
        ("/api/runs/%00", 422, "invalid-value"), ("/api/runs/a/cases?status=odd", 422, "invalid-value"),
    ],
)  # fmt: skip
def test_what_is_not_stored_says_so(api_client, path, status, slug):
    answer = get(api_client, path, status).json()
    assert answer["slug"] == slug
    assert answer["errors"]


def test_without_a_database_only_stored_things_are_missing(tmp_path):
    from reports.api.http.app import create_app

    with TestClient(create_app(tmp_path / "none.db")) as client:
        assert get(client, "/api/runs", 404).json()["slug"] == "no-database"
        assert get(client, "/api/diff", 404).json()["slug"] == "no-database"
        assert client.post("/api/analyze", json={"M": 1, "N": 1, "K": 1}).status_code == 200
        assert get(client, "/api/health").json()["has_database"] is False
        with open_store(tmp_path / "none.db"):
            pass  # it appears while the server runs
        assert get(client, "/api/runs").json()["runs"] == []
        assert get(client, "/api/runs/latest", 404).json()["slug"] == "unknown-run"
        assert get(client, "/api/health").json()["has_database"] is True


def test_a_damaged_database_is_503_and_mends(tmp_path):
    from reports.api.http.app import create_app

    path = tmp_path / "results.db"
    with open_store(path):
        pass
    whole = path.read_bytes()
    with TestClient(create_app(path)) as client:
        assert get(client, "/api/runs").status_code == 200
        path.write_bytes(b"SQLite format 3\0" + b"\xff" * 4096)
        assert get(client, "/api/runs", 503).json()["slug"] == "store"
        path.write_bytes(whole)
        assert get(client, "/api/runs").status_code == 200


def test_what_is_no_database_of_ours_is_503(tmp_path):
    from reports.api.http.app import create_app

    path = tmp_path / "results.db"
    path.write_text("no database at all", encoding="utf-8")
    for target, words in ((path, "not a SQLite database"), (tmp_path, "is a folder")):
        with TestClient(create_app(target)) as client:
            answer = get(client, "/api/runs", 503).json()
            assert answer["slug"] == "store"
            assert words in answer["detail"]
            assert get(client, "/api/health").json()["has_database"] is False


def test_hostile_names_stay_text(api_client):
    body = get(api_client, f"/api/runs/{'f' * 32}").text
    document = json.loads(body)
    assert document["run"]["label"].startswith("</script><script>")  # as data it is whole …
    assert "‮" not in body  # … but cannot turn a line round
    assert len(document["run"]["command"]) <= 1_000
    page = get(api_client, f"/api/runs/{'f' * 32}/report")
    assert "<script>alert(1)" not in page.text


def test_the_report_may_load_nothing(api_client):
    page = get(api_client, "/api/runs/cases/report")
    policy = page.headers["content-security-policy"]
    assert page.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe-eval" not in policy
    names = [directive.split()[0] for directive in policy.split(";")]
    assert {"base-uri", "form-action"} <= set(names)
    assert len(names) == len(set(names))  # Chromium complains of each that comes twice


def test_a_page_without_a_policy_of_its_own_gets_the_strictest():
    from reports.api.stored.run_endpoints import page_policy

    assert page_policy("<html></html>").startswith("default-src 'none'")
    policy_tag = "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src 'sha256-x'\">"
    assert "script-src 'sha256-x'; base-uri" in page_policy(policy_tag)
    assert "evil" not in page_policy(policy_tag.replace("x'", "x'&#10;evil: \""))
    late = " " * 4_000 + policy_tag.replace("sha256-x", "unsafe-inline")
    assert "script-src" not in page_policy(late)


def test_reading_changes_nothing(api_client, api_database):
    before = api_database.read_bytes()
    for path in ("/api/runs", "/api/runs/cases/cases", "/api/diff", "/api/runs/cases/report"):
        get(api_client, path)
    assert api_database.read_bytes() == before
    assert sorted(path.name for path in api_database.parent.iterdir()) == ["results.db"]
