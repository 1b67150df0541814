"""What the commands answer is what they answered before (docs/development/decisions/0010-frozen-answers.md)."""

from __future__ import annotations

from pathlib import Path

import pytest
from frozen_answers import ask, differences, prepare, read
from questions import QUESTIONS

from roofline_model.formats import catalog

SAMPLED = 8
"""Of so many questions `make test` asks one."""


@pytest.fixture(scope="session")
def frozen_folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("frozen")
    prepare(folder)
    return folder


@pytest.fixture
def in_folder(frozen_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(frozen_folder)
    monkeypatch.setenv("ROOFLINE_CACHE", str(frozen_folder / "cache"))
    monkeypatch.delenv("ROOFLINE_DB", raising=False)
    monkeypatch.setattr(catalog, "_USER_FORMATS", {})  # other tests register formats of their own


@pytest.mark.usefixtures("in_folder")
@pytest.mark.parametrize("family", QUESTIONS)
@pytest.mark.parametrize("step", [SAMPLED, pytest.param(1, marks=pytest.mark.full)])
def test_questions_have_their_frozen_answers(family: str, step: int) -> None:
    frozen = read()
    differing = {question: differences(frozen[question], ask(question))[:12] for question in QUESTIONS[family][::step]}
    assert {question: lines for question, lines in differing.items() if lines} == {}


def test_every_question_is_answered_once() -> None:
    questions = [question for family in QUESTIONS.values() for question in family]
    assert list(read()) == questions
    assert len(questions) <= 600


def test_a_lost_or_changed_number_is_a_difference_and_a_new_one_is_none() -> None:
    frozen = {"time_s": 1.0, "chosen": "INT4"}
    assert differences(frozen, {**frozen, "time_s": 1.0 + 1e-13, "new": 3}) == []
    assert differences(frozen, {"time_s": 1.0001, "chosen": None}) == [
        "time_s: 1.0 was, 1.0001 is",
        "chosen: 'INT4' was, None is",
    ]
