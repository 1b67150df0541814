"""What a diff says beside the time: energy, memory, quality and the prediction's error, each in its direction."""

from __future__ import annotations

import math
from dataclasses import replace

import diff_runs as runs
import numpy as np
import pytest
from diff_runs import changed, of, pair

from results.diff.rules import DiffRules
from results.diff.suites import compare_suites
from results.records.records import PredictionRecord
from results.records.state_records import EnergyReading


def compared(before, after):
    return compare_suites(before, after, {}, DiffRules())


def energy(value_j: float, scope: str = "gpu"):
    return {"energy_j": value_j, "energy": EnergyReading(value_j, 100.0, 2.0, 3, 100, "nvml-energy-counter", scope)}


def test_energy_is_compared_as_a_family_of_its_own():
    rng = np.random.default_rng(9)
    before, after = pair({})
    jitter = {id(record): float(0.01 * rng.standard_normal()) for side in (before, after) for record in side.records}

    def with_energy(side, factor):
        def changed_one(record):
            value = 0.5 * math.exp(jitter[id(record)]) * (factor if record.case == runs.case(1) else 1.0)
            return replace(record, measurement=replace(record.measurement, **energy(value)))

        return replace(side, records=tuple(map(changed_one, side.records)))

    suite_diff = compared(with_energy(before, 1.0), with_energy(after, 1.15))
    (changed_metric,), (steady_metric,) = of(suite_diff, 1).metrics, of(suite_diff, 0).metrics
    assert (changed_metric.group, changed_metric.name, changed_metric.verdict) == ("energy", "energy_j", "WORSE")
    assert changed_metric.low_ratio < 0.15 < changed_metric.high_ratio
    assert changed_metric.change_ratio == pytest.approx(0.15, abs=0.03)
    assert steady_metric.verdict == "SAME"
    assert of(suite_diff, 1).verdict == "SAME"  # the time did not change


def test_energy_needs_as_many_processes_as_the_time():
    """Five processes against one: the tails of the noise called an unchanged energy WORSE in ten of 60 suites."""
    before, after = pair({}, processes=5, sd=0.001)
    alone = replace(after, records=tuple(record for record in after.records if record.process.ordinal == 0))
    keys = range(12)
    jitter = {id(record): 1 + 0.001 * (record.process.ordinal % 3) for record in (*before.records, *after.records)}

    def with_energy(side, factor):
        return changed(
            side,
            keys,
            energy_j=lambda record: 0.5 * factor * jitter[id(record)],
            energy=lambda record: energy(0.5)["energy"],
        )

    first = with_energy(before, 1.0)
    (few,) = of(compared(first, with_energy(alone, 1.5)), 0).metrics
    assert (few.verdict, few.reason) == ("AMBIGUOUS", "few-processes")
    (enough,) = of(compared(first, with_energy(after, 1.5)), 0).metrics
    assert enough.verdict == "WORSE"


def test_energy_of_different_sensors_is_not_compared():
    before, after = pair({})
    chip_energy = changed(before, [0], **energy(0.5))
    module_energy = changed(after, [0], **energy(0.9, "module"))
    assert of(compared(chip_energy, module_energy), 0).metrics == ()


def prediction(time_s: float, version: str = "expected-3") -> PredictionRecord:
    return PredictionRecord(
        kind="expected",
        model_version=version,
        hardware_key="b10",
        profile_hash="0" * 16,
        time_s=time_s,
        memory_time_s=None,
        compute_time_s=None,
        bound="memory",
        flops=1.0,
        read_bytes=1.0,
        write_bytes=1.0,
        bandwidth_bytes_per_s=None,
        peak_flops_per_s=None,
        compute_format="BF16",
        path="native",
        memory_level="DRAM",
        provenance="fitted",
    )


def predicted(side, time_s, version="expected-3"):
    return replace(
        side, records=tuple(replace(record, predictions=(prediction(time_s, version),)) for record in side.records)
    )


def test_the_prediction_error_says_whether_the_time_or_the_model_moved():
    before, after = pair({0: math.log(1.25)}, sd=0.001)
    (time_moved,) = of(compared(predicted(before, 1e-3), predicted(after, 1e-3)), 0).metrics
    assert (time_moved.group, time_moved.verdict, time_moved.reason) == ("error", "WORSE", "time-moved")
    assert time_moved.after_value == pytest.approx(1 / 1.25 - 1, abs=0.003)
    (better,) = of(compared(predicted(before, 1.2e-3), predicted(after, 1e-3, "expected-4")), 1).metrics
    assert (better.verdict, better.reason, better.detail) == ("BETTER", "prediction-moved", "expected-3 → expected-4")


def model_record(record, held_bytes, kl, top1):
    def interval(value):
        return {"value": value[0], "low": value[1], "high": value[2]}

    extra = {
        "model": {"name": "m", "precision": "INT4", "phase": "decode"},
        "memory": {"held_bytes": held_bytes},
        "quality": {"source": "measured", "kl_nats_per_token": interval(kl), "top1_agreement_ratio": interval(top1)},
    }
    return replace(record, extra=extra)


def test_memory_and_quality_are_compared_in_their_direction():
    before, after = pair({})
    small, large = (
        (10_000_000, (0.02, 0.018, 0.022), (0.97, 0.96, 0.98)),
        (12_000_000, (0.04, 0.037, 0.043), (0.80, 0.78, 0.82)),
    )
    sides = [
        replace(side, records=tuple(model_record(record, *values) for record in side.records))
        for side, values in ((before, small), (after, large))
    ]
    worse = {metric.name: metric for metric in of(compared(*sides), 0).metrics}
    assert {name: metric.verdict for name, metric in worse.items()} == {
        "held_bytes": "WORSE",
        "kl_nats_per_token": "WORSE",
        "top1_agreement_ratio": "WORSE",
    }
    assert worse["held_bytes"].change_ratio == pytest.approx(0.2)
    assert worse["top1_agreement_ratio"].change_ratio < 0  # a higher agreement is better
    back = compared(sides[1], sides[0])
    assert {metric.verdict for metric in of(back, 0).metrics} == {"BETTER"}


def test_quality_whose_intervals_overlap_is_ambiguous():
    before, after = pair({})
    sides = [
        replace(
            side,
            records=tuple(model_record(record, 10, (kl, 0.01, 0.05), (0.97, 0.96, 0.98)) for record in side.records),
        )
        for side, kl in ((before, 0.02), (after, 0.03))
    ]
    verdicts = {metric.name: metric.verdict for metric in of(compared(*sides), 0).metrics}
    assert verdicts["kl_nats_per_token"] == "AMBIGUOUS"
    assert verdicts["top1_agreement_ratio"] == "SAME"
