"""Tables of measured kernels become records with the predictions that `roofline validate` gives their rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from foreign_files import TABLE

from results.exchange.importing import import_any, read_any
from results.store.store import ResultStore
from roofline_model.core.errors import StoreError
from roofline_model.expected.fitting.table import read_kernel_table
from roofline_model.validation.table_prediction import predict_table

Write = Callable[[str, Any], Path]


def test_rows_are_records_with_the_predictions_of_validate(write: Write, empty_store: ResultStore) -> None:
    path = write("k.csv", TABLE)
    assert import_any(empty_store, path).added == 4
    (run,) = empty_store.runs()
    assert run.hardware_key == "h100-sxm"
    stored = empty_store.records(run.run_id)
    prediction = predict_table(read_kernel_table(path))
    for record, ideal_s, expected_s, low_s, measured_s in zip(
        stored, prediction.ideal_s, prediction.expected_s, prediction.low_s, prediction.measured_s, strict=True
    ):
        assert record.ideal is not None
        assert record.expected is not None
        assert record.measurement is not None
        assert record.ideal.time_s == pytest.approx(ideal_s, rel=1e-9)
        assert record.expected.time_s == pytest.approx(expected_s, rel=1e-9)
        assert record.expected.low_s == pytest.approx(low_s, rel=1e-9)
        assert record.measurement.median_s == measured_s
        assert record.expected.error_ratio == pytest.approx(expected_s / measured_s - 1)
        assert record.method is not None
        assert record.method.timer == "imported:kernel-table"
    assert [stored_record.case.op for stored_record in stored] == ["gemv", "gemv", "attention", "decode:llama-3.1-8b"]
    assert stored[0].extra["imported"]["row"]["note"] == "x"  # unknown columns are carried through
    profile = empty_store.profile(stored[0].ideal.profile_hash)  # type: ignore[union-attr]
    assert profile is not None
    assert profile.key == "h100-sxm"


def test_rows_in_another_order_or_with_more_are_the_same_rows(write: Write, empty_store: ResultStore) -> None:
    lines = TABLE.splitlines()
    import_any(empty_store, write("k.csv", TABLE))
    more = lines[2].replace("1.2e-05", "1.3e-05")
    report = import_any(empty_store, write("k2.csv", "\n".join([lines[0], lines[3], more, lines[1], lines[1]])))
    assert (report.added, report.duplicates) == (1, 3)
    assert sum(len(empty_store.records(run.run_id)) for run in empty_store.runs()) == 5


def test_parquet_is_read_like_csv(write: Write, empty_store: ResultStore, tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pandas.read_csv(write("k.csv", TABLE), dtype=str, keep_default_na=False)
    frame.to_parquet(tmp_path / "k.parquet")
    import_any(empty_store, tmp_path / "k.csv")
    assert import_any(empty_store, tmp_path / "k.parquet").duplicates == 4


def test_an_unknown_chip_is_stored_without_prediction(write: Write) -> None:
    (exported,) = read_any(write("k.csv", TABLE.replace("h100-sxm", "some-chip"))).runs
    assert all(record.predictions == () for record in exported.records)
    assert "some-chip" in exported.records[0].extra["unpredicted"]["values"]["reason"]
    assert exported.profiles == ()


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("2.0e-05", "-2.0e-05", "row 2: time_s must be a positive number"),
        ("2.0e-05", "nan", "row 2: time_s must be a positive number"),
        ("2.0e-05", "", "row 2: time_s is empty"),
        ("2.0e-05", "2e12", "row 2: time_s must be seconds"),
        ("1,4096,4096,,,", "1,4096.5,4096,,,", "row 2: n must be a whole number"),
        ("16,4096,4096", "16,many,4096", "row 3: n must be a whole number"),
        ("INT4,BF16", "INT5,BF16", "row 3: weight_format"),
        ("INT4,BF16", ",BF16", "row 3: weight_format is empty"),
        ("gemm,decode,16", "conv,decode,16", "row 3: op 'conv' is not one of"),
        ("llama-3.1-8b", "llama-9", "row 5"),
    ],
)
def test_a_bad_row_is_named_and_nothing_is_imported(
    write: Write, empty_store: ResultStore, old: str, new: str, words: str
) -> None:
    path = write("k.csv", TABLE.replace(old, new, 1))
    with pytest.raises(StoreError) as caught:
        import_any(empty_store, path)
    assert words in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert empty_store.runs() == []
