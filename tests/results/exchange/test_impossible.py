"""Impossible stored numbers: what may be missing goes, what may not takes its part of the record with it."""

from __future__ import annotations

from dataclasses import replace
from math import inf, nan

import pytest

from results.records.impossible import possible_records
from results.records.records import Measurement, PredictionRecord, Record, TelemetrySample
from results.records.state_records import EnergyReading, MachineState
from roofline_model.operators.product import gemm


def record() -> Record:
    measured = Measurement(
        samples_s=(1e-3, 1.1e-3, 1.2e-3),
        calls_per_sample=1,
        median_s=1.1e-3,
        min_s=1e-3,
        max_s=1.2e-3,
        mean_s=1.1e-3,
        std_s=1e-4,
        q1_s=1e-3,
        q3_s=1.2e-3,
        sample_count=3,
        ci_low_s=1e-3,
        ci_high_s=1.2e-3,
        stop_reason="converged",
        power_w=100.0,
        max_error=0.0,
    )
    ideal = PredictionRecord(
        kind="ideal",
        model_version="1",
        hardware_key="h",
        profile_hash="p",
        time_s=1e-3,
        memory_time_s=1e-3,
        compute_time_s=0.0,
        bound="memory",
        flops=1e6,
        read_bytes=1e6,
        write_bytes=1e3,
        bandwidth_bytes_per_s=1e9,
        peak_flops_per_s=1e12,
        compute_format="BF16",
        path="native",
        memory_level="DRAM",
        provenance="datasheet",
        terms_s={"a": 1e-3},
    )
    return Record("0" * 32, "1" * 32, gemm(1, 8, 8).case("k"), "measured", measurement=measured, predictions=(ideal,))


def test_a_record_without_impossible_numbers_is_the_same_object() -> None:
    whole = record()
    assert possible_records([whole])[0] is whole


@pytest.mark.parametrize("number", [nan, inf, -inf, 1.7e308])
@pytest.mark.parametrize("name", ["power_w", "ci_high_s", "max_error", "std_s"])
def test_a_number_that_may_be_missing_is_missing(name: str, number: float) -> None:
    whole = record()
    (possible,) = possible_records([replace(whole, measurement=replace(whole.measurement, **{name: number}))])
    assert possible == replace(whole, measurement=replace(whole.measurement, **{name: None}))


@pytest.mark.parametrize(
    ("name", "number"), [("median_s", nan), ("max_s", inf), ("median_s", 5e-324), ("samples_s", (1e-3, nan))]
)
def test_an_impossible_time_fails_its_case_and_says_which(name: str, number: object) -> None:
    whole = record()
    (possible,) = possible_records([replace(whole, measurement=replace(whole.measurement, **{name: number}))])
    assert (possible.status, possible.measurement, possible.predictions) == ("failed", None, whole.predictions)
    assert name in possible.reason


@pytest.mark.parametrize(("name", "number"), [("time_s", 1e-310), ("flops", 1.7e308), ("read_bytes", nan)])
def test_a_prediction_with_an_impossible_number_is_none(name: str, number: float) -> None:
    whole = record()
    (possible,) = possible_records([replace(whole, predictions=(replace(whole.predictions[0], **{name: number}),))])
    assert (possible.predictions, possible.measurement, possible.status) == ((), whole.measurement, "measured")


@pytest.mark.parametrize("fields", [{"high_s": inf, "terms_s": {"a": nan}}, {"bandwidth_bytes_per_s": 5e-324}])
def test_what_a_prediction_may_lack_goes_alone(fields: dict[str, object]) -> None:
    whole = record()
    odd = replace(whole.predictions[0], **fields)
    (possible,) = possible_records([replace(whole, predictions=(odd,))])
    assert possible.predictions == (replace(odd, **dict.fromkeys(fields)),)


@pytest.mark.parametrize("number", [nan, inf])
def test_a_reading_with_an_impossible_number_goes_as_a_whole(number: float) -> None:
    whole = record()
    energy = EnergyReading(
        energy_j=number, power_w=100.0, window_s=1.0, window_count=3, call_count=100, source="nvml", scope="gpu"
    )
    state = MachineState(throttled_s={"power": number})
    readings = (TelemetrySample(0.1, power_w=number, temperature_c=40.0), TelemetrySample(number, power_w=1.0))
    (possible,) = possible_records(
        [replace(whole, measurement=replace(whole.measurement, energy=energy, state=state), telemetry=readings)]
    )
    assert (possible.measurement, possible.telemetry) == (
        whole.measurement,
        (TelemetrySample(0.1, temperature_c=40.0),),
    )
