"""The order of predictions: time, the end of the interval, loss, memory."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from roofline_model.recommend.ranking import Standing, are_level_predictions, order_predictions


def predictions(*items):
    """Return the items in order; each is (time, end of its interval, loss, memory)."""
    return order_predictions(items, lambda item: Standing(item[0], None, *item[1:]))


def standing(time_s, high_s=None):
    return Standing(time_s, None, high_s, None, None)


def test_predictions_are_level_where_times_and_ends_are_within_5_percent():
    assert are_level_predictions(standing(1.0), standing(1.05))
    assert not are_level_predictions(standing(1.0), standing(1.06))
    assert are_level_predictions(standing(1.0, 1.2), standing(1.03, 1.15))
    assert not are_level_predictions(standing(1.0, 1.2), standing(1.03, 1.3))


def test_the_surer_prediction_leads_then_the_faster_then_the_smaller_loss_then_the_smaller_memory():
    sure, wide = (1.0, 1.1, 5.0, 9.0), (0.8, 1.2, 1.0, 9.0)
    assert predictions(wide, sure) == [sure, wide]
    faster = (0.8, 1.15, 9.0, 9.0)  # its end is tied with that of the surest one, its time is not
    assert predictions(sure, faster) == [faster, sure]
    gentle, small, unknown = (1.02, 1.12, 1.0, 9.0), (1.04, 1.14, 1.0, 2.0), (1.0, 1.1, None, 1.0)
    assert predictions(unknown, sure, gentle, small) == [small, gentle, sure, unknown]
    assert predictions((1.0, None, 2.0, None), (1.04, None, 1.0, None)) == [
        (1.04, None, 1.0, None),
        (1.0, None, 2.0, None),
    ]


def test_a_loss_is_never_taken_for_no_time():
    wide, surer = (1.0, 9.0, 0.0, 4.0), (1.02, 2.0, 6.5, 1.0)  # as of a calibration on a busy machine
    faster, unknown = (0.9, 3.0, 6.5, 1.0), (1.0, 1.0, None, 1.0)
    assert predictions(surer, wide) == [wide, surer]
    assert predictions(surer, unknown, faster, wide) == [faster, wide, unknown, surer]


MAYBE = st.none() | st.sampled_from([0.0, 1.0, 6.5])


@given(st.lists(st.tuples(st.floats(1e-6, 1e3), st.floats(1, 2), MAYBE, st.integers(1, 4)), max_size=10))
def test_who_is_faster_surer_smaller_and_loses_no_more_or_nothing_and_as_fast_is_never_below(drawn):
    items = [(time_s, time_s * width, loss, memory) for time_s, width, loss, memory in drawn]
    made = predictions(*items)
    assert sorted(map(str, made)) == sorted(map(str, items))
    loss = {None: float("inf")}
    for at, below in enumerate(made):
        for above in made[:at]:
            is_better = below[0] < above[0] and below[1] < above[1] and below[3] < above[3]
            assert not (is_better and loss.get(below[2], below[2]) <= loss.get(above[2], above[2]))
            assert not (below[2] == 0 and below[0] <= above[0] and above[2] != 0)
