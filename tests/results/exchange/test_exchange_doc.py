"""docs/reference/exchange.md: its Python runs, and what it says of the command line is true."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from results.exchange.files import MAX_FOREIGN_JSON_BYTES, MAX_JSON_BYTES, MAX_TABLE_BYTES
from results.records.records import Record, RunInfo
from results.store.store import open_store

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "exchange.md").read_text(encoding="utf-8")


def test_the_frame_of_the_page(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    make_run: Callable[..., RunInfo],
    make_record: Callable[..., Record],
) -> None:
    monkeypatch.chdir(tmp_path)
    run = make_run(status="complete")
    with open_store("results.db") as store:
        sure = make_record(run.run_id)
        assert sure.measurement is not None
        sure = replace(sure, measurement=replace(sure.measurement, flags=()))
        store.add_run(run, [], [sure, make_record(run.run_id, status="failed", measurement=None)])
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    names: dict[str, object] = {}
    exec(code, names)
    assert len(names["frame"]) == 2  # type: ignore[arg-type]
    assert list(names["best"]) == [4.4e-5]  # type: ignore[call-overload]


def test_the_limits_of_the_page() -> None:
    sizes = (
        f"{MAX_JSON_BYTES // 10**9} GB, other JSON {MAX_FOREIGN_JSON_BYTES // 10**6} MB, a table "
        f"{MAX_TABLE_BYTES // 10**6} MB"
    )
    assert f"may take {sizes}" in " ".join(PAGE.split())
