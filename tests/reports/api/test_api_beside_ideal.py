"""What stands beside a time far from its ideal one, in the API and in the rows of a report."""

from __future__ import annotations

from dataclasses import replace

import pytest

from plugin.run.pending import expected_record
from results.cases.case_result import case_results
from roofline_model import gemm, predict
from roofline_model.core.finding import has_code
from roofline_model.expected.predict import predict_expected


@pytest.mark.parametrize(
    ("path", "body", "kind"),
    [
        ("/api/analyze?hardware_key=gb10", {"M": 8, "N": 56, "K": 4096, "precision": "BF16"}, "serial-loop"),
        ("/api/attention?hardware_key=gb10", {"Hq": 8, "Skv": 256, "D": 128, "precision": "BF16"}, "split"),
        ("/api/models/qwen2.5-0.5b/predict?hardware_key=b200", {"context_tokens": 256}, "launch"),
        ("/api/analyze?hardware_key=gb10", {"M": 1, "N": 8192, "K": 8192, "precision": "BF16"}, None),
    ],
)
def test_the_api_names_the_largest_part(api_client, path, body, kind) -> None:
    answer = api_client.post(path, json=body)
    assert answer.status_code == 200, answer.text
    remark = answer.json()["expected"]["beside_ideal"]
    assert (None if remark is None else remark["values"]["kind"]) == kind


def test_a_stored_case_keeps_it_for_its_report(make) -> None:
    work = gemm(8, 56, 4096, a="BF16")
    ideal, expected = predict(work, "gb10"), predict_expected(work, "gb10")
    record = make.record((8, 56, 4096), "BF16", "BF16", "torch")
    (row,) = case_results([replace(record, predictions=(expected_record(expected, ideal, "hash", 20e-6),))])
    assert has_code(row.findings, "far-from-ideal")
