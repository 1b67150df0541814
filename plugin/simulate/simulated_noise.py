"""Noise of the simulated device: factors on the true time whose population median is known, 1 without a second mode."""

from __future__ import annotations

import math
import random
from statistics import NormalDist

from plugin.simulate.simulated_settings import SimulatedSettings

_MAX_EXPONENT = 5.0
"""Student's t with few degrees of freedom reaches for thousands; a sample is at most e⁵ times too long."""


class NoiseSeries:
    """The factors of successive samples of one case; equal seeds give equal series."""

    def __init__(self, settings: SimulatedSettings, seed: str) -> None:
        self._settings = settings
        self._random = random.Random(seed)
        self._slow = self._random.gauss(0, 1)
        self._phase = self._random.uniform(0, math.tau)
        self._is_slow_mode = self._random.random() < settings.bimodal
        self._count = 0
        # Spikes lie above the body, so the population's median is the body's quantile ½ / (1 − share).
        share = settings.spike_share if settings.kind == "spikes" else 0.0
        self._shift = NormalDist().inv_cdf(0.5 / (1 - share)) if share else 0.0

    def next(self) -> float:
        """Return the next factor, drift and modes included."""
        settings = self._settings
        value = self._noise() * (1 + settings.drift * self._count / 100)
        if settings.wave:
            value *= math.exp(settings.wave * math.sin(math.tau * self._count / settings.wave_period + self._phase))
        if settings.bimodal and self._next_mode():
            value *= settings.slow_factor
        self._count += 1
        return value

    def _noise(self) -> float:
        settings = self._settings
        if not settings.noise:
            return 1.0
        normal = self._normal()
        if settings.kind == "student":
            normal /= math.sqrt(self._random.gammavariate(settings.degrees / 2, 2) / settings.degrees)
        elif settings.kind == "spikes":
            if self._random.random() < settings.spike_share:
                return 1 + 3 * settings.noise + settings.spike_size * (self._random.paretovariate(1.5) - 1)
            normal -= self._shift
        return math.exp(max(-_MAX_EXPONENT, min(_MAX_EXPONENT, settings.noise * normal)))

    def _normal(self) -> float:
        """Return a standard normal number: slow (AR(1)) and independent parts by their share of the variance."""
        settings = self._settings
        fresh = self._random.gauss(0, 1)
        if not settings.correlation:
            return fresh
        slow, phi = self._slow, settings.correlation
        self._slow = phi * slow + math.sqrt(1 - phi * phi) * fresh
        if settings.slow_share >= 1:
            return slow
        quick = self._random.gauss(0, 1)
        return math.sqrt(settings.slow_share) * slow + math.sqrt(1 - settings.slow_share) * quick

    def _next_mode(self) -> bool:
        """Return whether this sample is slow. In runs: a Markov chain with the stationary share `bimodal`."""
        settings = self._settings
        if settings.bimodal_run <= 1:
            return self._random.random() < settings.bimodal
        leave_slow = 1 / settings.bimodal_run
        if settings.bimodal >= 1:
            return True
        leave_fast = leave_slow * settings.bimodal / (1 - settings.bimodal)
        if self._random.random() < (leave_slow if self._is_slow_mode else min(1.0, leave_fast)):
            self._is_slow_mode = not self._is_slow_mode
        return self._is_slow_mode


def process_factor(settings: SimulatedSettings, seed: str) -> float:
    """Return how much slower or faster the whole process is; its population median is 1, and 1 without
    `process_noise`.
    """
    return math.exp(settings.process_noise * random.Random(f"process:{seed}").gauss(0, 1))
