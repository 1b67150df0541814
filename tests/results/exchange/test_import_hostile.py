"""Files that nobody should be able to hurt us with: refused in one line, unread where they are too large."""

from __future__ import annotations

import json
import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from foreign_files import OLD_SERVE, PP, PYTEST_BENCHMARK, SERVE, TABLE, TG
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from results.exchange import files
from results.exchange.exported.flat import COLUMNS
from results.exchange.importing import import_any, read_any
from results.store.store import ResultStore
from roofline_model.core.errors import InvalidValueError, RooflineError
from roofline_model.core.table_file import MAX_ROWS, MAX_TABLE_BYTES

Write = Callable[[str, Any], Path]

NOTHING_WE_KNOW = [
    ("empty.json", b""),
    ("blank.json", b"  \n\n \t\n"),
    ("truncated.json", json.dumps([PP, TG]).encode()[:-400]),
    ("half.jsonl", json.dumps(PP).encode() + b"\n" + json.dumps(TG).encode()[:100]),
    ("nested.json", b"[" * 100_000),
    ("number.json", b"[" + b"1" * 5000 + b"]"),
    ("latin.json", b'{"model_id": "\xff\xfe"}'),
    ("latin.csv", b"device,op,time_s\n\xff\xfe,gemm,1\n"),
    ("list.json", b"[]"),
    ("scalar.json", b"[7]"),
    ("other.json", b'{"hello": [1, 2]}'),
    ("other.csv", b"a,b,c\n1,2,3\n"),
    ("quote.csv", b'device,op,time_s\n"h100,gemm,1\n'),
    ("one_line.csv", b"device,op,time_s," + b"x" * (2**20 + 10)),
    ("ours.csv", b"run_id,run_label,case\n1,2,3\n"),
    ("junk.parquet", b"PAR1 no, it is not"),
    ("null.json", b"\0" * 5000),
]


