"""The database changes under a running server: each answer has the right words, and it mends by itself."""

from __future__ import annotations

import os
import shutil
import sqlite3

import pytest
from fastapi.testclient import TestClient

from reports.api.http.app import create_app
from reports.api.stored.store_access import StoreAccess
from results.store.store import open_store
from roofline_model.core.errors import DatabaseAwayError


@pytest.fixture
def path(tmp_path, api_database):
    copy = tmp_path / "results.db"
    shutil.copy(api_database, copy)
    return copy


@pytest.fixture
def client(path):
    with TestClient(create_app(path)) as test_client:
        assert test_client.get("/api/runs/latest").status_code == 200
        yield test_client


def state_of(client, where="/api/runs"):
    response = client.get(where)
    assert response.headers["content-type"] == "application/problem+json"
    return response.status_code, response.json()["slug"], response.json()["detail"]


def test_an_upgrade_in_place_by_newer_software_says_so(client, path):
    connection = sqlite3.connect(path)
    connection.execute("UPDATE alembic_version SET version_num = '0999'")
    connection.commit()
    connection.close()
    for where in ("/api/runs", "/api/runs/latest"):
        status, _, detail = state_of(client, where)
        assert status == 503
        assert "schema 999" in detail
    assert client.get("/api/health").json()["has_database"] is False


def test_an_emptied_file_is_no_database(client, path):
    path.write_bytes(b"")
    for where in ("/api/runs/latest", "/api/runs"):
        status, _, detail = state_of(client, where)
        assert status == 503
        assert "is empty" in detail


def test_a_file_that_is_deleted_is_missing_from_the_first_answer_on(client, path):
    path.unlink()
    for where in ("/api/runs", "/api/runs/latest", "/api/runs"):
        assert state_of(client, where)[:2] == (404, "no-database")
    os.symlink(path, path)
    assert state_of(client)[:2] == (503, "store")
    assert str(path.parent) not in state_of(client)[2]


def test_a_damaged_row_is_no_unknown_run(client, path):
    connection = sqlite3.connect(path)
    connection.execute("UPDATE environment SET facts = '{'")
    connection.commit()
    connection.close()
    for where in ("/api/runs/latest", "/api/runs/cases", "/api/runs/latest/report", "/api/diff"):
        status, slug, detail = state_of(client, where)
        assert (status, slug) == (503, "store")
        assert "is damaged" in detail


def test_what_names_no_run_stays_404(client, tmp_path):
    assert state_of(client, "/api/runs/nosuch")[:2] == (404, "unknown-run")
    assert state_of(client, "/api/runs/latest~99")[:2] == (404, "unknown-run")
    with open_store(tmp_path / "empty.db"):
        pass
    with TestClient(create_app(tmp_path / "empty.db")) as empty:
        assert state_of(empty, "/api/runs/latest")[:2] == (404, "unknown-run")


def test_an_unchanged_file_is_not_asked_for_its_schema(path, monkeypatch):
    from results.store.store import ResultStore

    version_reads = []
    version = ResultStore.schema_version
    monkeypatch.setattr(ResultStore, "schema_version", lambda store: version_reads.append(1) or version(store))
    access = StoreAccess(path)
    for _ in range(3):
        with access.reading() as store:
            store.runs(limit=1)
    assert version_reads == []
    os.utime(path)
    for _ in range(3):
        with access.reading():
            pass
    assert version_reads == [1]
    access.close()


def test_who_waited_for_a_server_that_is_away_does_not_wait_again(monkeypatch):
    import threading
    import time

    import results.store.store

    opened = []

    def away(*_, **__):
        opened.append(1)
        time.sleep(0.2)
        raise DatabaseAwayError("its server is away")

    monkeypatch.setattr(results.store.store, "open_store", away)
    access = StoreAccess("postgresql+psycopg://nobody@localhost/none")
    answers = [threading.Thread(target=access.is_readable) for _ in range(8)]
    for answer in answers:
        answer.start()
    for answer in answers:
        answer.join(5)
    assert len(opened) < 4
