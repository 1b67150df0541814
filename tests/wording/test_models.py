"""The words beside whole models in the terminal; `make wording` rewrites them."""

from __future__ import annotations

from model_records import model_record, model_run_records

from plugin.terminal.models import model_lines
from results.cases.case_result import case_results

FASTER_THAN_ISSUED = [
    model_record("BF16", "decode", 1.1e-3, issue_s=5.03e-3),
    model_record("INT8", "decode", 1.7e-3, issue_s=6.98e-3),
    model_record("INT4", "decode", 1e-3, issue_s=7.52e-3),
]


def text_of(records):
    return "\n".join(line.text for line in model_lines(case_results(records), 120))


def test_models_on_a_gpu(snapshot):
    assert text_of(model_run_records()) == snapshot


def test_a_model_that_the_host_issues_slower_than_the_gpu_runs_it(snapshot):
    assert text_of(FASTER_THAN_ISSUED) == snapshot
