"""Order by time with ties: runs of near-equal times, each in the order of something better."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from roofline_model.tie_ranking import are_level_predictions, by_time_with_ties


def ranked(items, tie_ratio=0.05):
    return by_time_with_ties(items, time_s=lambda one: one[0], better=lambda one: one[1], tie_ratio=tie_ratio)


def test_a_tie_is_decided_by_the_other_key_and_a_chain_of_small_steps_is_no_tie():
    assert ranked([(1.04, 0), (1.0, 2), (1.06, 1), (1.08, 0)]) == [(1.04, 0), (1.0, 2), (1.08, 0), (1.06, 1)]


@given(st.lists(st.tuples(st.floats(1e-6, 1e3), st.integers(0, 5)), max_size=12), st.sampled_from([0.0, 0.01, 0.05]))
def test_laws(items, tie_ratio):
    found = ranked(items, tie_ratio)
    assert sorted(found) == sorted(items)
    for at, one in enumerate(found):
        later = [other[0] for other in found[at + 1 :]]
        # Nothing stands behind a time that it beats by more than a tie.
        assert all(time * (1 + tie_ratio) >= one[0] * (1 - 1e-12) for time in later)
    if items:
        fastest = min(time for time, _ in items)
        assert found[0][1] == min(key for time, key in items if time <= fastest * (1 + tie_ratio))


def test_predictions_are_level_within_1_percent_or_overlapping_intervals_within_5():
    def level(slower_s, low_s, high_s=1.2):
        return are_level_predictions(1.0, slower_s, faster_high_s=high_s, slower_low_s=low_s)

    assert level(1.01, None, None)
    assert level(1.03, 0.9)
    assert not level(1.03, 1.25)
    assert not level(1.03, None)
    assert not level(1.06, 0.5)


def test_what_is_told_apart_within_the_ratio_starts_a_run_of_its_own():
    items = [(1.0, 3), (1.02, 1), (1.03, 2)]
    found = by_time_with_ties(
        items, time_s=lambda one: one[0], better=lambda one: one[1], tie_ratio=0.05, is_level=lambda _, one: one[1] != 2
    )
    assert found == [(1.02, 1), (1.0, 3), (1.03, 2)]
