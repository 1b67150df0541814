"""What the sensors say of one case, its processes put together: clock, throttling, retries, other load; power and
energy per call.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import TypeVar

from results.records.records import Measurement
from results.records.state_records import RATED_RATIO, EnergyReading, MachineState

N = TypeVar("N", int, float)


@dataclass(frozen=True, slots=True)
class CaseState:
    """The worst over the processes of a case, the median for clocks. None: this machine does not tell."""

    clock_hz: float | None
    """Median SM clock."""
    clock_low_hz: float | None
    """Lowest and highest SM clock of a sample; None where clocks are not known per sample."""
    clock_high_hz: float | None
    rated_clock_hz: float | None
    throttled_s: Mapping[str, float] | None
    """Seconds per reason, added over the processes; empty: none, 0: seen when a case ended, its counter had not
    moved.
    """
    retry_count: int | None
    others_ratio: float | None
    stolen_ratio: float | None
    device_process_count: int | None
    cpu_clock_hz: float | None
    temperature_c: float | None

    @property
    def is_below_rated(self) -> bool:
        """Whether the clock was lower than the chip should hold: something held it down, counted or not."""
        if self.clock_hz is None or self.rated_clock_hz is None:
            return False
        return self.clock_hz < RATED_RATIO * self.rated_clock_hz


def state_of(measurements: Iterable[Measurement]) -> CaseState | None:
    """Return the state over some measurements of one case, or None when nothing is known about it."""
    measurements = tuple(measurements)
    states = [measurement.state for measurement in measurements if measurement.state is not None]
    clocks_hz = [clock for measurement in measurements for clock in measurement.clocks_hz]
    typical_hz = [measurement.sm_clock_hz for measurement in measurements if measurement.sm_clock_hz is not None]
    temperatures_c = [
        measurement.temperature_c for measurement in measurements if measurement.temperature_c is not None
    ]
    if not states and not clocks_hz and not typical_hz and not temperatures_c:
        return None
    return CaseState(
        clock_hz=median(typical_hz or clocks_hz) if typical_hz or clocks_hz else None,
        clock_low_hz=min(clocks_hz, default=None),
        clock_high_hz=max(clocks_hz, default=None),
        rated_clock_hz=_largest(state.rated_clock_hz for state in states),
        throttled_s=_throttled(states),
        retry_count=sum(state.retry_count for state in states) if states else None,
        others_ratio=_largest(state.others_ratio for state in states),
        stolen_ratio=_largest(state.stolen_ratio for state in states),
        device_process_count=_largest(state.device_process_count for state in states),
        cpu_clock_hz=_typical(state.cpu_clock_hz for state in states),
        temperature_c=max(temperatures_c, default=None),
    )


def _throttled(states: list[MachineState]) -> dict[str, float] | None:
    throttled = [state.throttled_s for state in states if state.throttled_s is not None]
    if not throttled:
        return None
    total: Counter[str] = Counter()
    for reasons_s in throttled:
        for reason, seconds in reasons_s.items():
            total[reason] += seconds  # type: ignore[assignment]  # a Counter adds floats as well
    return dict(total)


def _largest(values: Iterable[N | None]) -> N | None:
    return max((value for value in values if value is not None), default=None)


def _typical(values: Iterable[float | None]) -> float | None:
    known_values = [value for value in values if value is not None]
    return median(known_values) if known_values else None


DISAGREEMENT_RATIO = 0.1
"""Two sources farther apart than this do not confirm each other (the issue asks for 10 %)."""


@dataclass(frozen=True, slots=True)
class CaseEnergy:
    """Medians over the processes that have an energy. None: not known."""

    energy_j: float
    """Joules per call, gross: idle power included."""
    net_energy_j: float | None
    """Per call, the idle power's share taken off."""
    std_j: float | None
    """Between windows; the largest among the processes."""
    power_w: float | None
    idle_power_w: float | None
    flops: float | None
    """Of one call."""
    sources: tuple[str, ...]
    """What measured it, as stored."""
    scopes: tuple[str, ...]
    """What the sources see: board, package, …; empty for records without a reading of windows."""
    window_count: int
    """0 for records without a reading of windows."""
    window_s: float | None
    """Median length of a window."""
    disagreement_ratio: float | None
    """Second source against the first, the one that is farthest off."""
    sensor_period_s: float | None
    pace_ratio: float | None = None
    """Seconds per call in the windows over the measured median, the one that is farthest from 1."""

    @property
    def is_of_another_pace(self) -> bool:
        """Whether a call took another time in the windows than when it was timed."""
        return self.pace_ratio is not None and abs(self.pace_ratio - 1) > DISAGREEMENT_RATIO

    @property
    def energy_j_per_flop(self) -> float | None:
        """Gross."""
        return self.energy_j / self.flops if self.flops else None

    @property
    def flops_per_j(self) -> float | None:
        """Gross."""
        return self.flops / self.energy_j if self.flops and self.energy_j > 0 else None

    @property
    def is_disputed(self) -> bool:
        """Whether the two sources are too far apart to confirm each other."""
        return self.disagreement_ratio is not None and abs(self.disagreement_ratio) > DISAGREEMENT_RATIO


def energy_of(measurements: Iterable[Measurement], flops: float | None) -> CaseEnergy | None:
    """Return the energy over some measurements of one case, or None where none was stored (records of version 1 keep
    energy alone). `flops`: of one call.
    """
    measurements = tuple(measurements)
    readings = [measurement.energy for measurement in measurements if measurement.energy is not None]
    if readings:
        paces = [
            measurement.energy.call_s / measurement.median_s
            for measurement in measurements
            if measurement.energy and measurement.median_s > 0
        ]
        return _of_readings(readings, flops, max(paces, key=lambda pace: abs(pace - 1), default=None))
    plain = [measurement for measurement in measurements if measurement.energy_j is not None]
    if not plain:
        return None
    return CaseEnergy(
        energy_j=median(measurement.energy_j for measurement in plain if measurement.energy_j is not None),
        net_energy_j=None,
        std_j=None,
        power_w=_typical(measurement.power_w for measurement in plain),
        idle_power_w=None,
        flops=flops,
        sources=(plain[0].power_source,) if plain[0].power_source else (),
        scopes=(),
        window_count=0,
        window_s=None,
        disagreement_ratio=None,
        sensor_period_s=None,
    )


def _of_readings(readings: list[EnergyReading], flops: float | None, pace_ratio: float | None) -> CaseEnergy:
    apart = [reading.disagreement_ratio for reading in readings if reading.disagreement_ratio is not None]
    return CaseEnergy(
        energy_j=median(reading.energy_j for reading in readings),
        net_energy_j=_typical(reading.net_energy_j for reading in readings),
        std_j=max((reading.std_j for reading in readings if reading.std_j is not None), default=None),
        power_w=median(reading.power_w for reading in readings),
        idle_power_w=_typical(reading.idle_power_w for reading in readings),
        flops=flops,
        sources=tuple(dict.fromkeys(reading.source for reading in readings)),
        scopes=tuple(dict.fromkeys(reading.scope for reading in readings)),
        window_count=sum(reading.window_count for reading in readings),
        window_s=median(reading.window_s for reading in readings),
        disagreement_ratio=max(apart, key=abs, default=None),
        sensor_period_s=_typical(reading.sensor_period_s for reading in readings),
        pace_ratio=pace_ratio,
    )
