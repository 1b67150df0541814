"""What an answer shows at a Python prompt and in a notebook."""

from __future__ import annotations

from xml.etree import ElementTree

from roofline_model import (
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
