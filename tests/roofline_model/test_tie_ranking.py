"""Order by time with ties: runs of near-equal times, each in the order of something better."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from roofline_model.tie_ranking import are_level_predictions, by_time_with_ties, order_predictions


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


def predictions(*items):
    """Return the items in order; each is (time, end of its interval, loss, memory)."""
    return order_predictions(
        items,
        time_s=lambda one: one[0],
        high_s=lambda one: one[1],
        loss_pct=lambda one: one[2],
        memory_bytes=lambda one: one[3],
    )


def test_predictions_are_level_where_times_and_ends_are_within_5_percent():
    assert are_level_predictions(1.0, 1.05)
    assert not are_level_predictions(1.0, 1.06)
    assert are_level_predictions(1.0, 1.03, one_high_s=1.2, other_high_s=1.15)
    assert not are_level_predictions(1.0, 1.03, one_high_s=1.2, other_high_s=1.3)


def test_the_surer_prediction_leads_then_the_faster_then_the_smaller_loss_then_the_smaller_memory():
    sure, wide = (1.0, 1.1, 5.0, 9.0), (0.8, 1.2, 1.0, 9.0)
    assert predictions(wide, sure) == [sure, wide]
    faster = (0.8, 1.15, 9.0, 9.0)  # its end is level with that of the surest one, its time is not
    assert predictions(sure, faster) == [faster, sure]
    gentle, small, unknown = (1.02, 1.12, 1.0, 9.0), (1.04, 1.14, 1.0, 2.0), (1.0, 1.1, None, 1.0)
    assert predictions(unknown, sure, gentle, small) == [small, gentle, sure, unknown]
    assert predictions((1.0, None, 2.0, None), (1.04, None, 1.0, None)) == [
        (1.04, None, 1.0, None),
        (1.0, None, 2.0, None),
    ]


MAYBE = st.none() | st.sampled_from([0.0, 1.0, 6.5])


@given(st.lists(st.tuples(st.floats(1e-6, 1e3), st.floats(1, 2), MAYBE, st.integers(1, 4)), max_size=10))
def test_who_is_faster_surer_smaller_and_loses_no_more_is_never_below(drawn):
    items = [(time_s, time_s * width, loss, memory) for time_s, width, loss, memory in drawn]
    found = predictions(*items)
    assert sorted(map(str, found)) == sorted(map(str, items))
    loss = {None: float("inf")}
    for at, below in enumerate(found):
        for above in found[:at]:
            is_better = below[0] < above[0] and below[1] < above[1] and below[3] < above[3]
            assert not (is_better and loss.get(below[2], below[2]) <= loss.get(above[2], above[2]))


def test_what_is_told_apart_within_the_ratio_starts_a_run_of_its_own():
    items = [(1.0, 3), (1.02, 1), (1.03, 2)]
    found = by_time_with_ties(
        items, time_s=lambda one: one[0], better=lambda one: one[1], tie_ratio=0.05, is_level=lambda _, one: one[1] != 2
    )
    assert found == [(1.02, 1), (1.0, 3), (1.03, 2)]
