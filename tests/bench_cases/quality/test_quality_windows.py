"""Texts become windows, or one line says why not."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from bench_cases.quality.texts.python_help import ByteTokenizer, paragraphs, tiny_text
from bench_cases.quality.texts.token_windows import read_text, synthetic_windows, text_windows
from roofline_model.core.errors import InvalidValueError, UnsupportedError

BYTES = ByteTokenizer()


def test_windows_lie_side_by_side_and_know_their_document():
    windows = text_windows(["abcdefgh", "xy", "0123456789"], BYTES, window_elems=4)
    assert ["".join(map(chr, row)) for row in windows.ids.tolist()] == ["abcd", "efgh", "0123", "4567"]
    assert windows.documents == (0, 0, 2, 2)
    assert windows.dropped_tokens_count == 4  # xy, 89
    assert windows.scored_count == 4 * 3


def test_a_limit_of_tokens_takes_the_beginning():
    windows = text_windows(["abcdefgh", "ijklmnop"], BYTES, window_elems=4, max_tokens=13)
    assert windows.windows_count == 3
    assert windows.documents == (0, 0, 1)


def test_a_thinner_choice_keeps_order_and_documents():
    windows = text_windows(["a" * 40, "b" * 40], BYTES, window_elems=4)
    thin = windows.thinned(5)
    assert thin.windows_count == 5
    assert set(thin.documents) == {0, 1}
    assert windows.thinned(100) is windows
    with pytest.raises(InvalidValueError, match="at least 1"):
        windows.thinned(0)


@pytest.mark.parametrize("text", ["short", "", ["", "abc"], []])
def test_a_text_shorter_than_a_window_says_how_long_it_is(text):
    with pytest.raises(InvalidValueError, match=r"holds \d+ tokens, fewer than one window of 16") as caught:
        text_windows(text, BYTES, window_elems=16)
    assert "\n" not in str(caught.value)


def test_a_model_without_a_tokenizer_reads_no_text():
    with pytest.raises(UnsupportedError, match="no tokenizer"):
        text_windows("abc", None)


@pytest.mark.parametrize("options", [{"window_elems": 1}, {"window_elems": 8, "max_tokens": 4}])
def test_impossible_sizes(options):
    with pytest.raises(InvalidValueError):
        text_windows("abcdefgh" * 4, BYTES, **options)
    with pytest.raises(InvalidValueError, match="sizes must be positive"):
        synthetic_windows(512, window_elems=1)


def test_files_that_are_no_text(tmp_path):
    with pytest.raises(InvalidValueError, match="cannot be read"):
        read_text(tmp_path / "absent.txt")
    (tmp_path / "empty.txt").write_text(" \n")
    with pytest.raises(InvalidValueError, match="is empty"):
        read_text(tmp_path / "empty.txt")
    (tmp_path / "binary.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidValueError, match="not UTF-8"):
        read_text(tmp_path / "binary.txt")
    (tmp_path / "fine.txt").write_text("Grüße", encoding="utf-8")
    assert BYTES.decode(BYTES(read_text(tmp_path / "fine.txt"))["input_ids"]) == "Grüße"


def test_the_text_of_python_is_long_and_its_parts_are_apart():
    text = tiny_text()
    assert sum(map(len, text.training)) > 100_000
    assert sum(map(len, text.held_out)) > 20_000
    assert len(text.held_out) >= 8  # enough documents for an interval over documents
    seen = {key for part in text.training for key, _ in paragraphs(part)}
    assert not any(key in seen for part in text.held_out for key, _ in paragraphs(part))
