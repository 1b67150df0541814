"""What the code answers is what it answered before the redesign (docs/development/decisions/0010-frozen-answers.md)."""

from __future__ import annotations

import frozen_catalog
import pytest
from frozen_asker import ask
from frozen_compare import differences
from frozen_store import ANSWERS, allowed_differences, read_answers

FAMILIES = list(frozen_catalog.FAMILIES)


def unexplained(family, questions):
    frozen, allowed = read_answers(family), allowed_differences()
    return {
        question.id: found_differences
        for question in questions
        if question.id not in allowed and (found_differences := differences(frozen[question.id], ask(question)))
    }


@pytest.mark.parametrize("family", FAMILIES)
def test_a_sample_of_the_questions_has_the_frozen_answers(family):
    assert unexplained(family, frozen_catalog.sample(family)) == {}


@pytest.mark.full
@pytest.mark.parametrize("family", FAMILIES)
def test_every_question_has_its_frozen_answer(family):
    assert unexplained(family, frozen_catalog.questions(family)) == {}


@pytest.mark.parametrize("family", FAMILIES)
def test_every_question_is_asked_once_and_answered(family):
    question_ids = [question.id for question in frozen_catalog.questions(family)]
    assert len(set(question_ids)) == len(question_ids)
    assert list(read_answers(family)) == question_ids


def test_there_are_enough_questions_and_few_bytes():
    assert sum(len(frozen_catalog.questions(family)) for family in FAMILIES) >= 3000
    assert 300 <= sum(len(frozen_catalog.sample(family)) for family in FAMILIES) <= 450
    assert sum(path.stat().st_size for path in ANSWERS.iterdir()) <= 5_000_000
    assert {path.name.partition(".")[0] for path in ANSWERS.iterdir()} == set(FAMILIES)


def test_allowed_differences_name_questions_that_exist():
    ids = {question.id for family in FAMILIES for question in frozen_catalog.questions(family)}
    assert set(allowed_differences()) <= ids
