"""The comparison can fail: a perturbed number, a swapped order, a lost value."""

from __future__ import annotations

import copy

import pytest
from frozen_compare import differences
from frozen_store import allowed_differences, plain, read_answers

ANSWER = {
    "options": [
        {"key": "INT4", "time_s": 1e-5, "high_s": 2e-5, "loss_pct": 3.0},
        {"key": "FP8", "time_s": 2e-5, "high_s": 3e-5, "loss_pct": None},
        {"key": "INT8", "time_s": 2e-5, "high_s": 3e-5, "loss_pct": None},
    ],
    "choice": "INT4",
    "excluded": [["NF4", "kernel-gap"]],
}


def changed(change):
    answer = copy.deepcopy(ANSWER)
    change(answer)
    return answer


def test_the_same_answer_has_no_difference():
    assert differences(ANSWER, copy.deepcopy(ANSWER)) == []


def test_ties_may_change_places_and_nothing_else_may():
    def swap(first, second):
        def of(answer):
            options = answer["options"]
            options[first], options[second] = options[second], options[first]

        return of

    assert differences(ANSWER, changed(swap(1, 2))) == []
    (difference,) = differences(ANSWER, changed(swap(0, 1)))
    assert difference == "options: order INT4, FP8, INT8 -> FP8, INT4, INT8"


@pytest.mark.parametrize(
    "change",
    [
        lambda answer: answer["options"][0].update(time_s=1e-5 * (1 + 2e-12)),
        lambda answer: answer["options"][1].update(loss_pct=0.0),
        lambda answer: answer["options"][1].pop("loss_pct"),
        lambda answer: answer["options"][1].update(path="native"),
        lambda answer: answer["options"].pop(),
        lambda answer: answer["options"].append({"key": "NF4", "time_s": 1.0}),
        lambda answer: answer.update(choice="FP8"),
        lambda answer: answer.update(choice=None),
        lambda answer: answer["excluded"].clear(),
        lambda answer: answer["excluded"][0].__setitem__(1, "not-narrower"),
    ],
)
def test_any_other_change_is_a_difference(change):
    assert differences(ANSWER, changed(change))


def test_numbers_agree_to_1e_12_and_a_truth_value_is_no_number():
    assert differences(1.0, 1.0 + 1e-13) == []
    assert differences(1, 1.0) == []
    assert differences(0.0, 1e-30)
    assert differences(True, 1)
    assert differences("inf", float("inf"))


def test_parts_agree_to_1e_12_of_their_sum():
    frozen = {"time_s": 1.0, "terms": {"dram": 1.0, "waves": 1e-9}}
    assert not differences(frozen, {"time_s": 1.0, "terms": {"dram": 1.0, "waves": 1e-9 + 5e-13}})
    assert differences(frozen, {"time_s": 1.0, "terms": {"dram": 1.0, "waves": 1e-9 + 5e-12}})


def test_a_stored_answer_that_is_perturbed_differs():
    answer = next(iter(read_answers("expected").values()))
    assert differences(answer, answer) == []
    assert differences(answer, {**answer, "time_s": answer["time_s"] * (1 + 1e-11)})
    assert differences(answer, {"error": "UnsupportedError", "slug": "unsupported"})


def test_an_answer_holds_plain_values_only():
    assert plain((1, float("inf"), {"a": (True, None)})) == [1, "inf", {"a": [True, None]}]
    with pytest.raises(TypeError, match="object"):
        plain(object())


def test_allowed_differences_are_read_by_id(tmp_path):
    path = tmp_path / "decision.md"
    path.write_text(
        "| Question | Reason |\n|---|---|\n| `ideal hardware=gb10 M=1` | the test run was right |\ntext `a`\n"
    )
    assert allowed_differences(path) == {"ideal hardware=gb10 M=1": "the test run was right"}
