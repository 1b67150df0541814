"""Values kept for objects that are no keys."""

from __future__ import annotations

from dataclasses import replace

from roofline_model.chips.hardware import get_hardware
from roofline_model.core.memo import Memo


def test_a_value_is_made_once_for_the_same_objects():
    made: list[str] = []
    memo: Memo[str] = Memo(4)
    chip = get_hardware("gb10")

    def make() -> str:
        made.append(chip.key)
        return chip.key

    assert [memo.of((chip,), make), memo.of((chip,), make)] == ["gb10", "gb10"]
    assert made == ["gb10"]


def test_an_equal_object_is_another_one():
    memo: Memo[str] = Memo(4)
    chip = get_hardware("gb10")
    twin = replace(chip)
    assert twin == chip
    assert memo.of((chip,), lambda: "first") == "first"
    assert memo.of((twin,), lambda: "second") == "second"
    assert memo.of((chip, twin), lambda: "both") == "both"


def test_the_oldest_value_makes_room():
    memo: Memo[int] = Memo(2)
    objects = [object() for _ in range(3)]
    for number, value in enumerate(objects):
        memo.of((value,), lambda number=number: number)
    assert [memo.of((value,), lambda: -1) for value in objects[1:]] == [1, 2]
    assert memo.of((objects[0],), lambda: -1) == -1