@pytest.mark.parametrize(("name", "content"), NOTHING_WE_KNOW, ids=[name for name, _ in NOTHING_WE_KNOW])
def test_what_is_none_of_ours_is_one_line_naming_the_file(
    empty_store: ResultStore, tmp_path: Path, name: str, content: bytes
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(RooflineError) as caught:
        import_any(empty_store, path)
    assert name in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 1000
    assert empty_store.runs() == []


@pytest.mark.parametrize(
    ("name", "start", "limit"),
    [
        ("huge.csv", TABLE.encode(), MAX_TABLE_BYTES),
        ("huge.json", b'[{"n_gen": 1}\n', files.MAX_FOREIGN_JSON_BYTES),
        ("ours.json", b'{"format": "roofline-bench run",\n', files.MAX_JSON_BYTES),
    ],
)
def test_a_file_of_a_billion_rows_is_refused_unread(tmp_path: Path, name: str, start: bytes, limit: int) -> None:
    path = tmp_path / name
    path.write_bytes(start)
    os.truncate(path, 40 * 2**30)  # sparse: takes no space
    tracemalloc.start()
    with pytest.raises(InvalidValueError, match=r"42\.95 GB"):
        read_any(path)
    os.truncate(path, limit + 1)
    with pytest.raises(InvalidValueError, match="more than an import reads"):
        read_any(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 * 2**20


def test_json_on_one_line_of_some_megabytes_is_no_table(write: Write, empty_store: ResultStore) -> None:
    """As `vllm bench serve --save-detailed` and `jq -c` write it."""
    detailed = {**SERVE, "generated_texts": ["x" * 2**20, "y"], "itls": [[0.01] * 1000]}
    path = write("detailed.json", "\ufeff\n \n" + json.dumps(detailed))
    assert max(map(len, path.read_text(encoding="utf-8-sig").splitlines())) > files.LONGEST_LINE_CHARS
    assert import_any(empty_store, path).added == 2


def test_our_own_parquet_is_no_table_of_kernels(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pyarrow.table({name: ["x"] for name in COLUMNS}), tmp_path / "run.parquet")
    with pytest.raises(InvalidValueError, match=r"Parquet.*Parquet.*--format"):
        read_any(tmp_path / "run.parquet")


def test_a_small_parquet_file_of_many_rows_is_refused_unread(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    count = MAX_ROWS + 1
    columns = {"device": ["h100"] * count, "op": ["gemm"] * count, "time_s": [1.0] * count}
    table = pyarrow.table({name: pyarrow.array(values).dictionary_encode() for name, values in columns.items()})
    parquet.write_table(table, tmp_path / "many.parquet", compression="zstd")
    assert (tmp_path / "many.parquet").stat().st_size < 2**20
    with pytest.raises(InvalidValueError, match="500,001"):
        read_any(tmp_path / "many.parquet")


def test_a_csv_of_llama_bench_is_bounded_too(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    from results.exchange import llama_rows

    monkeypatch.setattr(llama_rows, "MAX_ROWS", 1)
    with pytest.raises(RooflineError, match="more than 1 tests: split it"):
        read_any(write("l.json", [PP, TG]))


@pytest.mark.parametrize("name", ["wide.csv", "wide.md"])
def test_a_table_of_very_many_columns_is_refused(write: Write, name: str) -> None:
    """Each cell of a row is an entry of a mapping: half a megabyte of separators a line makes gigabytes."""
    many = range(100_000)
    if name == "wide.csv":
        head = "model_type,n_prompt,n_gen,avg_ns," + ",".join(f"c{number}" for number in many)
        text = f"{head}\n" + ("," * (len(many) + 3) + "\n") * 2
    else:
        text = "| model | backend | test | t/s | " + " | ".join(f"c{number}" for number in many) + " |\n"
    with pytest.raises(RooflineError, match="columns, more than are read"):
        read_any(write(name, text))


def test_json_of_very_many_values_is_refused_before_it_is_read(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_CELLS", 1_000)
    with pytest.raises(RooflineError, match="more than 1,000 values"):
        read_any(write("many.json", "[" + "[]," * 1_000 + "[]]"))
    with pytest.raises(RooflineError, match="a whole number of 5,000,000 digits"):
        read_any(write("digits.json", '[{"n_gen": ' + "1" * 5_000_000 + "}]"))


def test_hostile_names_are_kept_as_text_and_shown_harmlessly(write: Write, empty_store: ResultStore) -> None:
    nasty = "=cmd|' /C calc'!A0\x1b[2J<script>'; DROP TABLE run; --\u202e"
    path = write("l.json", [{**TG, "model_type": nasty, "model_filename": nasty, "model_n_params": 5}])
    assert import_any(empty_store, path).added == 1
    (run,) = empty_store.runs()
    (record,) = empty_store.records(run.run_id)
    assert record.extra["imported"]["model_type"] == nasty
    assert "\x1b" not in record.case.kernel
    assert len(empty_store.runs()) == 1


LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**80), 2**80),
    st.floats(allow_nan=True),
    st.text(max_size=5),
    st.just([]),
    st.just({}),
)


@given(data=st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_field_may_be_anything(tmp_path: Path, data: st.DataObject) -> None:
    """Whatever one field is turned into, the file is read or refused in one line; nothing else comes out."""
    document = json.loads(json.dumps(data.draw(st.sampled_from([[PP, TG], SERVE, OLD_SERVE, PYTEST_BENCHMARK]))))
    spot: Any = document
    while True:
        keys = list(range(len(spot))) if isinstance(spot, list) else sorted(spot)
        key = data.draw(st.sampled_from(keys))
        if isinstance(spot[key], list | dict) and spot[key] and data.draw(st.booleans()):
            spot = spot[key]
            continue
        break
    spot[key] = data.draw(LEAVES)
    path = tmp_path / "any.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    refusal = ""
    try:
        read = read_any(path)
    except RooflineError as error:
        refusal = str(error)
    if refusal:
        assert "\n" not in refusal
        assert "any.json" in refusal
        return
    assert read.kind
    assert read.records
    for record in read.records:
        assert record.measurement is not None
        assert 0 < record.measurement.median_s < 1e9
