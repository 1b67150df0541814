"""What an exported file may say of the machine: energy, clocks, throttling, attribution, canaries, noise floors.

Like `import_checks`: what no sensor and no clock can give is refused with its place, never repaired.
"""

from __future__ import annotations

from collections.abc import Sequence

from results.plain_form import FormError
from results.records import Measurement, ProcessInfo
from results.state_records import CanaryReading, EnergyReading, KernelAttribution, MachineState, NoiseFloor
from results.value_checks import check_above_zero, check_count, check_date, check_finite, check_least, check_text

LONGEST_NAME = 1_000
LONGEST_INDEXED = 200
"""Characters of what stands in an index: PostgreSQL refuses a row of more than 2,704 bytes there, SQLite none."""
LONGEST_END = 10_000
LONGEST_KERNEL_NAME = 100_000
"""Characters. The mangled names of C++ templates fill pages."""
MOST_REASONS = 100
"""Throttle reasons; NVML knows about ten."""
MOST_KERNELS = 100_000
_ROUNDING = 1e-9
"""Relative: busy time and latency are medians of sums of floats."""


def check_parts(measurement: Measurement, where: str) -> None:
    """Raise `FormError` naming the field, for what a measurement says of clocks, counts, energy, state and kernels."""
    clocks, samples = measurement.clocks_hz, measurement.samples_s
    if clocks and len(clocks) != len(samples):
        raise FormError(f"{where}.clocks_hz holds {len(clocks)} clocks, but samples_s {len(samples)} samples")
    for number, value in enumerate(clocks):
        check_above_zero(value, f"{where}.clocks_hz[{number}]")
    check_least(measurement.effective_sample_count, 0, f"{where}.effective_sample_count")
    outliers = measurement.outlier_count
    if outliers is not None and not (0 <= outliers <= measurement.sample_count):
        raise FormError(
            f"{where}.outlier_count is {outliers}, not between 0 and sample_count {measurement.sample_count}"
        )
    if measurement.energy is not None:
        _check_energy(measurement.energy, f"{where}.energy")
    if measurement.state is not None:
        _check_state(measurement.state, f"{where}.state")
    if measurement.attribution is not None:
        _check_attribution(measurement.attribution, f"{where}.attribution")


def check_processes(processes: Sequence[ProcessInfo], where: str) -> None:
    """Raise `FormError` naming the process and the field that cannot be true."""
    for number, process in enumerate(processes):
        check_process(process, f"{where}[{number}]")


def check_process(process: ProcessInfo, where: str) -> None:
    """Raise `FormError` naming the field that cannot be true."""
    if process.started_at:  # empty: its maker did not say
        check_date(process.started_at, f"{where}.started_at")
    for name in ("ordinal", "pid"):
        check_count(getattr(process, name), 0, f"{where}.{name}")
    check_text(process.role, LONGEST_NAME, f"{where}.role")
    if process.end_reason:
        check_text(process.end_reason, LONGEST_END, f"{where}.end_reason")


def check_canaries(readings: Sequence[CanaryReading]) -> None:
    """Raise `FormError` naming the reading and the field that cannot be true."""
    for number, reading in enumerate(readings):
        where = f"canaries[{number}]"
        check_count(reading.ordinal, 0, f"{where}.ordinal")
        check_count(reading.process_ordinal, 0, f"{where}.process_ordinal")
        check_date(reading.created_at, f"{where}.created_at")
        check_text(reading.kernel, LONGEST_INDEXED, f"{where}.kernel")
        check_above_zero(reading.time_s, f"{where}.time_s")
        check_above_zero(reading.reference_s, f"{where}.reference_s")
        check_least(reading.power_w, 0, f"{where}.power_w")
        check_above_zero(reading.sm_clock_hz, f"{where}.sm_clock_hz")


def check_floors(floors: Sequence[NoiseFloor], class_hash: str) -> None:
    """Raise `FormError` naming the floor and the field that cannot be true, or that is of another machine than the run."""
    for number, floor in enumerate(floors):
        where = f"noise_floors[{number}]"
        if floor.class_hash != class_hash:
            raise FormError(f"{where}.class_hash is not that of the run's environment")
        check_text(floor.case_key, LONGEST_INDEXED, f"{where}.case_key")
        check_text(floor.method_hash, LONGEST_INDEXED, f"{where}.method_hash")
        check_least(floor.between_sd_ratio, 0, f"{where}.between_sd_ratio")
        check_least(floor.within_sd_ratio, 0, f"{where}.within_sd_ratio")
        check_count(floor.process_count, 2, f"{where}.process_count")
        check_date(floor.created_at, f"{where}.created_at")
        for place, run_id in enumerate(floor.run_ids):
            check_text(run_id, LONGEST_NAME, f"{where}.run_ids[{place}]")


def _check_energy(energy: EnergyReading, where: str) -> None:
    for name in ("energy_j", "power_w", "std_j", "idle_power_w", "cross_check_j"):
        check_least(getattr(energy, name), 0, f"{where}.{name}")
    check_finite(energy.net_energy_j, f"{where}.net_energy_j")  # below 0 where idling used more than the kernel
    for name in ("window_s", "sensor_period_s"):
        check_above_zero(getattr(energy, name), f"{where}.{name}")
    for name in ("window_count", "call_count"):
        check_count(getattr(energy, name), 1, f"{where}.{name}")
    for name in ("source", "scope"):
        check_text(getattr(energy, name), LONGEST_NAME, f"{where}.{name}")


def _check_state(state: MachineState, where: str) -> None:
    reasons = state.throttled_s or {}
    if len(reasons) > MOST_REASONS:
        raise FormError(f"{where}.throttled_s holds {len(reasons):,} reasons, more than {MOST_REASONS}")
    for reason, seconds in reasons.items():
        check_text(reason, LONGEST_NAME, f"a reason in {where}.throttled_s")
        check_least(seconds, 0, f"{where}.throttled_s.{reason[:40]}")
    for name in ("rated_clock_hz", "cpu_clock_hz"):
        check_above_zero(getattr(state, name), f"{where}.{name}")
    for name in ("others_ratio", "stolen_ratio"):
        check_least(getattr(state, name), 0, f"{where}.{name}")
    for name in ("retry_count", "device_process_count"):
        check_count(getattr(state, name), 0, f"{where}.{name}")


def _check_attribution(attribution: KernelAttribution, where: str) -> None:
    check_text(attribution.source, LONGEST_NAME, f"{where}.source")
    for name in ("kernel_count", "busy_s", "latency_s"):
        check_least(getattr(attribution, name), 0, f"{where}.{name}")
    if attribution.busy_s > attribution.latency_s * (1 + _ROUNDING):
        raise FormError(f"{where}.busy_s is {attribution.busy_s:g}, above latency_s {attribution.latency_s:g}")
    if len(attribution.kernel_names) > MOST_KERNELS:
        raise FormError(
            f"{where}.kernel_names holds {len(attribution.kernel_names):,} names, more than {MOST_KERNELS:,}"
        )
    for number, name in enumerate(attribution.kernel_names):
        check_text(name, LONGEST_KERNEL_NAME, f"{where}.kernel_names[{number}]")
