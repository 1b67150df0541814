"""Flag rates on simulated series: what must be seen is seen in 95 %, plain noise is flagged in at most 2 %."""

from __future__ import annotations

import pytest

from plugin.samples.stats import shape_flags
from plugin.simulate.simulated_noise import NoiseSeries
from plugin.simulate.simulated_settings import SimulatedSettings
from results.records.flags import FLAGS

CASES = 100


def rates(text, count, cases=CASES):
    """Return the share of series that carry each flag."""
    settings = SimulatedSettings.from_text(text)
    fromkeys = dict.fromkeys(("drift", "bimodal", "outliers", "autocorrelated"), 0.0)
    for number in range(cases):
        noise = NoiseSeries(settings, f"case {number}")
        for flag in shape_flags([1e-5 * noise.next() for _ in range(count)]):
            fromkeys[flag] += 1 / cases
    return fromkeys


PLAIN = ["noise=0.02", "noise=0.1", "noise=0.02,kind=student", "noise=0.001"]


@pytest.mark.parametrize("count", [100, 400])
@pytest.mark.parametrize("text", PLAIN)
def test_plain_noise_is_not_flagged(text, count):
    assert max(rates(text, count).values()) <= 0.02


@pytest.mark.full
@pytest.mark.parametrize("count", [50, 100, 400, 2000])
@pytest.mark.parametrize("text", PLAIN)
def test_plain_noise_is_not_flagged_in_a_thousand_series(text, count):
    assert max(rates(text, count, 1000).values()) <= 0.02


@pytest.mark.parametrize(
    ("text", "count", "flag"),
    [
        ("noise=0.02,drift=0.1", 100, "drift"),  # +10 % in all
        ("noise=0.02,drift=-0.05", 200, "drift"),  # -10 %
        ("noise=0.02,drift=0.025,correlation=0.5", 400, "drift"),
        ("noise=0.02,kind=spikes,drift=0.05", 200, "drift"),
        ("noise=0.05,bimodal=0.3,slow_factor=1.3", 200, "bimodal"),
        ("noise=0.05,bimodal=0.7,slow_factor=1.3", 200, "bimodal"),
        ("noise=0.05,bimodal=0.3,slow_factor=1.3,bimodal_run=10", 400, "bimodal"),
        ("noise=0.03,bimodal=0.5,slow_factor=3", 100, "bimodal"),
        ("noise=0.001,spike_share=0.12,kind=spikes,spike_size=0.5", 400, "outliers"),
        ("noise=0.02,correlation=0.5", 200, "autocorrelated"),
        ("noise=0.02,correlation=0.8", 100, "autocorrelated"),
    ],
)
def test_what_matters_is_flagged(text, count, flag):
    assert rates(text, count)[flag] >= 0.95


def test_autocorrelated_noise_is_not_called_drift_or_bimodal():
    flag_rates = rates("noise=0.02,correlation=0.8", 200)
    assert flag_rates["drift"] <= 0.02
    assert flag_rates["bimodal"] <= 0.02


def test_a_drift_too_small_to_matter_is_not_flagged():
    assert rates("noise=0.001,drift=0.02", 100)["drift"] == 0.0  # 2 % in all, significant but small


def test_one_step_of_the_clock_is_a_drift():
    assert "drift" in shape_flags([1e-5 * (1.0 if n < 60 else 1.1) * (1 + 1e-4 * (n * 7 % 11)) for n in range(100)])


@pytest.mark.parametrize(
    "samples",
    [[1.0] * 3, [1.0, 2.0, 30.0], [1e-7] * 500, [1.0], [1e-7, 1.01e-7] * 100, [0.0] * 50],
    ids=["three", "three-apart", "equal", "one", "two-ticks", "zeros"],
)
def test_series_that_tell_nothing_have_no_shape_but_order(samples):
    assert set(shape_flags(samples)) <= {"autocorrelated"}


def test_ticks_of_the_clock_are_no_modes():
    noise = NoiseSeries(SimulatedSettings(noise=0.02), "ticks")
    assert shape_flags([round(noise.next() * 1e-6, 8) for _ in range(400)]) == ()  # 10 ns of 1 µs


def test_flags_are_known_ones():
    assert {"drift", "bimodal", "outliers", "autocorrelated"} <= set(FLAGS)
