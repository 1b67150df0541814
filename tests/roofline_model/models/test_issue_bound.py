"""A pass that the host issues slower than the GPU runs it, and which of several."""

from __future__ import annotations

from roofline_model.core.finding import finding
from roofline_model.models.issue_bound import issue_bound


def test_only_what_takes_longer_to_issue_than_to_run_is_found() -> None:
    assert issue_bound("decode", [("BF16", 1e-3, 2e-3), ("INT4", 1e-3, 1e-3)]) is None
    assert issue_bound("decode", [("BF16", None, 2e-3), ("INT4", 9e-3, None)]) is None
    assert issue_bound("prefill", [("BF16", 3e-3, 2e-3)]) == finding("issue-bound", call="prefill", issue_s=3e-3)


def test_of_several_the_least_and_the_most_are_named() -> None:
    passes = [("FP8", 32e-3, 2e-3), ("BF16", 5e-3, 1e-3), ("INT8", 7e-3, 2e-3), ("INT4", 50e-3, 60e-3)]
    assert issue_bound("decode", passes) == finding(
        "issue-bound", call="decode step", issue_s=5e-3, label="BF16", most_s=32e-3, most_label="FP8"
    )
    assert issue_bound("decode", passes[2:]) == finding("issue-bound", call="decode step", issue_s=7e-3, label="INT8")
