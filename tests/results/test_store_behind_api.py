"""PostgreSQL behind the API: the same answers as from a file, many readers at once, and a server that goes away and
comes back.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import diff_runs
import pytest

testclient = pytest.importorskip("fastapi.testclient", reason="fastapi is not installed")

PATHS = ("/api/runs", "/api/runs/latest", "/api/runs/latest/cases", "/api/diff?before=a&after=b")


@pytest.fixture(scope="module")
def sides():
    return diff_runs.pair({2: 0.1}, cases=4, processes=3)


def answers(target, sides):
    from reports.api.http.app import create_app

    diff_runs.stored(target, *sides)
    with testclient.TestClient(create_app(target)) as client:
        return [client.get(path).json() for path in PATHS]


def test_both_databases_give_the_same_answers(tmp_path, postgres_server, sides):
    of_file = answers(tmp_path / "results.db", sides)
    assert answers(postgres_server(with_tables=True), sides) == of_file
    assert of_file[0]["page"]["total_count"] == 2


@pytest.mark.parametrize("kind", ["file", "server"])
def test_many_readers_at_once(tmp_path, postgres_server, sides, kind):
    from reports.api.http.app import create_app

    target = tmp_path / "results.db" if kind == "file" else postgres_server(with_tables=True)
    diff_runs.stored(target, *sides)
    with testclient.TestClient(create_app(target)) as client, ThreadPoolExecutor(12) as threads:
        responses = list(threads.map(lambda number: client.get(PATHS[number % 3]), range(48)))
    assert {response.status_code for response in responses} == {200}
    assert len({response.text for response in responses}) == 3


def test_a_server_that_is_away_is_503_and_comes_back(mortal_postgres, postgres_server, sides):
    from reports.api.http.app import create_app

    target = postgres_server(with_tables=True, durable=True)
    diff_runs.stored(target, *sides)
    with testclient.TestClient(create_app(target)) as client:
        before = client.get("/api/runs").json()
        mortal_postgres.kill()
        away = client.get("/api/runs")
        assert (away.status_code, away.json()["slug"]) == (503, "database-away")
        assert away.headers["retry-after"]
        assert client.post("/api/analyze", json={"M": 1, "N": 64, "K": 64}).status_code == 200
        mortal_postgres.start()
        assert client.get("/api/runs").json() == before
