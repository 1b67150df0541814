"""Series out of a database: the same as from records, and the case that a user means."""

from __future__ import annotations

import pytest

from results import open_store
from results.history import case_histories, case_history
from results.history.case_history import HistoryOptions
from results.history.reading import find_case
from results.records.metrics import METRICS
from roofline_model.core.errors import InvalidValueError, UnknownNameError
from roofline_model.operators.case import Case

SHAPE = (("M", 1), ("N", 4096), ("K", 4096))
OTHER = Case("gemv", SHAPE, (("a", "BF16"), ("b", "INT4")), "tinygemm")
GEMM = Case("gemm", SHAPE, (("a", "BF16"), ("b", "INT4")), "tinygemm")


@pytest.fixture(scope="module")
def nights(make_nights):
    return make_nights([1e-4] * 20 + [1.2e-4] * 10, processes=2, errors=[-0.1] * 30, energies_j=[1e-3] * 30)


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def store(request, nights, make_nights, tmp_path_factory):
    path = tmp_path_factory.mktemp("history") / "results.db"
    if request.param == "postgres":
        path = request.getfixturevalue("postgres_server")(with_tables=True)
    with open_store(path) as made:
        for runs, records in (nights, make_nights([2e-4] * 3, case=OTHER), make_nights([3e-4] * 3, case=GEMM)):
            for run in runs:
                made.add_run(run, [], [record for record in records if record.run_id == run.run_id])
    with open_store(path, create=False, read_only=True) as opened:
        yield opened


@pytest.mark.parametrize("metric", ["time", "energy", "error"])
def test_a_store_says_what_its_records_say(store, nights, metric):
    runs, records = nights
    from_store = case_history(store, records[0].case.id, metric=metric)
    assert from_store == case_history(records, records[0].case, runs=runs, metric=metric)
    assert len(from_store.points) == 30
    assert from_store.points[0].process_count == 2


def test_all_cases_at_once(store):
    histories = case_histories(store, options=HistoryOptions(METRICS["time"]))
    assert [(history.case.op, len(history.points), len(history.alerts)) for history in histories] == [
        ("gemm", 3, 0),
        ("gemv", 30, 1),
        ("gemv", 3, 0),
    ]
    assert case_histories(store, options=HistoryOptions(METRICS["memory"])) == []


def test_since_shows_no_earlier_nights(store, nights):
    case = nights[1][0].case
    assert len(case_history(store, case, since="2026-03-26").points) == 5
    with pytest.raises(InvalidValueError, match="since 2027-01-01 is stored"):
        case_history(store, case, since="2027-01-01")
    assert len(case_histories(store, options=HistoryOptions(METRICS["time"], since="2026-03-04"))) == 1


@pytest.mark.parametrize(
    "text", ["gemv tinygemm", "GEMV  int4", OTHER.case_key[:8], OTHER.case_key.upper(), f"gemv {OTHER.id}"]
)
def test_a_case_is_named_by_id_key_or_words(store, text):
    assert find_case(store, text) == OTHER


def test_a_name_that_fits_several_lists_them(store):
    with pytest.raises(InvalidValueError, match=r"gemv.*gemm") as error:
        find_case(store, OTHER.id)
    assert OTHER.case_key[:8] in str(error.value)


@pytest.mark.parametrize(
    "text", ["gemv 1x4096x4096-w4a16-INT4.BF16-tinygem-warm", "'; DROP TABLE run; --", "%", "", "x" * 1_000_000]
)
def test_an_unknown_name_gives_the_nearest(store, text):
    with pytest.raises(UnknownNameError) as error:
        find_case(store, text)
    assert len(str(error.value)) < 1000
    if text.startswith("gemv"):
        assert f"Did you mean gemv {OTHER.id}" in str(error.value)


def test_an_empty_database_has_no_cases(tmp_path):
    with open_store(tmp_path / "empty.db") as store:
        assert case_histories(store, options=HistoryOptions(METRICS["time"])) == []
        with pytest.raises(UnknownNameError):
            case_history(store, "gemv")
