"""The list of what is expected: read whole or refused with a line that names the entry."""

from __future__ import annotations

import datetime

import pytest

from results.watch.annotations import load_annotations
from roofline_model.core.errors import DefinitionError

GOOD = """
[[annotation]]
match = "gemv *"
reason = "expected: driver 590"
on = 2026-11-20

[[annotation]]
match = "*"
reason = "new tiles"
commit = "395A8F7"
metric = "time"
"""


def test_a_list_is_read(tmp_path):
    path = tmp_path / "expected.toml"
    path.write_text(GOOD, encoding="utf-8")
    first, second = load_annotations(path)
    assert (first.match, first.reason, first.on) == ("gemv *", "expected: driver 590", datetime.date(2026, 11, 20))
    assert (second.commit, second.metric) == ("395a8f7", "time")
    assert first.covers("energy", "2026-11-19", "2026-11-21", [])
    assert not first.covers("energy", "2026-11-21", "2026-11-22", [])
    assert second.covers("time", "2026-01-01", "2026-01-02", [None, "395a8f7d"])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[annotation]]\nmatch = '*'\non = 2026-11-20", "annotation 1 has no reason"),
        ("[[annotation]]\nmatch = ''\nreason = 'x'\non = 2026-11-20", "has no match"),
        ("[[annotation]]\nmatch = '*'\nreason = 'x'", "it would silence everything"),
        ("[[annotation]]\nmatch = '*'\nreason = 'x'\non = '2026-11-20'", "without quotes"),
        ("[[annotation]]\nmatch = '*'\nreason = 'x'\ncommit = 'HEAD'", "hex digits"),
        ("[[annotation]]\nmatch = '*'\nreason = 'x'\ncommit = 'abcd'\nmetric = 'speed'", "metric must be one of time"),
        ("[[annotation]]\nmatch = '*'\nreason = 'x'\ncommit = 'abcd'\nwhen = 1", "has a field 'when'"),
        ("[[case]]\nmatch = '*'\nreason = 'x'", r"\[\[annotation\]\] tables only"),
        ("annotation = 3", "tables only"),
        ("not toml", "is not TOML"),
    ],
)
def test_a_wrong_list_is_refused(tmp_path, text, words):
    path = tmp_path / "expected.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DefinitionError, match=words) as error:
        load_annotations(path)
    assert "\n" not in str(error.value)


def test_a_file_that_cannot_be_read(tmp_path):
    with pytest.raises(DefinitionError, match="is not a file"):
        load_annotations(tmp_path)
    (tmp_path / "x").write_bytes(b"\xff\xfe")
    with pytest.raises(DefinitionError, match="not UTF-8"):
        load_annotations(tmp_path / "x")
    (tmp_path / "long").write_text("#" * (2**20 + 1), encoding="utf-8")
    with pytest.raises(DefinitionError, match="longer than 1 MiB"):
        load_annotations(tmp_path / "long")
