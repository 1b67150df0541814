"""What runs and records show at a Python prompt."""

from __future__ import annotations

from pathlib import Path

import pytest

from results import open_store
from results.exchange.exported.load import import_file

RUN = Path(__file__).parents[3] / "examples" / "runs" / "cpu-amd-epyc-2t" / "quick.json"


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    with open_store(tmp_path_factory.mktemp("reprs") / "r.db") as store:
        import_file(store, RUN)
        info = store.resolve_run("latest")
        yield info, store.records(info.run_id)


def test_a_run_prints_as_one_line(stored) -> None:
    info, _ = stored
    assert repr(info).startswith(f"<RunInfo {info.run_id[:8]}")
    assert len(repr(info)) < 140


def test_a_record_prints_as_one_line(stored) -> None:
    for record in stored[1]:
        assert record.status in repr(record)
        assert "\n" not in repr(record)
        assert len(repr(record)) < 140
