"""Whether a model, or a model and its quantised copy, fit: asked before anything is loaded."""

from __future__ import annotations

import pytest

from bench_cases.models.measure_model import HEADROOM_RATIO, QUANTIZING_RATIO, _has_room_for_both
from bench_cases.models.model_cases import model_cases
from bench_cases.models.reference import find_model
from roofline_model.core.errors import UnsupportedError

CASES = {case.precision: case for case in model_cases(find_model("llama-3-8b"), "cuda", "quick")}
SIZE = 16.06e9


def free_for(copies: float) -> float:
    return copies * SIZE * 1.001 / HEADROOM_RATIO


def test_the_original_stays_where_both_fit() -> None:
    assert _has_room_for_both(CASES["BF16"], free_for(1), 0)
    assert _has_room_for_both(CASES["INT4"], free_for(1 + QUANTIZING_RATIO), 0)
    assert not _has_room_for_both(CASES["INT4"], free_for(QUANTIZING_RATIO), 0)


def test_what_is_held_already_is_room() -> None:
    assert _has_room_for_both(CASES["INT4"], free_for(QUANTIZING_RATIO), SIZE * 1.01)


@pytest.mark.parametrize(("precision", "word"), [("BF16", "loaded"), ("INT4", "quantised")])
def test_a_model_that_does_not_fit_is_refused_with_both_figures(precision: str, word: str) -> None:
    with pytest.raises(UnsupportedError, match=rf"llama-3-8b needs about .* GB to be {word} here, 7\.2 GB are there"):
        _has_room_for_both(CASES[precision], 8e9, 0)


def test_unknown_sizes_are_tried() -> None:
    assert _has_room_for_both(CASES["INT4"], None, 0)
    unknown = model_cases(find_model("nobody/none"), "cuda", "quick")[-1]
    assert _has_room_for_both(unknown, 1.0, 0)
