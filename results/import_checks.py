"""What an imported run may hold beyond its types: times that a clock can give, counts, dates, statistics that fit together.

A record that breaks a rule is refused, never repaired: nobody could tell later which of its numbers were meant. `db check`
looks at stored runs with the same rules.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from results.plain_form import FormError
from results.records import Measurement, Record, RunInfo
from results.state_checks import check_parts, check_process
from results.value_checks import (
    check_above_zero,
    check_count,
    check_date,
    check_duration,
    check_finite,
    check_least,
)
from roofline_model.case import Case

_TIMES = ("median_s", "min_s", "max_s", "mean_s")
_DURATIONS = ("q1_s", "q3_s", "std_s", "ci_low_s", "ci_high_s", "first_call_s", "wall_s")
_AMOUNTS = ("working_set_bytes", "max_error", "tolerance", "power_w", "energy_j")
_COUNTS = ("calls_per_sample", "sample_count", "warmup_calls", "rotation_count")
_ORDERED = (("min_s", "median_s", "max_s"), ("min_s", "mean_s", "max_s"))
_PAIRS = (("q1_s", "q3_s"), ("q1_s", "max_s"), ("q3_s", "max_s"), ("ci_low_s", "ci_high_s"))
"""(lower, upper) of statistics that may not change places."""
_SIMULATED = ("simulated", "replay")
"""Timers that run no kernel: a simulated device may take no time at all."""
_ROUNDING = 1e-9
"""Relative: statistics of equal samples may differ in their last digits."""
_MOST_EXIT_CODE = 2**31


def check_run(run: RunInfo, records: Sequence[Record]) -> None:
    """Raise `FormError` naming the record and the field that cannot be true."""
    check_date(run.started_at, "run.started_at")
    if run.finished_at is not None:
        check_date(run.finished_at, "run.finished_at")
    if run.exit_code is not None and abs(run.exit_code) > _MOST_EXIT_CODE:
        raise FormError(f"run.exit_code is {str(run.exit_code)[:40]}, no exit code of a process")
    for number, record in enumerate(records):
        where = f"records[{number}]"
        if record.created_at:  # empty: its maker did not say
            check_date(record.created_at, f"{where}.created_at")
        check_process(record.process, f"{where}.process")
        _check_shape(record.case, f"{where}.case.shape")
        if record.measurement is not None:
            timer = record.method.timer if record.method is not None else ""
            is_simulated = timer in _SIMULATED or "simulated" in record.measurement.flags
            _check_measurement(record.measurement, f"{where}.measurement", is_simulated)


def _check_shape(case: Case, where: str) -> None:
    """The sizes of a product are 1 or more. A kernel of somebody's own may be called so and have others."""
    if case.op in ("gemv", "gemm"):
        for name, size in case.shape:
            if name in ("M", "N", "K"):
                check_count(size, 1, f"{where}.{name}")


def _check_measurement(measurement: Measurement, where: str, is_simulated: bool) -> None:
    for name in _TIMES:
        value = getattr(measurement, name)
        if not math.isfinite(value) or value < 0 or (value == 0 and not is_simulated):
            wanted = "0 or more" if is_simulated else "above 0"
            raise FormError(f"{where}.{name} is {value:g}, not a finite time {wanted}")
        check_duration(value, f"{where}.{name}")
    for name in _DURATIONS:
        check_duration(getattr(measurement, name), f"{where}.{name}")
    for name in _COUNTS:
        check_count(getattr(measurement, name), 0, f"{where}.{name}")
    for name in _AMOUNTS:
        check_least(getattr(measurement, name), 0, f"{where}.{name}")
    check_above_zero(measurement.sm_clock_hz, f"{where}.sm_clock_hz")
    check_finite(measurement.temperature_c, f"{where}.temperature_c")
    _check_samples(measurement, where)
    _check_order(measurement, where)
    check_parts(measurement, where)


def _check_samples(measurement: Measurement, where: str) -> None:
    samples = measurement.samples_s
    for number, value in enumerate(samples):
        if not (0 <= value < math.inf):
            raise FormError(f"{where}.samples_s[{number}] is {value:g}, not a finite time of 0 or more")
    if not samples:  # pruned
        return
    if measurement.sample_count != len(samples):
        raise FormError(f"{where}.sample_count is {measurement.sample_count}, but samples_s holds {len(samples)}")


def _check_order(measurement: Measurement, where: str) -> None:
    """Refuse statistics that no samples have: out of order, wider than their range, or of other samples than these."""
    for names in _ORDERED:
        low, middle, high = (getattr(measurement, name) for name in names)
        if low > middle * (1 + _ROUNDING) or middle > high * (1 + _ROUNDING):
            raise FormError(f"{where}.{names[1]} is {middle:g}, not between min_s {low:g} and max_s {high:g}")
    for lower, upper in _PAIRS:
        low, high = getattr(measurement, lower), getattr(measurement, upper)
        if low is not None and high is not None and low > high * (1 + _ROUNDING):
            raise FormError(f"{where}.{lower} is {low:g}, above {upper} {high:g}")
    # The sample standard deviation is at most range / √2, with two samples.
    widest_s = measurement.max_s - measurement.min_s + _ROUNDING * measurement.max_s
    if measurement.std_s is not None and measurement.std_s > widest_s:
        raise FormError(f"{where}.std_s is {measurement.std_s:g}, more than max_s − min_s")
    if measurement.samples_s:
        low, middle, high = min(measurement.samples_s), measurement.median_s, max(measurement.samples_s)
        if low > middle * (1 + _ROUNDING) or middle > high * (1 + _ROUNDING):
            raise FormError(f"{where}.median_s is {middle:g}, not between the samples {low:g} and {high:g}")
