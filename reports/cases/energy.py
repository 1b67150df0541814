"""Energy of one case: per call and per FLOP, gross and net of idle, how sure, and by which sensor. Processes pooled."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

from reports.cases.summary import CaseSummary
from reports.text.display_text import counted, prefixed, shown
from results.records.state_records import EnergyReading
from roofline_model.core.units import format_time

DISAGREEMENT_RATIO = 0.1
"""Two sources farther apart than this do not confirm each other (the issue asks for 10 %)."""


@dataclass(frozen=True, slots=True)
class CaseEnergy:
    """Medians over the processes that have an energy. None: not known."""

    energy_j: float
    """Per call, gross: idle power included."""
    net_energy_j: float | None
    """Per call, the idle power's share taken off."""
    std_j: float | None
    """Between windows; the largest among the processes."""
    power_w: float | None
    idle_power_w: float | None
    flops: float | None
    """Of one call."""
    source: str
    scope: str
    windows: str
    """`3 windows of 2 s`; empty for records without a reading of windows."""
    disagreement_ratio: float | None
    """Second source against the first, the one that is farthest off."""
    sensor_period_s: float | None
    pace_ratio: float | None = None
    """Seconds per call in the windows over the measured median, the one that is farthest from 1."""

    @property
    def pace_text(self) -> str:
        """`in the windows a call took 2× its median`; empty where the pace is the same within 10 %."""
        if self.pace_ratio is None or abs(self.pace_ratio - 1) <= DISAGREEMENT_RATIO:
            return ""
        return f"in the windows a call took {self.pace_ratio:.3g}× its median"

    @property
    def energy_j_per_flop(self) -> float | None:
        """Gross."""
        return self.energy_j / self.flops if self.flops else None

    @property
    def flops_per_j(self) -> float | None:
        """Gross."""
        return self.flops / self.energy_j if self.flops and self.energy_j > 0 else None

    @property
    def per_flop_text(self) -> str:
        """`0.62 pJ/FLOP, 1.61 TFLOP/J`; `–` without FLOPs."""
        if self.energy_j_per_flop is None or self.flops_per_j is None:
            return "–"
        return f"{prefixed(self.energy_j_per_flop, 'J/FLOP')}, {prefixed(self.flops_per_j, 'FLOP/J')}"

    @property
    def is_disputed(self) -> bool:
        """Whether the two sources are too far apart to confirm each other."""
        return self.disagreement_ratio is not None and abs(self.disagreement_ratio) > DISAGREEMENT_RATIO


def case_energy(summary: CaseSummary) -> CaseEnergy | None:
    """Return the energy of a measured case, or None where none was stored (records of version 1 keep energy alone)."""
    ideal = summary.lead.record.ideal
    flops = ideal.flops if ideal is not None and ideal.flops else None
    readings = [measurement.energy for measurement in summary.measurements if measurement.energy is not None]
    if readings:
        paces = [
            measurement.energy.call_s / measurement.median_s
            for measurement in summary.measurements
            if measurement.energy and measurement.median_s > 0
        ]
        return _of_readings(readings, flops, max(paces, key=lambda pace: abs(pace - 1), default=None))
    plain = [measurement for measurement in summary.measurements if measurement.energy_j is not None]
    if not plain:
        return None
    return CaseEnergy(
        energy_j=median(one.energy_j for one in plain if one.energy_j is not None),
        net_energy_j=None,
        std_j=None,
        power_w=_typical(one.power_w for one in plain),
        idle_power_w=None,
        flops=flops,
        source=shown(plain[0].power_source or "–", 40),
        scope="–",
        windows="",
        disagreement_ratio=None,
        sensor_period_s=None,
    )


def _of_readings(readings: list[EnergyReading], flops: float | None, pace_ratio: float | None) -> CaseEnergy:
    apart = [reading.disagreement_ratio for reading in readings if reading.disagreement_ratio is not None]
    windows = sum(reading.window_count for reading in readings)
    return CaseEnergy(
        energy_j=median(reading.energy_j for reading in readings),
        net_energy_j=_typical(reading.net_energy_j for reading in readings),
        std_j=max((reading.std_j for reading in readings if reading.std_j is not None), default=None),
        power_w=median(reading.power_w for reading in readings),
        idle_power_w=_typical(reading.idle_power_w for reading in readings),
        flops=flops,
        source=", ".join(dict.fromkeys(shown(reading.source, 40) for reading in readings)),
        scope=", ".join(dict.fromkeys(shown(reading.scope, 40) for reading in readings)),
        windows=f"{counted(windows, 'window')} of {format_time(median(reading.window_s for reading in readings), 2)}",
        disagreement_ratio=max(apart, key=abs, default=None),
        sensor_period_s=_typical(reading.sensor_period_s for reading in readings),
        pace_ratio=pace_ratio,
    )


def _typical(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None
