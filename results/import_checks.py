"""What an exported run may hold beyond its types: times that a clock can give, counts, dates, samples that add up.

A record that breaks a rule is refused, never repaired: nobody could tell later which of its numbers were meant.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from results.plain_form import FormError
from results.records import Measurement, Record, RunInfo
from results.state_checks import check_parts, check_process
from results.value_checks import check_date

_TIMES = ("median_s", "min_s", "max_s", "mean_s")
_COUNTS = ("calls_per_sample", "sample_count", "warmup_calls", "rotation_count")
_SIMULATED = ("simulated", "replay")
"""Timers that run no kernel: a simulated device may take no time at all."""
_ROUNDING = 1e-9
"""Relative: statistics of equal samples may differ in their last digits."""


def check_run(run: RunInfo, records: Sequence[Record]) -> None:
    """Raise `FormError` naming the record and the field that cannot be true."""
    check_date(run.started_at, "run.started_at")
    if run.finished_at is not None:
        check_date(run.finished_at, "run.finished_at")
    for number, record in enumerate(records):
        where = f"records[{number}]"
        if record.created_at:  # empty: its maker did not say
            check_date(record.created_at, f"{where}.created_at")
        check_process(record.process, f"{where}.process")
        if record.measurement is not None:
            timer = record.method.timer if record.method is not None else ""
            is_simulated = timer in _SIMULATED or "simulated" in record.measurement.flags
            _check_measurement(record.measurement, f"{where}.measurement", is_simulated)


def _check_measurement(measurement: Measurement, where: str, is_simulated: bool) -> None:
    for name in _TIMES:
        value = getattr(measurement, name)
        if not math.isfinite(value) or value < 0 or (value == 0 and not is_simulated):
            wanted = "0 or more" if is_simulated else "above 0"
            raise FormError(f"{where}.{name} is {value:g}, not a finite time {wanted}")
    for name in _COUNTS:
        if getattr(measurement, name) < 0:
            raise FormError(f"{where}.{name} is {getattr(measurement, name)}, below 0")
    samples = measurement.samples_s
    for number, value in enumerate(samples):
        if not (0 <= value < math.inf):
            raise FormError(f"{where}.samples_s[{number}] is {value:g}, not a finite time of 0 or more")
    if samples and measurement.sample_count != len(samples):
        raise FormError(f"{where}.sample_count is {measurement.sample_count}, but samples_s holds {len(samples)}")
    low, middle, high = measurement.min_s, measurement.median_s, measurement.max_s
    if low > middle * (1 + _ROUNDING) or middle > high * (1 + _ROUNDING):
        raise FormError(f"{where}.median_s is {middle:g}, not between min_s {low:g} and max_s {high:g}")
    check_parts(measurement, where)
