"""The one estimator: which processes make the time of a case, by hand."""

from __future__ import annotations

import math

import pytest

from results.cases.pooling import Sighting, joined, pool
from results.records.metrics import METRICS


def seen(*values_s: float, flagged: dict[int, str] | None = None, run: str = "a") -> list[Sighting]:
    flags = flagged or {}
    return [Sighting((run, at), time_s, (flags[at],) if at in flags else ()) for at, time_s in enumerate(values_s)]


def test_a_contended_process_is_left_out_while_clean_ones_are_there():
    pooled = pool(seen(1.0, 1.02, 3.0, flagged={2: "contended"}))
    assert pooled.value == pytest.approx(math.sqrt(1.02))
    assert (pooled.process_count, len(pooled.logs), pooled.excluded) == (3, 2, (("contended", 1),))
    assert (pooled.is_judgeable, pooled.flags, pooled.disturbed_by) == (True, (), ())


def test_under_half_clean_is_not_judgeable_and_the_clean_ones_are_the_value():
    pooled = pool(seen(1.0, 2.5, 3.0, flagged={1: "contended", 2: "capped"}))
    assert (pooled.value, pooled.is_judgeable) == (1.0, False)
    assert (pooled.excluded, pooled.disturbed_by) == ((("capped", 1), ("contended", 1)), ("capped", "contended"))


def test_where_none_is_clean_all_are_used():
    pooled = pool(seen(1.0, 4.0, flagged={0: "contended", 1: "stolen"}))
    assert pooled.value == pytest.approx(2.0)
    assert (pooled.is_judgeable, pooled.flags, len(pooled.logs)) == (False, ("contended", "stolen"), 2)


def test_of_five_or_more_the_wild_one_is_left_out_and_of_four_it_is_not():
    times_s = (1.0, 1.01, 0.99, 1.02, 5.0)
    pooled = pool(seen(*times_s))
    assert pooled.value == pytest.approx(1.005, abs=1e-3)
    assert pooled.excluded == (("wild", 1),)
    assert pool(seen(*times_s[1:])).excluded == ()
    two_states = pool(seen(1.0, 1.0, 1.0, 5.0, 5.0))
    assert (two_states.excluded, len(two_states.logs)) == ((), 5)


def test_a_process_is_its_median_and_invalid_by_one_of_its_records():
    twice = [Sighting(("a", 0), time_s) for time_s in (1.0, 3.0)]
    assert pool([*twice, Sighting(("a", 1), 2.0)]).value == 2.0
    capped = [Sighting(("a", 0), 1.0), Sighting(("a", 0), 1.5, ("capped",)), Sighting(("a", 1), 2.0)]
    pooled = pool(capped)
    assert (pooled.value, pooled.excluded) == (2.0, (("capped", 1),))


def test_one_value_is_itself_and_what_is_no_time_is_none():
    assert pool(seen(0.1 + 0.2)).value == 0.1 + 0.2
    assert pool(seen(1e-3, 1e-3, 1e-3)).value == 1e-3
    assert pool(seen(0.0, -1.0, math.inf, math.nan)) is None
    assert pool([]) is None


def test_metrics_keep_their_scales():
    assert pool(seen(0.01, -0.01, 0.06), METRICS["quality"]).value == pytest.approx(0.02)
    assert pool(seen(-0.5, 1.0), METRICS["error"]).value == pytest.approx(0.0)


def test_runs_that_each_stand_are_joined_without_judging_them_again():
    first = pool([Sighting(("a", at), time_s, (), 0.1) for at, time_s in enumerate((1.0, 1.0, 4.0))])
    second = pool(seen(2.0, 2.0, 9.0, flagged={2: "contended"}, run="b"))
    both = joined([first, second])
    assert both.value == pytest.approx((4.0 * 4.0) ** (1 / 5))
    assert (both.process_count, len(both.logs), both.excluded, both.run_count) == (6, 5, (("contended", 1),), 2)
    assert both.sampling_variance == pytest.approx(0.01 * 3 / 5)
