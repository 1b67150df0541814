"""Checks of an imported run beyond its types: fields within the limits of the record types, consistent statistics.

A run that breaks a rule is refused, never repaired: nobody could tell later which of its numbers were meant. `db check`
looks at stored runs with the same rules.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from results.exchange.exported.export import ExportedRun
from results.exchange.measured import from_samples
from results.records.limits import MAX_TIME_S, MOST_OF_UNIT, are_times
from results.records.plain_form import FormError, UnclearFormError, check_limits
from results.records.records import HardwareProfile, Measurement, PredictionRecord, Record, RunInfo
from results.store.run_names import check_label
from roofline_model.chips.stored_profile import device_from_profile
from roofline_model.core.errors import DefinitionError, OtherVersionError, StoreError

_ID = re.compile("[0-9a-f]{32}")
_TIMES = ("median_s", "min_s", "max_s", "mean_s")
_ORDERED = (("min_s", "median_s", "max_s"), ("min_s", "mean_s", "max_s"))
_PAIRS = (("q1_s", "q3_s"), ("q1_s", "max_s"), ("q3_s", "max_s"), ("ci_low_s", "ci_high_s"))
"""(lower, upper) of statistics that may not change places."""
_ROUNDING = 1e-9
"""Relative: statistics of equal samples may differ in their last digits."""


def check_run(exported: ExportedRun) -> None:
    """Raise `FormError` naming the first thing in a run that an import refuses."""
    check_limits(exported.run, "run")
    for name in ("profiles", "records", "processes", "canaries", "noise_floors"):
        for number, item in enumerate(getattr(exported, name)):
            check_limits(item, f"{name}[{number}]")
    check_contents(exported)


def check_contents(exported: ExportedRun) -> None:
    """Raise `FormError` naming a part of a run that contradicts others of it; each of its fields is within its
    limits.
    """
    _check_ids(exported.run, exported.records)
    try:
        check_label(exported.run.label)
    except StoreError as error:  # before the first of several files is stored
        raise UnclearFormError(str(error)) from None
    for number, profile in enumerate(exported.profiles):
        _check_profile(profile, f"profiles[{number}]")
    for number, record in enumerate(exported.records):
        where = f"records[{number}]"
        if record.measurement is not None:
            _check_measurement(record.measurement, f"{where}.measurement", record.is_simulated)
        for place, prediction in enumerate(record.predictions):
            _check_interval(prediction, f"{where}.predictions[{place}]")
    for number, floor in enumerate(exported.noise_floors):
        if floor.class_hash != exported.run.environment.class_hash:
            raise FormError(f"noise_floors[{number}].class_hash is not that of the run's environment")


def _check_ids(run: RunInfo, records: Sequence[Record]) -> None:
    """Raise `FormError` for an id that none of ours is, of another run, or of two records; ids stand in indexes."""
    ids = {"run.run_id": run.run_id}
    ids |= {f"records[{number}].record_id": record.record_id for number, record in enumerate(records)}
    for where, text in ids.items():
        if not _ID.fullmatch(text):
            raise FormError(f"{where} is {text[:40]!r}, not 32 digits of 0-9 and a-f")
    first: dict[str, int] = {}
    for number, record in enumerate(records):
        if record.run_id != run.run_id:
            raise FormError(f"records[{number}].run_id is not the id of the run")
        if first.setdefault(record.record_id, number) != number:
            raise FormError(f"records[{number}].record_id is that of records[{first[record.record_id]}], too")


def differing_statistics(measurement: Measurement) -> list[tuple[str, float, float]]:
    """Return the name of each statistic that its samples do not have, its value and theirs; pruned samples and
    infinite ones tell nothing.
    """
    if not measurement.samples_s or not math.isfinite(sum(measurement.samples_s)):
        return []
    of_samples = from_samples(measurement.samples_s, measurement.calls_per_sample)
    most = _ROUNDING * of_samples.max_s  # another order of additions changes the last digits
    return [
        (name, value, right)
        for name in (*_TIMES, "q1_s", "q3_s", "std_s")
        if (value := getattr(measurement, name)) is not None
        and (right := getattr(of_samples, name)) is not None
        and not abs(value - right) <= most
    ]


def _check_interval(prediction: PredictionRecord, where: str) -> None:
    low_s, high_s = prediction.low_s, prediction.high_s
    if low_s is not None and high_s is not None and low_s > high_s * (1 + _ROUNDING):
        raise FormError(f"{where}.low_s is {low_s:g}, above high_s {high_s:g}")


def _check_profile(profile: HardwareProfile, where: str) -> None:
    """Raise `FormError` naming the field of a profile that no chip has; one of another version passes, unread."""
    try:
        device_from_profile(profile.profile, f"{where}.profile")
    except OtherVersionError:
        pass
    except DefinitionError as error:
        raise FormError(str(error)) from None


def _check_measurement(measurement: Measurement, where: str, is_simulated: bool) -> None:
    """Refuse what cannot be measured; a simulated device may take no time at all."""
    for name in _TIMES:
        if getattr(measurement, name) == 0 and not is_simulated:
            raise FormError(f"{where}.{name} is 0, not a time above 0 s")
    _check_samples(measurement, where)
    _check_order(measurement, where)
    outliers = measurement.outlier_count
    if outliers is not None and not (0 <= outliers <= measurement.sample_count):
        raise FormError(
            f"{where}.outlier_count is {outliers}, not between 0 and sample_count {measurement.sample_count}"
        )
    kernels = measurement.attribution
    if kernels is not None and kernels.busy_s > kernels.latency_s * (1 + _ROUNDING):
        raise FormError(f"{where}.attribution.busy_s is {kernels.busy_s:g}, above latency_s {kernels.latency_s:g}")


def _check_samples(measurement: Measurement, where: str) -> None:
    """Refuse samples and clocks that are no times and no clocks, and counts that are not theirs; pruned ones are
    empty.
    """
    samples, clocks = measurement.samples_s, measurement.clocks_hz
    # Looked at one by one only where something is odd: there are thousands.
    for number, time_s in enumerate(() if are_times(samples) else samples):
        if not (0 <= time_s < MAX_TIME_S):
            raise FormError(f"{where}.samples_s[{number}] is {time_s:g}, not a time from 0 to {MAX_TIME_S:g} s")
    for number, clock_hz in enumerate(clocks):
        if not (0 < clock_hz < MOST_OF_UNIT["_hz"]):
            raise FormError(f"{where}.clocks_hz[{number}] is {clock_hz:g}, not a clock above 0")
    if samples and measurement.sample_count != len(samples):
        raise FormError(f"{where}.sample_count is {measurement.sample_count}, but samples_s holds {len(samples)}")
    if clocks and len(clocks) != len(samples):
        raise FormError(f"{where}.clocks_hz holds {len(clocks)} clocks, but samples_s {len(samples)} samples")


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
