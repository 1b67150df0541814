"""A table from outside is refused by what it would unpack to, before it does, at every door that reads one."""

from __future__ import annotations

import re
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from roofline_cli.main import app
from roofline_model.core import table_file
from roofline_model.core.errors import InvalidValueError
from roofline_model.core.table_file import MAX_CELL_CHARS, MAX_COLUMNS, MAX_ROWS, read_table

pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'roofline-bench[parquet]'")
parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")

ROW: dict[str, Any] = {
    "device": "h100-sxm",
    "op": "gemm",
    "m": 1,
    "n": 4096,
    "k": 4096,
    "weight_format": "FP8",
    "time_s": 1e-5,
}
MOST_MEMORY_BYTES = 300 * 10**6


def repeated(count: int, **others: Any) -> Any:
    """A table of one row, many times: texts as an index into a dictionary, so that a row costs a fraction of a bit."""
    columns = {}
    for name, value in {**ROW, **others}.items():
        if isinstance(value, str):
            zeros = pyarrow.repeat(pyarrow.scalar(0, pyarrow.int32()), count)
            columns[name] = pyarrow.DictionaryArray.from_arrays(zeros, pyarrow.array([value]))
        else:
            columns[name] = pyarrow.repeat(pyarrow.scalar(value), count)
    return pyarrow.table(columns)


BOMBS = {
    "one text of megabytes in every row": (
        lambda: repeated(300, source="x" * 20_000_000),
        {},
        "a cell of column source",
    ),
    "a text of the longest cell in every row": (
        lambda: repeated(100_000, source="x" * MAX_CELL_CHARS),
        {},
        "unpacks to more than",
    ),
    "very many rows": (lambda: repeated(MAX_ROWS + 1), {}, "500,001 rows"),
    "many columns": (lambda: repeated(1, **{f"c{i}": 1 for i in range(MAX_COLUMNS)}), {}, "columns, more"),
    "many cells": (lambda: repeated(90_000, **{f"c{i}": 1 for i in range(200)}), {}, "cells, more than"),
    "a list in a cell": (
        lambda: pyarrow.table({**{k: [v] for k, v in ROW.items()}, "source": [[1] * 10**6]}),
        {},
        "leave",
    ),
    "bytes in a cell": (
        lambda: pyarrow.table(
            {**{k: [v] for k, v in ROW.items()}, "source": pyarrow.array([b"x" * 10**6], type=pyarrow.binary(10**6))}
        ),
        {},
        "leave it out",
    ),
    "each text as a part of the one before": (
        lambda: pyarrow.table({**{k: [v] * 20_000 for k, v in ROW.items()}, "source": ["x" * 20_000] * 20_000}),
        {"use_dictionary": False, "column_encoding": {"source": "DELTA_BYTE_ARRAY"}},
        "DELTA_BYTE_ARRAY",
    ),
}


@pytest.fixture(scope="module")
def bombs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("bombs")
    paths = {}
    for number, (name, (make, options, _)) in enumerate(BOMBS.items()):
        paths[name] = folder / f"b{number}.parquet"
        parquet.write_table(make(), paths[name], compression="zstd", **options)
        assert paths[name].stat().st_size < 300_000
    return paths


@pytest.mark.parametrize("name", BOMBS)
def test_a_small_file_that_stands_for_gigabytes_is_refused_in_little_memory(bombs: dict[str, Path], name: str) -> None:
    before = pyarrow.total_allocated_bytes()
    tracemalloc.start()
    try:
        with pytest.raises(InvalidValueError, match=re.escape(BOMBS[name][2])) as caught:
            read_table(bombs[name], "kernel table")
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < MOST_MEMORY_BYTES
    assert pyarrow.total_allocated_bytes() - before < MOST_MEMORY_BYTES
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("door", [["import"], ["validate"], ["fit", "--from"]], ids=lambda door: door[0])
def test_every_door_refuses_it(
    bombs: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, door: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for path in bombs.values():
        result = CliRunner().invoke(app, [*door, str(path)])
        assert result.exit_code == 2, result.output
        assert result.stderr.count("\n") == 1
        assert result.stdout == ""


@pytest.mark.parametrize("what", ["rows", "columns", "cells", "cell"])
def test_a_csv_has_the_same_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    monkeypatch.setattr(table_file, "MAX_ROWS", 50)
    monkeypatch.setattr(table_file, "MAX_CELLS", 300)
    header, lines = {
        "rows": (3, ["1"] * 51),
        "columns": (MAX_COLUMNS + 1, ["1"]),
        "cells": (40, ["1"] * 10),
        "cell": (3, ["x" * (MAX_CELL_CHARS + 1)]),
    }[what]
    path = tmp_path / "t.csv"
    path.write_text("\n".join([",".join(f"c{i}" for i in range(header)), *lines]), encoding="utf-8")
    with pytest.raises(InvalidValueError, match=r"t\.csv.*(split it|columns|field larger)"):
        read_table(path, "kernel table")


def test_what_parquet_can_say_reads_as_its_csv_would(tmp_path: Path) -> None:
    import pandas

    frame = pandas.DataFrame(
        {
            "device": pandas.Categorical(["h100", None, "b200"]),
            "m": pandas.array([1, None, 3], dtype="Int64"),
            "time_s": [1.5, float("nan"), 2.0],
            "causal": [True, False, True],
            "day": pandas.to_datetime(["2026-01-01", "2026-01-02", "2026-01-03"]),
            "note": ["", "a,b", None],
        },
        index=[7, 8, 9],
    )
    frame.to_parquet(tmp_path / "t.parquet", row_group_size=2)
    table = read_table(tmp_path / "t.parquet", "kernel table")
    assert table.header == ("device", "m", "time_s", "causal", "day", "note")
    assert table.rows == (
        ["h100", "1", "1.5", "True", "2026-01-01 00:00:00", ""],
        ["", "", "", "False", "2026-01-02 00:00:00", "a,b"],
        ["b200", "3", "2", "True", "2026-01-03 00:00:00", ""],
    )
    assert table.line_numbers == (1, 2, 3)
