"""What `results` offers to Python: every name is there, importing it costs nothing, and the example of the page
runs.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import results
from results.records.records import ProcessInfo, Record, RunInfo
from results.store.store import open_store

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "reference" / "database.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", results.__all__)
def test_a_public_name_is_what_it_says(name: str) -> None:
    value = getattr(results, name)
    assert callable(value)
    assert value.__name__ == name
    assert value.__doc__
    assert name in dir(results)


def test_a_name_nobody_has() -> None:
    with pytest.raises(AttributeError, match="no attribute 'prun'"):
        _ = results.prun


def test_importing_the_package_imports_nothing_heavy() -> None:
    code = "import results, sys; print(sorted({'sqlalchemy', 'numpy', 'scipy', 'pandas'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "[]"


def test_the_example_of_the_page(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    make_run: Callable[..., RunInfo],
    make_record: Callable[..., Record],
) -> None:
    monkeypatch.chdir(tmp_path)
    with open_store("results.db") as store:
        for hour, factor in ((10, 1.0), (11, 1.5)):
            started = f"2026-03-01T{hour}:00:00.000000+00:00"
            run = make_run(started_at=started, status="complete")
            plain = make_record(run.run_id)
            assert plain.measurement is not None
            at = factor * 4.4e-5
            measured = replace(
                plain.measurement,
                samples_s=(at, at, at),
                median_s=at,
                min_s=at,
                max_s=at,
                mean_s=at,
                std_s=0.0,
                q1_s=at,
                q3_s=at,
                flags=(),
            )
            store.add_run(
                run,
                [],
                [
                    replace(
                        plain,
                        record_id=f"{run.run_id}-{number}",
                        measurement=measured,
                        process=ProcessInfo(number, 100 + number, "box", started),
                    )
                    for number in range(5)
                ],
            )
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    names: dict[str, object] = {}
    exec(code, names)
    assert names["slower"] == [plain.case.id]
    assert names["exit_code"] == 1
    assert names["problems"] == []
    assert [each.added_count for each in names["pushed"]] == [5, 5]  # type: ignore[attr-defined]
    assert [run.reason.code for run in names["dropped"].protected] == ["run-protected"] * 2  # type: ignore[attr-defined]
    assert set(re.findall(r"`(\w+)\(store, ", PAGE)) == {"find_records", "import_any"}
    assert {"find_records", "import_any", "load_frame", "case_history"} <= set(results.__all__)
