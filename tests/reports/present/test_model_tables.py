"""The tables of whole models: only what is known has a column, and every surface has the same."""

from __future__ import annotations

from model_records import model_record, model_run_records

from reports.present.models import model_tables
from results.cases.case_result import case_results
from results.cases.model_results import model_results


def tables_of(*records):
    (model,) = model_results(case_results(records))
    return list(model_tables(model))


def headers(block):
    return [column.header for column in block.columns]


def test_tables_leave_out_what_nobody_knows():
    (times,) = tables_of(model_record("BF16"), model_record("INT4"))
    assert headers(times) == [
        "Precision",
        "Tokens/s",
        "Expected",
        "Ideal",
        "Exp. gain",
        "Ideal gain",
        "Remarks",
    ]


def test_a_model_has_a_table_a_phase_then_memory_then_quality():
    titles = [block.title for block in tables_of(*model_run_records())]
    assert [title.partition(" ")[0] for title in titles] == ["Decode", "Prefill", "Memory", "Quality"]
    assert "on the GPU alone" in titles[0]
    assert "GPU" not in tables_of(model_record("BF16", "decode", 1e-3), model_record("INT4", "decode", 1e-3))[0].title
