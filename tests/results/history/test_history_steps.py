"""Steps: found soon, found where they are, never moved by later nights, and not seen where there are none."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from results.history.change_points import CONFIRMING_NIGHTS, LEAST_NIGHTS, find_pending, find_steps
from roofline_model.core.finding import finding

NOISES = {
    "normal": lambda source, count: source.normal(size=count),
    "heavy-tailed": lambda source, count: source.standard_t(3, size=count) / 3**0.5,
    "bimodal": lambda source, count: (source.random(count) < 0.3) * 2.13 + 0.2 * source.normal(size=count),
    "slowly wandering": lambda source, count: source.normal(size=count) + wander(source, count),
}


def wander(source, count):
    """Half a standard deviation up and down, a period of 50 nights, beginning anywhere."""
    return 0.5 * np.sin(2 * np.pi * (np.arange(count) / 50 + source.random()))


def stepped(source, prior_count, step, after_count=16):
    series = source.normal(size=prior_count + after_count)
    series[prior_count:] += step
    return series


def nights_until_found(series, prior_count):
    """Nights of the new level until the step is found, as somebody who looks every night sees it."""
    delays = [step.found_index - prior_count + 1 for step in find_steps(series) if step.found_index >= prior_count]
    return delays[0] if delays else len(series)


def false_alarms(noise, series_count, night_count, seed=7):
    source = np.random.default_rng(seed)
    alarms = [find_steps(NOISES[noise](source, night_count)) for _ in range(series_count)]
    raised = sum(len(steps) for steps in alarms)
    standing = sum(not step.is_withdrawn for steps in alarms for step in steps)
    print(
        f"{noise}: of {series_count} series of {night_count} nights {standing} steps stand, {raised} were ever raised"
    )
    return standing, raised


@pytest.mark.parametrize("noise", NOISES)
def test_unchanged_series_show_no_more_than_one_step_in_a_hundred(noise):
    standing, raised = false_alarms(noise, 200, 60)
    assert standing <= 2
    assert raised <= 12  # withdrawn once later nights did not show them


@pytest.mark.full
@pytest.mark.parametrize("noise", NOISES)
def test_many_unchanged_series_show_no_more_than_one_step_in_a_hundred(noise):
    standing, _ = false_alarms(noise, 1000, 60, seed=11)
    assert standing <= 17  # 97.5 % of the counts around ten of a thousand; with two states 38 of 3,000 stood


def test_fifty_cases_over_two_hundred_unchanged_nights():
    standing, _ = false_alarms("normal", 50, 200)
    assert standing <= 3


def found_within(prior_count, series_count):
    """Return nights → share of the steps of three standard deviations that are found within so many."""
    source = np.random.default_rng(9)
    waited = np.array([nights_until_found(stepped(source, prior_count, 3.0), prior_count) for _ in range(series_count)])
    shares = {nights: float(np.mean(waited <= nights)) for nights in (2, 3, 4)}
    print(f"after {prior_count} nights, found within: {shares}")
    return shares


@pytest.mark.parametrize("prior_count", [60, 120])
def test_a_step_of_three_standard_deviations_is_found_in_days(prior_count):
    shares = found_within(prior_count, 150)
    assert shares[2] >= 0.65
    assert shares[3] >= 0.83
    assert shares[4] >= 0.94  # 0.95 over the thousand below; 150 series cannot tell


@pytest.mark.full
@pytest.mark.parametrize("prior_count", [60, 120])
def test_of_a_thousand_steps_the_promised_share_is_found_in_time(prior_count):
    shares = found_within(prior_count, 1000)
    assert shares[2] >= 0.65
    assert shares[4] >= 0.95


def test_a_step_is_where_it_is():
    source = np.random.default_rng(3)
    starts = []
    for _ in range(60):
        steps = [step for step in find_steps(stepped(source, 50, 5.0, 20)) if not step.is_withdrawn]
        starts += [step.start_index for step in steps]
    starts = np.array(starts)
    assert len(starts) >= 57
    assert np.mean(np.abs(starts - 50) <= 1) >= 0.95


@pytest.mark.parametrize("prior_count", [5, 8, 12])
def test_a_clear_step_in_a_young_series_is_announced_then_found(prior_count):
    source = np.random.default_rng(prior_count)
    for _ in range(20):
        series = 0.01 * stepped(source, prior_count, 10.0, 8)  # 10 % at 1 % between nights
        for newer in (2, 3, 4):
            nights = series[: prior_count + newer]
            assert find_steps(nights, least=0.01) == ()
            assert find_pending(nights, (), least=0.01) == finding("step-pending", newer_count=newer, needed_count=5)
        steps = find_steps(series[: prior_count + 5], least=0.01)
        assert [(step.start_index, step.found_index) for step in steps] == [(prior_count, prior_count + 4)]
        assert find_pending(series[: prior_count + 5], steps, least=0.01) is None  # the promise is kept
        (step,) = find_steps(series, least=0.01)
        assert step.is_confirmed


@pytest.mark.parametrize(("prior_count", "needed"), [(4, None), (5, 5), (20, 4), (30, 3)])
def test_how_many_newer_nights_it_takes_is_what_the_search_takes(prior_count, needed):
    nights = 0.01 * stepped(np.random.default_rng(1), prior_count, 10.0, 2)
    pending = find_pending(nights, find_steps(nights, least=0.01), least=0.01)
    assert (pending and pending.value("needed_count")) == needed
    if needed is not None:
        longer = np.append(nights, nights[-1:].repeat(needed - 2))
        assert find_steps(longer, least=0.01)


@pytest.mark.parametrize("noise", NOISES)
def test_unchanged_nights_are_seldom_announced_as_pending(noise):
    source, announced = np.random.default_rng(2), 0
    for _ in range(300):
        series = NOISES[noise](source, 30)
        announced += find_pending(series, find_steps(series)) is not None
    assert announced <= 3


def test_there_and_back_are_two_steps():
    series = np.random.default_rng(4).normal(size=90)
    series[40:65] += 5
    first, second = [step for step in find_steps(series) if not step.is_withdrawn]
    assert (abs(first.start_index - 40), abs(second.start_index - 65)) <= (1, 1)
    assert first.is_confirmed
    assert second.is_confirmed


def test_one_night_alone_is_never_a_step():
    for seed in range(60):
        series = np.random.default_rng(seed).normal(size=60)
        series[30 + seed % 30] += 50
        assert find_steps(series) == ()


def test_fewer_than_six_nights_say_nothing():
    for count in range(LEAST_NIGHTS):
        assert find_steps([0.0, 0.0, 0.0, 9.0, 9.0, 9.0][:count]) == ()


def test_a_slope_is_no_step():
    series = np.random.default_rng(6).normal(size=60) + np.linspace(0, 5, 60)
    assert [step for step in find_steps(series) if not step.is_withdrawn] == []


def test_exact_figures_step_without_any_noise():
    """Bytes do not scatter: any change beyond the least counts, the smallest does not."""
    bytes_log = np.log([1e9] * 20 + [1.5e9] * 10)
    (step,) = find_steps(bytes_log, least=0.01)
    assert (step.start_index, step.is_confirmed) == (20, True)
    assert find_steps(np.log([1e9] * 20 + [1.005e9] * 10), least=0.01) == ()
    assert find_steps([3.0] * 40) == ()


def test_steps_below_the_least_are_not_told():
    series = 1e-3 * stepped(np.random.default_rng(8), 60, 6.0)
    assert len(find_steps(series)) == 1
    assert find_steps(series, least=0.02) == ()


def test_a_step_that_lasts_two_nights_is_withdrawn():
    series = np.random.default_rng(13).normal(size=80)
    series[60:62] += 5
    (raised,) = find_steps(series[:62])
    assert (raised.start_index, raised.found_index, raised.is_confirmed) == (60, 61, False)
    (judged,) = find_steps(series)
    assert (judged.start_index, judged.is_withdrawn) == (60, True)


@given(
    seed=st.integers(0, 10_000),
    step_index=st.integers(20, 60),
    step=st.sampled_from([-4.0, 2.5, 4.0, 8.0]),
    scale=st.sampled_from([1e-6, 1.0, 1e3]),
    offset=st.sampled_from([0.0, -12.0, 50.0]),
)
def test_laws(seed, step_index, step, scale, offset):
    series = stepped(np.random.default_rng(seed), step_index, step)
    steps = find_steps(series)
    assert find_steps(series) == steps
    # Unit and level do not count.
    moved = find_steps(scale * series + offset * scale)
    assert [moved_step.start_index for moved_step in moved] == [moved_step.start_index for moved_step in steps]
    # A mirror shows the same steps.
    assert [moved_step.start_index for moved_step in find_steps(-series)] == [
        moved_step.start_index for moved_step in steps
    ]
    # Later nights never move a step, and never find one in hindsight.
    for count in range(len(series) - CONFIRMING_NIGHTS - 4, len(series)):
        earlier = find_steps(series[:count])
        expected = [
            (moved_step.start_index, moved_step.found_index) for moved_step in steps if moved_step.found_index < count
        ]
        assert [(moved_step.start_index, moved_step.found_index) for moved_step in earlier] == expected
