"""Settings of a simulated device, and their text: `simulated:noise=0.02,kind=spikes,throttle_after=0.5`."""

from __future__ import annotations

import fnmatch
import math
from dataclasses import dataclass, fields
from typing import Any

from roofline_model.core.errors import InvalidValueError

KINDS = ("lognormal", "student", "spikes")
FAULTS = ("none", "backwards", "still", "zero", "infinite", "jump")
REFUSALS = (
    "power",
    "energy",
    "clock",
    "rated",
    "memory_clock",
    "temperature",
    "utilization",
    "memory",
    "throttle",
    "processes",
)

_CHOICES = {"kind": KINDS, "fault": FAULTS}
_RANGES = {
    "efficiency": (1e-6, 1e3), "true_s": (1e-12, 1e4), "seed": (0.0, 1e9), "process_noise": (0.0, 1.0),
    "noise": (0.0, 2.0), "degrees": (1.0, 100.0), "spike_share": (0.0, 0.45), "spike_size": (0.0, 1e3),
    "correlation": (0.0, 0.999), "slow_share": (0.0, 1.0), "wave": (0.0, 2.0), "wave_period": (2.0, 1e6),
    "drift": (-0.1, 1e3), "bimodal": (0.0, 1.0), "slow_factor": (1e-3, 1e3), "bimodal_run": (1.0, 1e6),
    "launch": (0.0, 1.0), "prepare": (0.0, 10.0),
    "clock": (1e6, 1e11), "clock_step_at": (0.0, 1e9), "clock_step": (0.01, 10.0),
    "throttle_after": (1e-6, 1e6), "throttle_clock": (0.01, 1.0), "recover_after": (1e-6, 1e6),
    "power": (0.0, 1e5), "idle_power": (0.0, 1e5), "sensor_period": (1e-6, 100.0), "sensor_share": (1e-3, 1.0),
    "energy_step": (1e-6, 100.0), "read_cost": (0.0, 1.0), "freeze_at": (0.0, 1e9),
    "state_at": (0.0, 1e9), "state_until": (0.0, 1e9), "state_factor": (1.0, 1e3), "state_power": (0.01, 1.0),
    "fault_share": (0.0, 1.0),
}  # fmt: skip
_SLOW = (1e-3, 1e3)
_DEVICE_SETTINGS = frozenset(
    (
        "clock",
        "clock_step_at",
        "throttle_after",
        "power",
        "state_at",
        "freeze_at",
        "sensor_period",
        "energy_step",
        "refuse",
    )
)


