"""Which visits to a case count, and when they agree."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from plugin.run.visits import Visit, agreement, visit_of
from plugin.timers import host_speed
from plugin.timers.host_speed import HostSpeed
from reports.present.sample_drawing import visits_text


def visits(*medians, contended=(), slowed=()):
    return [
        Visit((value, value * 1.001), (None, None), index in contended, is_slowed=index in slowed)
        for index, value in enumerate(medians)
    ]


def medians(together):
    return [round(visit.median_s, 2) for visit in together.used]


def test_three_of_five_undisturbed_visits_that_agree_with_the_fastest_settle_a_case():
    together = agreement(visits(1.0, 1.01, 1.02, 1.3, 1.2), 0.01)
    assert (together.is_settled, together.agreed_count, together.facts()["contended"]) == (True, 3, 0)
    assert len(together.samples_s) == 6
    assert not agreement(visits(1.0, 1.01, 1.02, 1.0), 0.01).is_settled  # all may lie in one slow state
    assert not agreement(visits(1.0, 1.01, 1.5, 1.5, 1.5), 0.01).is_settled


def test_a_slow_state_of_a_few_visits_does_not_count():
    together = agreement(visits(1.0, 1.6, 1.01, 1.02, 1.0), 0.01)
    assert medians(together) == [1.0, 1.01, 1.02, 1.0]
    assert together.is_settled
    assert together.facts()["agreed"] == 4
    assert len(together.facts()["medians_s"]) == 5


def test_a_slow_state_of_most_visits_does_not_count_either():
    """Seen on two quiet cores: a guest on the same core makes softmax 35 % slower, and no counter shows it."""
    together = agreement(visits(1.35, 1.34, 1.36, 1.0, 1.35, 1.01, 1.35, 1.0, 1.35), 0.01)
    assert medians(together) == [1.0, 1.01, 1.0]
    assert together.is_settled


def test_contended_visits_are_left_out_as_soon_as_three_are_not():
    together = agreement(visits(1.5, 1.0, 0.9, 1.01, 1.0, contended=(0, 2)), 0.01)
    assert medians(together) == [1.0, 1.01, 1.0]
    assert (together.facts()["contended"], together.is_disturbed, together.is_settled) == (2, False, True)
    together = agreement(visits(1.5, 1.0, 0.9, contended=(0, 2)), 0.01)
    assert medians(together) == [0.9]  # one that seems undisturbed may be so by chance
    assert together.is_disturbed


def test_slowed_visits_are_left_out_as_soon_as_three_are_not_and_put_no_case_in_doubt():
    together = agreement(visits(0.9, 1.0, 1.0, 1.01, 1.2, slowed=(0, 4)), 0.01)
    assert (medians(together), together.is_settled) == ([1.0, 1.0, 1.01], True)
    assert together.facts()["slowed"] == 2
    together = agreement(visits(1.0, 1.01, 1.2, 1.0, 1.0, slowed=(0, 1, 3, 4)), 0.01)
    assert (len(together.used), together.is_settled, together.is_disturbed) == (4, False, False)


@pytest.mark.parametrize(
    ("readings_us", "is_slowed", "samples"),
    [
        ((20, 20, 20, 20, 20, 20), False, [1.0, 2.0, 3.0, 4.0, 5.0]),
        ((20, 20, 20, 30, 20, 20), False, [1.0, 2.0, 5.0]),
        ((20, 20, 20, 30, 20, 30), True, [1.0, 2.0, 3.0, 4.0, 5.0]),
    ],
)
def test_a_visit_has_the_samples_that_found_the_cpu_fast_where_three_did(readings_us, is_slowed, samples, monkeypatch):
    speed = HostSpeed()
    times_s = [microseconds * 1e-6 for microseconds in readings_us]
    monkeypatch.setattr(host_speed, "loop_s", lambda: times_s.pop(0))
    monkeypatch.setattr(host_speed, "EVERY_S", 0.0)
    marks = [speed.mark() for _ in range(5)]
    series = SimpleNamespace(samples=[1.0, 2.0, 3.0, 4.0, 5.0], clocks=[None] * 5, marks=marks, speed=speed)
    visit = visit_of(series, 0, False, None)
    assert (visit.is_slowed, list(visit.samples_s)) == (is_slowed, samples)
    series.speed = None  # a device
    assert len(visit_of(series, 2, False, None).samples_s) == 3


def test_of_contended_visits_those_like_the_fastest_count_and_twice_as_many_have_to_agree():
    together = agreement(visits(3.0, 1.0, 1.01, 2.0, contended=range(4)), 0.01)
    assert medians(together) == [1.0, 1.01]
    assert (together.is_disturbed, together.is_settled) == (True, False)
    assert not agreement(visits(*[1.0] * 5, contended=range(5)), 0.01).is_settled
    together = agreement(visits(*[1.0] * 6, contended=range(6)), 0.01)
    assert (together.is_disturbed, together.is_settled) == (True, True)
    assert not agreement(visits(*[1.0] * 6, *[1.5] * 4, contended=range(10)), 0.01).is_settled
    assert not agreement(visits(0.9, *[1.0] * 8, contended=range(9)), 0.01).is_settled  # one was faster


@pytest.mark.parametrize("target", [0.001, 0.01, 0.1])
def test_the_target_says_how_near_agreeing_is(target):
    apart = 1 + target
    assert agreement(visits(1.0, apart, apart**2 * 0.9999), target).agreed_count == 3
    assert agreement(visits(1.0, apart, apart**2 * 1.01), target).agreed_count == 2


@pytest.mark.parametrize(
    ("extra", "text"),
    [
        ({"visits": {"count": 7, "agreed": 5, "contended": 2, "medians_s": []}}, "5 of 7 visits agree, 2 contended"),
        ({"visits": {"count": 3, "agreed": 3, "contended": 0}}, "3 of 3 visits agree"),
        ({"visits": "many"}, ""),
        ({"visits": {"count": None}}, ""),
        ({}, ""),
    ],
)
def test_a_record_says_how_many_agreed_and_junk_says_nothing(extra, text):
    assert visits_text(extra) == text
