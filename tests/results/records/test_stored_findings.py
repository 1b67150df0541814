"""Findings of stored predictions: today's form, and the sentences that older versions stored."""

from __future__ import annotations

import re

import pytest

from results.records.stored_findings import LEGACY_NOTES, findings_of_note, read_findings
from roofline_model.core.finding import catalog, finding, stored_form, value_names

NUMBERS = {"_count": "12", "_flops_per_s": "1.5", "_hz": "1100", "_ratio": "12.5", "_factor": "2.5", "scale_bits": "16"}


@pytest.mark.parametrize(("code", "sentence"), LEGACY_NOTES)
def test_every_old_sentence_becomes_its_finding_with_the_values_that_its_line_needs(code, sentence):
    def example(place: re.Match[str]) -> str:
        if place[2]:
            return re.sub(r"\.[+*]", "x", place[2])
        return next((number for end, number in NUMBERS.items() if place[1].endswith(end)), f"a-{place[1]}")

    text = re.sub(r"\{(\w+)(?:=([^}]+))?\}", example, sentence)
    (item,) = findings_of_note(text)
    assert item.code == code
    assert value_names(catalog()[code].short, is_optional=False) <= dict(item.values).keys()


def test_joined_sentences_are_taken_apart_and_the_unknown_rest_keeps_its_text():
    text = "not a sentence of ours; at most 85 % of the DRAM bandwidth, as published for gb10; nor this; nor that"
    first, lowered, rest = findings_of_note(text)
    assert first == finding("legacy-note", text="not a sentence of ours")
    assert (lowered.code, lowered.value("dram_share_ratio"), lowered.value("hardware")) == (
        "dram-share-limited",
        0.85,
        "gb10",
    )
    assert rest == finding("legacy-note", text="nor this; nor that")


def test_todays_form_comes_back_as_it_was():
    items = (
        finding("constants-of-family", "x", chips=("a", "b")),
        finding("rows-fitted", row_count=3, mean_error_ratio=0.1),
    )
    assert read_findings([stored_form(item) for item in items]) == items


@pytest.mark.parametrize(
    "stored",
    [{}, "text", None, [1], [{"code": "x"}], [{"code": 1, "subject": "", "values": {}}],
     [{"code": "x", "subject": "", "values": []}], [{"code": "x", "subject": "", "values": {"a": {}}}]],
)  # fmt: skip
def test_anything_else_is_refused(stored):
    with pytest.raises(ValueError, match="not a list of findings"):
        read_findings(stored)