@dataclass(frozen=True, slots=True)
class SimulatedSettings:
    """One imaginary device. Times in device seconds; a setting of None is switched off."""

    # The truth
    efficiency: float = 0.7
    true_s: float | None = None
    """Seconds per call at the full clock; None: the case's ideal prediction over `efficiency`."""
    slow: tuple[tuple[str, float], ...] = ()
    """(pattern, ratio): cases whose operator and id match take so many times as long; in the text `slow=gemv
    1x4096*:1.05`.
    """
    seed: int = 0
    process_noise: float = 0.0
    """Standard deviation of the logarithm of a process's own factor: how far fresh processes differ."""
    # Noise of one sample: a factor whose population median is exactly 1
    noise: float = 0.01
    """Standard deviation of the logarithm of one sample (of the body, where there is a tail)."""
    kind: str = "lognormal"
    """lognormal; student: the logarithm is Student's t; spikes: a log-normal body with Pareto spikes upward."""
    degrees: float = 3.0
    """Degrees of freedom of `student`."""
    spike_share: float = 0.08
    spike_size: float = 0.05
    """Scale of the Pareto tail (exponent 1.5) above the body."""
    correlation: float = 0.0
    """Lag-1 correlation of the slow part of the noise, an AR(1) process; it dies out in −1/ln(correlation) samples."""
    slow_share: float = 1.0
    """Share of the variance that is slow; the rest is independent from sample to sample."""
    wave: float = 0.0
    """Amplitude of a sine in the logarithm, `wave_period` samples long, with a random phase."""
    wave_period: float = 60.0
    # Shapes
    drift: float = 0.0
    """Relative slow-down per 100 samples."""
    bimodal: float = 0.0
    """Share of samples that take `slow_factor` times as long."""
    slow_factor: float = 1.5
    bimodal_run: float = 1.0
    """Mean length, in samples, of a stretch in the slow mode; 1: every sample is drawn anew."""
    # Issuing
    launch: float = 0.0
    """Seconds to issue one call: a shorter kernel waits for it, unless it is in a captured graph."""
    prepare: float = 1e-4
    """Device seconds of what runs before a sample (a cache flush), where there is such a thing."""
    # Clock, heat and power
    clock: float | None = None
    """Rated SM clock in Hz (2 GHz where another device setting needs one)."""
    clock_step_at: float | None = None
    """From this moment the clock is `clock_step` times the rated one."""
    clock_step: float = 0.9
    throttle_after: float | None = None
    """Seconds of work at the full clock until a cold chip is hot and throttles."""
    throttle_clock: float = 0.7
    """Clock of the hot chip over the rated one."""
    recover_after: float = 0.2
    """Seconds of rest in which a hot chip becomes cold. It throttles until it is half-way there."""
    power: float | None = None
    """Watts at work at the full clock (300 where another device setting needs it); ∝ clock²."""
    idle_power: float = 60.0
    # Sensors
    sensor_period: float | None = None
    """The power reading changes this often (0.1 s)."""
    sensor_share: float = 1.0
    """Share of the period that a reading covers; 0.25 on A100 and H100 (arXiv 2312.02741)."""
    energy_step: float | None = None
    """The energy counter moves this often (0.1 s)."""
    read_cost: float = 2e-5
    """Seconds one reading takes: the device idles meanwhile."""
    freeze_at: float | None = None
    """From this moment every sensor repeats what it said."""
    refuse: tuple[str, ...] = ()
    """Readings that this chip refuses, of `REFUSALS`; in the text joined by +."""
    # A slow state that no clock and no counter shows (GB10): only time and power tell
    state_at: float | None = None
    state_until: float = math.inf
    state_factor: float = 3.3
    state_power: float = 0.5
    """Power above idle over that of the healthy state."""
    # A clock that lies
    fault: str = "none"
    """backwards, still, zero, infinite or jump (an hour more)."""
    fault_share: float = 1.0
    """Share of samples it spoils."""

    def __post_init__(self) -> None:
        for name, (low, high) in _RANGES.items():
            value = getattr(self, name)
            if value is not None and value != math.inf and not low <= value <= high:
                raise InvalidValueError(
                    f"--roofline-timer simulated: {name} must be from {low:g} to {high:g}, got {value:g}"
                )
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                raise InvalidValueError(
                    f"--roofline-timer simulated: {name} must be one of {', '.join(choices)}, got "
                    f"{getattr(self, name)!r}"
                )
        for pattern, ratio in self.slow:
            if not _SLOW[0] <= ratio <= _SLOW[1]:
                raise InvalidValueError(
                    f"--roofline-timer simulated: slow must be from {_SLOW[0]:g} to {_SLOW[1]:g} times, got {ratio:g} "
                    f"for {pattern!r}"
                )
        unknown = [name for name in self.refuse if name not in REFUSALS]
        if unknown:
            raise InvalidValueError(
                f"--roofline-timer simulated: refuse takes some of {', '.join(REFUSALS)} joined by +, got "
                f"{unknown[0]!r}"
            )

    @classmethod
    def from_text(cls, text: str) -> SimulatedSettings:
        """Read `noise=0.02,kind=spikes,refuse=power+energy`; raises `InvalidValueError` naming the known settings."""
        settings: dict[str, Any] = {}
        for part in filter(None, text.split(",")):
            name, _, value = part.partition("=")
            try:
                settings[name] = settings.get(name, ()) + _slow(value) if name == "slow" else _parsed(name, value)
            except ValueError:
                raise InvalidValueError(
                    f"--roofline-timer simulated: {part!r} is not a setting; "
                    f"write simulated:noise=0.02,seed=1 with {', '.join(field.name for field in fields(cls))}"
                ) from None
        return cls(**settings)

    def slow_ratio(self, case_name: str) -> float:
        """Return how many times as long a case takes as `slow` says: the product of all that match, 1 for none.

        In a pattern * and ? stand for any, a bracket for itself.
        """
        patterns = ((pattern.replace("[", "[[]"), ratio) for pattern, ratio in self.slow)
        return math.prod(ratio for pattern, ratio in patterns if fnmatch.fnmatchcase(case_name, pattern))

    @property
    def has_sensors(self) -> bool:
        """Whether clock, heat, power or sensors were asked for: without, the device has no sensors at all."""
        return any(getattr(self, name) not in (None, ()) for name in _DEVICE_SETTINGS)


def _slow(value: str) -> tuple[tuple[str, float], ...]:
    """Return `PATTERN:RATIO` as a pair; raises `ValueError` for anything else."""
    pattern, _, ratio = value.rpartition(":")
    if not pattern or not math.isfinite(float(ratio)):
        raise ValueError
    return ((pattern, float(ratio)),)


def _parsed(name: str, value: str) -> Any:
    """Return a setting's value; raises `ValueError` for a name or a value that is none."""
    if name in _CHOICES:
        return value
    if name == "refuse":
        return tuple(filter(None, value.split("+")))
    if name not in _RANGES:
        raise ValueError
    number = float(value)
    if not math.isfinite(number) or (name == "seed" and not number.is_integer()):
        raise ValueError
    return int(number) if name == "seed" else number
