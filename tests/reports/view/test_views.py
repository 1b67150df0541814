"""A whole report as data, for good runs and for every degenerate one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reports.view.views import report_view, utc_minutes
from results.records.records import EnvironmentInfo
from roofline_model.chips.hardware import device_from_profile, get_hardware
from roofline_model.core.errors import DefinitionError
from roofline_model.core.finding import code_text


def test_verdict_first(make):
    view = report_view(make.run(), make.cpu_records(), make.profiles(make.CPU))
    assert view.headlines == (
        (
            "Decode (gemv): INT8 (W8A16) · int8pack wins 2 of 3 shapes, measured 2.6× FP16 (ideal 2.0×); "
            "INT8 (W8A8) · int_mm wins 1, measured 2.3× FP16 (ideal 2.0×)."
        ),
        "Prefill (gemm) at 512x4096x4096: INT8 (W8A8) · int_mm ideal 1.9× BF16, measured 1.6×.",
    )
    assert view.findings[0] == "29 cases: 27 measured, 1 skipped, 1 failed."
    assert view.counts == {"measured": 27, "predicted": 0, "skipped": 1, "failed": 1}
    assert [reason.status for reason in view.reasons] == ["failed", "skipped"]
    assert len(view.chips) == 1  # the skipped case without a prediction belongs to the run's chip
    assert any("no power was stored" in line for line in view.missing)
    assert ("git.commit", "abc1234") in view.environment


@pytest.mark.parametrize("count", [0, 1, 2])
def test_a_run_is_simulated_where_every_time_of_it_is(make, count):
    records = [make.record((1, 64, 64), "BF16", "BF16", kernel, 1e-3) for kernel in ("matmul", "other")]
    for place in range(count):
        simulated = replace(records[place].measurement, flags=("simulated",))
        records[place] = replace(records[place], measurement=simulated)
    assert [record.is_simulated for record in records] == [place < count for place in range(2)]
    view = report_view(make.run(), records)
    assert view.is_simulated == (count == 2)
    assert report_view(make.run(), []).is_simulated is False


def test_the_same_input_gives_the_same_view(make):
    assert report_view(make.run(), make.cpu_records(), make.profiles(make.CPU)) == report_view(
        make.run(), make.cpu_records(), make.profiles(make.CPU)
    )


def test_empty_run(make):
    view = report_view(make.run(environment=EnvironmentInfo({}, {})), [], {})
    assert view.headlines == ("The run holds no cases, so there is nothing to judge.",)
    assert view.rows == ()
    assert view.missing == ("the run holds no cases",)


def test_only_failures(make):
    records = [make.record((1, 64, 64), "BF16", "BF16", "k", status="failed", reason="CUDA error", device=None)]
    view = report_view(make.run(), records)
    assert len(view.headlines) == 1
    assert view.headlines[0].startswith("No case was measured or predicted")
    assert view.reasons[0].reason == "CUDA error"
    assert view.chips[0].hardware_key == "this-cpu"


def test_no_format_beats_sixteen_bit(make):
    records = [
        make.record((512, 64, 64), "BF16", "BF16", "matmul", 1e-3),
        make.record((512, 64, 64), "INT8", "BF16", "int8pack", 9e-3),
    ]
    assert report_view(make.run(), records).headlines == (
        (
            "Prefill (gemm) at 512x64x64: BF16 · matmul stays fastest, measured 1 ms; INT8 (W8A16) · int8pack ideal 1.0× "
            "BF16, measured 0.11×."
        ),
    )


def test_power_is_reported_when_there_is_some(make):
    view = report_view(make.run(), make.gpu_records(), make.profiles(make.GPU))
    assert view.has_power
    assert not any("power" in line for line in view.missing)
    assert {row.power_w for row in view.rows} == {612.0, None}  # the skipped case has none


def test_mixed_chips_are_never_compared(make):
    records = [*make.cpu_records(), *make.gpu_records()[:7]]
    view = report_view(make.run(), records, make.profiles(make.CPU, make.GPU))
    assert [chip.hardware_key for chip in view.chips] == ["this-cpu", "h200-sxm"]
    assert len(view.rows) == len(records)
    assert any("2 chip profiles" in line for line in view.warnings)
    for chip in view.chips:
        keys = {row.hardware_key for row in chip.rows} - {""}
        assert keys == {chip.hardware_key}
        assert {roof.bandwidth_bytes_per_s for roof in chip.roofline.roofs} == {
            76e9 if chip.hardware_key == "this-cpu" else 4.8e12
        }


def test_warnings_name_what_weakens_a_run(make):
    ideal = make.record((1, 4096, 4096), "BF16", "BF16", "k").ideal.time_s
    records = [
        make.record((1, 4096, 4096), "BF16", "BF16", "k", ideal / 2),
        make.record((1, 4096, 4096), "FP16", "FP16", "k", 1.0, ci_low_s=0.8, ci_high_s=1.2),
        make.record((1, 4096, 4096), "FP32", "FP32", "k", 1.0, ci_low_s=None, ci_high_s=None),
    ]
    warnings = report_view(make.run(status="interrupted"), records).warnings
    assert any("interrupted" in line for line in warnings)
    assert any("interval explains (1x4096x4096-w16a16-BF16.BF16-k-cold)" in line for line in warnings)
    assert (
        "1 of 3 measured cases has an interval wider than ±5 % (median ±20 %, widest ±20 %), 1 no interval at all: "
        "treat their ranking with care."
    ) in warnings


def test_a_clock_that_was_set_back_is_named(make):
    run = make.run(started_at="2026-11-21T09:00:00+00:00", finished_at="2026-11-21T08:00:00+00:00")
    assert any("ends before it begins" in line for line in report_view(run, make.cpu_records()).warnings)


def test_a_forced_run_says_so_and_judges_no_prediction(make):
    view = report_view(make.run(is_forced=True), make.cpu_records(), make.profiles(make.CPU))
    assert any("--roofline-force-measure" in line for line in view.warnings)
    assert view.chips[0].errors == ()
    assert "forced" in view.chips[0].roofline.subtitle


def test_an_unreadable_profile_costs_only_what_needs_it(make):
    profiles = make.profiles(make.CPU)
    broken = {
        key: replace(stored_profile, profile={"key": "this-cpu", "bandwidth": 3})
        for key, stored_profile in profiles.items()
    }
    view = report_view(make.run(), make.cpu_records(), broken)
    assert any("cannot be read" in line for line in view.warnings)
    assert view.headlines == report_view(make.run(), make.cpu_records(), make.profiles(make.CPU)).headlines
    assert len(view.chips[0].recommendations) == 6


def test_nothing_hostile_reaches_the_view_unprintable(make):
    run = make.run(
        label="x\x1b[31m\u202e" + "y" * 100_000, environment=EnvironmentInfo({"gpu": "a\nb", "n": {"k": [1, None]}}, {})
    )
    view = report_view(run, [make.record((1, 64, 64), "BF16", "BF16", "k", reason="r\x00" * 5000)])
    assert len(view.run_name) <= 80
    assert view.run_name.isprintable()
    assert view.machine == "a b"
    assert ("n.k", "1, None") in view.environment
    assert all(row.reason.isprintable() and len(row.reason) <= 240 for row in view.rows)


@pytest.mark.parametrize("name", ["b10"])
def test_profiles_round_trip_to_the_same_chip(make, name):
    for device in (get_hardware(name), make.CPU, make.GPU):
        assert device_from_profile(device.to_dict()).content_hash == device.content_hash


@pytest.mark.parametrize(
    "profile",
    [{}, {"key": "x"}, {"key": "x", "bandwidth": {"value": 1}}, {**get_hardware("b10").to_dict(), "colour": 1}],
)
def test_a_profile_of_another_version_is_one_line(profile):
    with pytest.raises(DefinitionError, match="another version"):
        device_from_profile(profile)


def test_dates_are_utc_to_the_minute():
    assert utc_minutes("2026-11-21T10:08:59.5+01:00") == "2026-11-21 09:08 UTC"
    assert utc_minutes("2026-11-21T09:08:59") == "2026-11-21 09:08 UTC"
    assert utc_minutes(None) == "–"
    assert utc_minutes("yesterday <b>") == "yesterday <b>"


def headlines(make, *records):
    return report_view(make.run(), records).headlines


def test_headlines_count_wins_per_operator_and_say_what_stays_and_what_is_level(make):
    def shape(k, narrow_s, **more):
        return [
            make.record((1, 4096, k), "BF16", "BF16", "matmul", 2e-3),
            make.record((1, 4096, k), "INT8", "BF16", "int8pack", narrow_s, **more),
        ]

    (line,) = headlines(make, *shape(4096, 1e-3), *shape(2048, 0.5e-3), *shape(1024, 1.99e-3), *shape(512, 9e-3))
    assert line == (
        "Decode (gemv): INT8 (W8A16) · int8pack wins 2 of 4 shapes, measured 2.0× to 4.0× BF16 (ideal 2.0×); "
        "BF16 stays fastest at 1; INT8 (W8A16) · int8pack only tied with BF16 at 1."
    )
    (line,) = headlines(make, *shape(4096, 9e-3), *shape(2048, 9e-3, flags=("drift",)))
    assert line == "Decode (gemv): no format beats BF16 at any of 2 shapes (doubtful at 1: drift)."
    # level behind the baseline is tied, too: the baseline stays fastest at one shape only
    (line,) = headlines(make, *shape(4096, 1e-3), *shape(2048, 9e-3), *shape(1024, 2.005e-3))
    assert line.endswith("; BF16 stays fastest at 1; INT8 (W8A16) · int8pack only tied with BF16 at 1.")


def test_a_headline_names_no_winner_that_is_level_with_the_best_sixteen_bit_kernel(make):
    def shape(k, bf16_s, fp16_s, fp32_s):
        times_s = (("BF16", bf16_s), ("FP16", fp16_s), ("FP32", fp32_s))
        return [make.record((1, 4096, k), name, name, "matmul", time_s) for name, time_s in times_s]

    (line,) = headlines(make, *shape(4096, 1.8e-3, 1.80e-3, 1e-3), *shape(2048, 2.0e-3, 1.92e-3, 1.91e-3))
    assert "FP32 · matmul wins 1 of 2 shapes, measured 1.8× BF16" in line
    assert line.endswith("; FP16 · matmul only tied with FP32 · matmul at 1.")
    (line,) = headlines(make, *shape(4096, 1.8e-3, 1.80e-3, 1e-3), *shape(2048, 3.6e-3, 1.8e-3, 1e-3))
    assert "wins 2 of 2 shapes, measured 1.8× the 16-bit baseline (" in line
    assert "the best 16-bit kernel" not in line


def test_headlines_of_predictions_promise_and_of_forced_runs_compare_no_prediction(make):
    pairs = [
        make.record((1, 4096, k), b, a, "k", time_s)
        for k in (4096, 2048)
        for b, a, time_s in (("BF16", "BF16", 2e-3), ("INT8", "INT8", 1e-3))
    ]
    hollow = [replace(pair, status="predicted", measurement=None) for pair in pairs]
    assert headlines(make, *hollow) == (
        "Decode (gemv): INT8 (W8A8) · k should win 2 of 2 shapes, ideal 2.0× BF16, not measured.",
    )
    forced = report_view(make.run(is_forced=True), pairs)
    assert forced.headlines == ("Decode (gemv): INT8 (W8A8) · k wins 2 of 2 shapes, measured 2.0× BF16.",)
    assert forced.chips[0].shapes[0].judgement == f"INT8 (W8A8) · k measured 2.0× BF16 (forced: {code_text('forced')})"


def test_headlines_give_the_expected_speedup_before_the_ideal_one_where_every_shape_has_one(make):
    def with_expected(record, expected_s):
        expected = replace(record.predictions[0], kind="expected", time_s=expected_s, provenance="fitted")
        return replace(record, predictions=(*record.predictions, expected))

    pairs = [
        with_expected(make.record((1, 4096, k), b, b, "k", time_s), expected_s)
        for k, likely_s in ((4096, 0.8e-3), (2048, 1e-3))
        for b, time_s, expected_s in (("BF16", 2e-3, 1.2e-3), ("INT8", 1e-3, likely_s))
    ]
    assert headlines(make, *pairs) == (
        "Decode (gemv): INT8 (W8A8) · k wins 2 of 2 shapes, measured 2.0× BF16 (expected 1.2× to 1.5×, ideal 2.0×).",
    )
    hollow = [replace(pair, status="predicted", measurement=None) for pair in pairs]
    assert headlines(make, *hollow) == (
        (
            "Decode (gemv): INT8 (W8A8) · k should win 2 of 2 shapes, expected 1.2× to 1.5× BF16 (ideal 2.0×), not "
            "measured."
        ),
    )
    partly = [*pairs[:3], replace(pairs[3], predictions=pairs[3].predictions[:1])]
    assert "measured 2.0× BF16 (ideal 2.0×)" in headlines(make, *partly)[0]


def test_headlines_name_the_chip_when_there_are_several_and_other_operators_last(make):
    odd = make.record((1, 64, 64), "BF16", "BF16", "mine", 1e-3)
    odd = replace(odd, case=replace(odd.case, op="softmax", shape=(("rows", 8),), formats=(("x", "BF16"),)))
    lines = headlines(make, odd, *make.cpu_records(), *make.gpu_records())
    # without profiles the chips are named by their keys; the one with more measured cases first
    assert [line.split(":")[0] for line in lines] == ["h200-sxm", "h200-sxm", "this-cpu", "this-cpu", "this-cpu"]
    assert lines[4] == "this-cpu: softmax 8: BF16 · mine measured 1 ms; nothing else ran on this shape."


def test_operators_of_one_kernel_share_a_sentence_and_a_single_one_keeps_its_own(make):
    def of(op, seconds):
        record = make.record((1, 64, 64), "BF16", "BF16", "fused", seconds)
        return replace(record, case=replace(record.case, op=op))

    records = [of("softmax", 1e-3), of("rope", 2e-3), of("rmsnorm", 3e-3)]
    lines = headlines(make, *records)
    assert lines == ("softmax, rope and rmsnorm: one kernel each, nothing to compare it with.",)
    (alone,) = headlines(make, records[0])
    assert alone.endswith("BF16 · fused measured 1 ms; nothing else ran on this shape.")


def test_the_expected_times_are_scored_beside_the_ideal_ones(make):
    def scored(record, expected_s, error):
        expected = replace(record.ideal, kind="expected", time_s=expected_s, error_ratio=error)
        return replace(record, predictions=(*record.predictions, expected))

    records = [make.record((1, size, 64), "BF16", "BF16", "matmul", 1e-3) for size in (64, 128, 256)]
    plain = report_view(make.run(), records)
    assert not any("expected time" in line for line in plain.findings)
    view = report_view(make.run(), [scored(records[0], 0.9e-3, -0.1), scored(records[1], 1.3e-3, 0.3), records[2]])
    assert "The expected time missed it by a median 20 % over 2 cases." in view.findings
