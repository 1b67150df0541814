"""State of the machine during measurement: energy, clocks, throttling, canaries, noise floors. Frozen and plain.

Border types like those of `records`; missing is None, never 0. Field names end in their unit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from results.records.limits import (
    TAGGED,
    Count,
    CountFrom1,
    CountFrom2,
    Date,
    Duration,
    Finite,
    Flag,
    Hash,
    IndexedName,
    KernelName,
    Name,
    NonNegative,
    Positive,
    at_most,
)

_FEW, _MANY = at_most(100), at_most(100_000)


@dataclass(frozen=True, slots=True)
class EnergyReading:
    """Energy of one case from windows that held the kernel alone. Per call: a window's energy over the calls in it.

    `Measurement.energy_j`, `.power_w` and `.power_source` repeat the gross figures and their source.
    """

    energy_j: NonNegative
    """Per call, gross: everything the scope used, idle power included. Mean over the windows."""
    power_w: NonNegative
    """Mean gross power over the windows."""
    window_s: Positive
    """Mean length of one window."""
    window_count: CountFrom1
    call_count: CountFrom1
    """Kernel calls in all windows together."""
    source: Name
    """nvml-energy-counter, nvml-power-samples, rapl or simulated."""
    scope: Name
    """What the sensor covers: gpu, module, cpu-package."""
    std_j: NonNegative | None = None
    """Standard deviation of the per-call energy between windows; None with one window."""
    idle_power_w: NonNegative | None = None
    """Power of the same scope while nothing ran, read in this run."""
    net_energy_j: Finite | None = None
    """Per call, with idle power × window time subtracted."""
    cross_check_j: NonNegative | None = None
    """Per call by the second source (power integrated over the window, where the counter came first)."""
    sensor_period_s: Positive | None = None
    """How often the power reading changes, inferred from the readings."""

    @property
    def call_s(self) -> float:
        """Seconds per call in the windows, gaps between launches included."""
        return self.window_s * self.window_count / self.call_count

    @property
    def disagreement_ratio(self) -> float | None:
        """Relative difference of the second source: (cross check − energy) / energy."""
        if self.cross_check_j is None or self.energy_j <= 0:
            return None
        return (self.cross_check_j - self.energy_j) / self.energy_j


RATED_RATIO = 0.985
"""Below this share of the rated clock a throttle reason counts (harness research §3.2: a power-cap bit at full boost is
ordinary regulation; a fixed 75 % of nvbench made every sample of an A100 vanish, NVIDIA/nvbench issue 231).
"""


@dataclass(frozen=True, slots=True)
class MachineState:
    """State of the machine over one case. None: unknown on this machine."""

    throttled_s: Annotated[Mapping[Name, NonNegative], TAGGED, _FEW] | None = None
    """Seconds each throttle reason gained by the driver's cumulative counters; empty: none gained, None: unreadable. 0:
    the reason held a low clock down when the case ended, and its counter had not moved.
    """
    rated_clock_hz: Positive | None = None
    """The SM clock the chip should hold: the lock, else the maximum."""
    retry_count: Count = 0
    """How often the case was measured anew because the clock was held down."""
    others_ratio: NonNegative | None = None
    """Share of our CPUs' time that other processes used."""
    stolen_ratio: NonNegative | None = None
    """Share of our CPUs' time that the hypervisor gave away."""
    device_process_count: Count | None = None
    """Other processes that had work on the GPU."""
    cpu_clock_hz: Positive | None = None
    """Mean frequency of the CPUs in use, after the case."""


@dataclass(frozen=True, slots=True)
class KernelAttribution:
    """Device kernels per call, from the tracing interface (CUPTI). Medians over the traced calls."""

    source: Name
    """cupti"""
    kernel_count: NonNegative
    """Kernels per call."""
    busy_s: Duration
    """Time in which at least one kernel ran: the union of their intervals."""
    latency_s: Duration
    """First start to last end."""
    kernel_names: Annotated[tuple[KernelName, ...], _MANY] = ()

    @property
    def gap_s(self) -> float:
        """Time inside a call in which no kernel ran."""
        return self.latency_s - self.busy_s


@dataclass(frozen=True, slots=True)
class CanaryReading:
    """One run of the fixed canary kernel between groups of cases."""

    ordinal: Count
    """0 for the first of its process."""
    process_ordinal: Count
    created_at: Date
    """UTC, ISO 8601."""
    kernel: IndexedName
    """Names the kernel and its size; readings of different kernels are never compared."""
    time_s: Positive
    """Fastest of its calls."""
    reference_s: Positive | None
    """What it was compared with: the median of earlier healthy readings on this machine and software, or None."""
    is_slow: Flag
    power_w: NonNegative | None = None
    sm_clock_hz: Positive | None = None


@dataclass(frozen=True, slots=True)
class NoiseFloor:
    """The machine's own A/A spread of one case: how far medians of fresh processes differ when nothing changed."""

    class_hash: Hash
    """`EnvironmentInfo.class_hash` of the machine and software it was measured on."""
    case_key: IndexedName
    method_hash: IndexedName
    between_sd_ratio: NonNegative
    """Standard deviation of the natural logarithm of the process medians."""
    within_sd_ratio: NonNegative | None
    """Median over the processes of the samples' relative standard deviation inside one process."""
    process_count: CountFrom2
    created_at: Date
    """UTC, ISO 8601."""
    run_ids: tuple[Name, ...] = field(default=())
    """The runs it comes from."""
