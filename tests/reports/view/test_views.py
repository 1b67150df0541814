"""A whole report as data, for good runs and for every degenerate one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reports.present.cases import remarks_of
from reports.present.display_text import utc_minutes
from reports.present.shapes import shape_sentence
from reports.present.words.verdict_text import actions
from reports.view.views import report_view
from results.records.records import EnvironmentInfo
from roofline_model.chips.hardware import get_hardware
from roofline_model.chips.stored_profile import device_from_profile
from roofline_model.core.errors import OtherVersionError
from roofline_model.core.finding import short_text


def test_verdict_first(make):
    view = report_view(make.run(), make.cpu_records(), make.profiles(make.CPU))
    assert view.headlines == tuple(action.sentence for action in actions(view.chips[0].answers))
    assert [phase.title for phase in view.chips[0].answers] == ["Decode", "Prefill"]
    assert view.findings[0] == "29 cases: 27 measured, 1 skipped, 1 failed."
    assert view.counts == {"measured": 27, "predicted": 0, "skipped": 1, "failed": 1}
    assert [reason.status for reason in view.reasons] == ["failed", "skipped"]
    assert len(view.chips) == 1  # the skipped case without a prediction belongs to the run's chip
    assert any("--roofline-power" in line for line in view.missing)
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


def test_empty_run(make):
    view = report_view(make.run(environment=EnvironmentInfo({}, {})), [], {})
    assert view.headlines == ("The run holds no cases, so there is nothing to judge.",)
    assert view.cases == ()
    assert view.missing == ("the run holds no cases",)


def test_only_failures(make):
    records = [make.record((1, 64, 64), "BF16", "BF16", "k", status="failed", reason="CUDA error", device=None)]
    view = report_view(make.run(), records)
    assert len(view.headlines) == 1
    assert view.headlines[0].startswith("No case was measured or predicted")
    assert view.reasons[0].reason == "CUDA error"
    assert view.chips[0].hardware_key == "this-cpu"


def test_power_is_reported_when_there_is_some(make):
    view = report_view(make.run(), make.gpu_records(), make.profiles(make.GPU))
    assert view.has_power
    assert not any("power" in line for line in view.missing)
    assert {case.power_w for case in view.cases} == {612.0, None}  # the skipped case has none


def test_mixed_chips_are_never_compared(make):
    records = [*make.cpu_records(), *make.gpu_records()[:7]]
    view = report_view(make.run(), records, make.profiles(make.CPU, make.GPU))
    assert [chip.hardware_key for chip in view.chips] == ["this-cpu", "h200-sxm"]
    assert sum(len(case.records) for case in view.cases) == len(records)
    assert any("2 chip profiles" in line for line in view.warnings)
    for chip in view.chips:
        keys = {case.hardware_key for case in chip.cases} - {""}
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
    remarks = [remark for case in view.cases for remark in remarks_of(case)]
    assert all(remark.isprintable() and len(remark) <= 240 for remark in remarks)


@pytest.mark.parametrize(
    "profile",
    [{}, {"key": "x"}, {"key": "x", "bandwidth": {"value": 1}}, {**get_hardware("b10").to_dict(), "colour": 1}],
)
def test_a_profile_of_another_version_is_one_line(profile):
    with pytest.raises(OtherVersionError, match=r"^profile(\.\w+ is missing| has an unknown field 'colour')"):
        device_from_profile(profile)


def test_dates_are_utc_to_the_minute():
    assert utc_minutes("2026-11-21T10:08:59.5+01:00") == "2026-11-21 09:08 UTC"
    assert utc_minutes("2026-11-21T09:08:59") == "2026-11-21 09:08 UTC"
    assert utc_minutes(None) == "–"
    assert utc_minutes("yesterday <b>") == "yesterday <b>"


def test_headlines_name_the_chip_when_there_are_several(make):
    lines = report_view(make.run(), [*make.cpu_records(), *make.gpu_records()]).headlines
    # without profiles the chips are named by their keys; the one with more measured cases first
    assert [line.split(":")[0] for line in lines] == ["h200-sxm", "h200-sxm", "this-cpu", "this-cpu"]


def test_shapes_of_one_kernel_share_a_sentence_and_a_single_one_keeps_its_own(make):
    def of(op, seconds):
        record = make.record((1, 64, 64), "BF16", "BF16", "fused", seconds)
        return replace(record, case=replace(record.case, op=op))

    records = [of("softmax", 1e-3), of("rope", 2e-3), of("rmsnorm", 3e-3)]
    view = report_view(make.run(), records)
    assert (len(view.headlines), view.chips[0].answers) == (1, ())
    alone = report_view(make.run(), records[:1])
    assert alone.headlines == (f"{shape_sentence(alone.chips[0].shapes[0])}.",)


def test_the_expected_times_are_scored_beside_the_ideal_ones(make):
    def scored(record, expected_s, error):
        expected = replace(record.ideal, kind="expected", time_s=expected_s, error_ratio=error)
        return replace(record, predictions=(*record.predictions, expected))

    records = [make.record((1, size, 64), "BF16", "BF16", "matmul", 1e-3) for size in (64, 128, 256)]
    plain = report_view(make.run(), records)
    assert not any("expected time" in line for line in plain.findings)
    view = report_view(make.run(), [scored(records[0], 0.9e-3, -0.1), scored(records[1], 1.3e-3, 0.3), records[2]])
    assert "The expected time missed it by a median 20 % over 2 cases." in view.findings


def test_advice_on_some_of_the_shapes_says_how_many_had_no_result_and_why(make):
    def at(rows, kernel_flags=(), fast_s=1e-3):
        shape = (1, rows, 2048)
        baseline = make.record(shape, "BF16", "BF16", "matmul", 2e-3, number=rows)
        fast = make.record(shape, "INT8", "INT8", "int_mm", fast_s, number=rows + 1, flags=kernel_flags)
        return [baseline, fast]

    quiet, busy, impossible = at(4096), at(2048, ("contended",)), at(1024, fast_s=2e-6)
    (whole,) = report_view(make.run(), [*quiet, *at(8192)]).chips[0].answers
    assert whole.caveats == ()
    (phase,) = report_view(make.run(), [*quiet, *busy, *impossible]).chips[0].answers
    assert phase.choice.precision == "INT8 (W8A8)"
    assert phase.places == ("1x4096x2048",)
    (caveat,) = phase.caveats
    assert dict(caveat.values) == {"missing_count": 2, "shape_count": 3, "disturbed_count": 1, "implausible_count": 1}
    assert short_text(caveat) in actions([phase])[0].caveat


def test_shapes_of_which_none_has_a_result_are_no_caveat_of_advice(make):
    records = [
        make.record((1, rows, 2048), weight, weight, "k", time_s, number=rows, flags=("contended",))
        for rows in (2048, 4096)
        for weight, time_s in (("BF16", 2e-3), ("INT8", 1e-3))
    ]
    (phase,) = report_view(make.run(), records).chips[0].answers
    assert (phase.choice, phase.caveats) == (None, ())
