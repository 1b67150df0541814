"""A small database behind the API: a run with hostile names, two runs that differ, nights; and clients for it."""

from __future__ import annotations

from dataclasses import replace

import diff_runs
import pytest

pytest.importorskip("fastapi", reason="fastapi is not installed: pip install 'roofline-bench[api]'")

from fastapi.testclient import TestClient

HOSTILE = "</script><script>alert(1)</script> ‮\"'&"


@pytest.fixture(scope="session")
def api_database(tmp_path_factory, make):
    """Three runs: `cases` (a CPU's, all statuses), `a` and `b`, of which b has one case 10 % slower."""
    from results.store.store import open_store

    path = tmp_path_factory.mktemp("api") / "results.db"
    before, after = diff_runs.pair({3: 0.1})
    run = make.run(label="cases", started_at="2026-02-01T10:00:00.000000+00:00")
    hostile = make.run(
        run_id="f" * 32, label=HOSTILE, started_at="2026-01-01T10:00:00.000000+00:00", command=HOSTILE * 5_000
    )
    records = [replace(record, run_id=run.run_id) for record in make.cpu_records()]
    strange = make.record((1, 64, 64), "BF16", "BF16", HOSTILE, 1e-3, number=9_000, run_id=hostile.run_id)
    with open_store(path) as store:
        store.add_run(run, make.profiles(make.CPU).values(), records)
        store.add_run(hostile, [], [replace(strange, test_id=HOSTILE)])
    diff_runs.stored(path, before, after)
    return path


@pytest.fixture(scope="session")
def api_client(api_database):
    from reports.api.http.app import create_app

    with TestClient(create_app(api_database)) as client:
        yield client
