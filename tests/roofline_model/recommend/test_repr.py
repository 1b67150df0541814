"""What an answer shows at a Python prompt and in a notebook."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree

from roofline_model import (
    create_custom_asic,
    gemm,
    get_hardware,
    predict_expected,
    predict_gemm,
    predict_model,
    recommend_model,
    recommend_quantization,
)


def test_an_answer_prints_as_one_line_with_its_choice() -> None:
    ranking = recommend_model("gb10", "llama-3.1-8b")
    assert ranking.choice is not None
    for answer in (ranking, recommend_quantization("gb10", 1, 4096, 4096), predict_model("gb10", "llama-3.1-8b")):
        assert "\n" not in repr(answer)
        assert len(repr(answer)) < 140
        assert "gb10" in repr(answer)
    assert "FP8 (W8A8)" in repr(ranking)


def test_a_prediction_an_option_and_a_chip_print_as_one_line() -> None:
    ideal, expected = predict_gemm("gb10", 64, 4096, 4096), predict_expected(gemm(64, 4096, 4096), "gb10")
    options = recommend_quantization("gb10", 1, 4096, 4096).options
    for value in (ideal, expected, get_hardware("gb10"), *options):
        assert "\n" not in repr(value)
        assert len(repr(value)) < 140
    assert "memory-bound" in repr(ideal)
    assert "GB10" in repr(get_hardware("gb10"))


def test_a_prediction_prints_the_formats_that_were_asked_for() -> None:
    assert "INT4 (W4A4)" in repr(predict_gemm("gb10", 1, 4096, 4096, "INT4"))  # computed in INT8
    assert "INT4 (W4A16)" in repr(predict_gemm("gb10", 1, 4096, 4096, "INT4.FP16"))


def test_a_notebook_shows_a_row_per_option_and_marks_the_choice() -> None:
    ranking = recommend_quantization("gb10", 1, 4096, 4096)
    shown = ranking._repr_html_()
    assert shown.count("<tr") == 1 + min(len(ranking.options), 8)
    assert shown.count("bold") == 1
    assert shown.count("<svg") == 1
    assert shown.count("<circle") == 2 * len(ranking.options)  # a point and its place in the legend


def test_a_notebook_shows_a_prediction_on_its_roof() -> None:
    shown = predict_gemm("gb10", 64, 4096, 4096)._repr_html_()
    assert "memory" in shown
    assert shown.count("<circle") == 2
    ElementTree.fromstring(shown[shown.index("<svg") :])


def test_a_chip_that_is_not_registered_has_a_table_alone() -> None:
    chip = create_custom_asic("MyASIC", bandwidth_gb_s=500, flops_by_precision={"FP16": 50.0, "INT8": 100.0})
    shown = recommend_quantization(hardware=chip, M=1, N=4096, K=4096)._repr_html_()
    assert "<table" in shown
    assert "<svg" not in shown


def test_an_answer_without_a_choice_prints_too() -> None:
    ranking = replace(recommend_quantization("gb10", 1, 4096, 4096), choice=None)
    assert "no choice" in repr(ranking)
    assert "bold" not in ranking._repr_html_()
    assert "<script>" not in replace(ranking, question=replace(ranking.question, name="<script>"))._repr_html_()
