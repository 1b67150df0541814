"""The queries that commands really send find their rows by an index: never a walk over every record."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from large_store import fill

from results.history.reading import read_series
from results.records.metrics import METRICS
from results.store.store import ResultStore, open_store

LARGE = ("record", "measurement", "prediction", "telemetry", "energy", "machine_state", "attribution", "canary")
"""Tables that grow with every result. `process` has a row or a few per run: PostgreSQL rightly reads it whole."""

Asked = Callable[[ResultStore, str, str], object]

QUESTIONS: dict[str, Asked] = {
    "the newest complete run": lambda store, run_id, case_key: store.resolve_run("latest"),
    "runs of a branch, newest first": lambda store, run_id, case_key: store.runs(limit=200),
    "a run by its first digits": lambda store, run_id, case_key: store.resolve_run(run_id[:12]),
    "the records of a run": lambda store, run_id, case_key: store.records(run_id),
    "its canaries and processes": lambda store, run_id, case_key: (store.canaries(run_id), store.processes(run_id)),
    "the history of a case": lambda store, run_id, case_key: read_series(store, METRICS["time"], case_key=case_key),
    "the history of its prediction error": lambda store, run_id, case_key: read_series(
        store, METRICS["error"], case_key=case_key
    ),
    "healthy canary readings": lambda store, run_id, case_key: store.canary_times("class", "copy"),
    "which records are there": lambda store, run_id, case_key: store.record_ids(run_id),
}


def plans(store: ResultStore, question: Asked, run_id: str, case_key: str) -> list[str]:
    """Ask, and return how the database finds the rows of each statement that was sent."""
    sent: list[tuple[str, Any]] = []

    def note(connection: Any, cursor: Any, statement: str, parameters: Any, context: Any, many: bool) -> None:
        sent.append((statement, parameters))

    sa.event.listen(store._engine, "before_cursor_execute", note)
    question(store, run_id, case_key)
    sa.event.remove(store._engine, "before_cursor_execute", note)
    plan_texts = []
    for statement, parameters in sent:
        if not statement.lstrip().upper().startswith("SELECT"):
            continue

        def explain(connection: sa.Connection, statement: str = statement, parameters: Any = parameters) -> str:
            is_sqlite = connection.dialect.name == "sqlite"
            command = "EXPLAIN QUERY PLAN" if is_sqlite else "EXPLAIN"
            rows = connection.exec_driver_sql(f"{command} {statement}", parameters).all()
            return "\n".join(str(row[3] if is_sqlite else row[0]) for row in rows)

        plan_texts.append(store.query(explain))
    assert plan_texts
    return plan_texts


def check(store: ResultStore, run_id: str, case_key: str, large: tuple[str, ...] = LARGE) -> None:
    for name, question in QUESTIONS.items():
        for plan in plans(store, question, run_id, case_key):
            walks = [table for table in large if re.search(rf"^\W*SCAN {table}\b|Seq Scan on {table}\b", plan, re.M)]
            assert not walks, f"{name}:\n{plan}"


def test_sqlite_walks_over_no_large_table(tmp_path: Path) -> None:
    last = fill(tmp_path / "r.db", 3, 4)
    with open_store(tmp_path / "r.db", read_only=True) as store:
        case_key = store.records(last.run_id)[0].case.case_key
        check(store, last.run_id, case_key)
        (plan, *_) = plans(store, QUESTIONS["the newest complete run"], last.run_id, case_key)
        assert "SCAN run USING INDEX ix_run_started_at" in plan  # from the newest on, and stops at the first
        (series, *_) = [
            line for line in plans(store, QUESTIONS["the history of a case"], last.run_id, case_key) if "record" in line
        ]
        assert "ix_record_case_id" in series


def test_the_cloned_runs_are_like_stored_ones(tmp_path: Path) -> None:
    last = fill(tmp_path / "r.db", 3, 4)
    with open_store(tmp_path / "r.db") as store:
        runs = store.runs()
        assert [run.git_branch for run in runs] == ["main"] * 3
        assert runs[0] == last
        stored = [store.records(run.run_id) for run in runs]
        assert [len(records) for records in stored] == [4, 4, 4]
        assert len({record.record_id for records in stored for record in records}) == 12
        assert len({record.case for records in stored for record in records}) == 4


@pytest.mark.full
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_no_walk_over_a_million_results(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    target = tmp_path / "r.db" if kind == "sqlite" else request.getfixturevalue("postgres_server")()
    last = fill(target, 1000, 1000)
    with open_store(target, read_only=True) as store:
        case_key = store.records(last.run_id, with_samples=False)[500].case.case_key
        # The others are empty here, and PostgreSQL walks over what is empty.
        check(store, last.run_id, case_key, ("record", "measurement", "prediction"))
